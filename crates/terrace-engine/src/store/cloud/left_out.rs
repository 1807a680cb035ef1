//! What a directory has that fell behind, and whoever took the database over did not.
//!
//! # How that is known
//! Each owner's fence in the feed says up to which number it has everything, and fences stay. What
//! this directory wrote behind the least of those that came after it, nobody else has. Nothing of
//! that was acknowledged as durable, unless the log was given up with its volume.
//!
//! Looked at only when a directory is refused or set aside: an open that goes on asks for nothing
//! of it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use terrace_base::SeqNo;
use terrace_env::SharedEnv;

use crate::Result;
use crate::ids::file_id_in;
use crate::version::{LogBehind, VersionEdit};
use crate::wal::{LocalLogStore, LogFacts, LogStore, ReadRecord};

/// What a directory holds that nobody has who took the database over from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The first number that was not taken over.
    pub first_seqno: SeqNo,
    /// The greatest number that was written here.
    pub last_seqno: SeqNo,
    /// Entries with such numbers that stand in the log.
    pub log_entries: u64,
    /// Whether tables hold some that do not stand in the log any more.
    pub are_in_tables: bool,
}

impl LeftOut {
    /// Reads the log in `dir` of which `facts` speak, for what stands behind the number up to which
    /// it was taken over; tables hold what `in_tables` says at the most.
    ///
    /// Errors: those of a replay.
    pub(super) fn count(
        env: &SharedEnv,
        dir: &Path,
        facts: LogFacts,
        (through, in_tables): (SeqNo, SeqNo),
    ) -> Result<Option<LeftOut>> {
        let epoch = facts.epoch;
        let (mut log_entries, mut log_seqnos, mut last_seqno) = (0, 0, in_tables);
        let mut count = |record: ReadRecord<'_>| {
            let name = record.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // Whoever took the database over may write to the same volume.
            let is_own = file_id_in(name).is_some_and(|id| id.epoch <= epoch);
            let header = record.header;
            if is_own && header.first_seqno > through && header.seqno_count > 0 {
                log_entries += u64::from(header.entry_count);
                log_seqnos += u64::from(header.seqno_count);
                let last = header.first_seqno.0 + u64::from(header.seqno_count) - 1;
                last_seqno = last_seqno.max(SeqNo(last));
            }
            Ok(())
        };
        // Nothing is written, so how long segments are and where new ones go is all the same.
        let (env, dir) = (Arc::clone(env), dir.to_path_buf());
        let log = LocalLogStore { env, dir, segment_bytes: 0, medium: None };
        log.replay(facts, &mut count)?;
        // Numbers are dense: those that the log does not have are in tables.
        let are_in_tables = last_seqno.0.saturating_sub(through.0) > log_seqnos;
        Ok((last_seqno > through).then_some(LeftOut {
            first_seqno: through.next(),
            last_seqno,
            log_entries,
            are_in_tables,
        }))
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut { first_seqno, last_seqno, log_entries, are_in_tables } = self;
        match log_entries {
            0 => f.write_str("writes in its tables")?,
            1 => f.write_str("one entry in its log")?,
            count => write!(f, "{count} entries in its log")?,
        }
        if *log_entries > 0 && *are_in_tables {
            f.write_str(" and others in its tables")?;
        }
        match first_seqno == last_seqno {
            true => write!(f, " (number {})", last_seqno.0),
            false => write!(f, " (numbers {} to {})", first_seqno.0, last_seqno.0),
        }
    }
}

/// What the manifest of these edits says of the log. That it was durable once is no matter here:
/// what is there is counted.
pub fn log_facts(edits: &[VersionEdit]) -> LogFacts {
    let ranges = || edits.iter().map(|edit| &edit.range);
    let start = edits.iter().filter_map(|edit| edit.log.start).next_back().unwrap_or_default();
    let media = edits.iter().filter_map(|edit| edit.media.as_ref()).next_back();
    let directories = media.map(|media| media.log_directories.as_slice()).unwrap_or_default();
    LogFacts {
        database: ranges().filter_map(|range| range.database).next_back().unwrap_or_default(),
        epoch: ranges().filter_map(|range| range.epoch).max().unwrap_or_default(),
        start,
        directories: directories.iter().map(Into::into).collect(),
        behind: LogBehind::newest_in(edits).filter(|_| start.segment.is_none()),
        ..LogFacts::default()
    }
}

/// What was found, as sentences in a message, the first of them with a space before it.
pub fn told(found: &Result<Option<LeftOut>>) -> String {
    match found {
        Ok(None) => String::new(),
        Ok(Some(left_out)) => format!(
            " Of what it holds, {left_out} did not get there: acknowledged in a weaker class than \
             durable, if at all, unless the log of this machine was given up (--abandon-log)."
        ),
        Err(error) => format!(" How much is here alone could not be told: {error}."),
    }
}
