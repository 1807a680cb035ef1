use std::sync::Arc;

use crate::clients::ClientHandle;
use crate::shared::{Served, Shared};

/// What a connection has set up for itself.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) entry: ClientHandle,
    pub(crate) authenticated: bool,
    /// Set by a command: the next outcome makes the client wait.
    pub(crate) authentication_failed: bool,
    /// Set by a command: the connection ends once the replies are sent.
    pub(crate) closing: bool,
    /// The keyspace that it has selected.
    pub(crate) served: Arc<Served>,
    pub(crate) reply_mode: ReplyMode,
}

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    /// All.
    On,
    /// None until it says otherwise.
    Off,
    /// Not the one of this command (`CLIENT REPLY SKIP`) nor the one of the next.
    SkipNext,
    /// Not the one of this command.
    Skip,
}

impl Client {
    pub(super) fn new(entry: ClientHandle, shared: &Shared, authenticated: bool) -> Client {
        Client {
            entry,
            authenticated,
            authentication_failed: false,
            closing: false,
            served: shared.first_keyspace(),
            reply_mode: ReplyMode::On,
        }
    }

    /// Forgets everything that the connection has set up.
    pub(crate) fn reset(&mut self, shared: &Shared, authenticated: bool) {
        self.authenticated = authenticated;
        self.served = shared.first_keyspace();
        self.reply_mode = ReplyMode::On;
        self.entry.details().name.clear();
    }
}

/// Whether `text` may be a client's name: no blanks, nothing that breaks `CLIENT LIST`.
pub(crate) fn is_printable(text: &[u8]) -> bool {
    text.len() <= 1024 && text.iter().all(|byte| matches!(byte, b'!'..=b'~'))
}
