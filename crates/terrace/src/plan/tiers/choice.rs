//! What is chosen of the layouts, and why not the others. Pure.

use std::cmp::Ordering;
use std::time::Duration;

use terrace_engine::Error;
use terrace_engine::options::CloudOptions;

use super::cost::{Flow, TierDollars, TierRequests, durable_write};
use super::hits::Popularity;
use super::layouts::{ABOVE_ALL, Place, Safety, entry_bytes};
use super::present::ComparedTier;
use super::text::{approximate, dollars, time};
use super::tree::BELOW_ALL;
use super::workload::{TierLoss, TierNeeds};
use crate::plan::Plan;
use crate::{Durability, Options, Result};

/// What lies where, and what it comes to: estimates.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PlannedTier {
    /// What it is, in a few words.
    pub name: String,
    /// The first level that lies in the object store; `None` if all are local.
    pub first_far_level: Option<u8>,
    /// How much of the local disk it takes; for [`CloudOptions::local_bytes`] if there is a store.
    pub local_bytes: u64,
    /// For [`CloudOptions::cache_bytes`]. `None`: blocks take what is left.
    pub cache_bytes: Option<u64>,
    /// What blocks of far levels take of the local disk.
    pub block_bytes: u64,
    /// For [`CloudOptions::mirror`], in milliseconds.
    pub mirror_ms: Option<u64>,
    /// For [`CloudOptions::log`], in milliseconds.
    pub log_ms: Option<u64>,
    /// For [`CloudOptions::archive`], in milliseconds.
    pub archive_ms: Option<u64>,
    /// How many bytes a volume for the log alone should have; `None` without one. Where it is
    /// mounted has to be added to the options.
    pub log_volume_bytes: Option<u64>,
    /// How many operations a second have to be provisioned of the local disk, if its sheet of
    /// prices has too few.
    pub local_iops: Option<u64>,
    /// The class of writes, as `--durability` takes it.
    pub durability: String,
    /// What is lost with the machine.
    pub loss: TierLoss,
    /// The share of gets that ask the object store for nothing.
    pub hit_share: f64,
    /// Requests for an operation.
    pub requests: TierRequests,
    /// Bytes that go to the store and come from it in a second.
    pub store_bytes_per_s: f64,
    /// Bytes that lie in the store.
    pub stored_bytes: u64,
    /// How long a get takes on average, in microseconds.
    pub read_us_mean: f64,
    /// How long 99 of 100 gets take at most.
    pub read_us_p99: f64,
    /// How long a scan waits for the store on average.
    pub scan_us_mean: f64,
    /// How long a write takes on average that waits for the store or for the volume of the log, if
    /// any does.
    pub durable_write_us_mean: Option<f64>,
    /// What a month costs.
    pub dollars: TierDollars,
}

/// A layout that was not chosen.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RejectedTier {
    /// What it is.
    pub layout: PlannedTier,
    /// Why it was not chosen.
    pub why: String,
}

/// What should lie on the local disk and what in an object store. `Display` shows it to people.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TierPlan {
    /// What it is for.
    pub needs: TierNeeds,
    /// Sizes, as without tiers. With a store, memtables and tables follow the local bytes as well.
    pub sizes: Plan,
    /// The cheapest layout that does what is wanted.
    pub chosen: PlannedTier,
    /// The layout that there is already, beside what was measured of it.
    pub present: Option<ComparedTier>,
    /// The best of each kind of the others, the cheapest first.
    pub rejected: Vec<RejectedTier>,
}

/// A layout and what speaks against it.
struct Judged {
    layout: PlannedTier,
    kind: (u8, Safety),
    refused: Option<Refusal>,
    /// Whether it is the one that there is already.
    is_present: bool,
}

#[derive(Clone, Debug)]
struct Refusal {
    why: String,
    of: Against,
    /// How many times too much it is.
    excess: f64,
}

/// What stands against a layout; what could most easily be given up first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Against {
    Goal,
    Machine,
    Loss,
}

impl TierPlan {
    /// Chooses the cheapest layout that meets the goals.
    ///
    /// Errors: `Invalid` for needs that are outside their bounds, or that no sizes meet; and if no
    /// layout meets the goals, with the one that comes nearest. Cost: about a hundred sizes of the
    /// local disk are computed, each in some milliseconds at most.
    pub fn for_needs(needs: &TierNeeds) -> Result<TierPlan> {
        needs.validate()?;
        let sizes = Plan::for_needs(&super::super::Needs { pmem_bytes: 0, ..needs.needs })?;
        let mut judged = judged(needs, &sizes);
        judged.sort_by(|a, b| a.layout.cheaper_or_faster(&b.layout));
        let Some(chosen) = judged.iter().position(|one| one.refused.is_none()) else {
            return Err(Error::invalid(nearest(&judged)).into());
        };
        let chosen = judged.remove(chosen);
        let others = judged.iter().find(|one| one.is_present);
        let present = others.or(chosen.is_present.then_some(&chosen)).map(|one| {
            let why = match one.is_present && chosen.is_present {
                true => "chosen".to_owned(),
                false => one.against(&chosen),
            };
            ComparedTier::new(needs, &one.layout, why)
        });
        let rejected = rejected(&judged, &chosen);
        Ok(TierPlan { needs: needs.clone(), sizes, chosen: chosen.layout, present, rejected })
    }

    /// Options for the chosen layout: those of the sizes, with the object store at `url` if
    /// something lies there. Where the volume of the log is mounted, if it should have one, has to
    /// be added: until then durable writes are refused.
    #[must_use]
    pub fn options(&self, url: &str) -> Options {
        let options = self.sizes.options();
        let chosen = &self.chosen;
        if !chosen.has_store() {
            return options;
        }
        let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
        let cloud = CloudOptions {
            cache_bytes: chosen.cache_bytes,
            mirror: millis(chosen.mirror_ms),
            log: millis(chosen.log_ms),
            archive: millis(chosen.archive_ms),
            ..CloudOptions::new(url, chosen.local_bytes)
        };
        let durability = match chosen.loss {
            TierLoss::Nothing => Durability::Durable,
            _ => Durability::Buffered,
        };
        let layout = options.layout.clone().cloud(cloud);
        options.layout(layout).durability(durability)
    }
}

impl PlannedTier {
    /// Whether it has an object store at all.
    #[must_use]
    pub fn has_store(&self) -> bool {
        self.first_far_level.is_some() || self.mirror_ms.is_some()
    }

    /// The cheaper first; of those that cost the same, the faster.
    fn cheaper_or_faster(&self, other: &PlannedTier) -> Ordering {
        let by_price = self.dollars.total.cmp(&other.dollars.total);
        by_price.then_with(|| self.read_us_mean.total_cmp(&other.read_us_mean))
    }
}

impl Judged {
    fn new(needs: &TierNeeds, place: &Place, safety: Safety, flow: &Flow) -> Judged {
        let layout = planned(needs, place, &safety, flow);
        let refused = refusal(needs, place, flow, &layout);
        Judged { layout, kind: (place.line(), safety), refused, is_present: false }
    }

    /// Why another one was chosen.
    fn against(&self, chosen: &Judged) -> String {
        match &self.refused {
            Some(refusal) => refusal.why.clone(),
            None if self.layout.dollars.total == chosen.layout.dollars.total => {
                "costs the same and is slower".to_owned()
            }
            None => format!("dearer: {} a month", self.layout.dollars.total),
        }
    }
}

/// All layouts, with what speaks against them.
fn judged(needs: &TierNeeds, sizes: &Plan) -> Vec<Judged> {
    let records = needs.needs.data_bytes / entry_bytes(needs);
    let popularity = Popularity::zipf(records, needs.skew);
    let options = sizes.options();
    let places = Place::all(needs, &options, &popularity, sizes.cost.disk_bytes);
    let mut judged = Vec::new();
    for place in &places {
        let flow = Flow::of(needs, sizes.cache_bytes as f64, place, &popularity);
        for safety in place.safeties(needs) {
            let flow = flow.with_safety(needs, place, &safety, &popularity);
            judged.push(Judged::new(needs, place, safety, &flow));
        }
    }
    if let Some(present) = &needs.present {
        let (place, safety) = (present.place(needs, &options, &popularity), present.safety());
        let cache = present.memory_block_bytes.unwrap_or(sizes.cache_bytes) as f64;
        let flow = Flow::of(needs, cache, &place, &popularity);
        let flow = flow.with_safety(needs, &place, &safety, &popularity);
        let one = Judged::new(needs, &place, safety, &flow);
        judged.push(Judged { is_present: true, ..one });
    }
    judged
}

fn planned(needs: &TierNeeds, place: &Place, safety: &Safety, flow: &Flow) -> PlannedTier {
    let first_far_level = (place.first_far != BELOW_ALL).then_some(place.first_far);
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let far_us = us(needs.get_latency);
    let local_us = us(needs.local_latency);
    let asked = match needs.reads_share > 0.0 {
        true => (flow.far_share, flow.local_share),
        false => (0.0, 0.0),
    };
    let read_us_p99 = match asked {
        (far, _) if far > 0.01 => far_us,
        (far, local) if far + local > 0.01 => local_us,
        _ => 0.0,
    };
    let transfer_us = flow.scan_bytes / needs.store_bytes_per_s as f64 * 1e6;
    let millis = |time: Option<Duration>| time.map(|time| time.as_millis() as u64);
    PlannedTier {
        name: name_of(place, safety),
        first_far_level,
        local_bytes: place.local_bytes,
        cache_bytes: place.cache_bytes,
        block_bytes: place.block_bytes as u64,
        mirror_ms: millis(safety.mirror),
        log_ms: millis(safety.log),
        archive_ms: millis(safety.archive),
        log_volume_bytes: safety.has_volume.then_some(flow.log_volume_bytes as u64),
        local_iops: flow.more_iops(&needs.local_prices).map(|(iops, _)| iops),
        durability: safety.durability.to_string(),
        loss: safety.loss(),
        hit_share: 1.0 - asked.0,
        requests: flow.requests(needs),
        store_bytes_per_s: flow.bytes_up + flow.bytes_down,
        stored_bytes: flow.stored_bytes as u64,
        read_us_mean: asked.0 * far_us + asked.1 * local_us,
        read_us_p99,
        scan_us_mean: flow.scan_waits * far_us + transfer_us,
        durable_write_us_mean: durable_write(needs, safety).map(us),
        dollars: flow.dollars(needs, place.local_bytes),
    }
}

fn name_of(place: &Place, safety: &Safety) -> String {
    let mut name = match place.line() {
        BELOW_ALL => "all local".to_owned(),
        ABOVE_ALL => "all levels in the store".to_owned(),
        line if place.tree.levels.last().is_some_and(|last| last.level == line) => {
            format!("L{line} in the store")
        }
        line => format!("L{line} and deeper in the store"),
    };
    match (safety.log, safety.mirror) {
        (Some(log), _) => name += &format!(", the log each {}", time(log)),
        (None, Some(_)) if safety.has_volume => name += ", the log on a volume",
        (None, Some(period)) => name += &format!(", a mirror each {}", time(period)),
        (None, None) => {}
    }
    if safety.durability == Durability::Durable {
        name += ", which writes wait for";
    }
    name
}

/// What speaks against a layout, if anything does: what nothing can be done about first.
fn refusal(needs: &TierNeeds, place: &Place, flow: &Flow, layout: &PlannedTier) -> Option<Refusal> {
    let goals = &needs.goals;
    let us = |us: f64| time(Duration::from_secs_f64(us / 1e6));
    let slow = |what: &str, is_us: f64, most: Option<Duration>| {
        let most = most?;
        let most_us = most.as_secs_f64() * 1e6;
        let why = format!("{what} {}, at most {} wanted", us(is_us), time(most));
        (is_us > most_us).then(|| Refusal {
            why,
            of: Against::Goal,
            excess: is_us / most_us.max(1e-3),
        })
    };
    let too_large = place.local_bytes > needs.local_bytes_max;
    let too_large = too_large.then(|| Refusal {
        why: format!(
            "needs {} of local disk, {} are there",
            approximate(place.local_bytes as f64),
            approximate(needs.local_bytes_max as f64)
        ),
        of: Against::Machine,
        excess: place.local_bytes as f64 / needs.local_bytes_max as f64,
    });
    let forgets = || {
        let back = goals.archive?;
        let why =
            format!("keeps no states of {} back, which takes the log in the store", time(back));
        let refusal = Refusal { why, of: Against::Loss, excess: 1.0 };
        layout.archive_ms.is_none().then_some(refusal)
    };
    let bytes_per_s = layout.store_bytes_per_s;
    let too_much = bytes_per_s > needs.store_bytes_per_s as f64;
    let too_much = too_much.then(|| Refusal {
        why: format!(
            "the store's bandwidth is exceeded: {} a second, {} are there",
            approximate(bytes_per_s),
            approximate(needs.store_bytes_per_s as f64)
        ),
        of: Against::Machine,
        excess: bytes_per_s / needs.store_bytes_per_s as f64,
    });
    let busy = flow.lacks_iops(&needs.local_prices).map(|iops| Refusal {
        why: format!("{:.0} reads a second of the local disk, {iops} are there", flow.local_reads),
        of: Against::Machine,
        excess: flow.local_reads / iops as f64,
    });
    let is_slow = || {
        slow("reads take", layout.read_us_mean, goals.read_mean_max)
            .or_else(|| slow("1 of 100 reads takes", layout.read_us_p99, goals.read_p99_max))
            .or_else(|| {
                let write_us = layout.durable_write_us_mean?;
                slow("writes that are waited for take", write_us, goals.write_mean_max)
            })
    };
    let costs_too_much = || {
        let most = goals.dollars_max?;
        let total = layout.dollars.total.to_f64();
        let why =
            format!("costs {} a month, at most {} wanted", layout.dollars.total, dollars(most));
        (total > most).then(|| Refusal { why, of: Against::Goal, excess: total / most.max(1e-6) })
    };
    too_large
        .or_else(|| loses(layout.loss, goals.loss))
        .or_else(forgets)
        .or(too_much)
        .or(busy)
        .or_else(is_slow)
        .or_else(costs_too_much)
}

/// Whether a layout loses more with the machine than it may.
fn loses(loss: TierLoss, most: TierLoss) -> Option<Refusal> {
    let wanted = match most {
        TierLoss::Anything => return None,
        TierLoss::Within(most) => format!("at most {} wanted", time(most)),
        TierLoss::Nothing => "nothing may be lost".to_owned(),
    };
    let why = match (loss, most) {
        (TierLoss::Nothing, _) => return None,
        (TierLoss::Anything, _) => "loses all that the machine has".to_owned(),
        (TierLoss::Within(lost), TierLoss::Within(most)) if lost <= most => return None,
        (TierLoss::Within(lost), _) => {
            format!("loses what was written for {} with the machine, {wanted}", time(lost))
        }
    };
    Some(Refusal { why, of: Against::Loss, excess: 1.0 })
}

/// The best of each kind but the chosen one: other lines as safe as it is, and its own line more or
/// less safe. `judged` is sorted, the cheapest first.
fn rejected(judged: &[Judged], chosen: &Judged) -> Vec<RejectedTier> {
    let mut kinds = vec![chosen.kind];
    let mut rejected = Vec::new();
    // What does what is wanted stands for its kind before what does not.
    let met = judged.iter().filter(|one| one.refused.is_none());
    for one in met.chain(judged.iter().filter(|one| one.refused.is_some())) {
        let is_near = one.kind.0 == chosen.kind.0 || one.kind.1 == chosen.kind.1;
        if !is_near || one.is_present || kinds.contains(&one.kind) {
            continue;
        }
        kinds.push(one.kind);
        rejected.push(RejectedTier { layout: one.layout.clone(), why: one.against(chosen) });
    }
    rejected.sort_by(|a, b| a.layout.cheaper_or_faster(&b.layout));
    rejected
}

/// What to say where no layout does what is wanted.
fn nearest(judged: &[Judged]) -> String {
    let refused = judged.iter().filter_map(|one| Some((one, one.refused.as_ref()?)));
    let nearest = refused
        .min_by(|(_, a), (_, b)| a.of.cmp(&b.of).then_with(|| a.excess.total_cmp(&b.excess)));
    match nearest {
        Some((one, refusal)) => format!(
            "no layout does what is wanted; the nearest is \"{}\" with {} of local disk: {}",
            one.layout.name,
            approximate(one.layout.local_bytes as f64),
            refusal.why
        ),
        None => "there is no layout".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each goal changes what is chosen, and what is not chosen says why.

    use super::*;
    use crate::{ErrorKind, Needs};

    const GIB: u64 = 1 << 30;

    fn needs() -> TierNeeds {
        let sizes =
            Needs { data_bytes: 1 << 40, memory_bytes: 16 * GIB, pmem_bytes: 0, value_bytes: 1000 };
        let needs = TierNeeds::new(sizes, 500.0, 200 * GIB);
        TierNeeds { reads_share: 0.7, scans_share: 0.05, ..needs }
    }

    fn plan(needs: &TierNeeds) -> TierPlan {
        TierPlan::for_needs(needs).expect("needs that can be met")
    }

    #[test]
    fn what_does_not_fit_lies_in_the_store_and_what_fits_may_be_local() {
        let far = plan(&needs());
        assert!(far.chosen.first_far_level.is_some(), "{far}");
        assert!(far.chosen.local_bytes <= 200 * GIB);
        let all_local = far.rejected.iter().find(|one| one.layout.name == "all local");
        let why = &all_local.expect("it is named").why;
        assert!(why.starts_with("needs 1.") && why.contains("200 GiB are there"), "{why}");
        // Busy and small: requests cost more than the disk.
        let mut busy = needs();
        busy.needs.data_bytes = 50 * GIB;
        busy.operations_per_s = 2000.0;
        let local = plan(&busy);
        assert_eq!(local.chosen.first_far_level, None, "{local}");
        assert!(local.rejected.iter().any(|one| one.why.starts_with("dearer: $")), "{local}");
        far.options("s3://bucket/db").validate().expect("options that are valid");
        local.options("s3://bucket/db").validate().expect("options that are valid");
    }

    #[test]
    fn a_goal_of_latency_changes_the_choice() {
        let seldom = TierNeeds { operations_per_s: 10.0, ..needs() };
        let cheap = plan(&seldom);
        let mut fast = seldom;
        let goal = cheap.chosen.read_us_mean * 0.85;
        fast.goals.read_mean_max = Some(Duration::from_secs_f64(goal / 1e6));
        let fast = plan(&fast);
        assert!(fast.chosen.read_us_mean <= goal, "{fast}");
        assert!(fast.chosen.dollars.total > cheap.chosen.dollars.total);
        assert!(fast.chosen.local_bytes > cheap.chosen.local_bytes, "{fast} {cheap}");
    }

    #[test]
    fn a_goal_of_loss_changes_the_choice() {
        let with = |loss| {
            let mut needs = needs();
            needs.goals.loss = loss;
            plan(&needs)
        };
        let anything = with(TierLoss::Anything).chosen;
        assert_eq!((anything.mirror_ms, anything.log_ms), (None, None));
        let minute = with(TierLoss::Within(Duration::from_secs(60))).chosen;
        assert_eq!(minute.mirror_ms, Some(60_000));
        let nothing = with(TierLoss::Nothing);
        assert_eq!(nothing.chosen.durability, "durable");
        assert!(nothing.chosen.log_ms.is_some() && nothing.chosen.mirror_ms.is_some());
        assert!(anything.dollars.total < minute.dollars.total);
        assert!(minute.dollars.total < nothing.chosen.dollars.total);
        let all = nothing.rejected.iter().map(|one| &*one.why);
        assert!(all.clone().any(|why| why == "loses all that the machine has"), "{nothing}");
        nothing.options("s3://bucket/db").validate().expect("options that are valid");
        // Writes that may not wait so long make more objects.
        let mut quick = needs();
        quick.goals.loss = TierLoss::Nothing;
        quick.goals.write_mean_max = Some(Duration::from_millis(40));
        let quick = plan(&quick).chosen;
        assert!(quick.log_ms < nothing.chosen.log_ms, "{quick:?}");
        assert!(quick.dollars.puts > nothing.chosen.dollars.puts);
    }

    #[test]
    fn a_budget_changes_the_choice() {
        let mut fast = needs();
        let cheap = plan(&fast).chosen.dollars.total.to_f64();
        fast.goals.dollars_max = Some(cheap * 0.999);
        let error = TierPlan::for_needs(&fast).expect_err("nothing is cheaper");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(
            text.contains("the nearest is \"") && text.contains("a month, at most $"),
            "{text}"
        );
        fast.goals.dollars_max = Some(cheap * 1.001);
        let within = plan(&fast);
        assert!(within.rejected.iter().any(|one| one.why.contains("a month, at most $")));
    }

    #[test]
    fn goals_that_cannot_be_met_name_the_nearest_layout() {
        let mut needs = needs();
        needs.goals.read_p99_max = Some(Duration::from_millis(2));
        let error = TierPlan::for_needs(&needs).expect_err("the store takes longer");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(
            text.contains("in the store") && text.contains("15ms, at most 2ms wanted"),
            "{text}"
        );
        let mut narrow = self::needs();
        (narrow.store_bytes_per_s, narrow.local_bytes_max) = (500_000, 10 * GIB);
        let text = TierPlan::for_needs(&narrow).expect_err("no bandwidth").to_string();
        assert!(text.contains("the store's bandwidth is exceeded"), "{text}");
    }

    #[test]
    fn more_data_and_more_operations_cost_more() {
        let total = |change: &dyn Fn(&mut TierNeeds)| {
            let mut needs = needs();
            needs.store_bytes_per_s = u64::MAX;
            needs.local_prices.volume = None;
            change(&mut needs);
            plan(&needs).chosen.dollars.total
        };
        let mut before = terrace_engine::cloud::Dollars::ZERO;
        for gib in [20, 100, 500, 1000, 4000, 20_000] {
            let now = total(&|needs| needs.needs.data_bytes = gib * GIB);
            assert!(now > before, "{gib}: {now} {before}");
            before = now;
        }
        before = terrace_engine::cloud::Dollars::ZERO;
        for rate in [1.0, 30.0, 1000.0, 20_000.0] {
            let now = total(&|needs| needs.operations_per_s = rate);
            assert!(now > before, "{rate}: {now} {before}");
            before = now;
        }
    }

    #[test]
    fn needs_outside_their_bounds_are_refused() {
        let wrong: [&dyn Fn(&mut TierNeeds); 9] = [
            &|needs| needs.goals.archive = Some(Duration::from_millis(10)),
            &|needs| needs.operations_per_s = 0.0,
            &|needs| needs.operations_per_s = f64::NAN,
            &|needs| needs.reads_share = 1.2,
            &|needs| needs.scans_share = 0.5,
            &|needs| needs.scan_records = 0,
            &|needs| needs.skew = -1.0,
            &|needs| needs.local_bytes_max = 1,
            &|needs| needs.goals.loss = TierLoss::Within(Duration::from_millis(10)),
        ];
        for (index, change) in wrong.into_iter().enumerate() {
            let mut needs = needs();
            change(&mut needs);
            assert!(TierPlan::for_needs(&needs).is_err(), "{index}");
        }
    }

    #[test]
    fn an_archive_takes_the_log_in_the_store_and_is_paid_for() {
        let mut needs = needs();
        let without = plan(&needs).chosen;
        let mut before = without.dollars.stored;
        for days in [1, 7, 30] {
            needs.goals.archive = Some(Duration::from_secs(days * 24 * 3600));
            let plan = plan(&needs);
            let chosen = &plan.chosen;
            assert_eq!(chosen.archive_ms, Some(days * 24 * 3_600_000));
            assert_eq!(chosen.log_ms, Some(10_000), "nobody waits for it");
            assert!(chosen.dollars.stored > before, "{days}: {:?}", chosen.dollars);
            before = chosen.dollars.stored;
            let why: Vec<&str> = plan.rejected.iter().map(|one| one.why.as_str()).collect();
            assert!(why.iter().any(|why| why.starts_with("keeps no states of")), "{why:?}");
            let text = plan.to_string();
            let option = format!("--cloud-archive {days}d");
            assert!(text.contains("archive") && text.contains(&option), "{text}");
        }
    }

    #[test]
    fn odd_needs_have_plans() {
        let mixes = [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.3, 0.3)];
        let sizes = [(1, 0), (GIB, 1 << 20), (100 * GIB, 10), (1 << 50, 4096)];
        for (index, (reads_share, scans_share)) in mixes.into_iter().enumerate() {
            for (data_bytes, value_bytes) in sizes {
                let skew = index as f64;
                let mut needs = TierNeeds { reads_share, scans_share, skew, ..needs() };
                needs.needs = Needs { data_bytes, value_bytes, ..needs.needs };
                needs.store_bytes_per_s = u64::MAX;
                let plan = plan(&needs);
                let chosen = &plan.chosen;
                assert!((0.0..=1.0).contains(&chosen.hit_share), "{plan}");
                assert!(chosen.read_us_mean.is_finite() && chosen.scan_us_mean.is_finite());
                plan.options("file:///x").validate().expect("options that are valid");
            }
        }
    }

    #[test]
    fn more_of_a_disk_is_provisioned_before_data_move_to_the_store() {
        let mut busy = needs();
        (busy.needs.data_bytes, busy.operations_per_s) = (50 * GIB, 100_000.0);
        busy.store_bytes_per_s = u64::MAX;
        let fast = plan(&busy);
        assert_eq!(fast.chosen.first_far_level, None, "{fast}");
        let iops = fast.chosen.local_iops.expect("more than the sheet has");
        let dollars = &fast.chosen.dollars;
        assert!((dollars.local_iops.to_f64() - (iops - 3000) as f64 * 0.005).abs() < 1e-6);
        assert_eq!(dollars.total, dollars.local + dollars.local_iops);
        let line = format!("{iops} reads a second, 3000 are in the prices");
        assert!(fast.to_string().contains(&line), "{fast}");
    }

    #[test]
    fn a_disk_that_is_too_slow_is_refused() {
        let mut busy = needs();
        (busy.needs.data_bytes, busy.operations_per_s) = (50 * GIB, 100_000.0);
        busy.store_bytes_per_s = u64::MAX;
        // No more operations a second are for sale.
        let mut volume = busy.local_prices.volume.expect("a volume");
        volume.per_iops_month = terrace_engine::cloud::Dollars::ZERO;
        busy.local_prices.volume = Some(volume);
        let slow = plan(&busy);
        let local = slow.rejected.iter().find(|one| one.layout.name.starts_with("all local"));
        let why = &local.expect("it is named").why;
        assert!(why.ends_with("reads a second of the local disk, 3000 are there"), "{why}");
        busy.local_prices = terrace_engine::cloud::PriceSheet::named("ebs-gp2").expect("a sheet");
        assert_eq!(plan(&busy).chosen.first_far_level, None, "a disk without a bound");
    }

    #[test]
    fn a_volume_for_the_log_loses_nothing_without_waiting_for_the_store() {
        let mut needs = needs();
        needs.goals.loss = TierLoss::Nothing;
        needs.goals.write_mean_max = Some(Duration::from_millis(1));
        assert!(TierPlan::for_needs(&needs).is_err(), "the store takes longer");
        needs.log_volume_prices = terrace_engine::cloud::PriceSheet::named("ebs-gp3");
        let with_volume = plan(&needs);
        let chosen = &with_volume.chosen;
        assert_eq!((chosen.loss, chosen.log_ms), (TierLoss::Nothing, None), "{with_volume}");
        assert_eq!(chosen.mirror_ms, Some(60_000));
        // At this rate a minute of writes is less than the log takes at most.
        let bytes = chosen.log_volume_bytes.expect("a volume");
        assert_eq!(bytes, 2 * GIB, "{with_volume}");
        assert!(chosen.dollars.log_volume > terrace_engine::cloud::Dollars::ZERO);
        assert!(with_volume.to_string().contains("--log-volume DIR"), "{with_volume}");
        needs.operations_per_s = 200_000.0;
        needs.store_bytes_per_s = u64::MAX;
        let bytes = plan(&needs).chosen.log_volume_bytes.expect("a volume");
        assert!(bytes.abs_diff(200_000 / 4 * 60 * 1024) < 1024, "a minute of writes: {bytes}");
    }
}
