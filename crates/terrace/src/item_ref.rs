use terrace_base::{EntryRef, Expiry, SeqNo};

/// An entry where it lies: what [`Db::look`](crate::Db::look) shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemRef<'a> {
    /// The value.
    pub value: &'a [u8],
    /// When it goes, if ever.
    pub expiry: Option<Expiry>,
    /// When it was written.
    pub seqno: SeqNo,
}

impl<'a> From<&EntryRef<'a>> for ItemRef<'a> {
    fn from(entry: &EntryRef<'a>) -> ItemRef<'a> {
        ItemRef { value: entry.value, expiry: entry.expiry, seqno: entry.seqno }
    }
}
