//! Numbers with units.

use std::time::Duration;

/// The largest power of ten that a number may say after its `e`.
const EXPONENT_MAX: u32 = 30;

/// A number of bytes as people write it: `4096`, `64K`, `256MB`, `2GiB`, `1.5G`, `1T`, `1e9`. Units
/// go by 1024, with or without `B` and `iB`, in any case; a fraction of a byte is left out.
/// Errors: it is none.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size such as 4096, 64K, 1.5G, 2GiB, 1T or 1e9");
    let letters = |letter: char| letter.is_ascii_alphabetic();
    let number = text.trim_end_matches(letters);
    let unit = match &*text[number.len()..].to_ascii_lowercase() {
        "" | "b" => 1_u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        "p" | "pb" | "pib" => 1 << 50,
        _ => return Err(wrong()),
    };
    scaled(number, unit).ok_or_else(wrong)
}

/// As [`parse_size`], of something that has to fit into memory.
pub(crate) fn parse_length(text: &str) -> Result<usize, String> {
    usize::try_from(parse_size(text)?).map_err(|_| format!("'{text}' is more than memory can hold"))
}

/// `1.5e3` times the unit, rounded down; exact, without floats.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (number, exponent) = match number.split_once(['e', 'E']) {
        Some((number, exponent)) => {
            let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
            let exponent = is_number(exponent).then(|| exponent.parse::<u32>().ok()).flatten()?;
            (number, exponent)
        }
        None => (number, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if exponent > EXPONENT_MAX || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    // Digits far behind the point say less than a byte.
    let fraction = fraction.get(..15).unwrap_or(fraction);
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let raised = digits.checked_mul(10_u128.pow(exponent))?.checked_mul(unit.into())?;
    u64::try_from(raised / 10_u128.pow(u32::try_from(fraction.len()).ok()?)).ok()
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
    fn sizes_are_read_as_people_write_them() {
        let sizes = [
            ("4096", 4096),
            ("4096B", 4096),
            ("64K", 65_536),
            ("64kib", 65_536),
            ("256MB", 256 << 20),
            ("2GiB", 2 << 30),
            ("1.5G", 3 << 29),
            ("0.5k", 512),
            ("0.3K", 307),
            ("1T", 1 << 40),
            ("2.25TiB", 9 << 38),
            ("1e9", 1_000_000_000),
            ("1.5E+9", 1_500_000_000),
            ("1e3K", 1_024_000),
            ("0", 0),
            ("1.00000000000000000000000000001", 1),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        let wrong = [
            "",
            "x",
            "1x",
            "-1",
            "K",
            ".5G",
            "1.",
            "1.5.5",
            "1e",
            "1e-3",
            "1e+-3",
            "e9",
            "1 G",
            "1e31",
            "99999999999999999999",
            "18446744073709551615G",
            "1.8e19K",
            "\u{661}K",
            "1,5G",
        ];
        for wrong in wrong {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse_time("5ms"), Ok(Duration::from_millis(5)));
        for wrong in ["", "x", "1x", "-1", "99999999999999999999", "18446744073709551615d", "0s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
