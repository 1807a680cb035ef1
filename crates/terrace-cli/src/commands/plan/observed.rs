//! A plan for a database that is there: what it does and has is read of it, and what is said counts
//! before that.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use terrace::{Needs, ObservedTier, Options, PriceSheet, TierLoss, TierPlan, TierReading};

use super::reading::{local_bytes_max, prices, reading};
use super::{VALUE_BYTES, print_as, wrong};
use crate::args::{PlanArgs, Sample};
use crate::clock::{self, Stopwatch};
use crate::commands::Target;
use crate::commands::stats::read;
use crate::data::{Access, Data};
use crate::failure::{Failure, Outcome};
use crate::files;

/// How long a server is looked at where nobody says it.
const SAMPLE: Duration = Duration::from_secs(10);

pub(super) fn plan(args: &PlanArgs, from: &str, target: &Target) -> Outcome {
    let is_address = is_address(from) && !files::is_directory(Path::new(from));
    let place = target.args.at(from, is_address);
    let target = Target { args: place, around: target.around.clone() };
    let mut data = target.open(Access::Read, &Options::default())?;
    let seen = see(&mut *data, args.tiers.sample.unwrap_or(Sample::Time(SAMPLE)));
    let closed = data.close();
    let seen = seen?;
    closed?;
    let mut sources = Sources::new(from, &seen);
    let needs = needs(args, &seen, &mut sources)?;
    let plan = TierPlan::for_needs(&needs).map_err(wrong)?;
    print_as(args.output, &Sourced { sources, plan })
}

/// What was seen of a database.
struct Seen {
    tier: ObservedTier,
    is_server: bool,
    /// For how long its counters were looked at; `None` if it has none.
    time: Option<Duration>,
    /// Of a server alone: another process has other options.
    memory_bytes: Option<u64>,
    local_bytes_max: Option<u64>,
    prices: Option<PriceSheet>,
}

/// Looks at a database, for a while if it is one that runs by itself.
fn see(data: &mut dyn Data, sample: Sample) -> Outcome<Seen> {
    let is_server = data.is_server();
    let figures = read(&data.stats()?)?;
    let first = reading(&figures);
    let (tier, time) = match (is_server, sample) {
        (false, _) => (ObservedTier::of(&first), None),
        (true, Sample::Start) => {
            let time = data.uptime()?.unwrap_or_default().max(Duration::from_secs(1));
            (ObservedTier::between(&TierReading::default(), &first, time), Some(time))
        }
        (true, Sample::Time(pause)) => {
            let watch = Stopwatch::start();
            clock::sleep(pause);
            let now = reading(&read(&data.stats()?)?);
            (ObservedTier::between(&first, &now, watch.elapsed()), Some(pause))
        }
    };
    Ok(Seen {
        tier,
        is_server,
        time,
        memory_bytes: Some(figures.number("/memory/limit_bytes")).filter(|_| is_server),
        local_bytes_max: local_bytes_max(&figures),
        prices: prices(&figures),
    })
}

/// What to plan for: what was said, else what was read.
///
/// Errors: neither says what is needed.
fn needs(args: &PlanArgs, seen: &Seen, sources: &mut Sources) -> Outcome<terrace::TierNeeds> {
    let (said, tier) = (&args.tiers, &seen.tier);
    let data_bytes = sources.choose("data-bytes", args.data_bytes, tier.data_bytes);
    let memory_bytes = sources.choose("memory-bytes", args.memory_bytes, seen.memory_bytes);
    let value_bytes = sources.choose("value-bytes", args.value_bytes, tier.value_bytes);
    let rate = sources.choose("rate", said.rate, tier.operations_per_s);
    let percent = |share: f64| share * 100.0;
    let reads = sources.choose("reads", said.reads, tier.reads_share.map(percent));
    let scans = sources.choose("scans", said.scans, tier.scans_share.map(percent));
    let scan_length = sources.choose("scan-length", said.scan_length, tier.scan_records);
    let local = sources.choose("local-bytes-max", said.local_bytes_max, seen.local_bytes_max);
    let cloud_prices = said.cloud_prices.clone();
    let read_prices = seen.prices.clone().map(Box::new);
    let cloud_prices = sources.choose("cloud-prices", cloud_prices, read_prices);
    let missing = [
        ("--data-bytes BYTES", data_bytes.is_none()),
        ("--memory-bytes BYTES", memory_bytes.is_none()),
        ("--rate N", rate.is_none()),
        ("--reads PERCENT", reads.is_none()),
        ("--local-bytes-max BYTES", local.is_none()),
    ];
    let missing: Vec<&str> =
        missing.into_iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect();
    if !missing.is_empty() {
        return Err(Failure::Usage(sources.lacks(&missing, rate.is_none() || reads.is_none())));
    }
    let needs = Needs {
        data_bytes: data_bytes.unwrap_or_default(),
        memory_bytes: memory_bytes.unwrap_or_default(),
        pmem_bytes: 0,
        value_bytes: value_bytes.unwrap_or(VALUE_BYTES),
    };
    let mut merged = said.clone();
    (merged.rate, merged.reads, merged.scans) = (rate, reads, scans);
    (merged.scan_length, merged.local_bytes_max) = (scan_length, local);
    merged.cloud_prices = cloud_prices;
    let mut tiers = merged.needs(needs).ok_or_else(|| Failure::Usage("--rate is needed".into()))?;
    tiers.present = tier.present.clone();
    if let Some(present) = &mut tiers.present {
        // Whoever may lose nothing has writes wait.
        present.is_durable = tiers.goals.loss == TierLoss::Nothing;
    }
    Ok(tiers)
}

/// Whether a word is an address such as `127.0.0.1:7379`.
fn is_address(word: &str) -> bool {
    let port = word.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// Which of a plan's needs came from where, by the names of the options.
#[derive(Serialize)]
struct Sources {
    /// Where the database is.
    of: String,
    is_server: bool,
    /// For how many seconds its counters were looked at.
    sampled_s: Option<f64>,
    read: Vec<&'static str>,
    given: Vec<&'static str>,
    by_default: Vec<&'static str>,
    #[serde(skip)]
    has_store: bool,
}

impl Sources {
    fn new(from: &str, seen: &Seen) -> Sources {
        Sources {
            of: from.to_owned(),
            is_server: seen.is_server,
            sampled_s: seen.time.map(|time| time.as_secs_f64()),
            read: Vec::new(),
            given: Vec::new(),
            by_default: Vec::new(),
            has_store: seen.tier.present.is_some(),
        }
    }

    fn choose<T>(&mut self, name: &'static str, given: Option<T>, read: Option<T>) -> Option<T> {
        let (names, chosen) = match (given, read) {
            (Some(given), _) => (&mut self.given, Some(given)),
            (None, Some(read)) => (&mut self.read, Some(read)),
            (None, None) => (&mut self.by_default, None),
        };
        names.push(name);
        chosen
    }

    /// What to say of options that nothing stands for.
    fn lacks(&self, missing: &[&str], lacks_counters: bool) -> String {
        let (of, missing) = (&self.of, missing.join(", "));
        match (self.is_server, lacks_counters, self.sampled_s) {
            (false, true, _) => format!(
                "{of} is a directory, which has no counters of what is asked of it: say {missing}, \
                 or the address of the server that has it open (--from ADDR)"
            ),
            (true, true, Some(seconds)) => format!(
                "nothing was asked of {of} within {seconds} s: say {missing}, or look longer \
                 (--for TIME, or --for start)"
            ),
            _ => format!("{of} does not say everything that is needed: say {missing}"),
        }
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read of {}", self.of)?;
        if let Some(seconds) = self.sampled_s {
            write!(f, " within {seconds} s")?;
        }
        writeln!(f, ": {}", self.read.join(", "))?;
        let others = [("given", &self.given), ("by default", &self.by_default)];
        for (of, names) in others.into_iter().filter(|(_, names)| !names.is_empty()) {
            writeln!(f, "{of}: {}", names.join(", "))?;
        }
        if self.has_store && !self.is_server {
            writeln!(f, "not known: whether the store mirrors it, which a directory does not say")?;
        }
        Ok(())
    }
}

/// A plan with what it is for, and where that came from.
#[derive(Serialize)]
struct Sourced {
    sources: Sources,
    #[serde(flatten)]
    plan: TierPlan,
}

impl fmt::Display for Sourced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sources, self.plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_directories() {
        for address in ["127.0.0.1:7379", "localhost:1", "[::1]:7379"] {
            assert!(is_address(address), "{address}");
        }
        for other in ["db", "/data/db", "./a:1", ":7379", "host:", "host:99999", "s3://bucket/db"] {
            assert!(!is_address(other), "{other}");
        }
    }
}
