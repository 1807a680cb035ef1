//! What becomes of value files: which are dead, and which one is worth rewriting. Pure.
//!
//! A file of which nothing is named goes at once. Of the others one is rewritten when all files
//! together have more garbage than `space.rs` allows: that with the most garbage for each byte that
//! has to be copied, and with it, to keep files few, those that have become small.

use std::cmp::Reverse;

use terrace_base::FileId;

use super::{Liveness, SpaceBound, ValueFileMeta, ValueSpace};

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
    overhead_bytes: u64,
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

/// What is to be done next with `files`, of which newer entries may hide as much as
/// `hidden_bytes_max`. A rewrite makes a file of about the usual size.
#[must_use]
pub fn judge<'a>(
    files: impl IntoIterator<Item = &'a ValueFileMeta>,
    liveness: &Liveness,
    hidden_bytes_max: u64,
    bound: &SpaceBound,
) -> Judgement {
    let weigh = |file: &ValueFileMeta| {
        let (entry_bytes, overhead_bytes) = (file.entry_bytes(), file.overhead_bytes());
        Weighed { id: file.id, entry_bytes, overhead_bytes, live_bytes: liveness.live_bytes(file) }
    };
    let (named, dead): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| liveness.names_any(file));
    let dead: Vec<FileId> = dead.into_iter().map(|file| file.id).collect();
    if !dead.is_empty() {
        return Judgement::Drop(dead);
    }
    let all: Vec<Weighed> = named.into_iter().map(weigh).collect();
    let space = ValueSpace {
        entry_bytes: all.iter().map(|file| file.entry_bytes).sum(),
        overhead_bytes: all.iter().map(|file| file.overhead_bytes).sum(),
        named_bytes: all.iter().map(|file| file.live_bytes).sum(),
        hidden_bytes_max,
    };
    if bound.garbage_bytes_max(&space).is_none_or(|max| space.garbage_bytes() <= max) {
        return Judgement::Rest;
    }
    let mut by_garbage = all;
    by_garbage.sort_by_key(|file| (Reverse(file.garbage_permille()), file.id));
    let mut chosen = Vec::new();
    let mut copied = 0;
    for file in by_garbage.iter().filter(|file| file.garbage_bytes() > 0) {
        if !chosen.is_empty() && copied + file.live_bytes > bound.file_bytes {
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
        judged_with(files, 0)
    }

    /// The same when this many MiB may be hidden.
    fn judged_with(files: &[(u64, u64)], hidden: u64) -> Judgement {
        let of = |(index, (total, _)): (usize, &(u64, u64))| ValueFileMeta {
            id: id(index as u64),
            location: TableLocation::new("x"),
            uid: TableUid(1),
            bytes: total * MIB,
            hash: 0,
            segments: vec![HeldSegment { id: id(index as u64), count: 1, bytes: total * MIB }],
            home: Default::default(),
        };
        let named = |(index, (_, live)): (usize, &(u64, u64))| NamedBytes {
            segment: id(index as u64),
            count: 1,
            bytes: live * MIB,
        };
        let metas: Vec<_> = files.iter().enumerate().map(of).collect();
        let named = files.iter().enumerate().map(named).filter(|one| one.bytes > 0).collect();
        let named = NamedSegments::new(named).expect("they ascend");
        let bound = SpaceBound { ratio_percent: Some(130), file_bytes: 64 * MIB };
        judge(&metas, &Liveness::of([&named]), hidden * MIB, &bound)
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
    fn what_is_hidden_takes_of_what_may_be_garbage() {
        let files: Vec<_> = std::iter::repeat_n((64, 52), 64).collect();
        assert_eq!(judged(&files), Judgement::Rest, "768 MiB of 998");
        assert_eq!(judged_with(&files, 200), Judgement::Rewrite(vec![id(0)]), "and 200 hidden");
    }

    #[test]
    fn the_files_with_the_most_garbage_become_one() {
        let files = [(64, 60), (64, 10), (64, 30), (64, 20), (64, 64)];
        assert_eq!(judged(&files), Judgement::Rewrite(vec![id(1), id(2), id(3)]));
        assert_eq!(judged(&[(64, 40), (64, 40)]), Judgement::Rewrite(vec![id(0)]));
    }
}
