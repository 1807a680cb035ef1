use terrace_base::SeqNo;
use terrace_engine::store::Snapshot as EngineSnapshot;

/// The database, every keyspace of it, as it was at one moment. Made by
/// [`Db::snapshot`](crate::Db::snapshot), and read by [`Keyspace::at`](crate::Keyspace::at).
///
/// It costs no memory and blocks nobody; versions that it may still show are kept until it is
/// dropped. Expiry goes on. Clones share it.
#[derive(Clone, Debug)]
pub struct Snapshot(pub(crate) EngineSnapshot);

impl Snapshot {
    /// The number of the last write that it shows.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.0.seqno()
    }
}
