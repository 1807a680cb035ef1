//! How figures and keys are shown to people.

use std::fmt;

/// The most bytes of a key that a text shows.
const KEY_BYTES_SHOWN: usize = 40;

/// A key, escaped, and cut if it is long.
pub struct Key<'a>(pub &'a [u8]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(KEY_BYTES_SHOWN)];
        write!(f, "{}", shown.escape_ascii())?;
        if shown.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}

/// A number of bytes with its unit.
pub fn bytes(count: u64) -> String {
    let count = count as f64;
    if count < 1024.0 {
        format!("{count} B")
    } else if count < 1024.0 * 1024.0 {
        format!("{:.1} KiB", count / 1024.0)
    } else if count < 1024.0 * 1024.0 * 1024.0 {
        format!("{:.1} MiB", count / (1024.0 * 1024.0))
    } else {
        format!("{:.1} GiB", count / (1024.0 * 1024.0 * 1024.0))
    }
}

/// A time with its unit, always at the same width.
pub fn time(us: f64) -> String {
    if us < 1000.0 {
        format!("{us:>6.1} us")
    } else if us < 1e6 {
        format!("{:>6.1} ms", us / 1e3)
    } else {
        format!("{:>6.1} s ", us / 1e6)
    }
}

/// A count with its noun in the right number.
pub fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Bytes as JSON shows them: `\xHH \t \n \r \\ \' \"` escaped, so that any bytes are text.
#[cfg(feature = "serde")]
pub fn escaped<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&bytes.escape_ascii())
}

/// As [`escaped`], for a bound that may be missing.
#[cfg(feature = "serde")]
pub fn escaped_bound<S: serde::Serializer>(
    bytes: &Option<Vec<u8>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => escaped(bytes, serializer),
        None => serializer.serialize_none(),
    }
}
/// `part` of `whole` in percent, or a dash if there is no whole.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}
