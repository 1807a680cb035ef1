use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::profile::{bound, rate, read_bounds};

/// How far away an emulated object store is. What is zero or `None` has no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectsProfile {
    /// What reports call it.
    pub name: String,
    /// From a request that reads to the first byte of its answer, at most 10 s.
    pub read_latency: Duration,
    /// From the last byte of a request that writes to its answer, at most 10 s.
    pub write_latency: Duration,
    /// Bytes in a second, of all requests and both ways together.
    pub bytes_per_s: Option<u64>,
    /// Requests in a second, of all kinds together.
    pub requests_per_s: Option<u64>,
}

/// The stores that have names.
const NAMED: &[(&str, &str)] = &[
    // A bucket in the region of the machine, as its users see it, and a share of the network.
    ("bucket", "read=15ms,write=30ms,bandwidth=100MB/s"),
];

const LATENCY_MAX: Duration = Duration::from_secs(10);

const EXAMPLE: &str = "read=15ms,write=30ms,bandwidth=100MB/s,requests=3500";

impl FromStr for ObjectsProfile {
    type Err = String;

    /// Reads a name, or bounds such as `read=15ms,write=30ms,bandwidth=100MB/s,requests=3500`, each
    /// at most once and at least one. Latencies are in `us`, `ms` or `s`, up to 10 s; the bandwidth
    /// is bytes in a second, with K, M or G (times 1000) or KiB, MiB or GiB; requests are per
    /// second.
    fn from_str(text: &str) -> Result<ObjectsProfile, String> {
        let mut profile = ObjectsProfile { name: text.to_string(), ..ObjectsProfile::default() };
        read_bounds(text, NAMED, ("object store", EXAMPLE), |what, value| {
            let wrong = || format!("{value:?} is no value for {what}");
            let number = |read: Option<u64>| bound(read).ok_or_else(wrong);
            match what {
                "read" => profile.read_latency = latency(value).ok_or_else(wrong)?,
                "write" => profile.write_latency = latency(value).ok_or_else(wrong)?,
                "bandwidth" => profile.bytes_per_s = Some(number(rate(value))?),
                "requests" => profile.requests_per_s = Some(number(value.parse().ok())?),
                _ => {
                    return Err(format!(
                        "{what:?} is no bound: read, write, bandwidth or requests"
                    ));
                }
            }
            Ok(())
        })?;
        Ok(profile)
    }
}

fn latency(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit_us: u64 = match &text[digits..] {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        _ => return None,
    };
    let latency = Duration::from_micros(text[..digits].parse::<u64>().ok()?.checked_mul(unit_us)?);
    (latency <= LATENCY_MAX).then_some(latency)
}

impl fmt::Display for ObjectsProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (emulated)", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_by_name_and_by_number() {
        let bucket: ObjectsProfile = "bucket".parse().unwrap();
        assert_eq!(bucket.read_latency, Duration::from_millis(15));
        assert_eq!(bucket.write_latency, Duration::from_millis(30));
        assert_eq!((bucket.bytes_per_s, bucket.requests_per_s), (Some(100_000_000), None));
        assert_eq!(bucket.to_string(), "bucket (emulated)");
        let own: ObjectsProfile = "write=2s,requests=3500,read=700us".parse().unwrap();
        assert_eq!((own.write_latency, own.requests_per_s), (Duration::from_secs(2), Some(3500)));
        assert_eq!((own.read_latency, own.bytes_per_s), (Duration::from_micros(700), None));
        for wrong in [
            "",
            "far",
            "read",
            "read=",
            "read=15",
            "read=11s",
            "read=fast",
            "bandwidth=0",
            "bandwidth=15ms",
            "requests=0",
            "speed=1",
            "requests=1,requests=2",
            "read=0ms,read=1ms",
            "read=1ms,",
        ] {
            assert!(wrong.parse::<ObjectsProfile>().is_err(), "{wrong:?}");
        }
    }
}
