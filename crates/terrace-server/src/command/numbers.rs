//! Numbers as Redis takes them, and moments made of them.

use terrace::{Expiry, WallTime};

use super::fail::{Fail, NOT_AN_INTEGER, fail_with};

/// A decimal number in its only spelling: no plus sign, no leading zeros, no blanks.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// As [`parse_integer`], or the usual error.
pub(crate) fn integer(text: &[u8]) -> Result<i64, Fail> {
    parse_integer(text).ok_or(NOT_AN_INTEGER)
}

/// In what an expiry is given: `EX`, `PX`, `EXAT`, `PXAT` and the commands named after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) in_seconds: bool,
    pub(crate) from_now: bool,
}

impl Moment {
    /// The moment, in milliseconds since the Unix epoch (possibly before it, or past).
    ///
    /// Errors: `text` is no number, or the moment does not fit.
    pub(crate) fn parse(self, text: &[u8], now: WallTime, command: &str) -> Result<i64, Fail> {
        let number = integer(text)?;
        self.at(number, now).ok_or_else(|| invalid_expire_time(command))
    }

    /// As [`Moment::parse`], for a value that is being set: only a positive number will do.
    pub(crate) fn parse_positive(
        self,
        text: &[u8],
        now: WallTime,
        command: &str,
    ) -> Result<Expiry, Fail> {
        let number = integer(text)?;
        let at = if number > 0 { self.at(number, now) } else { None };
        at.and_then(expiry_at).ok_or_else(|| invalid_expire_time(command))
    }

    fn at(self, number: i64, now: WallTime) -> Option<i64> {
        let ms = if self.in_seconds { number.checked_mul(1000)? } else { number };
        if !self.from_now {
            return Some(ms);
        }
        ms.checked_add(i64::try_from(now.0).ok()?)
    }
}

/// The expiry at a moment after the epoch.
pub(crate) fn expiry_at(at_ms: i64) -> Option<Expiry> {
    u64::try_from(at_ms).ok().filter(|&ms| ms > 0).map(|ms| Expiry::at(WallTime(ms)))
}

/// The moment of an expiry as a signed number.
pub(crate) fn moment_ms(expiry: Expiry) -> i64 {
    i64::try_from(expiry.time().0).unwrap_or(i64::MAX)
}

fn invalid_expire_time(command: &str) -> Fail {
    fail_with(format!("ERR invalid expire time in '{command}' command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_of_a_number_is_taken() {
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_integer(b"0"), Some(0));
        for text in ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808", "x"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn moments_that_do_not_fit_are_refused() {
        let now = WallTime(1_000_000);
        let seconds = Moment { in_seconds: true, from_now: true };
        let max = i64::MAX.to_string();
        assert_eq!(seconds.parse(b"-5", now, "expire"), Ok(995_000));
        assert!(seconds.parse(max.as_bytes(), now, "expire").is_err());
        assert!(seconds.parse_positive(b"0", now, "set").is_err());
        let at_ms = Moment { in_seconds: false, from_now: false };
        assert_eq!(at_ms.parse(max.as_bytes(), now, "pexpireat"), Ok(i64::MAX));
        let from_now_ms = Moment { in_seconds: false, from_now: true };
        assert!(from_now_ms.parse(max.as_bytes(), now, "pexpire").is_err());
    }
}
