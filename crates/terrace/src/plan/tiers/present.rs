//! The layout that a database has already, held against the others. Pure.

use std::fmt;
use std::time::Duration;

use terrace_engine::options::CloudOptions;

use super::cost::{TierDollars, TierRequests};
use super::hits::Popularity;
use super::layouts::{Place, Safety};
use super::observed::PresentTier;
use super::text::{approximate, digits, line, time};
use super::tree::BELOW_ALL;
use super::{PlannedTier, TierNeeds};
use crate::{Durability, Options};

/// The layout that there is already, with what it comes to and what was measured.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ComparedTier {
    /// What it comes to by the model, for the operations that the plan is for.
    pub layout: PlannedTier,
    /// What speaks against it; `chosen` if nothing does.
    pub why: String,
    /// For how many seconds it was measured, if it was.
    pub measured_s: Option<f64>,
    /// Operations a second meanwhile: others than those that the plan is for, if it is for others.
    pub measured_operations_per_s: Option<f64>,
    /// Requests for an operation that were measured.
    pub measured_requests: Option<TierRequests>,
    /// What a month like that costs.
    pub measured_dollars: Option<TierDollars>,
}

impl ComparedTier {
    pub(super) fn new(needs: &TierNeeds, layout: &PlannedTier, why: String) -> ComparedTier {
        let measured = needs.present.as_ref().and_then(|present| present.measured.as_ref());
        let month =
            |local| measured.map(|one| one.month(&needs.store_prices, local, layout.local_bytes));
        ComparedTier {
            why,
            measured_s: measured.map(|one| one.seconds),
            measured_operations_per_s: measured.map(|one| one.operations_per_s),
            measured_requests: measured.map(|one| one.requests),
            measured_dollars: month(&needs.local_prices),
            layout: layout.clone(),
        }
    }

    pub(super) fn fmt_beside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, bytes) = (&self.layout.name, self.layout.local_bytes as f64);
        writeln!(f, "present: {name}, {} of local disk; {}", approximate(bytes), self.why)?;
        let measured = (self.measured_s, self.measured_operations_per_s);
        let (Some(seconds), Some(per_s)) = measured else {
            let total = self.layout.dollars.total.to_string();
            return line(f, "a month", &total, "predicted; nothing was measured");
        };
        let of_time = time(Duration::from_secs_f64(seconds));
        let title = format!("measured for {of_time}, at {} operations a second", digits(per_s));
        line(f, "", "predicted", &title)?;
        let (is, was) = (self.layout.requests, self.measured_requests.unwrap_or_default());
        for (of, is, was) in [
            ("gets", is.gets, was.gets),
            ("puts", is.puts, was.puts),
            ("deletes", is.deletes, was.deletes),
        ] {
            line(f, of, &digits(is), &format!("{:<10} for an operation", digits(was)))?;
        }
        let (is, was) = (self.layout.dollars, self.measured_dollars.unwrap_or_default());
        for (of, is, was) in [
            ("a month", is.total, was.total),
            ("  local disk", is.local + is.local_iops + is.log_volume, was.local),
            ("  in the store", is.stored, was.stored),
            ("  puts", is.puts, was.puts),
            ("  gets", is.gets, was.gets),
        ] {
            line(f, of, &is.to_string(), &was.to_string())?;
        }
        Ok(())
    }
}

impl PresentTier {
    /// Where its levels and blocks are.
    pub(super) fn place(
        &self,
        needs: &TierNeeds,
        sizes: &Options,
        popularity: &Popularity,
    ) -> Place {
        let local_bytes = self.local_bytes.max(CloudOptions::LOCAL_BYTES_MIN);
        let place = Place::new(needs, sizes, popularity, (local_bytes, None));
        let line = self.first_far_level.unwrap_or(BELOW_ALL);
        let mut place = place.with_line(line.min(BELOW_ALL), popularity);
        if let Some(bytes) = self.block_bytes.filter(|_| place.first_far < BELOW_ALL) {
            place.block_bytes = bytes as f64;
        }
        place
    }

    /// What of it survives the machine.
    pub(super) fn safety(&self) -> Safety {
        let has_log = self.mirror_ms.is_some() && (self.log_ms.is_some() || self.has_log_volume);
        Safety {
            mirror: self.mirror_ms.map(|ms| Duration::from_millis(ms.max(1))),
            log: self.log_ms.map(Duration::from_millis),
            has_volume: self.has_log_volume,
            archive: None,
            durability: if has_log && self.is_durable {
                Durability::Durable
            } else {
                Durability::Buffered
            },
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the layout that there is stands beside the others, with what was measured of it.

    use super::super::{MeasuredTier, TierPlan};
    use super::*;
    use crate::Needs;

    const GIB: u64 = 1 << 30;

    fn needs() -> TierNeeds {
        let sizes = Needs {
            data_bytes: 400 * GIB,
            memory_bytes: 8 * GIB,
            pmem_bytes: 0,
            value_bytes: 1000,
        };
        let needs = TierNeeds::new(sizes, 300.0, 100 * GIB);
        TierNeeds { reads_share: 0.7, scans_share: 0.05, ..needs }
    }

    #[test]
    fn a_layout_as_the_plan_would_have_it_costs_the_same() {
        let mut needs = needs();
        let chosen = TierPlan::for_needs(&needs).expect("needs that can be met").chosen;
        needs.present = Some(PresentTier {
            first_far_level: chosen.first_far_level,
            local_bytes: chosen.local_bytes,
            ..PresentTier::default()
        });
        let plan = TierPlan::for_needs(&needs).expect("needs that can be met");
        let present = plan.present.as_ref().expect("it was given");
        assert_eq!(present.layout.dollars, chosen.dollars, "{plan}");
        assert!(plan.to_string().contains("predicted; nothing was measured"), "{plan}");
    }

    #[test]
    fn a_worse_layout_says_why_beside_what_was_measured() {
        let mut needs = needs();
        let requests = TierRequests { gets: 0.5, puts: 0.001, deletes: 0.0 };
        let measured = MeasuredTier {
            seconds: 10.0,
            operations_per_s: 280.0,
            requests,
            ..MeasuredTier::default()
        };
        needs.present = Some(PresentTier {
            first_far_level: Some(5),
            local_bytes: 20 * GIB,
            mirror_ms: Some(60_000),
            measured: Some(measured),
            ..PresentTier::default()
        });
        let plan = TierPlan::for_needs(&needs).expect("needs that can be met");
        let present = plan.present.as_ref().expect("it was given");
        assert!(present.why.starts_with("dearer: $"), "{plan}");
        assert!(present.layout.dollars.total > plan.chosen.dollars.total);
        assert_eq!(present.measured_dollars.map(|dollars| dollars.local.to_f64()), Some(1.6));
        let text = plan.to_string();
        assert!(
            text.contains("\npresent: L5 and deeper in the store, a mirror each 1m, 20 GiB"),
            "{text}"
        );
        assert!(text.contains("measured for 10s, at 280 operations a second\n"), "{text}");
        assert!(text.contains(" 0.500      for an operation\n"), "{text}");
        // More than there is.
        needs.present.as_mut().expect("it was given").local_bytes = 300 * GIB;
        let plan = TierPlan::for_needs(&needs).expect("needs that can be met");
        let why = &plan.present.as_ref().expect("it was given").why;
        assert_eq!(why, "needs 300 GiB of local disk, 100 GiB are there");
    }
}
