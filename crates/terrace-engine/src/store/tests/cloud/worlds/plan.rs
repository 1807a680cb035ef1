//! What is drawn for a world as a whole: how its range is laid out, and how its store behaves.

use std::time::Duration;

use terrace_env::{CrashPolicy, ObjectFault, ObjectFaults, SeededRng};

use super::round::URL;
use crate::options::{CloudOptions, Durability, NearDesign, Options, Research, ValueLogOptions};
use crate::store::tests::cloud::in_store;
use crate::store::tests::small;
use crate::store::tests::workload::Change;

/// How often the owner mirrors.
pub const PERIOD: Duration = Duration::from_secs(5);

const GROUPS: u64 = 3;
const KEYS_PER_GROUP: u64 = 25;

#[derive(Clone, Debug)]
pub struct Plan {
    pub rounds: u64,
    pub steps: u64,
    is_mirrored: bool,
    durability: Durability,
    value_log: Option<ValueLogOptions>,
    value_bytes: u64,
    /// What the persistent cache may take: little more than it takes empty, more, or what is left.
    cache_bytes: Option<u64>,
    /// How it keeps blocks: what is near is not missed where it should be.
    near: NearDesign,
    /// Whether metadata are near.
    has_near_meta: bool,
    /// In what buckets blocks are: with small ones there is room for some in a cache of any size.
    near_bucket_bytes: Option<u64>,
    faults: ObjectFaults,
    pub delay_max: Duration,
    pub switch_one_in: u32,
}

impl Plan {
    /// `apart` draws what was added since there are seeds that are known by what they found.
    pub fn draw(random: &mut SeededRng, apart: &mut SeededRng) -> Plan {
        use NearDesign::{Buckets, FileLru, None as Nothing, WholeTables};
        let large = ValueLogOptions { large_bytes: 100, ..ValueLogOptions::default() };
        Plan {
            rounds: 1 + random.below(3),
            steps: random.pick(&[10, 20, 40]),
            is_mirrored: !random.one_in(3),
            durability: random.pick(&[Durability::Buffered, Durability::Sync]),
            value_log: random.one_in(4).then_some(large),
            value_bytes: random.pick(&[40, 150, 300]),
            cache_bytes: random.pick(&[Some(70_000), Some(90_000), Some(1 << 20), None]),
            near: apart.pick(&[Buckets, Buckets, Buckets, Nothing, FileLru, WholeTables]),
            has_near_meta: !apart.one_in(4),
            near_bucket_bytes: apart.pick(&[Some(64 << 10), None]),
            faults: draw_faults(random),
            delay_max: Duration::from_millis(random.pick(&[0, 5, 200])),
            switch_one_in: random.pick(&[2, 4, 16]),
        }
    }

    pub fn faults(&self) -> ObjectFaults {
        self.faults.clone()
    }

    /// The options of one open of the owner.
    pub fn options(&self, random: &mut SeededRng) -> Options {
        let first_level = random.pick(&[1, 1, 2, 3]);
        let options = in_store(
            Options {
                durability: self.durability,
                value_log: self.value_log,
                research: Research {
                    near: self.near,
                    near_meta_none: !self.has_near_meta,
                    near_bucket_bytes: self.near_bucket_bytes,
                    ..Research::default()
                },
                ..small()
            },
            first_level,
        );
        let mirror = self.is_mirrored.then_some(PERIOD);
        let of_world = |cloud: CloudOptions| CloudOptions {
            url: URL.to_string(),
            mirror,
            cache_bytes: self.cache_bytes,
            ..cloud
        };
        let cloud = options.cloud.map(of_world);
        Options { cloud, ..options }
    }

    /// Some changes, or the end of a group of keys.
    pub fn changes(&self, random: &mut SeededRng) -> Vec<Change> {
        let group = random.below(GROUPS);
        if random.one_in(30) {
            let [start, end] = [group, group + 1].map(|group| format!("k{group}").into_bytes());
            return vec![Change::DeleteRange { start, end }];
        }
        let count = 1 + random.below(30);
        (0..count)
            .map(|_| {
                let key = format!("k{}{:02}", random.below(GROUPS), random.below(KEYS_PER_GROUP));
                let key = key.into_bytes();
                if random.one_in(8) {
                    return Change::Delete { key };
                }
                let bytes = random.below(self.value_bytes) as usize;
                let value = format!("{:016x}", random.next_u64()).repeat(bytes / 16 + 1);
                Change::Put { key, value: value.into_bytes(), expiry: None }
            })
            .collect()
    }
}

pub fn draw_faults(random: &mut SeededRng) -> ObjectFaults {
    use ObjectFault::{
        Denied, LateDelete, LatePut, LostAnswer, MissingNames, Reset, ServerError, TimedOut,
        TooManyRequests, Truncated, Unavailable,
    };
    let often = random.pick(&[0, 100, 40, 15]);
    let passing = [ServerError, Unavailable, TooManyRequests, TimedOut, Reset, Truncated];
    let faults = passing
        .into_iter()
        .fold(ObjectFaults::default(), |all, kind| all.with(kind, often * passing.len() as u32));
    let rate = |random: &mut SeededRng, rates: &[u32; 3]| random.pick(rates);
    faults
        .with(LostAnswer, rate(random, &[0, 50, 8]))
        .with(LatePut, rate(random, &[0, 50, 8]))
        .with(LateDelete, rate(random, &[0, 50, 8]))
        .with(MissingNames, rate(random, &[0, 4, 2]))
        .with(Denied, rate(random, &[0, 0, 300]))
        .late_by_at_most(rate(random, &[3, 20, 200]))
}

/// What a machine leaves of its disk when it stops.
pub fn draw_policy(random: &mut SeededRng) -> CrashPolicy {
    random.pick(&[CrashPolicy::ProcessKill, CrashPolicy::SyncedOnly, CrashPolicy::Sectors])
}
