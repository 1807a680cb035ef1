//! What is fixed when a range is created.

/// The options that the manifest of a range keeps for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// The name of the merge operator. The default is none, which takes the operator that the range
    /// has, if any. A range keeps the first name that it is opened with, since what its stored
    /// operands mean depends on it: to open it with another name is an error. The names `add-i64`,
    /// `append` and `max` are always known, and the option `merge_operators` brings further ones.
    pub merge_operator: Option<String>,
}
