//! What a plan for a local disk and an object store is made from.

use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs};
use terrace::{Needs, PriceSheet, TierGoals, TierLoss, TierNeeds};

use crate::args::cloud::parse_prices;
use crate::args::units::{parse_size, parse_time};

/// What the database does, what there is for it, and what is wanted.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Local disk and object store")]
#[command(group(ArgGroup::new("workload").args(["rate", "from"]).multiple(true)))]
#[command(group(ArgGroup::new("room").args(["local_bytes_max", "from"]).multiple(true)))]
#[command(group(ArgGroup::new("scanned").args(["scans", "from"]).multiple(true)))]
pub(crate) struct TierArgs {
    /// Plan what lies on the local disk and what in an object store as well, for so many operations
    /// a second on average, such as 2000
    #[arg(long, value_name = "N", value_parser = parse_rate, requires = "room",
        conflicts_with = "l0_bytes")]
    pub(crate) rate: Option<f64>,
    /// Read what a database does and has instead of being told: the address of a running server,
    /// which is looked at for a while; or a directory, which only says how much is in it. What is
    /// said here as well counts before what was read
    #[arg(long, value_name = "ADDR|DIR", conflicts_with = "l0_bytes")]
    pub(crate) from: Option<String>,
    /// How long to look at the server; or `start`, for all that was asked of it since it was
    /// started [default: 10s]
    #[arg(long = "for", value_name = "TIME|start", value_parser = parse_sample,
        requires = "from")]
    pub(crate) sample: Option<Sample>,
    /// How many of 100 operations are gets of a key [default: 50, less the scans]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "workload")]
    pub(crate) reads: Option<f64>,
    /// How many of 100 operations are scans; the rest are puts
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "workload")]
    pub(crate) scans: Option<f64>,
    /// How many records a scan goes through on average [default: 50]
    #[arg(long, value_name = "N", requires = "scanned",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) scan_length: Option<u64>,
    /// How unequally keys are asked for, from 0 (all alike) to 3: the exponent of Zipf's
    /// distribution [default: 0.99]
    #[arg(long, value_name = "EXPONENT", value_parser = parse_skew, requires = "workload")]
    pub(crate) skew: Option<f64>,
    /// How much of the local disk the database may take at most, such as 200G
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "workload")]
    pub(crate) local_bytes_max: Option<u64>,
    /// What the local disk costs: ebs-gp3, ebs-gp2, none, or a file of prices [default: ebs-gp3]
    #[arg(long, value_name = "NAME|FILE", value_parser = parse_prices, requires = "workload")]
    pub(crate) local_prices: Option<Box<PriceSheet>>,
    /// What the object store costs: s3, gcs, azure, none, or a file of prices [default: s3]
    #[arg(long, value_name = "NAME|FILE", value_parser = parse_prices, requires = "workload")]
    pub(crate) cloud_prices: Option<Box<PriceSheet>>,
    /// What a volume for the log would cost that outlives the machine, so that writes need not wait
    /// for the object store: ebs-gp3, ebs-gp2, none, or a file of prices [default: there is none]
    #[arg(long, value_name = "NAME|FILE", value_parser = parse_prices, requires = "workload")]
    pub(crate) log_volume_prices: Option<Box<PriceSheet>>,
    /// How long the object store takes for a small get, as measured [default: 15ms]
    #[arg(long, value_name = "TIME", value_parser = parse_latency, requires = "workload")]
    pub(crate) get_latency: Option<Duration>,
    /// How long the object store takes for a put [default: 30ms]
    #[arg(long, value_name = "TIME", value_parser = parse_latency, requires = "workload")]
    pub(crate) put_latency: Option<Duration>,
    /// How long a block takes from the local disk, and a sync of the volume of the log
    /// [default: 0.1ms]
    #[arg(long, value_name = "TIME", value_parser = parse_latency, requires = "workload")]
    pub(crate) local_latency: Option<Duration>,
    /// How many bytes a second go to the store and come from it [default: 1e8]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "workload")]
    pub(crate) cloud_bandwidth: Option<u64>,
    /// The most that a month may cost, in dollars
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars, requires = "workload")]
    pub(crate) dollars_max: Option<f64>,
    /// The longest that gets may take on average, such as 2ms
    #[arg(long, value_name = "TIME", value_parser = parse_latency, requires = "workload")]
    pub(crate) read_mean_max: Option<Duration>,
    /// The longest that 99 of 100 gets may take
    #[arg(long, value_name = "TIME", value_parser = parse_latency, requires = "workload")]
    pub(crate) read_p99_max: Option<Duration>,
    /// The longest that writes may take on average that wait for the object store, or for the
    /// volume of the log
    #[arg(long, value_name = "TIME", value_parser = parse_latency, requires = "workload")]
    pub(crate) write_mean_max: Option<Duration>,
    /// What may be lost with the machine: anything, nothing (writes wait for the object store, or
    /// for the volume of the log), or what was written for so long before, such as 60s
    /// [default: anything]
    #[arg(long, value_name = "anything|nothing|TIME", value_parser = parse_loss,
        requires = "workload")]
    pub(crate) lose: Option<TierLoss>,
    /// How far back earlier states are to be found (--cloud-archive), such as 7d
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "workload")]
    pub(crate) archive: Option<Duration>,
}

/// Which of a server's counters are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    /// What is added to them within so long.
    Time(Duration),
    /// All since it was started.
    Start,
}

impl TierArgs {
    /// What the library plans for; `None` if the rate or the room is open.
    pub(crate) fn needs(&self, needs: Needs) -> Option<TierNeeds> {
        let mut tiers = TierNeeds::new(needs, self.rate?, self.local_bytes_max?);
        tiers.scans_share = self.scans.unwrap_or(0.0) / 100.0;
        let reads_share = self.reads.map(|percent| percent / 100.0);
        tiers.reads_share = reads_share.unwrap_or((0.5 - tiers.scans_share).max(0.0));
        set(&mut tiers.scan_records, self.scan_length);
        set(&mut tiers.skew, self.skew);
        set(&mut tiers.local_prices, self.local_prices.as_deref().cloned());
        set(&mut tiers.store_prices, self.cloud_prices.as_deref().cloned());
        tiers.log_volume_prices = self.log_volume_prices.as_deref().cloned();
        set(&mut tiers.get_latency, self.get_latency);
        set(&mut tiers.put_latency, self.put_latency);
        set(&mut tiers.local_latency, self.local_latency);
        set(&mut tiers.store_bytes_per_s, self.cloud_bandwidth);
        let mut goals = TierGoals::default();
        goals.dollars_max = self.dollars_max;
        goals.read_mean_max = self.read_mean_max;
        goals.read_p99_max = self.read_p99_max;
        goals.write_mean_max = self.write_mean_max;
        set(&mut goals.loss, self.lose);
        goals.archive = self.archive;
        tiers.goals = goals;
        Some(tiers)
    }
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

/// A plain decimal number from 0 up: digits, and perhaps a point and digits.
fn parse_decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse::<f64>().ok().filter(|_| is_plain)
}

fn parse_rate(text: &str) -> Result<f64, String> {
    parse_decimal(text)
        .filter(|rate| *rate > 0.0)
        .ok_or_else(|| format!("'{text}' is no number of operations a second such as 2000 or 0.5"))
}

fn parse_percent(text: &str) -> Result<f64, String> {
    parse_decimal(text.trim_end_matches('%'))
        .filter(|percent| *percent <= 100.0)
        .ok_or_else(|| format!("'{text}' is no percentage from 0 to 100"))
}

fn parse_skew(text: &str) -> Result<f64, String> {
    parse_decimal(text)
        .filter(|skew| *skew <= 3.0)
        .ok_or_else(|| format!("'{text}' is no skew from 0 to 3, such as 0.99"))
}

fn parse_dollars(text: &str) -> Result<f64, String> {
    parse_decimal(text.trim_start_matches('$'))
        .ok_or_else(|| format!("'{text}' is no amount of dollars such as 50 or 12.5"))
}

/// A short time: `100us`, `0.1ms`, `15ms`, `1.5s`.
fn parse_latency(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => 0.0,
    };
    parse_decimal(digits)
        .map(|number| number * unit_s)
        .filter(|seconds| (1e-9..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("'{text}' is no time such as 100us, 0.1ms, 15ms or 1.5s"))
}

fn parse_sample(text: &str) -> Result<Sample, String> {
    match text {
        "start" => Ok(Sample::Start),
        time => parse_time(time).map(Sample::Time).map_err(|why| format!("{why}, nor start")),
    }
}

fn parse_loss(text: &str) -> Result<TierLoss, String> {
    match text {
        "anything" => Ok(TierLoss::Anything),
        "nothing" => Ok(TierLoss::Nothing),
        time => parse_time(time)
            .ok()
            .filter(|time| *time >= Duration::from_secs(1))
            .map(TierLoss::Within)
            .ok_or_else(|| {
                format!("'{text}' is neither anything, nothing nor a time from 1s on, such as 60s")
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        assert_eq!((parse_rate("2000"), parse_rate("0.5")), (Ok(2000.0), Ok(0.5)));
        assert_eq!((parse_percent("70"), parse_percent("5%")), (Ok(70.0), Ok(5.0)));
        assert_eq!((parse_dollars("$50"), parse_skew("0.99")), (Ok(50.0), Ok(0.99)));
        for wrong in ["", "x", "-1", "1e3", "inf", "NaN", ".", "1.2.3"] {
            assert!(parse_rate(wrong).is_err() && parse_percent(wrong).is_err(), "{wrong}");
            assert!(parse_dollars(wrong).is_err() && parse_skew(wrong).is_err(), "{wrong}");
        }
        assert!(parse_rate("0").is_err() && parse_percent("101").is_err());
    }

    #[test]
    fn short_times_have_units() {
        assert_eq!(parse_latency("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_latency("0.1ms"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_latency("1.5s"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "5", "ms", "-1ms", "5m", "0ms", "9999s", "1e3ms"] {
            assert!(parse_latency(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_sample("start"), Ok(Sample::Start));
        assert_eq!(parse_sample("2m"), Ok(Sample::Time(Duration::from_secs(120))));
        assert!(parse_sample("0").is_err() && parse_sample("end").is_err());
        assert_eq!(parse_loss("nothing"), Ok(TierLoss::Nothing));
        assert_eq!(parse_loss("2m"), Ok(TierLoss::Within(Duration::from_secs(120))));
        assert!(parse_loss("50ms").is_err() && parse_loss("some").is_err());
    }
}
