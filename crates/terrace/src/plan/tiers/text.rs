//! A plan for tiers as people read it.

use std::fmt;
use std::time::Duration;

use terrace_engine::cloud::Dollars;

use super::{PlannedTier, RejectedTier, TierPlan};
use crate::plan::size;

/// Microseconds of an hour, and of a day.
const HOUR_US: f64 = 3.6e9;
const DAY_US: f64 = 24.0 * HOUR_US;

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 3_600_000;

/// A time as a command line takes it, to three digits at most.
pub(super) fn time(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    let short = |number: f64, unit: &str| {
        let digits = if number >= 99.5 || (number.round() - number).abs() < 0.005 {
            0
        } else if number >= 9.95 {
            1
        } else {
            2
        };
        format!("{number:.digits$}{unit}")
    };
    let is_whole = |of: f64| us >= of && (us / of).fract() == 0.0;
    match us {
        us if is_whole(DAY_US) => short(us / DAY_US, "d"),
        us if is_whole(HOUR_US) => short(us / HOUR_US, "h"),
        us if is_whole(60e6) => short(us / 60e6, "m"),
        us if us >= 1e6 => short(us / 1e6, "s"),
        us if us >= 1e3 => short(us / 1e3, "ms"),
        us => short(us, "us"),
    }
}

/// About how many bytes.
pub(super) fn approximate(bytes: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut number, mut unit) = (bytes, 0);
    while number >= 1000.0 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(number < 10.0 && (number.round() - number).abs() > 0.05);
    format!("{number:.digits$} {}", units[unit])
}

/// A number to three digits that count.
pub(super) fn digits(number: f64) -> String {
    if number < 1e-9 {
        return "0".to_owned();
    }
    let digits = (2 - number.log10().floor() as i32).clamp(0, 9) as usize;
    format!("{number:.digits$}")
}

/// An amount that was given as a number.
pub(super) fn dollars(amount: f64) -> String {
    Dollars::parse(&format!("{amount:.12}")).unwrap_or_default().to_string()
}

/// A line of a table: what, how much and why.
pub(super) fn line(f: &mut fmt::Formatter<'_>, of: &str, value: &str, why: &str) -> fmt::Result {
    writeln!(f, "  {of:<16} {value:<10} {why}")
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = usize::from((percent.round() - percent).abs() > 0.05);
    format!("{percent:.digits$} %")
}

impl fmt::Display for TierPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs = &self.needs;
        let sizes = &needs.needs;
        let data = match sizes.data_bytes.is_multiple_of(1 << 20) {
            true => size(sizes.data_bytes),
            false => approximate(sizes.data_bytes as f64),
        };
        write!(f, "for {data} of data in values of ")?;
        writeln!(f, "{} bytes, {} of memory", sizes.value_bytes, size(sizes.memory_bytes))?;
        let rate = needs.operations_per_s;
        let rate = if rate.fract() == 0.0 { rate.to_string() } else { digits(rate) };
        write!(f, "and {rate} operations a second: ")?;
        write!(f, "{} gets, {} scans", percent(needs.reads_share), percent(needs.scans_share))?;
        if needs.scans_share > 0.0 {
            write!(f, " of {} records", needs.scan_records)?;
        }
        writeln!(f, ", {} puts, skew {}", percent(needs.puts_share()), needs.skew)?;
        writeln!(f, "at most {} of local disk", size(needs.local_bytes_max))?;
        writeln!(f, "chosen: {}", self.chosen.name)?;
        self.chosen.fmt_places(f)?;
        writeln!(f, "it comes to, about:")?;
        self.chosen.fmt_costs(f, self)?;
        if let Some(present) = &self.present {
            present.fmt_beside(f)?;
        }
        writeln!(f, "rejected:")?;
        let width = self.rejected.iter().map(|one| one.layout.name.len()).max().unwrap_or(0);
        for RejectedTier { layout, why } in &self.rejected {
            writeln!(f, "  {:<width$}  {why}", layout.name)?;
        }
        self.fmt_options(f)
    }
}

impl TierPlan {
    fn fmt_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sizes, chosen) = (&self.sizes, &self.chosen);
        write!(f, "options: --memory-bytes {}", size(sizes.memory_bytes))?;
        write!(f, " --cache-bytes {}", size(sizes.cache_bytes))?;
        write!(f, " --memtable-bytes {}", size(sizes.memtable_bytes))?;
        if !chosen.has_store() {
            return Ok(());
        }
        write!(f, " --cloud-url URL --local-bytes {}", size(chosen.local_bytes))?;
        if let Some(bytes) = chosen.cache_bytes {
            write!(f, " --cloud-cache {}", size(bytes))?;
        }
        let times = [
            ("--cloud-mirror", chosen.mirror_ms),
            ("--cloud-log", chosen.log_ms),
            ("--cloud-archive", chosen.archive_ms),
        ];
        for (name, ms) in times {
            if let Some(ms) = ms {
                match ms.is_multiple_of(1000) {
                    true if ms.is_multiple_of(DAY_MS) => write!(f, " {name} {}d", ms / DAY_MS)?,
                    true => write!(f, " {name} {}s", ms / 1000)?,
                    false => write!(f, " {name} {ms}ms")?,
                }
            }
        }
        if chosen.log_volume_bytes.is_some() {
            f.write_str(" --log-volume DIR")?;
        }
        match chosen.durability.as_str() {
            "buffered" => Ok(()),
            durability => write!(f, " --durability {durability}"),
        }
    }
}

impl PlannedTier {
    fn fmt_places(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first_far_level {
            Some(level) => {
                let why = "the first level in the store: what does not fit above it is there";
                line(f, "waterline", &format!("L{level}"), why)?;
            }
            None => line(f, "waterline", "none", "all levels are local")?,
        }
        let why = match self.first_far_level {
            Some(_) => "levels above the line, L0, log, metadata and blocks of the others",
            None => "all levels, the log, and what compactions write before they delete",
        };
        line(f, "local disk", &size(self.local_bytes >> 20 << 20), why)?;
        if self.first_far_level.is_some() {
            let why = match self.cache_bytes {
                Some(_) => "reserved for them, so that a level less is local",
                None => "what the levels above the line leave",
            };
            line(f, "blocks near", &approximate(self.block_bytes as f64), why)?;
        }
        let log = match (self.mirror_ms, self.log_ms) {
            (Some(ms), None) if self.log_volume_bytes.is_some() => {
                format!(
                    "on a volume that outlives the machine, back to a moment each {}",
                    of_ms(ms)
                )
            }
            (_, Some(ms)) => format!("in the store as well, an object each {}", of_ms(ms)),
            (Some(ms), None) => {
                format!("on the local disk; the store gets a moment each {}", of_ms(ms))
            }
            (None, None) => "on the local disk alone".to_owned(),
        };
        line(f, "log", &self.durability, &log)?;
        match self.archive_ms {
            Some(ms) => line(f, "archive", &of_ms(ms), "states up to so long ago can be read"),
            None => Ok(()),
        }
    }

    fn fmt_costs(&self, f: &mut fmt::Formatter<'_>, plan: &TierPlan) -> fmt::Result {
        let us = |us: f64| time(Duration::from_secs_f64(us / 1e6));
        let why = format!(
            "on average, {} for 99 of 100; {} of gets ask the store for nothing",
            us(self.read_us_p99),
            percent(self.hit_share)
        );
        line(f, "get", &us(self.read_us_mean), &why)?;
        if plan.needs.scans_share > 0.0 && self.first_far_level.is_some() {
            line(f, "scan", &us(self.scan_us_mean), "on average, waiting for the store")?;
        }
        if let Some(write_us) = self.durable_write_us_mean {
            let why = match self.log_volume_bytes {
                Some(_) => "on average, waiting for the volume of the log",
                None => "on average, waiting for the store",
            };
            line(f, "durable put", &us(write_us), why)?;
        }
        if self.has_store() {
            let requests = &self.requests;
            let why = format!(
                "for an operation, {} puts and {} deletes; {} a second",
                digits(requests.puts),
                digits(requests.deletes),
                approximate(self.store_bytes_per_s)
            );
            line(f, "requests", &format!("{} gets", digits(requests.gets)), &why)?;
        }
        let dollars = &self.dollars;
        let why = format!("estimate; {} for a million operations", dollars.per_million_operations);
        line(f, "a month", &dollars.total.to_string(), &why)?;
        let local = format!(
            "{}, prices {}",
            size(self.local_bytes >> 20 << 20),
            plan.needs.local_prices.name
        );
        line(f, "  local disk", &dollars.local.to_string(), &local)?;
        if let Some(iops) = self.local_iops {
            let there = plan.needs.local_prices.volume.map_or(0, |volume| volume.iops);
            let why = format!("{iops} reads a second, {there} are in the prices");
            line(f, "  provisioned", &dollars.local_iops.to_string(), &why)?;
        }
        if let (Some(bytes), Some(prices)) = (self.log_volume_bytes, &plan.needs.log_volume_prices)
        {
            let why = format!("{}, prices {}", approximate(bytes as f64), prices.name);
            line(f, "  log volume", &dollars.log_volume.to_string(), &why)?;
        }
        if !self.has_store() {
            return Ok(());
        }
        let stored = approximate(self.stored_bytes as f64);
        let stored = format!("{stored}, prices {}", plan.needs.store_prices.name);
        line(f, "  in the store", &dollars.stored.to_string(), &stored)?;
        line(f, "  puts", &dollars.puts.to_string(), "tables, feed, mirror and log")?;
        line(f, "  gets", &dollars.gets.to_string(), "gets, scans and compactions")?;
        let others = [("  deletes", dollars.deletes), ("  read out", dollars.read_out)];
        for (of, amount) in others.into_iter().filter(|(_, amount)| *amount > Dollars::ZERO) {
            line(f, of, &amount.to_string(), "")?;
        }
        Ok(())
    }
}

fn of_ms(ms: u64) -> String {
    time(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::super::{TierLoss, TierNeeds};
    use super::*;
    use crate::Needs;

    #[test]
    fn a_plan_is_drawn() {
        let sizes = Needs {
            data_bytes: 400 << 30,
            memory_bytes: 8 << 30,
            pmem_bytes: 0,
            value_bytes: 1000,
        };
        let mut needs = TierNeeds::new(sizes, 300.0, 100 << 30);
        (needs.reads_share, needs.scans_share) = (0.7, 0.05);
        needs.goals.loss = TierLoss::Within(Duration::from_secs(60));
        let drawn = "\
for 400G of data in values of 1000 bytes, 8G of memory
and 300 operations a second: 70 % gets, 5 % scans of 50 records, 25 % puts, skew 0.99
at most 100G of local disk
chosen: L6 in the store, a mirror each 1m
  waterline        L6         the first level in the store: what does not fit above it is there
  local disk       100G       levels above the line, L0, log, metadata and blocks of the others
  blocks near      54 GiB     what the levels above the line leave
  log              buffered   on the local disk; the store gets a moment each 1m
it comes to, about:
  get              2.07ms     on average, 15ms for 99 of 100; 86.4 % of gets ask the store for nothing
  scan             8.72ms     on average, waiting for the store
  requests         0.123 gets for an operation, 0.000231 puts and 0.000231 deletes; 1.1 MiB a second
  a month          $58.84     estimate; $0.0746 for a million operations
    local disk     $8.00      100G, prices ebs-gp3
    in the store   $11.14     484 GiB, prices s3
    puts           $0.909     tables, feed, mirror and log
    gets           $38.79     gets, scans and compactions
rejected:
  all local, a mirror each 1m                                 needs 507 GiB of local disk, 100 GiB are there
  L6 in the store                                             loses all that the machine has
  L6 in the store, the log each 1s                            dearer: $71.98 a month
  L5 and deeper in the store, a mirror each 1m                dearer: $83.66 a month
  all levels in the store, a mirror each 1m                   dearer: $113.42 a month
  L4 and deeper in the store, a mirror each 1m                dearer: $124.11 a month
  L6 in the store, the log each 200ms, which writes wait for  dearer: $124.54 a month
  L6 in the store, the log each 50ms, which writes wait for   dearer: $321.64 a month
  L6 in the store, the log each 10ms, which writes wait for   dearer: $1044.34 a month
options: --memory-bytes 8G --cache-bytes 3334M --memtable-bytes 256M --cloud-url URL --local-bytes 100G --cloud-mirror 60s";
        let plan = TierPlan::for_needs(&needs).expect("needs that can be met");
        assert_eq!(plan.to_string(), drawn, "{plan}");
    }

    #[test]
    fn times_and_sizes_are_short() {
        let times = [0, 30, 100, 1500, 6100, 15_000, 120_500, 1_000_000, 60_000_000, 90_000_000];
        let shown =
            ["0us", "30us", "100us", "1.50ms", "6.10ms", "15ms", "120ms", "1s", "1m", "90s"];
        assert_eq!(times.map(|us| time(Duration::from_micros(us))), shown);
        let hours = [1, 12, 24, 36, 168].map(|hours| time(Duration::from_secs(hours * 3600)));
        assert_eq!(hours, ["1h", "12h", "1d", "36h", "7d"]);
        let sizes = [0.0, 999.0, 1536.0, 5e6, 1.3e12, 2.2e11];
        let shown = ["0 bytes", "999 bytes", "1.5 KiB", "4.8 MiB", "1.2 TiB", "205 GiB"];
        assert_eq!(sizes.map(approximate), shown);
        assert_eq!(
            [0.0, 2.5934, 0.13217, 0.000_012_34].map(digits),
            ["0", "2.59", "0.132", "0.0000123"]
        );
        assert_eq!((dollars(50.0), dollars(0.5)), ("$50.00".into(), "$0.50".into()));
    }
}
