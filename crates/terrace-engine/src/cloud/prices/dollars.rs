use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// How many of its units a dollar has.
const UNITS_PER_DOLLAR: u128 = 1_000_000_000_000;

/// Digits behind the point.
const FRACTION_DIGITS: usize = 12;

/// How many digits people are shown of less than a dollar, zeros in front not counted.
const DIGITS_SHOWN: u32 = 3;

/// An amount of United States dollars, none or more, in whole millionths of a millionth: the price
/// of one request has some left.
///
/// `Display` shows it to people: `$12.35`, and three digits of less than a dollar, `$0.00000123`.
/// [`Dollars::decimal`] shows all of it to programs, `Serialize` as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dollars(u128);

impl Dollars {
    /// Nothing.
    pub const ZERO: Dollars = Dollars(0);

    /// The largest price that a sheet may have.
    pub(super) const PRICE_MAX: Dollars = Dollars(1_000_000 * UNITS_PER_DOLLAR);

    /// So many millionths of a dollar.
    pub(super) const fn of_millionths(millionths: u64) -> Dollars {
        Dollars(millionths as u128 * (UNITS_PER_DOLLAR / 1_000_000))
    }

    /// What a plain decimal number says: digits, and up to twelve behind a point.
    ///
    /// `None`: it is none, or too large to be an amount.
    #[must_use]
    pub fn parse(text: &str) -> Option<Dollars> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if !is_number(whole) || !is_number(fraction) || fraction.len() > FRACTION_DIGITS {
            return None;
        }
        let whole = whole.parse::<u128>().ok()?.checked_mul(UNITS_PER_DOLLAR)?;
        let fraction = format!("{fraction:0<FRACTION_DIGITS$}").parse::<u128>().ok()?;
        whole.checked_add(fraction).map(Dollars)
    }

    /// All of it as a decimal number, such as `0.0000004`.
    #[must_use]
    pub fn decimal(self) -> String {
        let (whole, fraction) = (self.0 / UNITS_PER_DOLLAR, self.0 % UNITS_PER_DOLLAR);
        let all = format!("{whole}.{fraction:0>FRACTION_DIGITS$}");
        all.trim_end_matches('0').trim_end_matches('.').to_string()
    }

    /// As a number with a fraction, which may be a little off.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / UNITS_PER_DOLLAR as f64
    }

    /// This for each `unit`, for `count`; what is less than the smallest amount is left out.
    #[must_use]
    pub(crate) fn each(self, count: u64, unit: u64) -> Dollars {
        Dollars(self.0.saturating_mul(count.into()) / u128::from(unit.max(1)))
    }

    /// This for `operations`, for a million of them. Nothing if there were none.
    #[must_use]
    pub fn per_million(self, operations: u64) -> Dollars {
        match operations {
            0 => Dollars::ZERO,
            _ => Dollars(self.0.saturating_mul(1_000_000) / u128::from(operations)),
        }
    }
}

impl Add for Dollars {
    type Output = Dollars;

    fn add(self, other: Dollars) -> Dollars {
        Dollars(self.0.saturating_add(other.0))
    }
}

impl Sum for Dollars {
    fn sum<I: Iterator<Item = Dollars>>(amounts: I) -> Dollars {
        amounts.fold(Dollars::ZERO, Dollars::add)
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.checked_ilog10().map_or(0, |log| log + 1);
        let cents = UNITS_PER_DOLLAR / 100;
        // The step that it is rounded to: a cent, or less if it is less than a dollar.
        let step = match self.0 {
            0 => cents,
            _ => 10_u128.pow(digits.saturating_sub(DIGITS_SHOWN)).min(cents),
        };
        let rounded = Dollars((self.0.saturating_add(step / 2)) / step * step).decimal();
        let (whole, fraction) = rounded.split_once('.').unwrap_or((&rounded, ""));
        f.pad(&format!("${whole}.{fraction:0<2}"))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Dollars {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.to_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(text: &str) -> Dollars {
        Dollars::parse(text).unwrap()
    }

    #[test]
    fn an_amount_is_shown_to_people_and_to_programs() {
        for (text, shown, decimal) in [
            ("0", "$0.00", "0"),
            ("0.000000000001", "$0.000000000001", "0.000000000001"),
            ("0.0000004", "$0.0000004", "0.0000004"),
            ("0.000123456", "$0.000123", "0.000123456"),
            ("0.000123500", "$0.000124", "0.0001235"),
            ("0.0999999", "$0.10", "0.0999999"),
            ("0.5", "$0.50", "0.5"),
            ("0.999", "$0.999", "0.999"),
            ("0.9999", "$1.00", "0.9999"),
            ("1.005", "$1.01", "1.005"),
            ("12.344", "$12.34", "12.344"),
            ("1234567.891", "$1234567.89", "1234567.891"),
        ] {
            assert_eq!(dollars(text).to_string(), shown, "{text}");
            assert_eq!(dollars(text).decimal(), decimal, "{text}");
        }
        assert_eq!(format!("{:>8}", dollars("0.5")), "   $0.50");
    }

    #[test]
    fn what_is_no_plain_number_is_refused() {
        let wrong = ["", ".", "1.", ".5", "-1", "+1", "1e-3", "1_000", "1,5", "$1", " 1", "nan"];
        for wrong in wrong.into_iter().chain(["0.0000000000001", &"9".repeat(40)]) {
            assert_eq!(Dollars::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parts_are_multiplied_exactly_and_never_overflow() {
        assert_eq!(dollars("0.0004").each(1, 1000), dollars("0.0000004"));
        assert_eq!(dollars("0.0004").each(2500, 1000), dollars("0.001"));
        assert_eq!(dollars("0.09").each(3 << 29, 1 << 30), dollars("0.135"));
        assert_eq!(Dollars::PRICE_MAX.each(u64::MAX, 1).0 % u128::from(u64::MAX), 0);
        assert_eq!(dollars("0.5").per_million(4), dollars("125000"));
        assert_eq!(dollars("0.5").per_million(0), Dollars::ZERO);
        let all = Dollars(u128::MAX);
        assert_eq!(all + all, all);
        assert_eq!([dollars("0.1"), dollars("0.2")].into_iter().sum::<Dollars>(), dollars("0.3"));
        assert!(!all.to_string().is_empty());
    }
}
