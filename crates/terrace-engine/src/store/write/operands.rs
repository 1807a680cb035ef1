//! Merge operands before they are written: later, nobody is there any more who could be told.

use terrace_base::{EntryKind, SeqNo};

use crate::batch::WriteBatch;
use crate::merge::OperandError;
use crate::store::Inner;
use crate::{Error, Result};

impl Inner {
    /// Refuses a batch that merges into a range that has no operator, or merges what the operator
    /// cannot read.
    ///
    /// Errors: `Invalid`, `Operand`.
    #[inline]
    pub(super) fn check_operands(&self, batch: &WriteBatch) -> Result<()> {
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
