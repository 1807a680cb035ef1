use std::time::Duration;

/// What is kept of a keyspace beside its name; see [`Db::keyspace_with`](crate::Db::keyspace_with).
/// What is not set stays as it is.
#[derive(Clone, Debug, Default)]
pub struct KeyspaceOptions {
    pub(super) merge_operator: Option<String>,
    pub(super) ttl: Option<Duration>,
}

impl KeyspaceOptions {
    /// Nothing set.
    #[must_use]
    pub fn new() -> KeyspaceOptions {
        KeyspaceOptions::default()
    }

    /// The name of the operator that the keyspace merges with: a [built-in](crate::merge) one, or
    /// one that the program [brought](crate::Options::merge_operator). A keyspace keeps the first
    /// one that it gets.
    #[must_use]
    pub fn merge_operator(self, name: impl Into<String>) -> KeyspaceOptions {
        KeyspaceOptions { merge_operator: Some(name.into()), ..self }
    }

    /// For how long what is put stays, unless the write says otherwise; zero for ever. Applies to
    /// what is written from now on.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> KeyspaceOptions {
        KeyspaceOptions { ttl: Some(ttl), ..self }
    }
}
