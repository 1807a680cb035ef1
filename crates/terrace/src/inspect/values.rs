//! A value file, value by value.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{Epoch, FileId};
use terrace_engine::survey::{Name, ValueSurvey};
use terrace_engine::table::{MemoryTableFile, TableFile};

use super::{Line, View};
use crate::Result;

/// Shows a value file. One that was rewritten and whose directory is damaged shows no values: only
/// the manifest says then which segments it holds.
pub(super) fn values(path: &Path, bytes: Vec<u8>, view: &mut View<'_>) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let id = match Name::parse(&name) {
        Name::Values(id) => id,
        _ => FileId { epoch: Epoch(0), counter: 0 },
    };
    let file: Arc<dyn TableFile> = Arc::new(MemoryTableFile::new(path, bytes));
    let survey = ValueSurvey::read(&file, id, None)?;
    let mut damage = survey.damage.iter().peekable();
    for value in &survey.values {
        if view.is_over {
            return Ok(());
        }
        while let Some(gap) = damage.next_if(|gap| gap.offset < value.offset) {
            view.show(Line::gap(gap));
        }
        let line = Line::new(value.offset, "value").with("bytes", value.entry_bytes as u64);
        let line = line.with("segment", value.name.segment).with("name", value.name.offset);
        view.show(match survey.entry(value) {
            Some(entry) if view.with_entries => {
                line.with("seqno", entry.seqno.0).with("key", entry.key).with("value", entry.value)
            }
            Some(entry) => line.with("seqno", entry.seqno.0).with("key", entry.key),
            None => line,
        });
    }
    damage.for_each(|gap| view.show(Line::gap(gap)));
    let Some(frame) = &survey.frame else { return Ok(()) };
    for segment in &frame.segments {
        view.show(
            Line::new(frame.footer.directory, "segment")
                .with("id", segment.id)
                .with("values", segment.count)
                .with("bytes", segment.bytes),
        );
    }
    view.show(
        Line::new(frame.footer.offset(), "footer")
            .with("uid", format!("{:?}", frame.uid))
            .with("id", frame.id)
            .with("entries_end", frame.footer.entries_end)
            .with("directory", frame.footer.directory)
            .with("rewritten", if frame.footer.is_rewritten { "yes" } else { "no" }),
    );
    Ok(())
}
