use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::content::{Content, PAGE_BYTES};
use super::directory::{InodeId, draw_keep};
use super::image::{DiskImage, Inode};
use crate::PMEM_LINE_BYTES;
use crate::sim::random::SeededRng;

/// What is left of a disk when everything stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CrashPolicy {
    /// The process dies, the system lives: everything written stays, and what was not synced can
    /// still be lost by a later power cut.
    ProcessKill,
    /// The power fails, and nothing that was not synced is left.
    SyncedOnly,
    /// The power fails. Of what was not synced, the seed chooses what is left: any 512-byte
    /// sectors of a file, any size between the synced and the written one, any names. Of persistent
    /// memory it chooses lines, or words of 8 bytes.
    Sectors,
    /// As [`CrashPolicy::Sectors`], in units of 4 KiB.
    Pages,
}

impl CrashPolicy {
    /// Every policy.
    pub const ALL: [CrashPolicy; 4] = [
        CrashPolicy::ProcessKill,
        CrashPolicy::SyncedOnly,
        CrashPolicy::Sectors,
        CrashPolicy::Pages,
    ];
}

/// Which unsynced units of one file are left. Besides random subsets the shapes that systems
/// really produce: all or none (one file runs ahead of another), written back in order, and out of
/// order.
enum Kept {
    None,
    All,
    First(u64),
    Last(u64),
    /// Each with this many chances in four.
    Chance(u64),
}

impl DiskImage {
    /// The disk as the next start finds it, after a crash at this moment. The same seed gives the
    /// same disk. Open handles and locks are gone.
    #[must_use]
    pub fn crash(&self, policy: CrashPolicy, seed: u64) -> DiskImage {
        let mut random = SeededRng::stream(seed, 3);
        let crashed = match policy {
            CrashPolicy::ProcessKill => self.clone(),
            CrashPolicy::SyncedOnly => self.after_power_cut(None, &mut random),
            CrashPolicy::Sectors => self.after_power_cut(Some(512), &mut random),
            CrashPolicy::Pages => self.after_power_cut(Some(4096), &mut random),
        };
        crashed.without_handles()
    }

    /// Keeps unsynced units of this size as the seed says, or none at all.
    fn after_power_cut(&self, unit_bytes: Option<usize>, random: &mut SeededRng) -> DiskImage {
        let directories = self.directories.iter().map(|(path, directory)| {
            let directory = if unit_bytes.is_some() {
                directory.after_power_cut(draw_keep(random))
            } else {
                directory.after_power_cut(|| false)
            };
            (path.clone(), Arc::new(directory))
        });
        let directories = Arc::new(directories.collect());
        let inodes = self.inodes.iter().map(|(&id, inode)| {
            let content = match unit_bytes {
                // Of persistent memory whole lines are left, or words.
                Some(_) if inode.is_pmem => {
                    let unit_bytes = if random.one_in(2) { PMEM_LINE_BYTES as usize } else { 8 };
                    draw_content(inode, unit_bytes, random)
                }
                Some(unit_bytes) => draw_content(inode, unit_bytes, random),
                None => inode.synced.clone(),
            };
            let reserved_bytes = inode.reserved_bytes.min(content.bytes());
            let left = Inode {
                written: content.clone(),
                synced: content,
                lost_pages: BTreeSet::new(),
                reserved_bytes,
                is_pmem: inode.is_pmem,
                links: inode.links,
                handles: inode.handles,
            };
            (id, Arc::new(left))
        });
        DiskImage { inodes: Arc::new(inodes.collect()), directories, ..self.clone() }
    }

    /// The disk when no process has a file of it open, its links and space counted anew.
    pub(in crate::sim) fn without_handles(mut self) -> DiskImage {
        let mut links: BTreeMap<InodeId, u32> = BTreeMap::new();
        let mut named = std::collections::BTreeSet::new();
        for directory in self.directories.values() {
            for &inode in directory.written().values() {
                *links.entry(inode).or_default() += 1;
            }
            directory.collect_inodes(&mut named);
        }
        let inodes = Arc::make_mut(&mut self.inodes);
        inodes.retain(|id, _| named.contains(id));
        self.used_bytes = 0;
        for (id, inode) in inodes.iter_mut() {
            let links = links.get(id).copied().unwrap_or(0);
            if inode.links != links || inode.handles != 0 {
                let inode = Arc::make_mut(inode);
                inode.links = links;
                inode.handles = 0;
            }
            self.used_bytes += inode.space_bytes();
        }
        self
    }
}

/// What is left of a file.
fn draw_content(inode: &Inode, unit_bytes: usize, random: &mut SeededRng) -> Content {
    let mut units = inode.written.units_unlike(&inode.synced, unit_bytes);
    // Nothing writes a page that counts as clean.
    let page_of = |unit: u64| unit * unit_bytes as u64 / PAGE_BYTES as u64;
    units.retain(|unit| !inode.lost_pages.contains(&page_of(*unit)));
    let mut left = inode.synced.clone();
    left.set_bytes(draw_bytes(&inode.synced, &inode.written, unit_bytes, random));
    let count = units.len() as u64;
    let kept = match random.below(8) {
        0 => Kept::None,
        1 | 2 => Kept::All,
        3 => Kept::First(random.below(count + 1)),
        4 => Kept::Last(random.below(count + 1)),
        chance => Kept::Chance(chance - 4),
    };
    for (index, unit) in units.into_iter().enumerate() {
        let index = index as u64;
        let is_kept = match kept {
            Kept::None => false,
            Kept::All => true,
            Kept::First(first) => index < first,
            Kept::Last(last) => index >= count - last,
            Kept::Chance(chance) => random.below(4) < chance,
        };
        if is_kept {
            left.copy_unit(&inode.written, unit, unit_bytes);
        }
    }
    left
}

/// The size that is left of a file: the synced one, the written one, or, if it grew, one between
/// them at which a unit ends. A file is cut in one step.
fn draw_bytes(
    synced: &Content,
    written: &Content,
    unit_bytes: usize,
    random: &mut SeededRng,
) -> u64 {
    let (low, high) = (synced.bytes().min(written.bytes()), synced.bytes().max(written.bytes()));
    match random.below(4) {
        0 => synced.bytes(),
        1 | 2 => written.bytes(),
        _ if written.bytes() < synced.bytes() => written.bytes(),
        _ => {
            let between = low + random.below(high - low + 1);
            (between - between % unit_bytes as u64).max(low)
        }
    }
}
