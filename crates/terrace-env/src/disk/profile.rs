use std::fmt;
use std::str::FromStr;

use crate::profile::{bound, rate, read_bounds};

/// What an emulated disk can do at most. What is `None` has no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskProfile {
    /// What reports call it.
    pub name: String,
    /// Bytes read in a second.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes written in a second.
    pub write_bytes_per_s: Option<u64>,
    /// Reads, writes and syncs in a second, together.
    pub iops: Option<u64>,
}

/// The disks that have names.
const NAMED: &[(&str, &str)] = &[
    // TriangleKV (TPDS 2022), Table 1: the SSD below the persistent memory.
    ("ssd-2017", "read=445MB/s,write=354MB/s"),
];

const EXAMPLE: &str = "read=445MB/s,write=354MB/s,iops=80000";

impl FromStr for DiskProfile {
    type Err = String;

    /// Reads a name, or bounds such as `read=445MB/s,write=354MB/s,iops=80000`, each at most once
    /// and at least one. Rates are bytes in a second, with K, M or G (times 1000) or KiB, MiB or
    /// GiB.
    fn from_str(text: &str) -> Result<DiskProfile, String> {
        let mut profile = DiskProfile { name: text.to_string(), ..DiskProfile::default() };
        read_bounds(text, NAMED, ("disk", EXAMPLE), |what, value| {
            let place = match what {
                "read" => &mut profile.read_bytes_per_s,
                "write" => &mut profile.write_bytes_per_s,
                "iops" => &mut profile.iops,
                _ => return Err(format!("{what:?} is no bound: read, write or iops")),
            };
            let number = if what == "iops" { value.parse().ok() } else { rate(value) };
            *place = bound(number);
            place.map(drop).ok_or_else(|| format!("{value:?} is no rate for {what}"))
        })?;
        Ok(profile)
    }
}

impl fmt::Display for DiskProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (emulated)", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_by_name_and_by_number() {
        let ssd: DiskProfile = "ssd-2017".parse().unwrap();
        assert_eq!(ssd.write_bytes_per_s, Some(354_000_000));
        assert_eq!((ssd.read_bytes_per_s, ssd.iops), (Some(445_000_000), None));
        assert_eq!(ssd.to_string(), "ssd-2017 (emulated)");
        let own: DiskProfile = "write=2MiB/s,iops=80000".parse().unwrap();
        assert_eq!((own.write_bytes_per_s, own.iops), (Some(2 << 20), Some(80_000)));
        assert_eq!(own.read_bytes_per_s, None);
        for wrong in [
            "",
            "ssd",
            "read",
            "read=",
            "read=fast",
            "read=0",
            "speed=1",
            "iops=1,iops=2",
            "read=1,",
        ] {
            assert!(wrong.parse::<DiskProfile>().is_err(), "{wrong:?}");
        }
    }
}
