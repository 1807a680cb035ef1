//! What flushes and compactions make of merge operands.
//!
//! A *stack* is the operands of one key in one stripe of read points, one upon the other.
//!
//! ```text
//!   under the stack, in its stripe                    what becomes of it
//!   a value without expiry, also in the value log      one value
//!   a tombstone, an expired value, a range tombstone  one value, made of nothing
//!   nothing, and nothing older can exist              one value, made of nothing
//!   a value that will expire; another stripe; unknown its operands, joined as far as possible
//!   a base over which the operator fails              all as it was
//! ```

use terrace_base::{Entry, EntryKind, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::retention::{Retained, Verdict};
use crate::merge::{self, MergeOperator};
use crate::{Error, Result};

/// A stack that takes more memory than this is folded in parts: the part above others stays
/// operands until the next compaction.
const STACK_BYTES_MAX: usize = 4 << 20;

/// What an operand takes beside its bytes.
const OPERAND_BYTES: usize = size_of::<Entry>();

/// What lies under a stack.
enum Base {
    /// Nothing, for certain.
    Nothing,
    /// This entry.
    Entry(Entry),
    /// Perhaps something, elsewhere.
    Unknown,
}

impl Retained<'_> {
    /// Folds the stack that begins with the operand on which the input stands, which was judged to
    /// stay. Afterwards the input stands behind the stack and its base, on what is not judged yet.
    #[cold]
    pub(super) fn fold(&mut self) -> Result<()> {
        let Some(operator) = self.rules.operator.clone() else { return Ok(()) };
        let (mut operands, base) = self.take_stack()?;
        let fetched = self.fetch(&base)?;
        let newest = operands[0].seqno;
        if is_planted(PlantedBug::DropOperand) && operands.len() > 1 {
            operands.pop();
        }
        let under = match &base {
            Base::Nothing => Some(None),
            Base::Entry(entry) if self.rules.is_deletion(&entry.as_ref()) => Some(None),
            Base::Entry(entry)
                if entry.kind == EntryKind::Value
                    && (entry.expiry.is_none() || is_planted(PlantedBug::FoldOverExpiring)) =>
            {
                Some(Some(entry.value.as_slice()))
            }
            Base::Entry(entry) if fetched.is_some() && is_planted(PlantedBug::FoldOverPointer) => {
                Some(Some(entry.value.as_slice()))
            }
            Base::Entry(_) if fetched.is_some() => Some(fetched.as_deref()),
            Base::Unknown if is_planted(PlantedBug::FoldOverUnknown) => Some(None),
            Base::Entry(_) | Base::Unknown => None,
        };
        let value = under.map(|under| {
            let operands = operands.iter().map(|entry| entry.value.as_slice());
            merge::fold(operator.as_ref(), &self.key, under, operands)
        });
        let before = operands.len() + usize::from(matches!(base, Base::Entry(_)));
        match value {
            Some(Ok(value)) => {
                // The value hides what is older from its stripe, as any value does.
                self.hidden_stripe = Some(self.rules.stripe(newest));
                self.show(newest, EntryKind::Value, value);
            }
            // Readers are told; here nothing may be lost.
            Some(Err(error)) => {
                crate::program_log::debug!(%error, "operands stay as they are");
                self.folded.extend(operands);
                self.show_base(base);
            }
            None => {
                self.join(operator.as_ref(), operands);
                self.show_base(base);
            }
        }
        self.dropped += (before - self.folded.len()) as u64;
        Ok(())
    }

    /// The value that the base points to, if it does, can be had, and will not expire.
    fn fetch(&self, base: &Base) -> Result<Option<Vec<u8>>> {
        let Base::Entry(entry) = base else { return Ok(None) };
        let is_pointer = entry.kind == EntryKind::ValuePointer && entry.expiry.is_none();
        let Some(values) = self.rules.values.as_ref().filter(|_| is_pointer) else {
            return Ok(None);
        };
        match values.fetch(&entry.key, &entry.value) {
            Ok(value) => Ok(Some(value)),
            // Readers are told; here nothing may be lost.
            Err(Error::Corruption(error)) => {
                crate::program_log::warn!(%error, "operands stay above a value that is damaged");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The operands of the stack, newest first, and what lies under it.
    fn take_stack(&mut self) -> Result<(Vec<Entry>, Base)> {
        let mut operands: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        let mut verdict = Some(Verdict::Stays);
        while let Some(entry) = self.input.entry() {
            match verdict {
                Some(Verdict::Stays) if entry.kind == EntryKind::MergeOperand => {
                    let operand = entry.to_entry();
                    bytes += operand.key.len() + operand.value.len() + OPERAND_BYTES;
                    operands.push(operand);
                }
                Some(Verdict::Stays) => {
                    let base = Base::Entry(entry.to_entry());
                    self.input.advance()?;
                    return Ok((operands, base));
                }
                Some(Verdict::Spent) => {
                    self.dropped += 1;
                    self.input.advance()?;
                    return Ok((operands, Base::Nothing));
                }
                Some(Verdict::Hidden) | None => self.dropped += 1,
            }
            self.input.advance()?;
            if bytes > STACK_BYTES_MAX {
                return Ok((operands, Base::Unknown));
            }
            if !self.goes_on(operands[0].seqno) {
                break;
            }
            verdict = self.judge()?;
        }
        let stripe = self.rules.stripe(operands[0].seqno);
        let is_last = self.input.entry().is_none_or(|entry| entry.key != self.key.as_slice());
        let is_nothing = self.rules.is_cleared(&self.key, stripe)
            || is_last && self.rules.may_drop_at(&self.key);
        Ok((operands, if is_nothing { Base::Nothing } else { Base::Unknown }))
    }

    /// Whether the input stands on an entry of the key and the stripe of `newest`.
    fn goes_on(&self, newest: SeqNo) -> bool {
        self.input.entry().is_some_and(|entry| {
            let is_same_stripe = self.rules.stripe(entry.seqno) == self.rules.stripe(newest);
            entry.key == self.key.as_slice()
                && (is_same_stripe || is_planted(PlantedBug::FoldAcrossSnapshot))
        })
    }

    fn show(&mut self, seqno: SeqNo, kind: EntryKind, value: Vec<u8>) {
        let key = self.key.clone();
        self.folded.push_back(Entry { key, seqno, kind, expiry: None, value });
    }

    fn show_base(&mut self, base: Base) {
        if let Base::Entry(entry) = base {
            self.folded.push_back(entry);
        }
    }

    /// Shows the operands, neighbours joined.
    fn join(&mut self, operator: &dyn MergeOperator, operands: Vec<Entry>) {
        let named = operands.into_iter().map(|entry| (entry.seqno, entry.value)).collect();
        for (seqno, operand) in merge::combine(operator, &self.key, named) {
            self.show(seqno, EntryKind::MergeOperand, operand);
        }
    }
}
