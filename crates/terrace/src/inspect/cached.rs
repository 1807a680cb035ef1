//! Files of the persistent cache, in which a damaged part is only fetched again.

use terrace_engine::cache::persistent::format::{decode_meta, meta_table};
use terrace_engine::survey::BucketSurvey;

use super::{Line, View};

/// Shows a bucket of blocks, slot by slot.
pub(super) fn blocks(bytes: &[u8], view: &mut View<'_>) {
    let survey = match BucketSurvey::read(bytes) {
        Ok(survey) => survey,
        Err(error) => return view.show(Line::damage(0, error)),
    };
    view.show(
        Line::new(0, "header")
            .with("database", format!("{:032x}", survey.database))
            .with("slots", u64::from(survey.shape.slot_count))
            .with("slot_bytes", u64::from(survey.shape.slot_bytes)),
    );
    for slot in &survey.slots {
        if view.is_over {
            return;
        }
        // A process that ends between two writes leaves such a slot: nothing is wrong with it.
        let what = if slot.fits { "slot" } else { "slot unfinished" };
        view.show(
            Line::new(slot.offset, what)
                .with("table", format!("{:032x}", slot.record.table))
                .with("block_offset", slot.record.offset)
                .with("bytes", u64::from(slot.record.bytes)),
        );
    }
}

/// Shows the metadata of a table.
pub(super) fn metadata(bytes: &[u8], view: &mut View<'_>) {
    let table = meta_table(bytes).unwrap_or_default();
    view.show(match decode_meta(bytes, table) {
        Ok((offset, tail)) => Line::new(0, "metadata")
            .with("table", format!("{table:032x}"))
            .with("from_offset", offset)
            .with("bytes", tail.len() as u64),
        Err(error) => Line::damage(0, error),
    });
}
