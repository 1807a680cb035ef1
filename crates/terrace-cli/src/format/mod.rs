//! The text formats of entries, without I/O.
//!
//! | format | one entry is | expiry | export |
//! |---|---|---|---|
//! | `jsonl` | a line: `{"key": "a", "value": "1", "expiry_ms": 4102444800000}` | yes | yes |
//! | `tsv` | a line: key, tab, value, and tab, expiry in ms if there is one | yes | yes |
//! | `deb822` | a paragraph of `Field: value` lines, as in Debian's package index | no | no |
//!
//! Keys and values are bytes. In `jsonl` bytes that are no UTF-8 are objects:
//! `{"base64": "/w=="}`. In `tsv` a backslash stands before what would end a field, and before
//! everything that is not printable: `\t \n \r \\ \xHH`. Both round trip every entry.
//!
//! With a key template (`--key-field`) a line of `jsonl` is any JSON object: the template's fields
//! make the key, and the line is the value. In `deb822` the value is the paragraph as a JSON
//! object, its fields in their order.

mod deb822;
mod jsonl;
mod lines;
mod reader;
mod template;
mod text;
mod words;

pub use jsonl::{put_entry_json, put_key_json};
pub use lines::Lines;
pub use reader::{EntryReader, Format, ReadError};
pub use template::KeyTemplate;
pub use text::{parse_escaped, parse_hex, put_entry_tsv, put_escaped, put_hex, put_shown};
pub use words::{quote_word, split_words};

/// One entry, as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key, as it is.
    pub key: Vec<u8>,
    /// The value, as it is.
    pub value: Vec<u8>,
    /// When the entry goes away, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<u64>,
}
