//! Merge operands before they are written: what they would make, and whether they may be written.
//! Later, nobody is there any more who could be told.

use terrace_base::{EntryKind, SeqNo};

use crate::batch::WriteBatch;
use crate::merge::{self, OperandError};
use crate::store::{Inner, Store};
use crate::{Error, Result};

impl Store {
    /// What `operands`, oldest first and at least one, would make of `base` if they were written:
    /// for who shows writes that are still to come. Errors: `Invalid` if the range has no merge
    /// operator, `Merge`.
    pub fn fold_operands(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        let Some(operator) = &self.inner.merge_operator else {
            return Err(Error::invalid("the database has no merge operator"));
        };
        merge::fold(operator.as_ref(), key, base, operands.iter().rev().copied())
    }
}

impl Inner {
    /// Refuses a batch that merges into a range that has no operator, or merges what the operator
    /// cannot read.
    ///
    /// Errors: `Invalid`, `Operand`.
    #[inline]
    pub(in crate::store) fn check_operands(&self, batch: &WriteBatch) -> Result<()> {
        if batch.has_operands() { self.check_operands_of(batch) } else { Ok(()) }
    }

    fn check_operands_of(&self, batch: &WriteBatch) -> Result<()> {
        let Some(operator) = &self.merge_operator else {
            return Err(Error::invalid(
                "the database has no merge operator: open it with the option merge_operator, \
                 once; it is kept from then on",
            ));
        };
        let entries = batch.entries(SeqNo::ZERO);
        for entry in entries.filter(|entry| entry.kind == EntryKind::MergeOperand) {
            operator.check(entry.key, entry.value).map_err(|failure| {
                let (key, reason) = (entry.key.to_vec(), failure.0);
                let operator = operator.name().to_string();
                Error::Operand(Box::new(OperandError { key, operator, reason }))
            })?;
        }
        Ok(())
    }
}
