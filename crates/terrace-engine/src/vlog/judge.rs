//! What becomes of value files: which are dead, and which one is worth rewriting. Pure.
//!
//! A file of which nothing is named goes at once. Of the others one is rewritten when all files
//! together take more than the allowed share of what is named in them: that with the most garbage
//! for each byte that has to be copied, and with it, to keep files few, those that have become
//! small.

use std::cmp::Reverse;

use terrace_base::FileId;

use super::{Liveness, ValueFileMeta};

/// Garbage of less than this part of a file's usual size is left alone: a rewrite would be more
/// trouble than it is worth.
const FILE_SHARE_MIN: u64 = 8;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing.
    Rest,
    /// No table names a value in these files.
    Drop(Vec<FileId>),
    /// What lives of these files is to be written anew, as one file.
    Rewrite(Vec<FileId>),
}

/// One file, weighed.
#[derive(Clone, Copy, Debug)]
struct Weighed {
    id: FileId,
    entry_bytes: u64,
    live_bytes: u64,
}

impl Weighed {
    fn garbage_bytes(&self) -> u64 {
        self.entry_bytes - self.live_bytes
    }

    /// Garbage in a thousandth of the file.
    fn garbage_permille(&self) -> u64 {
        self.garbage_bytes() * 1000 / self.entry_bytes.max(1)
    }
}

/// What is to be done next with `files`. They may take `ratio_percent` of what lives in them, and
/// some garbage more if that is little; a rewrite makes a file of about `file_bytes`.
#[must_use]
pub fn judge<'a>(
    files: impl IntoIterator<Item = &'a ValueFileMeta>,
    liveness: &Liveness,
    ratio_percent: u64,
    file_bytes: u64,
) -> Judgement {
    let weigh = |file: &ValueFileMeta| {
        let (entry_bytes, live_bytes) = (file.entry_bytes(), liveness.live_bytes(file));
        Weighed { id: file.id, entry_bytes, live_bytes }
    };
    let (named, dead): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| liveness.names_any(file));
    let dead: Vec<FileId> = dead.into_iter().map(|file| file.id).collect();
    if !dead.is_empty() {
        return Judgement::Drop(dead);
    }
    let all: Vec<Weighed> = named.into_iter().map(weigh).collect();
    let live_bytes: u64 = all.iter().map(|file| file.live_bytes).sum();
    let garbage_bytes: u64 = all.iter().map(Weighed::garbage_bytes).sum();
    let allowed = live_bytes / 100 * ratio_percent.saturating_sub(100);
    if garbage_bytes <= allowed.max(file_bytes / FILE_SHARE_MIN) {
        return Judgement::Rest;
    }
    let mut by_garbage = all;
    by_garbage.sort_by_key(|file| (Reverse(file.garbage_permille()), file.id));
    let mut chosen = Vec::new();
    let mut copied = 0;
    for file in by_garbage.iter().filter(|file| file.garbage_bytes() > 0) {
        if !chosen.is_empty() && copied + file.live_bytes > file_bytes {
            break;
        }
        // What is mostly alive is not worth the copy, unless it is all there is.
        if !chosen.is_empty() && file.garbage_permille() < 200 {
            break;
        }
        copied += file.live_bytes;
        chosen.push(file.id);
    }
    chosen.sort_unstable();
    Judgement::Rewrite(chosen)
}

#[cfg(test)]
mod tests {
    use terrace_base::{Epoch, TableUid};

    use super::super::{HeldSegment, NamedBytes, NamedSegments};
    use super::*;
    use crate::placement::TableLocation;

    const MIB: u64 = 1 << 20;

    fn id(counter: u64) -> FileId {
        FileId { epoch: Epoch(1), counter }
    }

    /// Judges files of one segment each, given as MiB of entries and MiB that live.
    fn judged(files: &[(u64, u64)]) -> Judgement {
        let of = |(index, (total, _)): (usize, &(u64, u64))| ValueFileMeta {
            id: id(index as u64),
            location: TableLocation::new("x"),
            uid: TableUid(1),
            bytes: total * MIB,
            hash: 0,
            segments: vec![HeldSegment { id: id(index as u64), count: 1, bytes: total * MIB }],
        };
        let named = |(index, (_, live)): (usize, &(u64, u64))| NamedBytes {
            segment: id(index as u64),
            count: 1,
            bytes: live * MIB,
        };
        let metas: Vec<_> = files.iter().enumerate().map(of).collect();
        let named = files.iter().enumerate().map(named).filter(|one| one.bytes > 0).collect();
        let named = NamedSegments::new(named).expect("they ascend");
        judge(&metas, &Liveness::of([&named]), 130, 64 * MIB)
    }

    #[test]
    fn dead_files_go_first_and_nothing_is_rewritten_below_the_bound() {
        use Judgement::{Drop, Rest, Rewrite};
        assert_eq!(judged(&[]), Rest);
        assert_eq!(judged(&[(64, 64), (64, 0), (64, 3), (10, 0)]), Drop(vec![id(1), id(3)]));
        assert_eq!(judged(&[(64, 50), (64, 50)]), Rest, "28 MiB over 100");
        assert_eq!(judged(&[(64, 50), (64, 47)]), Rewrite(vec![id(0), id(1)][1..].to_vec()));
        assert_eq!(judged(&[(8, 1)]), Rest, "as little as that is no trouble");
    }

    #[test]
    fn the_files_with_the_most_garbage_become_one() {
        let files = [(64, 60), (64, 10), (64, 30), (64, 20), (64, 64)];
        assert_eq!(judged(&files), Judgement::Rewrite(vec![id(1), id(2), id(3)]));
        assert_eq!(judged(&[(64, 40), (64, 40)]), Judgement::Rewrite(vec![id(0)]));
    }
}
