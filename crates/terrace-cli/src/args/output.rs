//! How results are printed.

use clap::ValueEnum;

/// How a single value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValueOutput {
    /// The bytes and nothing else
    Raw,
    /// A line, with what is not printable escaped
    Text,
    /// A JSON object with key and value
    Json,
}

/// How entries or figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people: what is not printable is escaped, as in tsv
    Text,
    /// JSON, one object a line; bytes that are no UTF-8 as {"base64": "..."}
    Json,
}
