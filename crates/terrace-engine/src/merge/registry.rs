use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::{AddI64, AddI64Le, Append, Max, MergeOperator};
use crate::{Error, Result};

/// Names of operators are at most this long.
const NAME_BYTES_MAX: usize = 64;

/// The merge operators that a program knows, by name: those of every build, and its own.
#[derive(Clone)]
pub struct MergeOperators {
    list: Vec<Arc<dyn MergeOperator>>,
    /// The operator of a range that has none, and is opened without naming one.
    fallback: Option<String>,
}

/// Operators are pure functions: a panic elsewhere leaves none of them half-way.
impl UnwindSafe for MergeOperators {}
impl RefUnwindSafe for MergeOperators {}

impl Default for MergeOperators {
    /// `add-i64`, `add-i64-le`, `append` and `max`.
    fn default() -> MergeOperators {
        let list: Vec<Arc<dyn MergeOperator>> =
            vec![Arc::new(AddI64), Arc::new(AddI64Le), Arc::new(Append), Arc::new(Max)];
        MergeOperators { list, fallback: None }
    }
}

impl MergeOperators {
    /// With one more.
    #[must_use]
    pub fn with(mut self, operator: Arc<dyn MergeOperator>) -> MergeOperators {
        self.list.push(operator);
        self
    }

    /// These, and no others.
    #[must_use]
    pub fn only(list: Vec<Arc<dyn MergeOperator>>) -> MergeOperators {
        MergeOperators { list, fallback: None }
    }

    /// With the operator of this name for a range that has none, and is opened without naming one.
    #[must_use]
    pub fn with_fallback(mut self, name: &str) -> MergeOperators {
        self.fallback = Some(name.to_string());
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn MergeOperator>> {
        self.list.iter()
    }

    /// The operator with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn MergeOperator>> {
        self.list.iter().find(|operator| operator.name() == name)
    }

    /// Errors: `Invalid`, if two have one name, or a name is out of bounds.
    pub fn validate(&self) -> Result<()> {
        for (index, operator) in self.list.iter().enumerate() {
            let name = operator.name();
            if !is_operator_name(name) {
                return Err(Error::invalid(format!(
                    "{name:?} cannot name a merge operator: \
                     use 1 to {NAME_BYTES_MAX} printable characters of ASCII without spaces"
                )));
            }
            if self.list[..index].iter().any(|other| other.name() == name) {
                return Err(Error::invalid(format!("two merge operators have the name {name}")));
            }
        }
        Ok(())
    }

    /// The operator of a range that is opened with the operator `wanted`, if any, and whose
    /// manifest names `stored`, if any.
    ///
    /// Errors: `Invalid`, if the two differ, or if there is no operator with the name.
    pub fn choose(
        &self,
        wanted: Option<&str>,
        stored: Option<&str>,
    ) -> Result<Option<Arc<dyn MergeOperator>>> {
        if let (Some(wanted), Some(stored)) = (wanted, stored)
            && wanted != stored
        {
            return Err(Error::invalid(format!(
                "the database merges with the operator {stored}, not with {wanted}: what it holds \
                 would mean something else; open it with {stored}, or without naming an operator, \
                 or copy it into a new database (export, import) to change the operator"
            )));
        }
        let fallback = self.fallback.as_deref();
        let Some(name) = stored.or(wanted).or(fallback) else { return Ok(None) };
        match self.find(name) {
            Some(operator) => Ok(Some(Arc::clone(operator))),
            None if stored.is_some() => Err(Error::invalid(format!(
                "the database merges with the operator {name}, which this program does not know; \
                 open it with the program that created it, or add the operator to the options"
            ))),
            None => Err(Error::invalid(format!(
                "there is no merge operator {name}; known are {self:?}"
            ))),
        }
    }
}

/// Whether a manifest may name an operator so.
#[must_use]
pub(crate) fn is_operator_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

impl fmt::Debug for MergeOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.list.iter().map(|operator| operator.name()).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{Append, MergeFailure};

    #[derive(Debug)]
    struct Named(&'static str);

    impl MergeOperator for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn full(
            &self,
            key: &[u8],
            base: Option<&[u8]>,
            operands: &[&[u8]],
        ) -> std::result::Result<Vec<u8>, MergeFailure> {
            Append.full(key, base, operands)
        }
    }

    #[test]
    fn an_operator_is_found_by_its_name_and_a_name_stands_once() {
        let operators = MergeOperators::default().with(Arc::new(Named("own")));
        assert!(operators.validate().is_ok());
        assert_eq!(operators.find("own").map(|operator| operator.name()), Some("own"));
        assert!(operators.find("other").is_none());
        for wrong in ["", "add-i64", "two words", "ä"] {
            let operators = MergeOperators::default().with(Arc::new(Named(wrong)));
            assert!(matches!(operators.validate(), Err(Error::Invalid(_))), "{wrong:?}");
        }
    }

    #[test]
    fn a_range_keeps_its_operator() {
        let operators = MergeOperators::default();
        let chosen = |wanted, stored| {
            let chosen = operators.choose(wanted, stored);
            chosen.map(|chosen| chosen.map(|operator| operator.name().to_string()))
        };
        assert!(matches!(chosen(None, None), Ok(None)));
        for (wanted, stored) in
            [(Some("max"), None), (None, Some("max")), (Some("max"), Some("max"))]
        {
            assert_eq!(chosen(wanted, stored).expect("known").as_deref(), Some("max"));
        }
        let error = chosen(Some("append"), Some("max")).expect_err("another one");
        assert!(error.to_string().contains("open it with max"), "{error}");
        let error = chosen(None, Some("own")).expect_err("not known");
        assert!(error.to_string().contains("add the operator to the options"), "{error}");
        let error = chosen(Some("own"), None).expect_err("not known");
        assert!(error.to_string().contains("add-i64, add-i64-le, append, max"), "{error}");
    }
}
