//! What a database does, what there is for it, and what is wanted.

use std::time::Duration;

use terrace_engine::Error;
use terrace_engine::cloud::PriceSheet;

use super::super::Needs;
use super::observed::PresentTier;
use crate::Result;

const MIB: u64 = 1 << 20;
/// The most records of a scan that a plan is made for.
const SCAN_RECORDS_MAX: u64 = 1_000_000;
/// The steepest skew.
const SKEW_MAX: f64 = 3.0;
/// The least period of a mirror.
pub(super) const LOSS_MIN: Duration = Duration::from_secs(1);

/// What may be lost with the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TierLoss {
    /// All that it has: the object store alone need not say what was in the database.
    Anything,
    /// What was written for about so long before, at least a second.
    #[cfg_attr(feature = "serde", serde(rename = "within_us"))]
    Within(#[cfg_attr(feature = "serde", serde(serialize_with = "as_us"))] Duration),
    /// Nothing that was acknowledged: writes wait for the object store, or for a volume that is not
    /// lost with the machine.
    Nothing,
}

/// What is wanted of a plan for tiers. Nothing is, by default.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TierGoals {
    /// The most that a month may cost, in dollars.
    pub dollars_max: Option<f64>,
    /// The longest that a get may take on average.
    #[cfg_attr(feature = "serde", serde(rename = "read_mean_us_max"))]
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_us_if_any"))]
    pub read_mean_max: Option<Duration>,
    /// The longest that 99 of 100 gets may take.
    #[cfg_attr(feature = "serde", serde(rename = "read_p99_us_max"))]
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_us_if_any"))]
    pub read_p99_max: Option<Duration>,
    /// The longest that a write may take on average that waits for the object store, or for the
    /// volume of the log.
    #[cfg_attr(feature = "serde", serde(rename = "write_mean_us_max"))]
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_us_if_any"))]
    pub write_mean_max: Option<Duration>,
    /// What may be lost with the machine.
    pub loss: TierLoss,
    /// How far back earlier states are to be found, if they are.
    #[cfg_attr(feature = "serde", serde(rename = "archive_us"))]
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_us_if_any"))]
    pub archive: Option<Duration>,
}

impl Default for TierGoals {
    fn default() -> TierGoals {
        TierGoals {
            dollars_max: None,
            read_mean_max: None,
            read_p99_max: None,
            write_mean_max: None,
            loss: TierLoss::Anything,
            archive: None,
        }
    }
}

/// What a database does that may lie on two tiers, a local disk and an object store; what those
/// cost and how fast they are; and what is wanted.
///
/// Keys are read, written and scanned with one skew: what is written often is read often.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TierNeeds {
    /// What it holds, and the memory. Persistent memory is left out of account.
    pub needs: Needs,
    /// Operations a second, on average: more than 0.
    pub operations_per_s: f64,
    /// The share of gets among them, from 0 to 1.
    pub reads_share: f64,
    /// The share of scans. What is neither is a put.
    pub scans_share: f64,
    /// How many records a scan goes through on average, from 1 to 1,000,000; scans are of any
    /// length up to twice that.
    pub scan_records: u64,
    /// The skew s of Zipf's distribution, from 0 to 3: the record of rank r is asked for in
    /// proportion to 1 / rˢ. 0: all equally. The default is 0.99, that of YCSB.
    pub skew: f64,
    /// How many bytes of the local disk there are at most, at least 16 MiB.
    pub local_bytes_max: u64,
    /// What the local disk costs. The default is the sheet `ebs-gp3`.
    pub local_prices: PriceSheet,
    /// What the object store costs. The default is the sheet `s3`.
    pub store_prices: PriceSheet,
    /// What a volume for the log costs that outlives the machine, if there may be one. The default
    /// is none.
    pub log_volume_prices: Option<PriceSheet>,
    /// How long the object store takes for a small get. The default is 15 ms.
    #[cfg_attr(feature = "serde", serde(rename = "get_latency_us", serialize_with = "as_us"))]
    pub get_latency: Duration,
    /// How long it takes for a put. The default is 30 ms.
    #[cfg_attr(feature = "serde", serde(rename = "put_latency_us", serialize_with = "as_us"))]
    pub put_latency: Duration,
    /// How long a block takes from the local disk, and a sync of the volume of the log. The default
    /// is 0.1 ms.
    #[cfg_attr(feature = "serde", serde(rename = "local_latency_us", serialize_with = "as_us"))]
    pub local_latency: Duration,
    /// How many bytes a second go to the store and come from it, together. The default is 100 MB.
    pub store_bytes_per_s: u64,
    /// What is wanted.
    pub goals: TierGoals,
    /// The layout that there is already, which is compared as well. The default is none.
    pub present: Option<PresentTier>,
}

impl TierNeeds {
    /// Half gets and half puts, and defaults for the rest.
    #[must_use]
    pub fn new(needs: Needs, operations_per_s: f64, local_bytes_max: u64) -> TierNeeds {
        let prices = |name| PriceSheet::named(name).unwrap_or_default();
        TierNeeds {
            needs,
            operations_per_s,
            reads_share: 0.5,
            scans_share: 0.0,
            scan_records: 50,
            skew: 0.99,
            local_bytes_max,
            local_prices: prices("ebs-gp3"),
            store_prices: prices("s3"),
            log_volume_prices: None,
            get_latency: Duration::from_millis(15),
            put_latency: Duration::from_millis(30),
            local_latency: Duration::from_micros(100),
            store_bytes_per_s: 100_000_000,
            goals: TierGoals::default(),
            present: None,
        }
    }

    /// The share of operations that are puts.
    #[must_use]
    pub fn puts_share(&self) -> f64 {
        (1.0 - self.reads_share - self.scans_share).max(0.0)
    }

    /// Errors: `Invalid`, for what is outside its bounds.
    pub(super) fn validate(&self) -> Result<()> {
        let share = |share: f64| (0.0..=1.0).contains(&share);
        let goals = &self.goals;
        let refused = [
            (
                !(self.operations_per_s > 0.0 && self.operations_per_s <= 1e9),
                "operations a second must be more than 0, and at most 1,000,000,000",
            ),
            (
                !share(self.reads_share)
                    || !share(self.scans_share)
                    || self.reads_share + self.scans_share > 1.0 + 1e-9,
                "gets and scans must be shares of all operations, 100 % at most together",
            ),
            (
                !(1..=SCAN_RECORDS_MAX).contains(&self.scan_records),
                "a scan must have from 1 to 1000000 records",
            ),
            (!(0.0..=SKEW_MAX).contains(&self.skew), "the skew must be from 0 to 3"),
            (self.local_bytes_max < 16 * MIB, "the local disk must have at least 16 MiB"),
            (self.store_bytes_per_s == 0, "the store's bandwidth must be more than 0"),
            (
                goals.dollars_max.is_some_and(|dollars| dollars.is_nan() || dollars < 0.0),
                "a budget must be 0 dollars or more",
            ),
            (
                matches!(goals.loss, TierLoss::Within(time) if time < LOSS_MIN),
                "what may be lost must be at least 1s, or nothing",
            ),
            (
                goals.archive.is_some_and(|time| time < LOSS_MIN),
                "an archive must reach at least 1s back",
            ),
        ];
        match refused.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => Err(Error::invalid(*why).into()),
            None => Ok(()),
        }
    }
}

/// Microseconds, for programs.
#[cfg(feature = "serde")]
fn as_us<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e6)
}

#[cfg(feature = "serde")]
fn as_us_if_any<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_us(time, serializer),
        None => serializer.serialize_none(),
    }
}
