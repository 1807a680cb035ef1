//! Numbers with units.

use std::time::Duration;

/// A number of bytes with or without a unit: `4096`, `64K`, `256M`, `2GiB`. Errors: it is none.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size such as 4096, 64K, 256M or 2G");
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &*text[digits.len()..].to_ascii_lowercase() {
        "" | "b" => 1_u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

/// A time with its unit: `500ms`, `90s`, `15m`, `12h`, `30d`; seconds without one.
/// Errors: it is none.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no time such as 500ms, 90s, 15m, 12h or 30d");
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1_u64,
        "" | "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 86_400 * 1000,
        _ => return Err(wrong()),
    };
    let ms = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    ms.filter(|&ms| ms > 0).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64K"), Ok(65_536));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse_time("5ms"), Ok(Duration::from_millis(5)));
        for wrong in ["", "x", "1x", "-1", "99999999999999999999", "18446744073709551615G"] {
            assert!(parse_size(wrong).is_err() && parse_time(wrong).is_err(), "{wrong}");
        }
        assert!(parse_time("0s").is_err());
    }
}
