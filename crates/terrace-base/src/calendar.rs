//! Wall times as people write and read them: in UTC, by the Gregorian calendar.
//!
//! *Source* of the arithmetic: Hinnant, "chrono-compatible low-level date algorithms": years are
//! counted from March on, so that the day that is inserted comes last.

use std::fmt;
use std::str::FromStr;

use crate::WallTime;

const MS_PER_SECOND: u64 = 1000;
const SECONDS_PER_DAY: u64 = 86_400;

/// Days from the first of March of the year 0 to 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

impl fmt::Display for WallTime {
    /// Such as `2026-11-28 13:00:00 UTC`, to the second; with `#`, to the millisecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / MS_PER_SECOND;
        let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
        if f.alternate() {
            write!(f, ".{:03}", self.0 % MS_PER_SECOND)?;
        }
        f.write_str(" UTC")
    }
}

/// A text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWallTime;

impl fmt::Display for NoWallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time is written like 2026-11-28T13:00:00Z, in UTC, from 1970 on")
    }
}

impl std::error::Error for NoWallTime {}

impl FromStr for WallTime {
    type Err = NoWallTime;

    /// As it is displayed, or with a `T` between date and time and a `Z` behind them, as in RFC
    /// 3339. Up to three digits of a second's fraction are read; the time may be left out.
    fn from_str(text: &str) -> Result<WallTime, NoWallTime> {
        let text = text.strip_suffix('Z').or(text.strip_suffix(" UTC")).unwrap_or(text);
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
        let [fraction_number] = numbers(fraction, '.', [fraction.len().clamp(1, 3)])?;
        let ms = fraction_number * 10_u64.pow(3 - fraction.len() as u32);
        let is_time = hour < 24 && minute < 60 && second < 60;
        let days = (1970..10_000).contains(&year).then(|| days(year, month, day));
        let days = days.filter(|_| is_time && (1..=12).contains(&month) && day > 0);
        // A day that the month does not have is another one's.
        let days = days.filter(|days| self::date(*days) == (year, month, day)).ok_or(NoWallTime)?;
        let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
        Ok(WallTime(seconds * MS_PER_SECOND + ms))
    }
}

/// Numbers of so many digits, with a sign between them.
fn numbers<const N: usize>(
    text: &str,
    between: char,
    digits: [usize; N],
) -> Result<[u64; N], NoWallTime> {
    let mut numbers = [0; N];
    let mut parts = text.split(between);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().ok_or(NoWallTime)?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_number).ok_or(NoWallTime)?;
    }
    if parts.next().is_none() { Ok(numbers) } else { Err(NoWallTime) }
}

/// Year, month and day of a day since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day)
}

/// The inverse of [`date`], from 1970 on.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let days_of_years = year * 365 + year / 4 - year / 100 + year / 400;
    days_of_years + (153 * month + 2) / 5 + day - 1 - DAYS_BEFORE_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_calendars_have_them() {
        let shown = |seconds: u64| WallTime(seconds * 1000).to_string();
        assert_eq!(shown(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(shown(1_795_536_000 - 1), "2026-11-24 15:59:59 UTC");
        assert_eq!(shown(4_107_542_400), "2100-03-01 00:00:00 UTC");
        assert_eq!(format!("{:#}", WallTime(1_078)), "1970-01-01 00:00:01.078 UTC");
    }

    #[test]
    fn what_is_shown_is_read() {
        for day in 0..200_000 {
            let at = WallTime((day * SECONDS_PER_DAY + day % SECONDS_PER_DAY) * 1000 + day % 1000);
            assert_eq!(format!("{at:#}").parse(), Ok(at));
        }
    }

    #[test]
    fn times_are_written_in_several_ways() {
        let at = Ok(WallTime(1_795_867_200_000));
        for text in ["2026-11-28T12:00:00Z", "2026-11-28 12:00:00", "2026-11-28T12:00:00.0 UTC"] {
            assert_eq!(text.parse(), at, "{text}");
        }
        assert_eq!("2026-11-28".parse(), Ok(WallTime(1_795_824_000_000)));
        assert_eq!("1970-01-01T00:00:00.25Z".parse(), Ok(WallTime(250)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let wrong = [
            "",
            "now",
            "2026-11",
            "2026-02-29",
            "2026-00-10",
            "2026-13-01",
            "2026-11-31",
            "1969-12-31",
            "2026-11-28T24:00:00Z",
            "2026-11-28T12:60:00Z",
            "2026-11-28T12:00Z",
            "2026-11-28T12:00:00+01:00",
            "2026-11-28T12:00:00.1234Z",
            "2026-11-28T12:00:00.Z",
            "+026-11-28",
            "99999-01-01",
        ];
        for text in wrong {
            assert_eq!(text.parse::<WallTime>(), Err(NoWallTime), "{text}");
        }
    }
}
