use std::fmt;
use std::str::FromStr;

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

impl FromStr for DiskProfile {
    type Err = String;

    /// Reads a name, or bounds such as `read=445MB/s,write=354MB/s,iops=80000`, each at most once
    /// and at least one. Rates are bytes in a second, with K, M or G (times 1000) or KiB, MiB or
    /// GiB.
    fn from_str(text: &str) -> Result<DiskProfile, String> {
        if let Some((name, bounds)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(DiskProfile { name: (*name).to_string(), ..bounds.parse()? });
        }
        if !text.contains('=') {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "{text:?} is no disk: {}, or bounds such as read=445MB/s,write=354MB/s,iops=80000",
                names.join(", ")
            ));
        }
        let mut profile = DiskProfile { name: text.to_string(), ..DiskProfile::default() };
        for bound in text.split(',') {
            let (what, value) =
                bound.split_once('=').ok_or_else(|| format!("{bound:?} is no bound name=value"))?;
            let place = match what {
                "read" => &mut profile.read_bytes_per_s,
                "write" => &mut profile.write_bytes_per_s,
                "iops" => &mut profile.iops,
                _ => return Err(format!("{what:?} is no bound: read, write or iops")),
            };
            let number = if what == "iops" { value.parse().ok() } else { rate(value) };
            let number = number.filter(|number| (1..1 << 50).contains(number));
            let number = number.ok_or_else(|| format!("{value:?} is no rate for {what}"))?;
            if place.replace(number).is_some() {
                return Err(format!("{what} is there twice"));
            }
        }
        Ok(profile)
    }
}

/// Bytes in a second.
pub(crate) fn rate(text: &str) -> Option<u64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let factor: u64 = match &text[digits..] {
        "" | "B" => 1,
        "K" | "KB" | "kB" => 1000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
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
