//! The figures of a database for monitoring, in the text that Prometheus collects.

use std::fmt::{self, Write as _};

use terrace_engine::explain::{OperationKind, SAMPLE_EVERY};
use terrace_engine::store::{LatencyHistogram, Store};

use crate::Stats;

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
/// What a server does with it is its own affair: this crate listens nowhere.
#[derive(Clone, Debug)]
pub struct Metrics {
    stats: Stats,
    latencies: [(OperationKind, LatencyHistogram); 3],
}

impl Metrics {
    pub(crate) fn of(store: &Store) -> Metrics {
        let kinds = [OperationKind::Get, OperationKind::Scan, OperationKind::Write];
        Metrics {
            stats: Stats::new(store.stats()),
            latencies: kinds.map(|kind| (kind, store.latencies(kind))),
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

/// One figure: its name, what it says, and whether it only ever grows.
struct Figure {
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    value: f64,
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Figure {
    Figure { name, help, is_counter: true, value: value as f64 }
}

fn gauge(name: &'static str, help: &'static str, value: u64) -> Figure {
    Figure { name, help, is_counter: false, value: value as f64 }
}

impl Metrics {
    fn figures(&self) -> Vec<Figure> {
        let stats = &self.stats;
        vec![
            counter("written_entries", "Entries written.", stats.write_count),
            counter("written_bytes", "Bytes of keys and values written.", stats.write_bytes),
            counter("gets", "Keys read one by one.", stats.get_count),
            counter("scans", "Iterators that ended.", stats.scan_count),
            counter("scanned_keys", "Keys that iterators showed.", stats.scanned_count),
            counter(
                "scanned_dead_keys",
                "Dead keys that iterators stepped over.",
                stats.scan_hidden_count,
            ),
            counter("log_bytes", "Bytes appended to the log.", stats.log_write_bytes),
            counter("log_syncs", "Syncs of the log.", stats.log_sync_count),
            counter("flushes", "Flushes and ingests.", stats.flush_count),
            counter("flush_bytes", "Bytes written by flushes and ingests.", stats.flush_bytes),
            counter("compactions", "Compactions that merged tables.", stats.compaction_count),
            counter(
                "compaction_read_bytes",
                "Bytes read by compactions.",
                stats.compaction_read_bytes,
            ),
            counter(
                "compaction_written_bytes",
                "Bytes written by compactions.",
                stats.compaction_write_bytes,
            ),
            counter("cache_hits", "Look-ups that found their block cached.", stats.cache_hit_count),
            counter(
                "cache_misses",
                "Look-ups that did not find their block cached.",
                stats.cache_miss_count,
            ),
            counter("delayed_writes", "Writes that were delayed.", stats.stalls.stall_count),
            gauge(
                "log_live_bytes",
                "Bytes of the log that a start would read.",
                stats.log_live_bytes,
            ),
            gauge("memtable_bytes", "Bytes of memtables.", stats.memtable_bytes),
            gauge(
                "frozen_memtables",
                "Memtables that wait to be flushed.",
                stats.frozen_memtable_count,
            ),
            gauge("cache_bytes", "Bytes in the block cache.", stats.cache_bytes),
            gauge("memory_bytes", "Bytes of memory in use.", stats.memory.used_bytes),
            gauge(
                "memory_limit_bytes",
                "Bytes of memory that may be used.",
                stats.memory.limit_bytes,
            ),
        ]
    }

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

fn describe(f: &mut fmt::Formatter<'_>, name: &str, help: &str, kind: &str) -> fmt::Result {
    writeln!(f, "# HELP terrace_{name} {help}\n# TYPE terrace_{name} {kind}")
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in self.figures() {
            let suffix = if figure.is_counter { "_total" } else { "" };
            let kind = if figure.is_counter { "counter" } else { "gauge" };
            describe(f, &format!("{}{suffix}", figure.name), figure.help, kind)?;
            writeln!(f, "terrace_{}{suffix} {}", figure.name, figure.value)?;
        }
        self.write_levels(f)?;
        self.write_delays(f)?;
        self.write_latencies(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;

    /// Each line is a comment, or a name, labels in quotes, and a number; each name was described.
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
        let mut described: Vec<String> = Vec::new();
        for line in metrics.to_string().lines() {
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
        assert!(described.len() > 25, "{described:?}");
        let text = metrics.to_string();
        assert!(text.contains("terrace_written_entries_total 20000\n"), "{text}");
        assert!(text.contains("terrace_level_tables{level=\"0\"} 1\n"), "{text}");
        assert!(text.contains("le=\"+Inf\"}"), "{text}");
    }
}
