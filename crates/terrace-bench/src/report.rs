use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::cloud::{CloudReport, CloudRequests};
use crate::options::BenchOptions;
use crate::run::{SLOT, new_histogram};
use crate::store::{Counters, Delays};
use crate::workload::{Kind, Workload};

/// What was seen of a phase, by one thread or by all.
#[derive(Default)]
pub(crate) struct Measured {
    /// One histogram for each kind that occurred, in the order of [`Kind::ALL`].
    kinds: [Option<Histogram<u64>>; Kind::ALL.len()],
    /// Operations that ended in each slot of time.
    slots: Vec<u64>,
    pub(crate) reads_not_found: u64,
    /// How often transactions were begun anew.
    pub(crate) conflicts: u64,
    pub(crate) records_scanned: u64,
    /// From the start of the phase until the last thread's last operation.
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    /// The store's counters before and after.
    pub(crate) counters: Option<(Counters, Counters)>,
    pub(crate) memory_peak_bytes: Option<u64>,
    /// The processor time of the threads that operated.
    pub(crate) thread_cpu: Duration,
    /// The time that operations took, all together.
    pub(crate) in_calls: Duration,
    /// The store's own account of delays.
    pub(crate) delays: Option<Delays>,
    /// What was asked of an object store.
    pub(crate) cloud: Option<CloudRequests>,
    /// Anonymous memory and the store's account of it, where they were furthest apart.
    pub(crate) memory: Option<(u64, u64)>,
}

impl Measured {
    /// Notes one operation: how long it took, and when it ended after the start of the phase.
    pub(crate) fn note(&mut self, kind: Kind, latency: Duration, ended: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.kinds[kind as usize].get_or_insert_with(new_histogram).saturating_record(nanos);
        let slot = usize::try_from(ended.as_nanos() / SLOT.as_nanos()).unwrap_or(usize::MAX);
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, 0);
        }
        self.slots[slot] += 1;
        self.in_calls += latency;
    }

    /// Adds what another thread saw.
    pub(crate) fn add(&mut self, other: &Measured) {
        for (own, other) in self.kinds.iter_mut().zip(&other.kinds) {
            if let Some(other) = other {
                let own = own.get_or_insert_with(new_histogram);
                own.add(other).expect("the histograms have the same bounds");
            }
        }
        self.slots.resize(self.slots.len().max(other.slots.len()), 0);
        self.slots.iter_mut().zip(&other.slots).for_each(|(own, other)| *own += other);
        self.reads_not_found += other.reads_not_found;
        self.conflicts += other.conflicts;
        self.records_scanned += other.records_scanned;
        self.thread_cpu += other.thread_cpu;
        self.in_calls += other.in_calls;
        // They ran beside each other.
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// How long writers were delayed, as they saw it: the time of their calls without the
    /// processor's. Known if all operations write, one after the other.
    fn seen_delay(&self, options: &BenchOptions) -> Option<Duration> {
        let writes = [Kind::Insert, Kind::Update];
        let kinds = Kind::ALL.into_iter().zip(&self.kinds);
        let only_writes =
            kinds.filter(|(_, seen)| seen.is_some()).all(|(kind, _)| writes.contains(&kind));
        let known = only_writes && options.rate.is_none() && self.operations() > 0;
        known.then(|| self.in_calls.saturating_sub(self.thread_cpu))
    }

    fn operations(&self) -> u64 {
        self.kinds.iter().flatten().map(Histogram::len).sum()
    }

    fn ops_per_s(&self) -> f64 {
        ratio(self.operations() as f64, self.elapsed.as_secs_f64())
    }

    fn all_kinds(&self) -> Histogram<u64> {
        let mut all = new_histogram();
        for histogram in self.kinds.iter().flatten() {
            all.add(histogram).expect("the histograms have the same bounds");
        }
        all
    }
}

fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}

/// Number of points at which a latency curve is sampled for each nine.
const POINTS_PER_NINE: u32 = 10;

/// Latencies at quantiles that come closer to 1 in even steps of the number of nines.
fn curve_of(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let nines = (histogram.len().max(1) as f64).log10();
    let steps = (nines * f64::from(POINTS_PER_NINE)) as u32;
    let quantiles =
        (0..=steps).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(POINTS_PER_NINE)));
    quantiles.map(|at| (at, histogram.value_at_quantile(at) as f64 / 1000.0)).collect()
}

/// How long operations took, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Latencies {
    mean_us: f64,
    p50_us: f64,
    p90_us: f64,
    p95_us: f64,
    p99_us: f64,
    p99_9_us: f64,
    p99_99_us: f64,
    max_us: f64,
}

impl Latencies {
    fn new(histogram: &Histogram<u64>) -> Latencies {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Latencies {
            mean_us: histogram.mean() / 1000.0,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: histogram.max() as f64 / 1000.0,
        }
    }

    fn fields(&self) -> [(&'static str, f64); 8] {
        [
            ("mean_us", self.mean_us),
            ("p50_us", self.p50_us),
            ("p90_us", self.p90_us),
            ("p95_us", self.p95_us),
            ("p99_us", self.p99_us),
            ("p99_9_us", self.p99_9_us),
            ("p99_99_us", self.p99_99_us),
            ("max_us", self.max_us),
        ]
    }
}

/// The operations of one kind.
#[derive(Clone, Copy, Debug)]
pub struct KindReport {
    /// Which.
    pub kind: Kind,
    /// How many.
    pub operations: u64,
    latencies: Latencies,
}

/// What a run came to. As JSON it is one flat object whose field names carry their units;
/// `throughput_ops_per_100ms` is an array.
#[derive(Clone, Debug)]
pub struct Report {
    workload: Workload,
    options: BenchOptions,
    /// How many operations ended.
    pub operations: u64,
    /// How many operations ended in a second.
    pub ops_per_s: f64,
    /// The same of loading the records, if that came first.
    pub load_ops_per_s: Option<f64>,
    /// Reads of records that were not there.
    pub reads_not_found: u64,
    /// How often transactions were begun anew because of a conflict.
    pub conflicts: u64,
    /// The records that scans returned.
    pub records_scanned: u64,
    /// Each kind that occurred.
    pub kinds: Vec<KindReport>,
    latencies: Latencies,
    elapsed: Duration,
    cpu_us_per_op: f64,
    user_bytes: Option<u64>,
    written_bytes: Option<u64>,
    memory_peak_bytes: Option<u64>,
    seen_delay: Option<Duration>,
    delays: Option<Delays>,
    cloud: Option<CloudReport>,
    memory: Option<(u64, u64)>,
    slots: Vec<u64>,
    curve: Vec<(f64, f64)>,
}

impl Report {
    pub(crate) fn new(
        options: &BenchOptions,
        workload: Workload,
        load: Option<&Measured>,
        measured: &Measured,
    ) -> Report {
        let operations = measured.operations();
        let kinds = Kind::ALL.into_iter().zip(&measured.kinds).filter_map(|(kind, histogram)| {
            let histogram = histogram.as_ref()?;
            let latencies = Latencies::new(histogram);
            Some(KindReport { kind, operations: histogram.len(), latencies })
        });
        let difference = |of: fn(&Counters) -> u64| {
            measured.counters.map(|(before, after)| of(&after).saturating_sub(of(&before)))
        };
        Report {
            workload,
            options: options.clone(),
            operations,
            ops_per_s: measured.ops_per_s(),
            load_ops_per_s: load.map(Measured::ops_per_s),
            reads_not_found: measured.reads_not_found,
            conflicts: measured.conflicts,
            records_scanned: measured.records_scanned,
            kinds: kinds.collect(),
            latencies: Latencies::new(&measured.all_kinds()),
            elapsed: measured.elapsed,
            cpu_us_per_op: ratio(measured.cpu.as_secs_f64() * 1e6, operations as f64),
            user_bytes: difference(|counters| counters.user_bytes),
            written_bytes: difference(|counters| counters.written_bytes),
            memory_peak_bytes: measured.memory_peak_bytes,
            seen_delay: measured.seen_delay(options),
            delays: measured.delays.clone(),
            cloud: measured.cloud.as_ref().map(|asked| CloudReport::new(asked, operations)),
            memory: measured.memory,
            slots: measured.slots.clone(),
            curve: curve_of(&measured.all_kinds()),
        }
    }

    /// Operations that ended in each 100 ms of the run.
    #[must_use]
    pub fn throughput_per_100ms(&self) -> &[u64] {
        &self.slots
    }

    /// Latencies in microseconds at quantiles from 0 up to, not including, 1, both rising.
    #[must_use]
    pub fn latency_curve(&self) -> &[(f64, f64)] {
        &self.curve
    }

    /// Bytes written to files for each byte that was put; `None` if nothing was put or the store
    /// does not tell.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let user_bytes = self.user_bytes.filter(|&bytes| bytes > 0)?;
        Some(self.written_bytes? as f64 / user_bytes as f64)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = &self.options;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.workload.name)?;
        map.serialize_entry("version", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("distribution", self.workload.distribution.name())?;
        for (name, number) in [
            ("records", options.records),
            ("operations", self.operations),
            ("threads", options.threads),
            ("key_bytes", options.key_bytes as u64),
            ("value_bytes", options.value_bytes as u64),
            ("seed", options.seed),
        ] {
            map.serialize_entry(name, &number)?;
        }
        map.serialize_entry("rate_ops_per_s", &options.rate)?;
        map.serialize_entry("elapsed_s", &self.elapsed.as_secs_f64())?;
        map.serialize_entry("ops_per_s", &self.ops_per_s)?;
        map.serialize_entry("load_ops_per_s", &self.load_ops_per_s)?;
        for (name, number) in self.latencies.fields() {
            map.serialize_entry(name, &number)?;
        }
        for part in &self.kinds {
            let kind = part.kind.name();
            map.serialize_entry(&format!("{kind}_operations"), &part.operations)?;
            for (name, number) in part.latencies.fields() {
                map.serialize_entry(&format!("{kind}_{name}"), &number)?;
            }
        }
        map.serialize_entry("reads_not_found", &self.reads_not_found)?;
        map.serialize_entry("conflicts", &self.conflicts)?;
        map.serialize_entry("records_scanned", &self.records_scanned)?;
        map.serialize_entry("user_bytes", &self.user_bytes)?;
        map.serialize_entry("written_bytes", &self.written_bytes)?;
        map.serialize_entry("write_amplification", &self.write_amplification())?;
        map.serialize_entry("cpu_us_per_op", &self.cpu_us_per_op)?;
        map.serialize_entry("memory_peak_bytes", &self.memory_peak_bytes)?;
        map.serialize_entry("delay_seen_us", &self.seen_delay.map(|seen| seen.as_micros() as u64))?;
        map.serialize_entry("delay_us", &self.delays.as_ref().map(Delays::total_us))?;
        for (cause, delayed_us) in self.delays.iter().flat_map(|delays| &delays.by_cause) {
            map.serialize_entry(&format!("delay_{cause}_us"), delayed_us)?;
        }
        self.cloud.iter().try_for_each(|cloud| cloud.put(&mut map))?;
        map.serialize_entry(
            "memory_anonymous_bytes",
            &self.memory.map(|(anonymous, _)| anonymous),
        )?;
        map.serialize_entry("memory_pools_bytes", &self.memory.map(|(_, pools)| pools))?;
        map.serialize_entry("throughput_ops_per_100ms", &self.slots)?;
        map.end()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(f, "{}: {}", self.workload.name, self.workload.meaning)?;
        writeln!(
            f,
            "  {} records of {} + {} bytes, {}, {} threads, seed {}",
            options.records,
            options.key_bytes,
            options.value_bytes,
            self.workload.distribution,
            options.threads,
            options.seed,
        )?;
        if let Some(ops_per_s) = self.load_ops_per_s {
            writeln!(f, "  loaded first        {ops_per_s:>14.0} ops/s")?;
        }
        writeln!(
            f,
            "  throughput          {:>14.0} ops/s   ({} in {:.2} s)",
            self.ops_per_s,
            self.operations,
            self.elapsed.as_secs_f64(),
        )?;
        self.write_slots(f)?;
        writeln!(f, "  CPU                 {:>14.2} us per operation", self.cpu_us_per_op)?;
        if let Some(bytes) = self.memory_peak_bytes {
            writeln!(f, "  memory, peak        {:>14.1} MiB", mib(bytes))?;
        }
        if let Some((anonymous, pools)) = self.memory {
            writeln!(
                f,
                "  memory, anonymous   {:>14.1} MiB, where it was furthest from the pools' {:.1} MiB",
                mib(anonymous),
                mib(pools)
            )?;
        }
        self.write_delays(f)?;
        if let (Some(user), Some(written)) = (self.user_bytes, self.written_bytes) {
            write!(
                f,
                "  written             {:>14.1} MiB for {:.1} MiB put",
                mib(written),
                mib(user)
            )?;
            match self.write_amplification() {
                Some(amplification) => writeln!(f, " ({amplification:.2} times)")?,
                None => writeln!(f)?,
            }
        }
        self.cloud.iter().try_for_each(|cloud| write!(f, "{cloud}"))?;
        if self.reads_not_found > 0 {
            writeln!(f, "  reads not found     {:>14}", self.reads_not_found)?;
        }
        if self.conflicts > 0 {
            writeln!(f, "  conflicts           {:>14}", self.conflicts)?;
        }
        write!(f, "  latency, us     {:>9}", "count")?;
        for (name, _) in self.latencies.fields() {
            let name = name.trim_end_matches("_us").replace('_', ".");
            write!(f, " {name:>9}")?;
        }
        for part in &self.kinds {
            write_latencies(f, part.kind.name(), part.operations, &part.latencies)?;
        }
        if self.kinds.len() > 1 {
            write_latencies(f, "all", self.operations, &self.latencies)?;
        }
        Ok(())
    }
}

impl Report {
    /// What writers saw beside what the store says of it.
    fn write_delays(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(delays) = &self.delays else { return Ok(()) };
        let ms = |us: u64| us as f64 / 1000.0;
        write!(f, "  delays, ledger      {:>14.1} ms", ms(delays.total_us()))?;
        if let Some(seen) = self.seen_delay {
            let seen_ms = seen.as_secs_f64() * 1000.0;
            write!(f, "      (of {seen_ms:.1} ms without the processor in calls)")?;
        }
        writeln!(f)?;
        let most = delays.by_cause.iter().filter(|(_, us)| *us > 0);
        for (cause, us) in most {
            writeln!(f, "    {cause:<17} {:>14.1} ms", ms(*us))?;
        }
        Ok(())
    }

    fn write_slots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last slot is cut off by the end of the run.
        let whole = &self.slots[..self.slots.len().saturating_sub(1)];
        if let (Some(least), Some(most)) = (whole.iter().min(), whole.iter().max()) {
            let idle = whole.iter().filter(|&&count| count == 0).count();
            writeln!(f, "  in 100 ms, least    {least:>14} ops     (most {most}, none in {idle})")?;
        }
        Ok(())
    }
}

fn write_latencies(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    operations: u64,
    latencies: &Latencies,
) -> fmt::Result {
    write!(f, "\n  {name:<15} {operations:>9}")?;
    latencies.fields().iter().try_for_each(|(_, number)| write!(f, " {number:>9.1}"))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::find;

    fn report() -> Report {
        let mut measured = Measured::default();
        for ms in 1..=1000 {
            let kind = if ms % 2 == 0 { Kind::Read } else { Kind::Update };
            measured.note(kind, Duration::from_micros(ms), Duration::from_millis(ms));
        }
        measured.elapsed = Duration::from_secs(1);
        measured.cpu = Duration::from_millis(500);
        let before = Counters { user_bytes: 10, written_bytes: 20 };
        measured.counters = Some((before, Counters { user_bytes: 110, written_bytes: 320 }));
        let by_cause = vec![("cpu", 0), ("l0", 2500), ("sync", 1500)];
        measured.delays = Some(Delays { by_cause });
        measured.memory = Some((5 << 20, 4 << 20));
        let options = BenchOptions { workload: "a".into(), ..BenchOptions::default() };
        Report::new(&options, *find("a").unwrap(), None, &measured)
    }

    #[test]
    fn money_is_told_for_a_million_operations() {
        let mut measured = Measured::default();
        for ms in 1..=500 {
            measured.note(Kind::Read, Duration::from_micros(ms), Duration::from_millis(ms));
        }
        let options = BenchOptions { workload: "c".into(), ..BenchOptions::default() };
        let report =
            |measured: &Measured| Report::new(&options, *find("c").unwrap(), None, measured);
        let none = report(&measured);
        assert!(!none.to_string().contains("object store"), "{none}");
        assert!(serde_json::to_value(&none).unwrap()["cloud_requests"].is_null());
        let counts = |gets| terrace::RequestCounts {
            get: terrace::RequestCount { requests: gets, failures: gets / 2, bytes: 0 },
            ..Default::default()
        };
        let prices = terrace::PriceSheet::named("s3").unwrap();
        let asked = |gets| CloudRequests { counts: counts(gets), prices: prices.clone() };
        measured.cloud = Some(asked(1100).since(&asked(100)));
        let priced = report(&measured);
        let (text, json) = (priced.to_string(), serde_json::to_value(&priced).unwrap());
        let first = "  object store        1000 requests: 1000 get (500 failed); $0.0004 (estimate, \
                     prices s3 of 2025-06)\n";
        let second = "    per million ops          2000000 requests, $0.80 (estimate)\n";
        assert!(text.contains(&format!("{first}{second}")), "{text}");
        assert_eq!(
            (&json["cloud_requests"], &json["cloud_get_requests"]),
            (&1000.into(), &1000.into())
        );
        assert_eq!(json["cloud_requests_per_million_ops"], 2e6);
        assert_eq!(json["cloud_estimated_dollars_per_million_ops"], 0.8);
        assert_eq!(
            (&json["cloud_estimated_dollars"], &json["cloud_prices"]),
            (&4e-4.into(), &"s3".into())
        );
        let prices = terrace::PriceSheet::named("none").unwrap();
        measured.cloud = Some(CloudRequests { counts: counts(1), prices });
        let free = report(&measured);
        assert!(free.to_string().contains("1 get") && !free.to_string().contains('$'), "{free}");
        assert!(serde_json::to_value(&free).unwrap()["cloud_estimated_dollars"].is_null());
    }

    #[test]
    fn json_is_flat_with_units() {
        let json = serde_json::to_value(report()).unwrap();
        let close = |name: &str, expected: f64| {
            let found = json[name].as_f64().unwrap();
            assert!((found / expected - 1.0).abs() < 0.01, "{name}: {found}");
        };
        assert_eq!(json["name"], "a");
        assert_eq!(json["operations"], 1000);
        close("ops_per_s", 1000.0);
        close("p50_us", 500.0);
        close("p99_us", 990.0);
        close("p99_9_us", 999.0);
        close("max_us", 1000.0);
        close("read_p90_us", 900.0);
        close("p95_us", 950.0);
        close("update_max_us", 999.0);
        close("cpu_us_per_op", 500.0);
        close("write_amplification", 3.0);
        assert_eq!((&json["delay_us"], &json["delay_l0_us"]), (&4000.into(), &2500.into()));
        assert!(json["delay_seen_us"].is_null(), "some operations read");
        assert_eq!(json["memory_pools_bytes"], 4 << 20);
        assert_eq!(json["throughput_ops_per_100ms"].as_array().unwrap().len(), 11);
        let flat = json.as_object().unwrap().iter().all(|(name, value)| {
            name == "throughput_ops_per_100ms" || !(value.is_object() || value.is_array())
        });
        assert!(flat);
    }

    #[test]
    fn people_get_a_table() {
        let text = report().to_string();
        for part in
            ["1000 ops/s", "3.00 times", "p99.99", "update", "all", "least", "ledger", "l0   "]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn what_writers_saw_is_the_time_that_they_did_not_work() {
        let mut measured = Measured::default();
        measured.note(Kind::Insert, Duration::from_millis(30), Duration::from_millis(30));
        measured.note(Kind::Update, Duration::from_millis(12), Duration::from_millis(42));
        measured.thread_cpu = Duration::from_millis(2);
        let closed = BenchOptions::default();
        assert_eq!(measured.seen_delay(&closed), Some(Duration::from_millis(40)));
        assert_eq!(measured.seen_delay(&BenchOptions { rate: Some(1.0), ..closed }), None);
        let earlier = Delays { by_cause: vec![("l0", 5)] };
        let later = Delays { by_cause: vec![("l0", 7), ("sync", 3)] };
        assert_eq!(later.since(&earlier).by_cause, [("l0", 2), ("sync", 3)]);
    }

    #[test]
    fn parts_of_threads_add_up() {
        let mut all = Measured::default();
        for thread in 1..=3 {
            let elapsed = Duration::from_millis(150 * thread);
            let mut part = Measured { reads_not_found: thread, elapsed, ..Measured::default() };
            part.note(Kind::Read, Duration::from_micros(thread), elapsed);
            all.add(&part);
        }
        assert_eq!(all.operations(), 3);
        assert_eq!(all.reads_not_found, 6);
        assert_eq!(all.elapsed, Duration::from_millis(450), "the last to end");
        assert_eq!(all.slots, [0, 1, 0, 1, 1]);
    }
}
