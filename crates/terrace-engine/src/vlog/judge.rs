//! What becomes of value files: which are dead, and which one is worth rewriting. Pure.
//!
//! A file of which nothing is named goes at once. Of the others one is rewritten when all files
//! together have more garbage than `space.rs` allows: that with the most garbage for each byte that
//! has to be copied, and with it, to keep files few, those that have become small.
//!
//! Where files are many for what is named, as slow writers and small memtables leave them, files
//! with about as much in them become one, though they have no garbage. What they became is merged
//! again only with others of its size, so that a value is copied once for each size class that its
//! file grows through, and there are few: each is four times the one before.

use std::cmp::Reverse;

use terrace_base::FileId;

use super::{Liveness, SpaceBound, ValueFileMeta, ValueSpace};

/// More files than this number for each that would do for what is named are too many.
const FILES_PER_SIZE: u64 = 4;
/// And this number of files is never too many.
const FILES_MIN: u64 = 16;

/// A rewrite reads no more files than this, for it has a piece of each in memory.
const REWRITTEN_MAX: usize = 256;

/// Of small files there are this many size classes, each a fourth of the one before: the smallest
/// is below a kilobyte where the usual size is 64 MiB.
const CLASSES: usize = 8;

/// What is mostly alive is not worth the copy, unless it is all there is: garbage in a thousandth.
const GARBAGE_PERMILLE_MIN: u64 = 200;

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
    let Some(garbage_max) = bound.garbage_bytes_max(&space) else { return Judgement::Rest };
    if space.garbage_bytes() > garbage_max {
        return Judgement::Rewrite(with_most_garbage(all, bound.file_bytes));
    }
    let sizes = space.named_bytes / bound.file_bytes.max(1);
    if all.len() as u64 > FILES_MIN.saturating_add(sizes.saturating_mul(FILES_PER_SIZE)) {
        return Judgement::Rewrite(small_and_alike(all, bound.file_bytes));
    }
    Judgement::Rest
}

/// The files with the most garbage for their size.
fn with_most_garbage(mut files: Vec<Weighed>, file_bytes: u64) -> Vec<FileId> {
    files.retain(|file| file.garbage_bytes() > 0);
    files.sort_by_key(|file| (Reverse(file.garbage_permille()), file.id));
    let is_worth_it = |file: &&Weighed| file.garbage_permille() >= GARBAGE_PERMILLE_MIN;
    let count = files.iter().take_while(is_worth_it).count().max(1);
    files.truncate(count);
    as_one(&files, file_bytes)
}

/// The files in the class of small ones that has the most, and what is smaller still.
///
/// They are two at the least where there are too many files: fewer than four for each that would do
/// have a fourth of the usual size, and four more; of the others there are more than classes.
fn small_and_alike(mut files: Vec<Weighed>, file_bytes: u64) -> Vec<FileId> {
    let class_of = |file: &Weighed| small_class(file.live_bytes, file_bytes);
    let mut counts = [0; CLASSES];
    files.iter().filter_map(class_of).for_each(|class| counts[class] += 1);
    let fullest = (0..CLASSES).rev().max_by_key(|class| counts[*class]);
    files.retain(|file| class_of(file) >= fullest);
    files.sort_by_key(|file| (file.live_bytes, file.id));
    as_one(&files, file_bytes)
}

/// How small what lives of a file is beside the usual size: 0 below a fourth of it, 1 below a
/// sixteenth, and so on; `None` if it is not small.
fn small_class(live_bytes: u64, file_bytes: u64) -> Option<usize> {
    let times = file_bytes / live_bytes.max(1);
    let fourths = times.checked_ilog2()? as usize / 2;
    fourths.checked_sub(1).map(|class| class.min(CLASSES - 1))
}

/// As many of the first of these files as become one of the usual size; the first one at any rate.
fn as_one(files: &[Weighed], file_bytes: u64) -> Vec<FileId> {
    let mut copied_bytes = 0;
    let fits = |(index, file): &(usize, &Weighed)| {
        copied_bytes += file.live_bytes;
        *index == 0 || copied_bytes <= file_bytes
    };
    let fitting = files.iter().take(REWRITTEN_MAX).enumerate().take_while(fits);
    let mut chosen: Vec<FileId> = fitting.map(|(_, file)| file.id).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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

    #[test]
    fn many_small_files_become_one() {
        let first = |count: u64| Judgement::Rewrite((0..count).map(id).collect());
        let mut files = vec![(9, 9); 36];
        assert_eq!(judged(&files), Judgement::Rest, "16, and 4 for each of 5 that would do");
        files.push((9, 9));
        assert_eq!(judged(&files), first(7), "63 MiB of 64");
        files.push((60, 60));
        assert_eq!(judged(&files), Judgement::Rest, "6 would do");
        // Of a large file with little in it the little counts.
        let mut files = vec![(12, 12); 64];
        files[20] = (20, 1);
        assert_eq!(judged(&files), Judgement::Rewrite([0, 1, 2, 3, 4, 20].map(id).to_vec()));
        assert_eq!(judged(&vec![(16, 16); 400]), Judgement::Rest, "416 are few enough");
        let tiny =
            |index| Weighed { id: id(index), entry_bytes: 1, overhead_bytes: 0, live_bytes: 1 };
        let tiny: Vec<Weighed> = (0..1000).map(tiny).collect();
        assert_eq!(as_one(&tiny, 64 * MIB).len(), REWRITTEN_MAX);
    }

    /// One after the other, files come that are small beside the usual size: each value is copied
    /// once for each time that its file becomes about as many times larger as there are too many.
    #[test]
    fn values_of_files_that_come_one_by_one_are_copied_a_few_times() {
        for (usual, copies_max) in [(64, 2), (1 << 10, 3), (1 << 14, 5)] {
            let bound = SpaceBound { ratio_percent: Some(130), file_bytes: usual };
            let mut files: Vec<Weighed> = Vec::new();
            let (mut copied, all) = (0, 4 * usual);
            for index in 0..all {
                let new =
                    Weighed { id: id(index), entry_bytes: 1, overhead_bytes: 0, live_bytes: 1 };
                files.push(new);
                while files.len() as u64 > FILES_MIN + FILES_PER_SIZE * (index / usual) {
                    let chosen = small_and_alike(files.clone(), bound.file_bytes);
                    assert!(chosen.len() >= 2, "{usual}: {files:?}");
                    let (merged, left): (Vec<_>, Vec<_>) =
                        files.into_iter().partition(|file| chosen.contains(&file.id));
                    let live_bytes = merged.iter().map(|file| file.live_bytes).sum();
                    copied += live_bytes;
                    files = left;
                    files.push(Weighed { live_bytes, entry_bytes: live_bytes, ..merged[0] });
                }
            }
            assert!(copied <= copies_max * all, "{usual}: {copied} of {all}");
        }
    }

    /// Whatever is there, a rewrite of small files leaves fewer, and in the end there are few. No
    /// value is copied often.
    #[test]
    fn files_become_few_and_their_values_are_copied_about_once() {
        for (count, mib) in [(17, 1), (300, 1), (1000, 1), (1000, 5), (400, 15), (100, 64)] {
            let mut files = vec![(mib, mib); count];
            let mut copied = 0;
            while let Judgement::Rewrite(chosen) = judged(&files) {
                assert!(2 <= chosen.len() && chosen.len() <= REWRITTEN_MAX, "{count} of {mib}");
                let chosen: BTreeSet<u64> = chosen.iter().map(|id| id.counter).collect();
                let sum = chosen.iter().map(|index| files[*index as usize].1).sum();
                let is_left = |(index, _): &(usize, _)| !chosen.contains(&(*index as u64));
                let left = files.into_iter().enumerate().filter(is_left);
                files = left.map(|(_, file)| file).chain([(sum, sum)]).collect();
                copied += sum;
            }
            let all = count as u64 * mib;
            assert!(files.len() as u64 <= 16 + 4 * (all / 64), "{count} of {mib}");
            assert!(copied <= 2 * all, "{count} of {mib}: {copied} of {all} MiB");
        }
    }
}
