//! What may lie where: the layouts among which a plan chooses. Pure.
//!
//! A layout is a *place* (how much of the local disk, and so which levels lie there, and what is
//! left for blocks of the others) and a *safety* (what of it survives the machine). Places are
//! tried in steps of a quarter of a power of two; the line stands where the engine's own policy
//! would put it.

use std::time::Duration;

use terrace_engine::options::CloudOptions;
use terrace_engine::store::LOG_PATIENCE;

use super::tree::{Ages, BELOW_ALL, Tree};
use super::workload::{LOSS_MIN, TierLoss, TierNeeds};
use crate::plan::tiers::hits::Popularity;
use crate::{Durability, Layout, Options};

/// Sizes between a power of two and the next one.
const STEPS: u64 = 4;
/// Local bytes that keep all levels are looked for in so many steps of a thirty-second.
const GROWTHS_MAX: u64 = 64;
/// The period of a mirror that only bounds the log in the store.
const MIRROR_BESIDE_LOG: Duration = Duration::from_secs(60);
/// How far apart the objects of a log are that writes wait for.
const LOG_INTERVALS_MS: [u64; 3] = [10, 50, 200];
/// The same where nobody waits, and an archive is wanted.
const LOG_FOR_ARCHIVE: Duration = Duration::from_secs(10);

/// The line of a place that has every level in the store.
pub(super) const ABOVE_ALL: u8 = 0;

/// What lies where.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// All that the local disk holds, or may hold.
    pub local_bytes: u64,
    /// What blocks have for themselves.
    pub cache_bytes: Option<u64>,
    /// The first level in the store; [`BELOW_ALL`] for none.
    pub first_far: u8,
    /// What blocks of far levels take of the local disk.
    pub block_bytes: f64,
    /// Whether there is an object store at all.
    pub has_store: bool,
    pub tree: Tree,
    pub ages: Ages,
}

/// What survives the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Safety {
    pub mirror: Option<Duration>,
    pub log: Option<Duration>,
    /// Whether the log lies on a volume of its own, which outlives the machine.
    pub has_volume: bool,
    pub durability: Durability,
    /// How far back earlier states are found.
    pub archive: Option<Duration>,
}

impl Safety {
    /// What is on the machine alone is lost with it.
    pub const NONE: Safety = Safety {
        mirror: None,
        log: None,
        has_volume: false,
        durability: Durability::Buffered,
        archive: None,
    };

    /// The ways that are worth comparing for what is wanted, and what there is for it.
    pub fn all(needs: &TierNeeds) -> Vec<Safety> {
        let period = match needs.goals.loss {
            TierLoss::Within(time) => time,
            _ => MIRROR_BESIDE_LOG,
        };
        let mirrored = Safety { mirror: Some(period), ..Safety::NONE };
        let archive = needs.goals.archive;
        let logged = Safety {
            mirror: Some(MIRROR_BESIDE_LOG),
            log: Some(LOG_PATIENCE),
            archive,
            ..Safety::NONE
        };
        let seldom = archive.map(|_| Safety { log: Some(LOG_FOR_ARCHIVE), ..logged });
        let durable = LOG_INTERVALS_MS.map(|ms| Safety {
            log: Some(Duration::from_millis(ms)),
            durability: Durability::Durable,
            ..logged
        });
        let volume = needs.log_volume_prices.as_ref().map(|_| Safety {
            mirror: Some(MIRROR_BESIDE_LOG),
            has_volume: true,
            durability: Durability::Durable,
            ..Safety::NONE
        });
        let usual = [Safety::NONE, mirrored, logged].into_iter();
        usual.chain(seldom).chain(durable).chain(volume).collect()
    }

    /// What is lost with the machine, if the volume of the log is not.
    pub fn loss(&self) -> TierLoss {
        match (self.durability, self.log, self.mirror) {
            (Durability::Durable, ..) => TierLoss::Nothing,
            (_, Some(log), _) => TierLoss::Within(log.max(LOG_PATIENCE).max(LOSS_MIN)),
            (_, None, Some(period)) => TierLoss::Within(period),
            (_, None, None) => TierLoss::Anything,
        }
    }
}

/// A size of the local disk as [`CloudOptions`] takes it.
fn cloud_options(local_bytes: u64, cache_bytes: Option<u64>) -> CloudOptions {
    CloudOptions { cache_bytes, ..CloudOptions::new("file:///", local_bytes) }
}

/// The options of a database with so many local bytes.
pub(super) fn options_of(sizes: &Options, local_bytes: u64, cache: Option<u64>) -> Options {
    let layout = Layout::new().l0(sizes.layout.l0.clone());
    sizes.clone().layout(layout.cloud(cloud_options(local_bytes, cache)))
}

impl Place {
    /// The place with so many local bytes.
    pub fn new(
        needs: &TierNeeds,
        sizes: &Options,
        popularity: &Popularity,
        (local_bytes, cache_bytes): (u64, Option<u64>),
    ) -> Place {
        let options = options_of(sizes, local_bytes, cache_bytes);
        let tree = Tree::of(&options, needs.needs.data_bytes, entry_bytes(needs));
        let ages = tree.ages(popularity, needs.puts_share() > 0.0);
        let first_far = tree.first_far(local_bytes, cache_bytes.unwrap_or(0));
        let block_bytes = 0.0;
        let place =
            Place { local_bytes, cache_bytes, first_far, block_bytes, has_store: true, tree, ages };
        place.with_line(first_far, popularity)
    }

    /// The place with the line here: blocks have what is left.
    pub fn with_line(mut self, first_far: u8, popularity: &Popularity) -> Place {
        let tree = &self.tree;
        let held = tree.log_bytes
            + tree.l0_bytes(popularity, &self.ages)
            + tree.near_bytes(first_far)
            + tree.metadata_bytes(first_far);
        let left = (self.local_bytes as f64 - held).max(0.0);
        self.block_bytes = match first_far {
            BELOW_ALL => 0.0,
            _ => left.min(self.cache_bytes.map_or(f64::INFINITY, |bytes| bytes as f64)),
        };
        self.first_far = first_far;
        self
    }

    /// Everything on the local disk, which then takes `disk_bytes`, and no store.
    pub fn all_local(
        needs: &TierNeeds,
        sizes: &Options,
        popularity: &Popularity,
        disk_bytes: u64,
    ) -> Place {
        let tree = Tree::of(sizes, needs.needs.data_bytes, entry_bytes(needs));
        let ages = tree.ages(popularity, needs.puts_share() > 0.0);
        Place {
            local_bytes: disk_bytes,
            cache_bytes: None,
            first_far: BELOW_ALL,
            block_bytes: 0.0,
            has_store: false,
            tree,
            ages,
        }
    }

    /// Everything on the local disk, and a store that has it as well: as many local bytes as keep
    /// every level there.
    fn all_local_beside_store(
        needs: &TierNeeds,
        sizes: &Options,
        popularity: &Popularity,
        disk_bytes: u64,
    ) -> Option<Place> {
        let steps = (0..GROWTHS_MAX).map(|step| disk_bytes.saturating_add(disk_bytes / 32 * step));
        let whole = |bytes: u64| bytes.next_multiple_of(1 << 20).max(CloudOptions::LOCAL_BYTES_MIN);
        let tried = steps.map(|bytes| Place::new(needs, sizes, popularity, (whole(bytes), None)));
        tried.into_iter().find(|place| place.first_far == BELOW_ALL)
    }

    /// Where the line stands; [`ABOVE_ALL`] if every level lies in the store, however many the
    /// tree has.
    pub fn line(&self) -> u8 {
        match self.tree.levels.first() {
            Some(base) if self.first_far <= base.level => ABOVE_ALL,
            _ => self.first_far,
        }
    }

    /// The safeties that it can have.
    pub fn safeties(&self, needs: &TierNeeds) -> Vec<Safety> {
        let all = Safety::all(needs);
        let fits = |safety: &Safety| match (self.has_store, self.first_far) {
            (false, _) => *safety == Safety::NONE,
            // A store that has nothing is none.
            (true, BELOW_ALL) => *safety != Safety::NONE,
            (true, _) => true,
        };
        all.into_iter().filter(fits).collect()
    }

    /// All places that are worth comparing: everything local first.
    pub fn all(
        needs: &TierNeeds,
        sizes: &Options,
        popularity: &Popularity,
        disk_bytes: u64,
    ) -> Vec<Place> {
        let mut places = vec![Place::all_local(needs, sizes, popularity, disk_bytes)];
        places.extend(Place::all_local_beside_store(needs, sizes, popularity, disk_bytes));
        let most = needs.local_bytes_max.min(disk_bytes.saturating_mul(2));
        for local_bytes in local_sizes(most) {
            let place = |cache| Place::new(needs, sizes, popularity, (local_bytes, cache));
            let as_left = place(None);
            let reserved = place(Some(local_bytes / 2));
            // What is reserved for blocks only matters if it keeps a level out.
            let differs = reserved.first_far != as_left.first_far;
            let in_store = |place: &Place| place.first_far < BELOW_ALL;
            places.extend([as_left].into_iter().filter(in_store));
            places.extend([reserved].into_iter().filter(|place| differs && in_store(place)));
        }
        places
    }
}

/// A key and a value, as a table has them.
pub(super) fn entry_bytes(needs: &TierNeeds) -> u64 {
    needs.needs.value_bytes + super::super::KEY_BYTES
}

/// Sizes of the local disk, the least first, and the most as the last.
fn local_sizes(most: u64) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut power = CloudOptions::LOCAL_BYTES_MIN;
    while power < most {
        let steps = (0..STEPS).map(|step| power + power / STEPS * step);
        sizes.extend(steps.filter(|size| *size < most));
        power = power.saturating_mul(2);
    }
    sizes.push(most.max(CloudOptions::LOCAL_BYTES_MIN));
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Needs;

    const MIB: u64 = 1 << 20;

    #[test]
    fn sizes_end_at_the_most() {
        assert_eq!(local_sizes(40 * MIB), [16, 20, 24, 28, 32, 40].map(|mib| mib * MIB));
        assert_eq!(local_sizes(16 * MIB), [16 * MIB]);
        assert!(local_sizes(u64::MAX).len() < 200);
    }

    #[test]
    fn what_is_lost_is_what_neither_mirror_nor_log_has() {
        let all = |loss| {
            let sizes = Needs { data_bytes: 1, memory_bytes: 1, pmem_bytes: 0, value_bytes: 1 };
            let mut needs = TierNeeds::new(sizes, 1.0, 16 * MIB);
            needs.goals.loss = loss;
            Safety::all(&needs)
        };
        let losses: Vec<_> = all(TierLoss::Nothing).iter().map(Safety::loss).collect();
        let of = |s| TierLoss::Within(Duration::from_secs(s));
        let nothing = TierLoss::Nothing;
        assert_eq!(losses, [TierLoss::Anything, of(60), of(1), nothing, nothing, nothing]);
        let within = all(of(5));
        assert_eq!(within[1].loss(), of(5));
    }
}
