//! The operators that every build knows.

use super::{MergeFailure, MergeOperator};

/// `add-i64`: adds numbers.
///
/// Values and operands are decimal text (`42`, `-7`, `+7`), as the command line shows them and as
/// Redis keeps its counters. No value counts as 0. Values lie within 64 bits with a sign; a sum
/// beyond is refused, and counts again as soon as later operands bring it back. Operands lie
/// within ±2⁹⁶, so that joined ones stay exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddI64;

/// Operands, joined ones included, lie within this distance from 0, so that two thousand million of
/// them do not leave an `i128`: no order of additions fails where another would not.
const OPERAND_MAX: i128 = 1 << 96;

fn number(bytes: &[u8], what: &str) -> Result<i128, MergeFailure> {
    let parsed = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i128>().ok());
    parsed.ok_or_else(|| {
        let shown = &bytes[..bytes.len().min(32)];
        MergeFailure::new(format!("the {what} \"{}\" is no number", shown.escape_ascii()))
    })
}

fn operand(bytes: &[u8]) -> Result<i128, MergeFailure> {
    let number = number(bytes, "operand")?;
    if number.unsigned_abs() > OPERAND_MAX.unsigned_abs() {
        return Err(MergeFailure::new(format!("the operand {number} is beyond 96 bits")));
    }
    Ok(number)
}

impl MergeOperator for AddI64 {
    fn name(&self) -> &'static str {
        "add-i64"
    }

    fn check(&self, _: &[u8], bytes: &[u8]) -> Result<(), MergeFailure> {
        operand(bytes).map(|_| ())
    }

    fn full(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure> {
        let mut sum = 0i128;
        if let Some(base) = base {
            let base = number(base, "value")?;
            sum = i128::from(i64::try_from(base).map_err(|_| beyond(base))?);
        }
        for bytes in operands {
            let sums = sum.checked_add(operand(bytes)?);
            sum = sums.ok_or_else(|| MergeFailure::new("there are too many operands"))?;
        }
        match i64::try_from(sum) {
            Ok(sum) => Ok(sum.to_string().into_bytes()),
            Err(_) => Err(beyond(sum)),
        }
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let sum = operand(older).ok()? + operand(newer).ok()?;
        (sum.abs() <= OPERAND_MAX).then(|| sum.to_string().into_bytes())
    }
}

fn beyond(number: i128) -> MergeFailure {
    MergeFailure::new(format!("{number} does not fit a value of 64 bits"))
}

/// `add-i64-le`: adds numbers of 64 bits with a sign, in eight bytes each, the least significant
/// first, as `i64::to_le_bytes` gives them.
///
/// No value counts as 0. A sum beyond 64 bits wraps around, as the arithmetic of the machine does:
/// then every sum is a value, and no order of additions fails where another would not.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddI64Le;

fn little_endian(bytes: &[u8], what: &str) -> Result<i64, MergeFailure> {
    bytes.try_into().map(i64::from_le_bytes).map_err(|_| {
        MergeFailure::new(format!("the {what} has {} bytes, a number has 8", bytes.len()))
    })
}

impl MergeOperator for AddI64Le {
    fn name(&self) -> &'static str {
        "add-i64-le"
    }

    fn check(&self, _: &[u8], bytes: &[u8]) -> Result<(), MergeFailure> {
        little_endian(bytes, "operand").map(|_| ())
    }

    fn full(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure> {
        let mut sum = base.map_or(Ok(0), |base| little_endian(base, "value"))?;
        for bytes in operands {
            sum = sum.wrapping_add(little_endian(bytes, "operand")?);
        }
        Ok(sum.to_le_bytes().to_vec())
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let (older, newer) =
            (little_endian(older, "operand").ok()?, little_endian(newer, "operand").ok()?);
        Some(older.wrapping_add(newer).to_le_bytes().to_vec())
    }
}

/// `append`: the operands behind the value, with nothing in between. Any bytes can be appended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &'static str {
        "append"
    }

    fn full(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure> {
        let base = base.unwrap_or_default();
        let mut value =
            Vec::with_capacity(base.len() + operands.iter().map(|o| o.len()).sum::<usize>());
        value.extend_from_slice(base);
        operands.iter().for_each(|operand| value.extend_from_slice(operand));
        Ok(value)
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

/// `max`: the greatest of the value and the operands, in the order of keys: bytewise. Any bytes can
/// be compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &'static str {
        "max"
    }

    fn full(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure> {
        let greatest = operands.iter().copied().chain(base).max();
        Ok(greatest.unwrap_or_default().to_vec())
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(older.max(newer).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(
        operator: &dyn MergeOperator,
        base: Option<&str>,
        operands: &[&str],
    ) -> Result<String, String> {
        let operands: Vec<&[u8]> = operands.iter().map(|operand| operand.as_bytes()).collect();
        let value = operator.full(b"k", base.map(str::as_bytes), &operands);
        value.map(|value| String::from_utf8(value).expect("text")).map_err(|failure| failure.0)
    }

    fn partial(operator: &dyn MergeOperator, older: &str, newer: &str) -> Option<String> {
        let joined = operator.partial(b"k", older.as_bytes(), newer.as_bytes())?;
        Some(String::from_utf8(joined).expect("text"))
    }

    #[test]
    fn numbers_are_added_exactly_or_not_at_all() {
        let (least, most) = (i64::MIN.to_string(), i64::MAX.to_string());
        assert_eq!(full(&AddI64, None, &["1", "-3"]).as_deref(), Ok("-2"));
        assert_eq!(full(&AddI64, Some("40"), &["+2"]).as_deref(), Ok("42"));
        // What lies between does not matter, so joining operands changes nothing.
        assert_eq!(full(&AddI64, Some(&most), &["1", "-1"]), Ok(most.clone()));
        assert_eq!(full(&AddI64, Some(&least), &[&most, "1"]).as_deref(), Ok("0"));
        assert_eq!(partial(&AddI64, &most, &most), Some((2 * i128::from(i64::MAX)).to_string()));
        for (base, operand) in
            [(Some(&most[..]), "1"), (Some("x"), "1"), (None, ""), (None, "1.5"), (None, " 1")]
        {
            assert!(full(&AddI64, base, &[operand]).is_err(), "{base:?} {operand:?}");
        }
        let far = (1i128 << 96).to_string();
        assert_eq!(partial(&AddI64, &far, "1"), None, "it would not be an operand");
        assert_eq!(partial(&AddI64, "x", "1"), None);
        for beyond in [format!("{far}0"), i128::MAX.to_string(), i128::MIN.to_string()] {
            assert!(full(&AddI64, None, &[&beyond]).is_err(), "{beyond}");
            assert!(AddI64.check(b"k", beyond.as_bytes()).is_err(), "{beyond}");
            assert_eq!(partial(&AddI64, &beyond, "1"), None, "{beyond}");
        }
    }

    #[test]
    fn numbers_in_bytes_are_added_and_wrap_around() {
        let bytes = |number: i64| number.to_le_bytes();
        let full = |base: Option<i64>, operands: &[i64]| {
            let operands: Vec<_> = operands.iter().map(|operand| bytes(*operand)).collect();
            let operands: Vec<&[u8]> = operands.iter().map(|operand| &operand[..]).collect();
            let base = base.map(bytes);
            AddI64Le.full(b"k", base.as_ref().map(|base| &base[..]), &operands).expect("numbers")
        };
        assert_eq!(full(None, &[1, -3]), bytes(-2));
        assert_eq!(full(Some(40), &[2]), bytes(42));
        assert_eq!(full(Some(i64::MAX), &[1]), bytes(i64::MIN));
        assert_eq!(AddI64Le.partial(b"k", &bytes(1), &bytes(2)), Some(bytes(3).to_vec()));
        for wrong in [&b""[..], b"1", b"123456789"] {
            assert!(AddI64Le.check(b"k", wrong).is_err(), "{wrong:?}");
            assert!(AddI64Le.full(b"k", Some(wrong), &[&bytes(1)]).is_err(), "{wrong:?}");
            assert!(AddI64Le.full(b"k", None, &[wrong]).is_err(), "{wrong:?}");
            assert_eq!(AddI64Le.partial(b"k", wrong, &bytes(1)), None);
        }
    }

    /// Whatever can be folded over nothing was taken at the write, and the other way about.
    #[test]
    fn what_is_checked_is_what_can_be_folded() {
        let operators: [&dyn MergeOperator; 4] = [&AddI64, &AddI64Le, &Append, &Max];
        for operand in ["", "0", "+7", "8 bytes!", "-7", "1.5", " 1", "many", "\u{e9}"] {
            for operator in operators {
                let is_taken = operator.check(b"k", operand.as_bytes()).is_ok();
                let is_folded = operator.full(b"k", None, &[operand.as_bytes()]).is_ok();
                assert_eq!(is_taken, is_folded, "{operator:?} {operand:?}");
            }
        }
        assert!(AddI64.check(b"k", b"\xff").is_err() && Append.check(b"k", b"\xff").is_ok());
    }

    #[test]
    fn append_keeps_the_order_and_max_the_greatest() {
        assert_eq!(full(&Append, None, &["a", "", "b"]).as_deref(), Ok("ab"));
        assert_eq!(full(&Append, Some("x"), &["a", "b"]).as_deref(), Ok("xab"));
        assert_eq!(partial(&Append, "a", "b").as_deref(), Some("ab"));
        assert_eq!(full(&Max, Some("b"), &["a", "ba"]).as_deref(), Ok("ba"));
        assert_eq!(full(&Max, Some("c"), &["a"]).as_deref(), Ok("c"));
        assert_eq!(full(&Max, None, &["a", "b"]).as_deref(), Ok("b"));
        assert_eq!(partial(&Max, "b", "a").as_deref(), Some("b"));
    }
}
