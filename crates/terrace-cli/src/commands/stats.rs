//! What a database says of itself, in one form for a directory and for a server.

mod cache;
mod values;

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use terrace::{Dollars, WallTime};

use crate::args::{self, Figures, StatsArgs};
use crate::clock;
use crate::commands::Session;
use crate::commands::maintain::print;
use crate::failure::{Failure, Outcome};
use crate::signals::StopFlag;
use crate::terminal::{HumanCount, bytes, rate};

/// From which share of the memory on there is something to say, in percent.
const MEMORY_PERCENT: u64 = 90;

/// From which delay of all writers together on, likewise: less is the pace of every day.
const DELAYED_US: u64 = 100_000;

/// From how many bytes of tables for each live one on, and how many tables in all, likewise.
const SPACE_AMPLIFICATION: f64 = 1.6;
const SPACE_BYTES: u64 = 64 << 20;

/// From which age of the oldest snapshot on, likewise.
const SNAPSHOT_AGE_MS: u64 = 600_000;

/// How often Ctrl-C is looked for between two looks at the figures.
const SLICE: Duration = Duration::from_millis(50);

/// After how many lines of a watch the titles come again.
const TITLES_EVERY: u64 = 20;

pub(super) fn stats(args: &StatsArgs, session: &mut Session) -> Outcome {
    let is_json = args.output == args::Output::Json;
    if let Some(pause) = args.watch {
        return watch(args, pause, session);
    }
    let data = session.data()?;
    match args.what {
        Figures::Dranges => print(data.dranges(is_json)?),
        Figures::L0 => print(data.l0(is_json)?),
        Figures::Cache => part(&read(&data.stats()?)?, is_json, cache::as_json, cache::shown),
        Figures::Values => part(&read(&data.stats()?)?, is_json, values::as_json, values::shown),
        Figures::All if is_json => print(data.stats()?),
        Figures::All => {
            let figures = read(&data.stats()?)?;
            print(shown(&figures, data.is_server()).trim_end())
        }
    }
}

/// Prints the figures of one part, for programs or for people.
fn part(
    figures: &Figured,
    is_json: bool,
    as_json: fn(&Figured) -> Value,
    shown: fn(&Figured) -> String,
) -> Outcome {
    if is_json { print(as_json(figures)) } else { print(shown(figures).trim_end()) }
}

pub(super) fn read(json: &str) -> Outcome<Figured> {
    let figures = serde_json::from_str(json);
    figures.map(Figured).map_err(|error| {
        Failure::Failed(format!("the figures cannot be read ({error}); is the server much older?"))
    })
}

/// The figures, as both kinds of databases give them.
pub(super) struct Figured(pub(super) Value);

impl Figured {
    /// Whether there are figures of something that not every database has.
    pub(super) fn has(&self, pointer: &str) -> bool {
        self.0.pointer(pointer).is_some_and(Value::is_object)
    }

    /// A number; 0 for what another version does not know.
    pub(super) fn number(&self, pointer: &str) -> u64 {
        self.0.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
    }

    pub(super) fn ratio(&self, pointer: &str) -> f64 {
        self.0.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)
    }

    fn count(&self, pointer: &str) -> HumanCount {
        HumanCount(self.number(pointer))
    }

    fn bytes(&self, pointer: &str) -> String {
        bytes(self.number(pointer))
    }

    pub(super) fn list(&self, pointer: &str) -> &[Value] {
        self.0.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn fields(&self, pointer: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.0.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
    }
}

/// The figures for people: what is unusual, what is here, and what was done since the open, if
/// anybody did anything: this process only looked.
fn shown(figures: &Figured, is_server: bool) -> String {
    let mut text = String::new();
    let unusual = unusual(figures);
    if unusual.is_empty() {
        text.push_str("nothing unusual\n");
    } else {
        text.push_str("unusual\n");
        unusual.iter().for_each(|line| line_of(&mut text, "!", line));
    }
    text.push_str("what is here\n");
    put_contents(&mut text, figures);
    put_cloud(&mut text, figures);
    text.push_str("memory\n");
    put_memory(&mut text, figures);
    if is_server {
        text.push_str("since the server was started\n");
        put_work(&mut text, figures);
    }
    text
}

fn line_of(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<15}{value}");
}

/// What somebody should look at, in whole sentences.
fn unusual(figures: &Figured) -> Vec<String> {
    let mut found = Vec::new();
    let delayed = figures.number("/stalls/stall_count");
    if figures.number("/stalls/delayed_us") >= DELAYED_US {
        let mut causes: Vec<_> = figures
            .fields("/stalls/causes")
            .map(|(cause, of)| (of["delayed_us"].as_u64().unwrap_or(0), cause, of))
            .filter(|(us, ..)| *us > 0)
            .collect();
        causes.sort_by_key(|(us, ..)| std::cmp::Reverse(*us));
        let causes: Vec<String> = causes
            .iter()
            .map(|(us, cause, of)| {
                let (count, longest) = (&of["count"], of["longest_us"].as_u64().unwrap_or(0));
                let cause = cause.replace('_', " ");
                format!("{cause} {count} times, {} (longest {})", time(*us), time(longest))
            })
            .collect();
        found.push(format!(
            "{} writes were delayed, by {} in all: {}",
            HumanCount(delayed),
            time(figures.number("/stalls/delayed_us")),
            causes.join("; ")
        ));
    }
    found.extend(troubles(figures));
    let (used, limit) =
        (figures.number("/memory/used_bytes"), figures.number("/memory/limit_bytes"));
    if limit > 0 && used / MEMORY_PERCENT >= limit / 100 {
        found.push(format!(
            "{} of {} of memory are in use; near the end writers are slowed down",
            bytes(used),
            bytes(limit)
        ));
    }
    let waiting = figures.number("/frozen_memtable_count");
    if waiting >= 2 {
        found.push(format!("{waiting} memtables wait to be flushed: the disk is behind"));
    }
    let space = figures.ratio("/space_amplification");
    if space > SPACE_AMPLIFICATION && table_bytes(figures) > SPACE_BYTES {
        found.push(format!(
            "tables take {space:.1} times what is alive; `terrace compact` gives that back"
        ));
    }
    if figures.0.pointer("/l0/container_is_on_data_disk") == Some(&Value::Bool(true)) {
        found.push(
            "the container of L0 is on the disk of the data, where it is slower than tables in files"
                .to_owned(),
        );
    }
    found
}

/// What was refused, what fails, and what is held for long.
fn troubles(figures: &Figured) -> Vec<String> {
    let mut found = Vec::new();
    for (work, failed) in figures.fields("/failed_work") {
        let count = failed["count"].as_u64().unwrap_or(0);
        if count > 0 {
            let state = match failed["is_failing"].as_bool() {
                Some(true) => "fails, and is tried again",
                _ => "works again",
            };
            let error = failed["last_error"].as_str().unwrap_or_default();
            found.push(format!("{work} has failed {count} times and {state}; last: {error}"));
        }
    }
    let refused = figures.fields("/refused_writes").filter_map(|(cause, count)| {
        let count = count.as_u64().filter(|count| *count > 0)?;
        let is_of_the_disk = ["no_space", "poisoned", "unknown", "io", "other"];
        let is_unusual = is_of_the_disk.contains(&cause.as_str());
        is_unusual.then(|| format!("{} {}", HumanCount(count), cause.replace('_', " ")))
    });
    let refused: Vec<String> = refused.collect();
    if !refused.is_empty() {
        found.push(format!("writes were refused: {}", refused.join(", ")));
    }
    let age_ms = figures.number("/snapshots/oldest_age_ms");
    if age_ms >= SNAPSHOT_AGE_MS {
        found.push(format!(
            "the oldest of {} snapshots was taken {} min ago, before {} entries; what they overwrote \
             takes space until it is dropped",
            figures.number("/snapshots/snapshot_count"),
            age_ms / 60_000,
            figures.count("/snapshots/entries_since")
        ));
    }
    found
}

fn table_bytes(figures: &Figured) -> u64 {
    figures.list("/levels").iter().filter_map(|level| level["bytes"].as_u64()).sum()
}

fn put_contents(text: &mut String, figures: &Figured) {
    let levels = figures.list("/levels");
    let sum = |name: &str| -> u64 { levels.iter().filter_map(|level| level[name].as_u64()).sum() };
    line_of(
        text,
        "in tables",
        &format!(
            "{} entries, {}, in {} tables",
            HumanCount(sum("entry_count")),
            bytes(sum("bytes")),
            HumanCount(sum("table_count"))
        ),
    );
    for level in levels {
        let number = |name: &str| level[name].as_u64().unwrap_or(0);
        let tombstones = match number("tombstone_count") {
            0 => String::new(),
            count => format!(", {} tombstones", HumanCount(count)),
        };
        let line = format!(
            "{} entries, {}, {} tables{tombstones}",
            HumanCount(number("entry_count")),
            bytes(number("bytes")),
            HumanCount(number("table_count"))
        );
        line_of(text, &format!("  level {}", number("level")), &line);
    }
    if figures.number("/value_log/file_count") > 0 {
        let values = format!(
            "{} of large values, in {} files",
            figures.bytes("/value_log/bytes"),
            figures.count("/value_log/file_count")
        );
        line_of(text, "in values", &values);
    }
    let waiting = figures.number("/frozen_memtable_count");
    let memtables =
        format!("{}, {waiting} waiting to be flushed", figures.bytes("/memtable_bytes"));
    line_of(text, "in memtables", &memtables);
    let medium = figures.0["log_medium"].as_str();
    let medium = medium.map(|medium| format!(", on persistent memory ({medium})"));
    let log = format!(
        "{} to be read by a start after a crash{}",
        figures.bytes("/log_live_bytes"),
        medium.unwrap_or_default()
    );
    line_of(text, "in the log", &log);
    let space = figures.ratio("/space_amplification");
    line_of(text, "space", &format!("{space:.2} times what is alive (estimated)"));
}

/// What lies in the object store, if there is one.
fn put_cloud(text: &mut String, figures: &Figured) {
    let Some(url) = figures.0.pointer("/cloud/url").and_then(Value::as_str) else { return };
    let _ = writeln!(text, "object store {url}");
    let mut there = format!(
        "{}, in {} tables",
        figures.bytes("/cloud/table_bytes"),
        figures.count("/cloud/table_count")
    );
    match figures.number("/cloud/dropped_count") {
        0 => {}
        count => {
            let _ = write!(there, "; {} more to be deleted", HumanCount(count));
        }
    }
    line_of(text, "there", &there);
    let mut here = figures.bytes("/cloud/local_bytes");
    if figures.number("/cloud/local_bytes_max") > 0 {
        let _ = write!(here, " of {}", figures.bytes("/cloud/local_bytes_max"));
    }
    line_of(text, "here", &here);
    let (hits, misses) =
        (figures.number("/cloud/near/data/hits"), figures.number("/cloud/near/data/misses"));
    if hits + misses > 0 {
        let percent = hits as f64 * 100.0 / (hits + misses) as f64;
        let near = format!(
            "{} of blocks that were read, {} at most; {percent:.1} % of {} reads found theirs",
            figures.bytes("/cloud/near/data/bytes"),
            figures.bytes("/cloud/near/data/bytes_max"),
            HumanCount(hits + misses)
        );
        line_of(text, "near", &near);
    }
    if figures.has("/cloud/log") {
        let log = format!(
            "{} in {} objects since the open; {} are here alone",
            figures.bytes("/cloud/log/bytes"),
            figures.count("/cloud/log/objects"),
            figures.bytes("/cloud/log/unsafe_bytes")
        );
        line_of(text, "log there", &log);
    }
    if figures.has("/cloud/archive") {
        let since = figures.0.pointer("/cloud/archive/since_ms").and_then(Value::as_u64);
        let since = since.map_or("begins with the next moment".to_owned(), |since| {
            format!("since {}", WallTime(since))
        });
        let archive = format!(
            "{since}; checkpoints {}, objects of the log {}",
            figures.count("/cloud/archive/base_count"),
            figures.count("/cloud/archive/log_objects")
        );
        line_of(text, "archive", &archive);
    }
    if figures.has("/cloud/volume") {
        let log = format!("{} behind the newest moment", figures.bytes("/cloud/volume/kept_bytes"));
        line_of(text, "log on volume", &log);
    }
    let (mut asked, mut failures) = (Vec::new(), 0);
    for (kind, of) in figures.fields("/cloud/requests") {
        failures += of["failures"].as_u64().unwrap_or(0);
        match of["requests"].as_u64().unwrap_or(0) {
            0 => {}
            count => asked.push(format!("{} {}", HumanCount(count), kind.replace('_', " "))),
        }
    }
    let asked = if asked.is_empty() { "none".to_owned() } else { asked.join(", ") };
    line_of(text, "requests", &format!("{asked}; {} failed", HumanCount(failures)));
    put_money(text, figures);
}

/// About what the object store costs, if it costs anything. A server that is older tells nothing.
fn put_money(text: &mut String, figures: &Figured) {
    let asked = figures.ratio("/cloud/bill/total_dollars");
    let month = figures.ratio("/cloud/month_dollars");
    if asked <= 0.0 && month <= 0.0 {
        return;
    }
    let word = |pointer| figures.0.pointer(pointer).and_then(Value::as_str).unwrap_or("unknown");
    let line = format!(
        "{} for the requests, {} a month for the tables there",
        dollars(asked),
        dollars(month)
    );
    line_of(text, "money", &line);
    let source = [word("/cloud/prices/source"), word("/cloud/prices/date")];
    let source: Vec<&str> = source.into_iter().filter(|word| !word.is_empty()).collect();
    let mut line = format!("an estimate by the prices {}", word("/cloud/prices/name"));
    if !source.is_empty() {
        let _ = write!(line, " ({})", source.join(", "));
    }
    line_of(text, "", &line);
}

/// An amount that JSON has, as the library shows it.
fn dollars(amount: f64) -> String {
    // As many digits as an amount has.
    Dollars::parse(&format!("{amount:.12}")).map_or_else(|| amount.to_string(), |d| d.to_string())
}

fn put_memory(text: &mut String, figures: &Figured) {
    let used = figures.bytes("/memory/used_bytes");
    line_of(text, "in use", &format!("{used} of {}", figures.bytes("/memory/limit_bytes")));
    for (name, pool) in figures.fields("/memory/pools") {
        let number = |field: &str| pool[field].as_u64().unwrap_or(0);
        if number("used_bytes") > 0 {
            let line =
                format!("{}, at most {}", bytes(number("used_bytes")), bytes(number("peak_bytes")));
            line_of(text, &format!("  {}", name.replace('_', " ")), &line);
        }
    }
}

fn put_filter(text: &mut String, figures: &Figured) {
    let filtered =
        ["/filtered_dropped_count", "/filtered_changed_count", "/filter_set_aside_count"];
    if filtered.iter().any(|figure| figures.number(figure) > 0) {
        let [dropped, changed, set_aside] = filtered.map(|figure| figures.count(figure));
        let line =
            format!("{dropped} values dropped, {changed} changed, set aside {set_aside} times");
        line_of(text, "filter", &line);
    }
}

fn put_work(text: &mut String, figures: &Figured) {
    let (count, size) = (|name: &str| figures.count(name), |name: &str| figures.bytes(name));
    let written = format!("{} entries, {}", count("/write_count"), size("/write_bytes"));
    line_of(text, "written", &written);
    line_of(
        text,
        "read",
        &format!(
            "{} keys one by one, {:.2} tables searched for each",
            count("/get_count"),
            figures.ratio("/read_amplification")
        ),
    );
    line_of(
        text,
        "scanned",
        &format!(
            "{} keys in {} scans, {} dead ones stepped over",
            count("/scanned_count"),
            count("/scan_count"),
            count("/scan_hidden_count")
        ),
    );
    put_averages(text, figures);
    let lookups = figures.number("/cache_hit_count") + figures.number("/cache_miss_count");
    let hits = figures.number("/cache_hit_count") as f64 / lookups.max(1) as f64 * 100.0;
    if lookups > 0 {
        let line = format!("{hits:.1} % of {} blocks were there", HumanCount(lookups));
        line_of(text, "block cache", &line);
    }
    let log = format!("{} appended, {} syncs", size("/log_write_bytes"), count("/log_sync_count"));
    line_of(text, "log", &log);
    line_of(text, "flushes", &format!("{}, {}", count("/flush_count"), size("/flush_bytes")));
    line_of(
        text,
        "compactions",
        &format!(
            "{} and {} moves; {} read, {} written, {} entries dropped",
            count("/compaction_count"),
            count("/move_count"),
            size("/compaction_read_bytes"),
            size("/compaction_write_bytes"),
            count("/dropped_entry_count")
        ),
    );
    put_filter(text, figures);
    let limit = figures.number("/background_io/limit_bytes_per_second");
    let waits = |of: &str| time(figures.number(&format!("/background_io/{of}_wait_us")));
    if limit > 0 {
        let (flushes, compactions) = (waits("flush"), waits("compaction"));
        let limit = bytes(limit);
        let line = format!("{limit} a second; flushes waited {flushes}, compactions {compactions}");
        line_of(text, "background I/O", &line);
    }
    let delayed = time(figures.number("/stalls/delayed_us"));
    let line = format!("{} writes, by {delayed} in all", count("/stalls/stall_count"));
    line_of(text, "delayed", &line);
    let amplification = figures.ratio("/write_amplification");
    let line = format!("{amplification:.2} bytes of tables for each byte put; the log adds 1");
    line_of(text, "amplification", &line);
}

/// What a read touches on average: of sampled reads, if there are any.
fn put_averages(text: &mut String, figures: &Figured) {
    let ratio = |name: &str| figures.ratio(&format!("/reads/{name}"));
    let sampled = |name: &str| figures.number(&format!("/reads/sampled_{name}_count"));
    let (gets, scans) = (sampled("get"), sampled("scan"));
    if gets > 0 {
        let line = format!(
            "{:.2} sources, {:.2} filters, {:.2} blocks, {:.2} of files ({} sampled)",
            ratio("sources_per_get"),
            ratio("filters_per_get"),
            ratio("blocks_per_get"),
            ratio("file_blocks_per_get"),
            HumanCount(gets)
        );
        line_of(text, "each get", &line);
    }
    if scans > 0 {
        let line = format!(
            "{:.2} sources ({} sampled), {:.1} keys shown, {:.1} dead ones",
            ratio("sources_per_scan"),
            HumanCount(scans),
            ratio("shown_per_scan"),
            ratio("hidden_per_scan")
        );
        line_of(text, "each scan", &line);
    }
}

fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// A line of rates each time that `pause` has passed.
fn watch(args: &StatsArgs, pause: Duration, session: &mut Session) -> Outcome {
    if args.what != Figures::All {
        return Err(Failure::Usage("--watch is for the database as a whole".to_owned()));
    }
    let stop = session.stop()?;
    let data = session.data()?;
    if !data.is_server() {
        return Err(Failure::Usage(
            "--watch needs a running server (--connect): nothing moves in a directory that only \
             this command has open"
                .to_owned(),
        ));
    }
    let mut before = read(&data.stats()?)?;
    for number in 0..args.times.unwrap_or(u64::MAX) {
        sleep(pause, &stop);
        if stop.is_set() {
            return Ok(());
        }
        let json = data.stats()?;
        if args.output == args::Output::Json {
            print(json)?;
            continue;
        }
        let now = read(&json)?;
        if number.is_multiple_of(TITLES_EVERY) {
            print(
                "  writes/s  gets/s   scanned/s  put/s       log/s       tables/s    memory      delayed",
            )?;
        }
        print(rates(&before, &now, pause))?;
        before = now;
    }
    Ok(())
}

fn rates(before: &Figured, now: &Figured, pause: Duration) -> String {
    let seconds = pause.as_secs_f64();
    let grown = |name: &str| now.number(name).saturating_sub(before.number(name));
    let per_s = |name: &str| HumanCount(rate(grown(name), seconds)).to_string();
    let bytes_per_s =
        |names: &[&str]| bytes(rate(names.iter().map(|name| grown(name)).sum(), seconds));
    format!(
        "  {:<9} {:<8} {:<10} {:<11} {:<11} {:<11} {:<11} {}",
        per_s("/write_count"),
        per_s("/get_count"),
        per_s("/scanned_count"),
        bytes_per_s(&["/write_bytes"]),
        bytes_per_s(&["/log_write_bytes"]),
        bytes_per_s(&["/flush_bytes", "/compaction_write_bytes"]),
        now.bytes("/memory/used_bytes"),
        HumanCount(grown("/stalls/stall_count"))
    )
}

fn sleep(pause: Duration, stop: &StopFlag) {
    let slept = clock::Stopwatch::start();
    while slept.elapsed() < pause && !stop.is_set() {
        clock::sleep(SLICE.min(pause.saturating_sub(slept.elapsed())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unusual_stands_first_and_counters_only_where_they_mean_something() {
        let json = serde_json::json!({
            "write_count": 1_234_567, "space_amplification": 2.0, "frozen_memtable_count": 3,
            "levels": [{ "level": 6, "table_count": 4, "bytes": 1_u64 << 30, "entry_count": 9000 }],
            "memory": { "limit_bytes": 1000, "used_bytes": 950, "pools": {} },
            "stalls": { "stall_count": 7, "delayed_us": 2_500_000, "causes": {
                "memory": { "delayed_us": 2_000_000, "count": 5, "longest_us": 900 },
                "log_room": { "delayed_us": 500_000, "count": 2, "longest_us": 1500 },
                "sync": { "delayed_us": 0, "count": 0, "longest_us": 0 },
            } },
            "failed_work": {
                "flush": { "count": 4, "is_failing": true, "last_error": "no space left" },
                "log": { "count": 0, "is_failing": false, "last_error": "" },
            },
            "refused_writes": { "no_space": 12, "conflict": 5 },
            "snapshots": { "snapshot_count": 2, "oldest_age_ms": 7_200_000, "entries_since": 3_000 },
            "reads": { "sampled_get_count": 12, "sources_per_get": 2.5, "blocks_per_get": 0.75 },
        });
        let text = shown(&Figured(json), true);
        let delayed = "7 writes were delayed, by 2.5 s in all: memory 5 times, 2.0 s (longest 900 us); \
                       log room 2 times, 500.0 ms (longest 1.5 ms)";
        assert!(text.starts_with("unusual\n"), "{text}");
        for part in [
            "flush has failed 4 times and fails, and is tried again; last: no space left",
            "writes were refused: 12 no space\n",
            "the oldest of 2 snapshots was taken 120 min ago, before 3,000 entries",
            delayed,
            "terrace compact",
            "3 memtables wait",
            "of memory are in use",
            "1,234,567",
            "each get       2.50 sources, 0.00 filters, 0.75 blocks, 0.00 of files (12 sampled)\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("each scan"), "none was sampled: {text}");
        let calm = shown(&Figured(serde_json::json!({})), false);
        assert!(calm.starts_with("nothing unusual\n") && !calm.contains("since"), "{calm}");
    }
}
