//! The figures of a database for monitoring, in the text that Prometheus collects.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use terrace_engine::cloud::RequestKind;
use terrace_engine::explain::{OperationKind, SAMPLE_EVERY};
use terrace_engine::store::{LatencyHistogram, Store};

use crate::keyspace::FIGURES as KEYSPACE_FIGURES;
use crate::{CloudStats, KeyspaceStats, Stats};

/// How many keyspaces have lines of their own. Collectors keep a series for each line.
const KEYSPACES_MAX: usize = 100;

/// The label of all others together, and of a keyspace that happens to have this name.
const OTHERS: &str = "(others)";

/// The figures of a database at one moment; made by [`Admin::metrics`](crate::Admin::metrics).
/// `Display` writes them in the text format of Prometheus, version 0.0.4.
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path())?;
/// db.put("key", "value")?;
/// let text = db.admin().metrics().to_string();
/// assert!(text.contains("terrace_written_entries_total 1\n"));
/// # Ok(())
/// # }
/// ```
///
/// What a keyspace was asked is labelled with its name. The first 100 keyspaces that were opened
/// since the database was have lines of their own: which ones does not change while they are there,
/// so their counts only grow. All others together are labelled `(others)`.
///
/// What a server does with it is its own affair: this crate listens nowhere.
#[derive(Clone, Debug)]
pub struct Metrics {
    stats: Stats,
    latencies: [(OperationKind, LatencyHistogram); 3],
    /// By label.
    keyspaces: Vec<(String, KeyspaceStats)>,
}

impl Metrics {
    /// `keyspaces`: the first ones stay the first.
    pub(crate) fn of(store: &Store, keyspaces: Vec<(String, KeyspaceStats)>) -> Metrics {
        let kinds = [OperationKind::Get, OperationKind::Scan, OperationKind::Write];
        Metrics {
            stats: Stats::new(store.stats()),
            latencies: kinds.map(|kind| (kind, store.latencies(kind))),
            keyspaces: labelled(keyspaces, KEYSPACES_MAX),
        }
    }

    /// The figures that are no latencies.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How long operations of this kind took: of those that were timed, about one in
    /// [`SAMPLE_EVERY`].
    #[must_use]
    pub fn latency(&self, kind: OperationKind) -> &LatencyHistogram {
        let (_, latency) = self.latencies.iter().find(|(one, _)| *one == kind).expect("all kinds");
        latency
    }
}

/// One figure: its name, what it says, whether it only ever grows, and where it is.
struct Figure {
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    value: fn(&Stats) -> u64,
}

const fn counter(name: &'static str, help: &'static str, value: fn(&Stats) -> u64) -> Figure {
    Figure { name, help, is_counter: true, value }
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&Stats) -> u64) -> Figure {
    Figure { name, help, is_counter: false, value }
}

/// The figures that are single numbers. A test sees to it that none of the database's is left out.
const FIGURES: &[Figure] = &[
    counter("written_entries", "Entries written.", |stats| stats.write_count),
    counter("written_bytes", "Bytes of keys and values written.", |stats| stats.write_bytes),
    counter("gets", "Keys read one by one.", |stats| stats.get_count),
    counter("scans", "Iterators that ended.", |stats| stats.scan_count),
    counter("scanned_keys", "Keys that iterators showed.", |stats| stats.scanned_count),
    counter("scanned_dead_keys", "Dead keys that iterators stepped over.", |stats| {
        stats.scan_hidden_count
    }),
    counter("sampled_gets", "Gets that were recorded step by step.", |stats| {
        stats.reads.sampled_get_count
    }),
    counter("sampled_get_filters", "Filters that these asked.", |stats| {
        stats.reads.sampled_gets.filters
    }),
    counter("sampled_get_values", "Values that these fetched from value files.", |stats| {
        stats.reads.sampled_gets.values
    }),
    counter("sampled_scans", "Scans that were timed.", |stats| stats.reads.sampled_scan_count),
    counter(
        "sampled_scan_sources",
        "Memtables, sources in L0 and levels that these merged.",
        |stats| stats.reads.sampled_scan_sources,
    ),
    counter("log_bytes", "Bytes appended to the log.", |stats| stats.log_write_bytes),
    counter("log_syncs", "Syncs of the log.", |stats| stats.log_sync_count),
    counter("flushes", "Flushes and ingests.", |stats| stats.flush_count),
    counter("flush_bytes", "Bytes written by flushes and ingests.", |stats| stats.flush_bytes),
    counter("flush_medium_bytes", "Bytes of these that went to the medium of L0.", |stats| {
        stats.l0_medium_bytes
    }),
    counter("compactions", "Compactions that merged tables.", |stats| stats.compaction_count),
    counter("cuts", "Compactions of these that took a cut out of L0.", |stats| stats.cut_count),
    counter("moves", "Compactions that only moved a table down.", |stats| stats.move_count),
    counter("compaction_read_bytes", "Bytes read by compactions.", |stats| {
        stats.compaction_read_bytes
    }),
    counter("compaction_written_bytes", "Bytes written by compactions.", |stats| {
        stats.compaction_write_bytes
    }),
    counter("dropped_entries", "Entries that compactions dropped.", |stats| {
        stats.dropped_entry_count
    }),
    counter("filtered_dropped", "Values that compaction filters dropped.", |stats| {
        stats.filtered_dropped_count
    }),
    counter("filtered_changed", "Values that compaction filters changed.", |stats| {
        stats.filtered_changed_count
    }),
    counter(
        "filters_set_aside",
        "Compactions done again without filter, for snapshots or since it failed.",
        |stats| stats.filter_set_aside_count,
    ),
    counter("merged_memtables", "Memtables that were merged in memory.", |stats| {
        stats.memtable_merge_count
    }),
    counter("merged_away_entries", "Dead versions that these merges dropped.", |stats| {
        stats.merged_away_count
    }),
    counter("unflushed_bytes", "Bytes that these merges kept from being flushed.", |stats| {
        stats.unflushed_bytes
    }),
    counter("cache_hits", "Look-ups that found their block cached.", |stats| stats.cache_hit_count),
    counter("cache_misses", "Look-ups that did not find their block cached.", |stats| {
        stats.cache_miss_count
    }),
    counter("delayed_writes", "Writes that were delayed.", |stats| stats.stalls.stall_count),
    gauge("log_live_bytes", "Bytes of the log that a start would read.", |stats| {
        stats.log_live_bytes
    }),
    gauge("memtable_bytes", "Bytes of memtables.", |stats| stats.memtable_bytes),
    gauge("frozen_memtables", "Memtables that wait to be flushed.", |stats| {
        stats.frozen_memtable_count
    }),
    gauge("kept_memtables", "Merged memtables that are kept in memory.", |stats| {
        stats.merged_memtable_count
    }),
    gauge("kept_memtable_bytes", "Bytes of merged memtables.", |stats| stats.merged_memtable_bytes),
    counter("value_file_bytes_written", "Bytes of value files that took new values.", |stats| {
        stats.value_log.written_bytes
    }),
    counter(
        "value_file_bytes_rewritten",
        "Bytes of value files that were written anew.",
        |stats| stats.value_log.rewritten_bytes,
    ),
    counter("values_asked_ahead", "Values that scans asked for ahead.", |stats| {
        stats.value_log.asked_ahead
    }),
    gauge("value_files", "Value files.", |stats| stats.value_log.file_count),
    gauge("value_file_bytes", "Bytes of value files.", |stats| stats.value_log.bytes),
    gauge("value_live_bytes", "Bytes of values in them that tables name.", |stats| {
        stats.value_log.live_bytes
    }),
    gauge(
        "value_hidden_bytes",
        "Bytes of values that tables name and newer entries may hide, at most.",
        |stats| stats.value_log.hidden_bytes_max,
    ),
    gauge("rows", "Rows of L0.", |stats| stats.l0_row_count),
    gauge("consumed_intervals", "Key intervals in which rows of L0 are cut.", |stats| {
        stats.l0_consumed_count
    }),
    gauge("table_memory_bytes", "Bytes of filters and indexes of tables.", |stats| {
        stats.table_memory_bytes
    }),
    gauge("cache_bytes", "Bytes in the block cache.", |stats| stats.cache_bytes),
    gauge("cache_limit_bytes", "Bytes that the block cache may hold.", |stats| {
        stats.cache_limit_bytes
    }),
    gauge("background_threads", "Threads that compact.", |stats| stats.background_thread_count),
    gauge("memory_bytes", "Bytes of memory in use.", |stats| stats.memory.used_bytes),
    gauge("memory_limit_bytes", "Bytes of memory that may be used.", |stats| {
        stats.memory.limit_bytes
    }),
    gauge("snapshots", "Moments that snapshots hold.", |stats| stats.snapshots.snapshot_count),
    gauge("open_iterators", "Iterators that are open.", |stats| stats.snapshots.iterator_count),
    gauge("oldest_snapshot_entries", "Entries written since the oldest snapshot.", |stats| {
        stats.snapshots.entries_since
    }),
];

impl Metrics {
    fn write_levels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = &self.stats.levels;
        describe(f, "level_bytes", "Bytes of tables in a level.", "gauge")?;
        for level in levels {
            writeln!(f, "terrace_level_bytes{{level=\"{}\"}} {}", level.level, level.bytes)?;
        }
        describe(f, "level_tables", "Tables in a level.", "gauge")?;
        for level in levels {
            writeln!(f, "terrace_level_tables{{level=\"{}\"}} {}", level.level, level.table_count)?;
        }
        let help = "Times that tables of a level were asked for a key, by what they answered.";
        describe(f, "level_asked_total", help, "counter")?;
        for level in levels {
            for (answer, count) in [
                ("filtered_out", level.filtered_out_count),
                ("found", level.found_count),
                ("false_positive", level.false_positive_count),
                ("missing", level.missing_count),
            ] {
                let labels = format!("level=\"{}\",answer=\"{answer}\"", level.level);
                writeln!(f, "terrace_level_asked_total{{{labels}}} {count}")?;
            }
        }
        Ok(())
    }

    /// What the gets touched that were sampled: for each, divided by how many there were.
    fn write_sampled_gets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.stats.reads.sampled_gets;
        let help = "Sources that sampled gets asked, by where they lie.";
        describe(f, "sampled_get_sources_total", help, "counter")?;
        let sources =
            [("memtable", totals.memtables), ("l0", totals.l0_sources), ("level", totals.levels)];
        for (place, count) in sources {
            writeln!(f, "terrace_sampled_get_sources_total{{place=\"{place}\"}} {count}")?;
        }
        let help = "Blocks that sampled gets read, by where they came from.";
        describe(f, "sampled_get_blocks_total", help, "counter")?;
        for (from, count) in [("cache", totals.cached_blocks), ("file", totals.file_blocks)] {
            writeln!(f, "terrace_sampled_get_blocks_total{{from=\"{from}\"}} {count}")?;
        }
        Ok(())
    }

    fn write_delays(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let help = "Seconds that writes were delayed, by the cause.";
        describe(f, "write_delay_seconds_total", help, "counter")?;
        for (cause, stats) in &self.stats.stalls.causes {
            let seconds = stats.delayed_us as f64 / 1e6;
            writeln!(f, "terrace_write_delay_seconds_total{{cause=\"{cause}\"}} {seconds}")?;
        }
        Ok(())
    }

    fn write_troubles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let help = "Writes that were refused or failed, by the cause.";
        describe(f, "refused_writes_total", help, "counter")?;
        for (cause, count) in &self.stats.refused_writes {
            writeln!(f, "terrace_refused_writes_total{{cause=\"{cause}\"}} {count}")?;
        }
        let help = "Failures of background work, by its kind.";
        describe(f, "background_failures_total", help, "counter")?;
        for (work, failed) in &self.stats.failed_work {
            writeln!(f, "terrace_background_failures_total{{work=\"{work}\"}} {}", failed.count)?;
        }
        let help = "Whether background work failed the last time, by its kind.";
        describe(f, "background_failing", help, "gauge")?;
        for (work, failed) in &self.stats.failed_work {
            let is_failing = u8::from(failed.is_failing);
            writeln!(f, "terrace_background_failing{{work=\"{work}\"}} {is_failing}")?;
        }
        describe(f, "oldest_snapshot_seconds", "Age of the oldest snapshot.", "gauge")?;
        let seconds = self.stats.snapshots.oldest_age_ms as f64 / 1e3;
        writeln!(f, "terrace_oldest_snapshot_seconds {seconds}")
    }

    fn write_background_io(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let io = &self.stats.background_io;
        let help = "Bytes a second that background work may write; 0 for no limit.";
        describe(f, "background_io_limit_bytes", help, "gauge")?;
        let limit = io.limit_bytes_per_second.unwrap_or(0);
        writeln!(f, "terrace_background_io_limit_bytes {limit}")?;
        let help = "Seconds that background work waited for that limit.";
        describe(f, "background_io_wait_seconds_total", help, "counter")?;
        for (work, us) in [("flush", io.flush_wait_us), ("compaction", io.compaction_wait_us)] {
            let seconds = us as f64 / 1e6;
            writeln!(f, "terrace_background_io_wait_seconds_total{{work=\"{work}\"}} {seconds}")?;
        }
        Ok(())
    }

    fn write_cloud(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cloud) = &self.stats.cloud else { return Ok(()) };
        describe(f, "object_store_tables", "Tables that lie in the object store.", "gauge")?;
        writeln!(f, "terrace_object_store_tables {}", cloud.table_count)?;
        describe(f, "object_store_table_bytes", "Bytes of these.", "gauge")?;
        writeln!(f, "terrace_object_store_table_bytes {}", cloud.table_bytes)?;
        describe(f, "local_bytes", "Bytes on the local disk.", "gauge")?;
        writeln!(f, "terrace_local_bytes {}", cloud.local_bytes)?;
        write_near(f, cloud)?;
        if let Some(log) = &cloud.log {
            let help = "Bytes of the log that would be lost with this machine.";
            describe(f, "store_log_unsafe_bytes", help, "gauge")?;
            writeln!(f, "terrace_store_log_unsafe_bytes {}", log.unsafe_bytes)?;
            let help = "Objects of the log that were stored in the object store.";
            describe(f, "store_log_objects_total", help, "counter")?;
            writeln!(f, "terrace_store_log_objects_total {}", log.objects)?;
        }
        if let Some(archive) = &cloud.archive {
            let help = "Since when any state can be had out of the archive, in seconds since 1970.";
            describe(f, "archive_since_seconds", help, "gauge")?;
            let since = archive.since_ms.map_or(f64::NAN, |ms| ms as f64 / 1e3);
            writeln!(f, "terrace_archive_since_seconds {since}")?;
            describe(f, "archive_log_objects", "Objects of the log that it keeps.", "gauge")?;
            writeln!(f, "terrace_archive_log_objects {}", archive.log_objects)?;
        }
        if let Some(log) = &cloud.volume {
            let help = "Bytes of the log on its volume behind the newest moment in the store.";
            describe(f, "volume_log_kept_bytes", help, "gauge")?;
            writeln!(f, "terrace_volume_log_kept_bytes {}", log.kept_bytes)?;
        }
        describe(f, "object_store_requests_total", "Requests, by their kind.", "counter")?;
        for kind in RequestKind::ALL {
            let count = cloud.requests.of(kind).requests;
            let kind = kind.name();
            writeln!(f, "terrace_object_store_requests_total{{kind=\"{kind}\"}} {count}")?;
        }
        describe(f, "object_store_failures_total", "Those that failed.", "counter")?;
        for kind in RequestKind::ALL {
            let count = cloud.requests.of(kind).failures;
            let kind = kind.name();
            writeln!(f, "terrace_object_store_failures_total{{kind=\"{kind}\"}} {count}")?;
        }
        let help = "Bytes of objects, by their direction.";
        describe(f, "object_store_bytes_total", help, "counter")?;
        let directions = [("up", cloud.requests.bytes_up()), ("down", cloud.requests.bytes_down())];
        for (direction, bytes) in directions {
            writeln!(f, "terrace_object_store_bytes_total{{direction=\"{direction}\"}} {bytes}")?;
        }
        write_money(f, cloud)
    }

    fn write_keyspaces(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in KEYSPACE_FIGURES {
            let name = format!("keyspace_{}_total", figure.metric);
            describe(f, &name, figure.help, "counter")?;
            for (keyspace, stats) in &self.keyspaces {
                let (keyspace, value) = (escaped(keyspace), (figure.value)(stats));
                writeln!(f, "terrace_{name}{{keyspace=\"{keyspace}\"}} {value}")?;
            }
        }
        Ok(())
    }

    fn write_latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut help = String::new();
        write!(help, "Seconds that operations took; one in about {SAMPLE_EVERY} is timed.")?;
        describe(f, "operation_seconds", &help, "histogram")?;
        for (kind, latency) in &self.latencies {
            let (word, name) = (kind.word(), "terrace_operation_seconds");
            for (end, count) in latency.cumulative() {
                let end = end.as_secs_f64();
                writeln!(f, "{name}_bucket{{operation=\"{word}\",le=\"{end}\"}} {count}")?;
            }
            let count = latency.sample_count();
            writeln!(f, "{name}_bucket{{operation=\"{word}\",le=\"+Inf\"}} {count}")?;
            let sum = latency.sum().as_secs_f64();
            writeln!(f, "{name}_sum{{operation=\"{word}\"}} {sum}")?;
            writeln!(f, "{name}_count{{operation=\"{word}\"}} {count}")?;
        }
        Ok(())
    }
}

/// What is kept of the tables in the object store on the local disk.
fn write_near(f: &mut fmt::Formatter<'_>, cloud: &CloudStats) -> fmt::Result {
    let Some(near) = &cloud.near else { return Ok(()) };
    let help = "Reads of blocks of tables in the object store, by whether the local disk had them.";
    describe(f, "near_blocks_total", help, "counter")?;
    writeln!(f, "terrace_near_blocks_total{{found=\"yes\"}} {}", near.data.hits)?;
    writeln!(f, "terrace_near_blocks_total{{found=\"no\"}} {}", near.data.misses)?;
    describe(f, "near_bytes", "Bytes that the local disk keeps of these tables.", "gauge")?;
    writeln!(f, "terrace_near_bytes{{kind=\"blocks\"}} {}", near.data.bytes)?;
    writeln!(f, "terrace_near_bytes{{kind=\"metadata\"}} {}", near.meta.bytes)?;
    let help = "Tables whose metadata the local disk did not have when they were opened.";
    describe(f, "near_metadata_misses_total", help, "counter")?;
    writeln!(f, "terrace_near_metadata_misses_total {}", near.meta.misses)
}

/// What the store costs, by its sheet of prices; nothing if that has none.
fn write_money(f: &mut fmt::Formatter<'_>, cloud: &CloudStats) -> fmt::Result {
    if cloud.prices.is_free() {
        return Ok(());
    }
    let (prices, bill) = (escaped(&cloud.prices.name), &cloud.bill);
    let help = "Estimated dollars that requests cost, by what they are billed as.";
    describe(f, "object_store_estimated_dollars_total", help, "counter")?;
    for (part, dollars) in [
        ("put", bill.put_dollars),
        ("get", bill.get_dollars),
        ("delete", bill.delete_dollars),
        ("read_out", bill.read_out_dollars),
    ] {
        let name = "terrace_object_store_estimated_dollars_total";
        let dollars = dollars.decimal();
        writeln!(f, "{name}{{part=\"{part}\",prices=\"{prices}\"}} {dollars}")?;
    }
    let help = "Estimated dollars that the tables there cost in a month.";
    describe(f, "object_store_estimated_dollars_per_month", help, "gauge")?;
    let (name, dollars) =
        ("terrace_object_store_estimated_dollars_per_month", cloud.month_dollars.decimal());
    writeln!(f, "{name}{{prices=\"{prices}\"}} {dollars}")
}

/// Keyspaces by their labels: the first `named_max` by name, all others in one.
fn labelled(
    keyspaces: Vec<(String, KeyspaceStats)>,
    named_max: usize,
) -> Vec<(String, KeyspaceStats)> {
    let mut others = None::<KeyspaceStats>;
    let mut labelled = Vec::new();
    for (name, stats) in keyspaces {
        if labelled.len() < named_max && name != OTHERS {
            labelled.push((name, stats));
        } else {
            others.get_or_insert_default().add(&stats);
        }
    }
    labelled.extend(others.map(|others| (OTHERS.to_string(), others)));
    labelled
}

/// The value of a label as it stands between quotes.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return value.into();
    }
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into()
}

fn describe(f: &mut fmt::Formatter<'_>, name: &str, help: &str, kind: &str) -> fmt::Result {
    writeln!(f, "# HELP terrace_{name} {help}\n# TYPE terrace_{name} {kind}")
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in FIGURES {
            let suffix = if figure.is_counter { "_total" } else { "" };
            let kind = if figure.is_counter { "counter" } else { "gauge" };
            describe(f, &format!("{}{suffix}", figure.name), figure.help, kind)?;
            writeln!(f, "terrace_{}{suffix} {}", figure.name, (figure.value)(&self.stats))?;
        }
        self.write_levels(f)?;
        self.write_sampled_gets(f)?;
        self.write_delays(f)?;
        self.write_troubles(f)?;
        self.write_background_io(f)?;
        self.write_cloud(f)?;
        self.write_keyspaces(f)?;
        self.write_latencies(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;

    /// Each line of a text is a comment, or a name, labels in quotes, and a number; each name was
    /// described before. The names.
    fn names_of(text: &str) -> Vec<String> {
        let mut described: Vec<String> = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                described.push(rest.split(' ').next().expect("a name").to_string());
                continue;
            }
            if line.starts_with("# HELP ") {
                continue;
            }
            let (name, value) = line.rsplit_once(' ').expect("a name and a number");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
            assert!(labels.ends_with('}') && labels.matches('"').count() % 2 == 0, "{line}");
            let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(name.bytes().all(is_fine), "{line}");
            assert!(described.iter().any(|one| name.starts_with(one.as_str())), "{line}");
        }
        described
    }

    #[test]
    fn a_store_with_prices_has_estimates_and_one_without_has_none() {
        for prices in [None, crate::PriceSheet::named("s3")] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let url = format!("file://{}", dir.path().join("store").display());
            let cloud = crate::CloudOptions { prices, ..crate::CloudOptions::new(url, 64 << 20) };
            let options = Db::options().layout(crate::Layout::new().cloud(cloud));
            let db = options.open(dir.path().join("db")).expect("new");
            let metrics = db.admin().metrics();
            let (text, cloud) = (metrics.to_string(), metrics.stats().cloud.clone());
            let cloud = cloud.expect("it has a store");
            let names = names_of(&text);
            assert!(names.iter().any(|name| name == "terrace_object_store_requests_total"));
            if cloud.prices.is_free() {
                assert!(!text.contains("dollars"), "{text}");
                continue;
            }
            assert!(cloud.bill.put_dollars > crate::Dollars::ZERO, "the feed was begun");
            for (labelled, dollars) in [
                ("total{part=\"put\",prices=\"s3\"}", cloud.bill.put_dollars),
                ("total{part=\"get\",prices=\"s3\"}", cloud.bill.get_dollars),
                ("per_month{prices=\"s3\"}", cloud.month_dollars),
            ] {
                let dollars = dollars.decimal();
                let line = format!("terrace_object_store_estimated_dollars_{labelled} {dollars}\n");
                assert!(text.contains(&line), "{line}in\n{text}");
            }
        }
    }

    #[test]
    fn the_text_is_of_the_form_that_prometheus_reads() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = Db::open(dir.path()).expect("new");
        for number in 0..20_000u32 {
            db.put(number.to_be_bytes(), "value").expect("it is written");
            db.get(number.to_be_bytes()).expect("it is read");
        }
        assert_eq!(db.iter().count(), 20_000);
        db.admin().flush().expect("it is flushed");
        let metrics = db.admin().metrics();
        assert!(metrics.latency(OperationKind::Get).sample_count() > 0);
        let described = names_of(&metrics.to_string());
        assert!(described.len() > 25, "{described:?}");
        let text = metrics.to_string();
        assert!(text.contains("terrace_written_entries_total 20000\n"), "{text}");
        assert!(text.contains("terrace_level_tables{level=\"0\"} 1\n"), "{text}");
        assert!(text.contains("le=\"+Inf\"}"), "{text}");
        let sampled = metrics.stats().reads.sampled_get_count;
        assert!(sampled > 0 && text.contains(&format!("terrace_sampled_gets_total {sampled}\n")));
        // One memtable, and nothing else: it was flushed only after the gets.
        for (labelled, count) in [
            ("sources_total{place=\"memtable\"}", sampled),
            ("sources_total{place=\"level\"}", 0),
            ("blocks_total{from=\"file\"}", 0),
        ] {
            let line = format!("terrace_sampled_get_{labelled} {count}\n");
            assert!(text.contains(&line), "{line}in\n{text}");
        }
    }

    /// Which keyspaces are named, how many, and what becomes of odd names.
    #[test]
    fn keyspaces_are_labelled_and_only_so_many() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = Db::open(dir.path()).expect("new");
        let put = |name: &str, count: usize| {
            let keyspace = db.keyspace(name).expect("it is made");
            (0..count).for_each(|number| keyspace.put(number.to_be_bytes(), "").expect("written"));
        };
        put("a \"\\\" b", 2);
        put(OTHERS, 5);
        put("old", 3);
        db.rename_keyspace("old", "new").expect("it is renamed");
        put("gone", 4);
        assert!(db.drop_keyspace("gone").expect("it is dropped"));
        let line = |label: &str, count: u64| {
            let line = format!("terrace_keyspace_puts_total{{keyspace=\"{label}\"}} {count}\n");
            let text = db.admin().metrics().to_string();
            assert!(text.contains(&line), "{line}in\n{text}");
        };
        line("a \\\"\\\\\\\" b", 2);
        line("(others)", 5);
        line("new", 3);
        line("default", 0);
        let text = db.admin().metrics().to_string();
        assert!(!text.contains("\"old\"") && !text.contains("\"gone\""), "{text}");
        for number in 1..=KEYSPACES_MAX {
            put(&number.to_string(), 1);
        }
        // Three and the default are named already, and 100 in all.
        line("96", 1);
        line("97", 1);
        line("(others)", 5 + 3);
        let text = db.admin().metrics().to_string();
        let lines = text.lines().filter(|line| line.starts_with("terrace_keyspace_puts_total{"));
        assert_eq!(lines.count(), KEYSPACES_MAX + 1);
    }

    /// Every number of the figures themselves is among the metrics: whoever adds one there adds it
    /// here. Ratios are left to who asks, and what has parts has functions of its own.
    #[cfg(feature = "serde")]
    #[test]
    fn no_number_is_left_out() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = Db::open(dir.path()).expect("new");
        let json = serde_json::to_value(db.admin().stats()).expect("figures are numbers and names");
        let source = include_str!("metrics.rs");
        for (name, value) in json.as_object().expect("it has fields") {
            let is_ratio = name.ends_with("_amplification");
            let is_told = source.contains(&format!("stats.{name}"));
            assert!(!value.is_number() || is_ratio || is_told, "{name} is no metric");
        }
    }
}
