use std::fmt;

/// How operands change values. One operator serves a whole range, all of its keyspaces.
///
/// An operator is a pure function of its arguments: the same ones give the same result, on every
/// thread, in every process that opens the range, for as long as the range exists. It may be called
/// at any time by writers, readers and background jobs, many at once; it must not panic, block, or
/// call the store. What it does not like it refuses by a [`MergeFailure`]: nothing is lost by that.
pub trait MergeOperator: Send + Sync + fmt::Debug {
    /// The name under which the range keeps it. Choose another one if the meaning of operands ever
    /// changes. At most 64 bytes of printable ASCII without spaces.
    fn name(&self) -> &str;

    /// Whether `operand` can be merged into `key`, whatever its value is. A write that holds one
    /// that is refused is refused as a whole. The default takes every operand.
    ///
    /// It is asked about what callers write, not about what [`MergeOperator::partial`] makes, and
    /// not again about what lies in the range already: [`MergeOperator::full`] must still refuse
    /// what it cannot read.
    fn check(&self, key: &[u8], operand: &[u8]) -> Result<(), MergeFailure> {
        let _ = (key, operand);
        Ok(())
    }

    /// The value of `key` after `operands`, the oldest first, over `base`; `None` if there was no
    /// value. `operands` is never empty. At most 64 MiB may come out of it.
    fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure>;

    /// One operand that does what `older` and then `newer` do; `None` if there is none (the
    /// default).
    ///
    /// Must be exact: `full` gives the same result, or fails the same way, whether two neighbours
    /// were joined before or not.
    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }
}

/// Why an operator refuses operands: a text for people, such as "the operand is no number".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeFailure(pub String);

impl MergeFailure {
    /// A failure for this reason.
    pub fn new(reason: impl Into<String>) -> MergeFailure {
        MergeFailure(reason.into())
    }
}

/// The operands of a key cannot be folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeError {
    /// The key, as the range stores it.
    pub key: Vec<u8>,
    /// The operator; empty if the range has none.
    pub operator: String,
    /// What it said.
    pub reason: String,
}

impl MergeError {
    /// The error as it is told to a caller that knows the key by this name.
    pub fn show(&self, key: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, reason) = (key.escape_ascii(), &self.reason);
        if self.operator.is_empty() {
            return write!(
                f,
                "the key \"{key}\" has merge operands, but {reason}; \
                 open the database with the merge operator that they were written for"
            );
        }
        write!(
            f,
            "the merge operator {} cannot fold the operands of the key \"{key}\" ({reason}); \
             nothing is lost; put or delete the key to go on",
            self.operator
        )
    }
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(&self.key, f)
    }
}

/// A write is refused because the operator cannot read one of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandError {
    /// The key that it was to be merged into, as the range stores it.
    pub key: Vec<u8>,
    /// The operator.
    pub operator: String,
    /// What it said.
    pub reason: String,
}

impl OperandError {
    /// The error as it is told to a caller that knows the key by this name.
    pub fn show(&self, key: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the merge operator {} refuses an operand for the key \"{}\" ({}); \
             nothing was written; correct the operand and write again",
            self.operator,
            key.escape_ascii(),
            self.reason
        )
    }
}

impl fmt::Display for OperandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(&self.key, f)
    }
}
