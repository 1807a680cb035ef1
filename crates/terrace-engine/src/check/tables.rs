//! The tables.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{Epoch, KeyRange};
use terrace_env::SharedEnv;

use super::{Check, CheckDepth, CheckReport, Finding, Severity};
use crate::cache::BlockCache;
use crate::cloud::{CloudNames, CloudStore};
use crate::ids::FileIds;
use crate::l0::triangle::Container;
use crate::l0::{L0, PlainL0, PlainOptions};
use crate::placement::{FarReader, FarTables, RoutedTables, RowDirectory};
use crate::process::MemoryPool;
use crate::survey::{SurveyedBlock, TableSurvey};
use crate::table::{
    LocalTableStore, TableFile, TableOptions, TableProperties, TableReader, TableShape,
};
use crate::version::{ReclaimQueue, TableContext, TableMeta, TableOpener, Version};
use crate::{Error, Result};

/// Tables of a directory that nothing is cached of.
pub(crate) fn context(env: &SharedEnv, dir: &Path) -> Arc<TableContext> {
    let tables = LocalTableStore::new(Arc::clone(env), dir.to_path_buf());
    let (rows, far) = (RowDirectory::new(env), FarTables::new(env));
    let routed = RoutedTables::new(Arc::new(tables), Arc::clone(&rows), Arc::clone(&far));
    Arc::new(TableContext {
        opener: Arc::new(TableOpener {
            store: Arc::new(routed),
            cache: Arc::new(BlockCache::new(0)),
            container: Container::new(env, dir),
            rows,
            far,
        }),
        reclaim: ReclaimQueue::default(),
        memory: MemoryPool::default(),
        far_metadata_stay: true,
    })
}

/// Makes the tables of a version readable that lie in an object store.
///
/// Errors: those of the store's URL. No request is made.
pub(crate) fn mount_far(env: &SharedEnv, context: &TableContext, version: &Version) -> Result<()> {
    let far = &context.opener.far;
    if let Some(cloud) = version.cloud().filter(|cloud| !cloud.url.is_empty())
        && !far.is_mounted()
    {
        let store = CloudStore::new(env, env.objects().open(&cloud.url)?);
        let names = CloudNames::new(version.database());
        far.mount(Arc::new(store), names, FarReader::Owner, None);
    }
    Ok(())
}

/// An L0 that reads rows and writes none.
pub(crate) fn l0(env: &SharedEnv, context: &Arc<TableContext>) -> Arc<dyn L0> {
    let ids = Arc::new(FileIds::new(Epoch(0), 0));
    let shape = TableShape { table_bytes: u64::MAX, table: TableOptions::default() };
    let max = usize::MAX;
    let options = PlainOptions {
        rows_per_cut: max,
        rows_slow: max,
        rows_stop: max,
        room: None,
        takes_all: false,
        shape,
    };
    Arc::new(PlainL0::new(env, Arc::clone(&context.opener.store), ids, options))
}

/// Checks one table of a version: that it is there, that it is the one which `meta` describes, and,
/// in a full check, every byte of it. All damage to it goes into `report`, not only the first.
///
/// Errors: those that are no damage.
pub fn check_table(
    context: &TableContext,
    meta: &TableMeta,
    depth: CheckDepth,
    report: &mut CheckReport,
) -> Result<()> {
    report.table_count += 1;
    report.table_bytes += meta.bytes;
    report.entry_count += meta.entry_count;
    if meta.is_in_pages() {
        let outcome = check_row(context, meta, depth);
        return unless_damaged(outcome, Some(meta.span()), report).map(|_| ());
    }
    let opened = context.opener.open_file(meta);
    let Some(file) = unless_damaged(opened, Some(meta.span()), report)? else { return Ok(()) };
    if meta.location.is_far() && !context.opener.far.has(&meta.location)? {
        let text = "the table is gone from the object store, but the manifest names it";
        let finding = Finding::at(Severity::Damage, &file.name(), 0, text);
        report.findings.push(finding.with_keys(Some(meta.span())));
        return Ok(());
    }
    let outcome = judge(context, &file, Some(meta), depth);
    take_outcome(outcome, file, Some(meta), report)
}

/// Checks a row in pages, which is open.
fn check_row(context: &TableContext, meta: &TableMeta, depth: CheckDepth) -> Result<()> {
    let row = context.opener.container.row(meta)?;
    if let Some(text) = differs(meta, row.properties()) {
        let path = context.opener.container.pages().map(|pages| pages.path().to_path_buf());
        let path = path.unwrap_or_else(|| "the container of L0".into());
        return Err(terrace_base::Corruption::new(path, 0, text).into());
    }
    if depth == CheckDepth::Full {
        row.verify(Some(meta.hash))?;
    }
    Ok(())
}

/// What there is, unless it is damaged: the damage, which concerns these keys, goes into `report`.
///
/// Errors: those that are no damage.
pub(super) fn unless_damaged<T>(
    outcome: Result<T>,
    keys: Option<KeyRange>,
    report: &mut CheckReport,
) -> Result<Option<T>> {
    match outcome {
        Ok(there) => Ok(Some(there)),
        Err(Error::Corruption(found)) => {
            report.findings.push(Finding::of(found).with_keys(keys));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Checks a table by what it says of itself, and by what `meta` says.
fn judge(
    context: &TableContext,
    file: &Arc<dyn TableFile>,
    meta: Option<&TableMeta>,
    depth: CheckDepth,
) -> Result<TableProperties> {
    let expected = meta.map(|meta| (meta.uid, meta.bytes));
    let reader = TableReader::open(Arc::clone(file), Arc::clone(&context.opener.cache), expected)?;
    if let Some(damage) = reader.filter_damage() {
        return Err(damage.clone().into());
    }
    let properties = reader.properties().clone();
    if let Some(text) = meta.and_then(|meta| differs(meta, &properties)) {
        return Err(terrace_base::Corruption::new(reader.name(), 0, text).into());
    }
    if depth == CheckDepth::Full {
        reader.verify(meta.map(|meta| meta.hash))?;
    }
    Ok(properties)
}

/// In what a table is not the one that the manifest describes.
fn differs(meta: &TableMeta, properties: &TableProperties) -> Option<String> {
    let raw_bytes = properties.raw_key_bytes.saturating_add(properties.raw_value_bytes);
    // An ingested table got one number when it was installed, and knows nothing of it.
    let (least, greatest) = match properties.is_unnumbered() {
        true => (meta.greatest_seqno, meta.greatest_seqno),
        false => (properties.least_seqno, properties.greatest_seqno),
    };
    let same = [
        ("entries", meta.entry_count == properties.entry_count),
        ("tombstones", meta.tombstone_count == properties.tombstone_count),
        ("range tombstones", meta.range_tombstone_count == properties.range_tombstone_count),
        ("bytes of entries", meta.raw_bytes == raw_bytes),
        ("least number", meta.least_seqno == least),
        ("greatest number", meta.greatest_seqno == greatest),
        ("bounds", meta.bounds == properties.bounds()),
        ("named values", meta.named == properties.named),
    ];
    let (what, _) = same.into_iter().find(|(_, is_same)| !is_same)?;
    Some(format!("the manifest describes another table than this one: not the same {what}"))
}

/// Takes an outcome into the report; after damage, everything that is damaged.
fn take_outcome(
    outcome: Result<TableProperties>,
    file: Arc<dyn TableFile>,
    meta: Option<&TableMeta>,
    report: &mut CheckReport,
) -> Result<()> {
    let first = match outcome {
        Ok(_) => return Ok(()),
        Err(Error::Corruption(first)) => first,
        Err(error) => return Err(error),
    };
    let before = report.findings.len();
    let name = file.name();
    let survey = TableSurvey::open(file, meta.map(|meta| meta.uid))?;
    for (part, gap) in &survey.damage {
        let text = format!("{part} is damaged: {}", gap.what);
        report.findings.push(Finding::at(Severity::Damage, &name, gap.offset, text));
    }
    for block in &survey.blocks {
        if let Some(what) = damage_of(&survey, block)? {
            let text = format!("a data block is damaged: {what}");
            let finding = Finding::at(Severity::Damage, &name, block.handle.offset, text);
            report.findings.push(finding.with_keys(block.keys.clone()));
        }
    }
    let is_known = report.findings[before..].iter().any(|found| found.offset == first.offset);
    if !is_known {
        report.findings.push(Finding::of(first));
    }
    Ok(())
}

fn damage_of(survey: &TableSurvey, block: &SurveyedBlock) -> Result<Option<String>> {
    let content = match survey.block(block)? {
        Ok(content) => content,
        Err(error) => return Ok(Some(error.what.to_string())),
    };
    Ok(content.for_each(|_| ()).err().map(|error| error.what.to_string()))
}

impl Check<'_> {
    /// Without a manifest: each table by itself.
    pub(super) fn tables_alone(&mut self) -> Result<()> {
        for (id, bytes) in self.listing.tables.clone() {
            let location = LocalTableStore::location_of(id);
            let file = self.context.opener.store.open(&location)?;
            self.report.table_count += 1;
            self.report.table_bytes += bytes;
            let outcome = judge(&self.context, &file, None, self.depth);
            if let Ok(properties) = &outcome {
                self.report.entry_count += properties.entry_count;
            }
            take_outcome(outcome, file, None, &mut self.report)?;
            self.advance(bytes);
        }
        Ok(())
    }
}
