//! The connections that there are, for `CLIENT LIST` and for the bound on their number.

#![allow(
    clippy::disallowed_types,
    reason = "the server's threads are tokio's, and nobody waits under this lock"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::net::{self, Instant};
use crate::protocol::Resp;

/// What others may see of a connection.
#[derive(Debug)]
pub(crate) struct ClientEntry {
    pub(crate) id: u64,
    peer: SocketAddr,
    local: SocketAddr,
    connected: Instant,
    details: Mutex<Details>,
}

/// The part that changes.
#[derive(Debug)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) library_name: String,
    pub(crate) library_version: String,
    /// The number of its keyspace; none for one that has a name alone.
    pub(crate) keyspace: Option<u16>,
    pub(crate) resp: Resp,
    pub(crate) last_command: &'static str,
    pub(crate) last_active: Instant,
}

impl ClientEntry {
    /// The part that changes, for a moment.
    pub(crate) fn details(&self) -> MutexGuard<'_, Details> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for `CLIENT LIST`, without its end.
    pub(crate) fn describe(&self) -> String {
        let details = self.details();
        let mut line = String::new();
        let written = write!(
            line,
            "id={} addr={} laddr={} name={} age={} idle={} flags=N db={} sub=0 psub=0 ssub=0 \
             multi=-1 events=r cmd={} user=default resp={} lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.local,
            details.name,
            self.connected.elapsed().as_secs(),
            details.last_active.elapsed().as_secs(),
            details.keyspace.map_or(-1, i32::from),
            details.last_command,
            details.resp.number(),
            details.library_name,
            details.library_version,
        );
        written.expect("writing to memory does not fail");
        line
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    entries: Mutex<BTreeMap<u64, Arc<ClientEntry>>>,
    last_id: AtomicU64,
}

impl Clients {
    /// Adds a connection, unless there are `clients_max` already.
    pub(crate) fn add(
        self: &Arc<Clients>,
        peer: SocketAddr,
        local: SocketAddr,
        clients_max: usize,
    ) -> Option<ClientHandle> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= clients_max {
            return None;
        }
        let now = net::now();
        let details = Details {
            name: String::new(),
            library_name: String::new(),
            library_version: String::new(),
            keyspace: Some(0),
            resp: Resp::V2,
            last_command: "NULL",
            last_active: now,
        };
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let details = Mutex::new(details);
        let entry = Arc::new(ClientEntry { id, peer, local, connected: now, details });
        entries.insert(id, entry.clone());
        Some(ClientHandle { clients: self.clone(), entry })
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn for_each(&self, visit: impl FnMut(&ClientEntry)) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().map(Arc::as_ref).for_each(visit);
    }
}

/// A connection's place among all; given up when it is dropped.
#[derive(Debug)]
pub(crate) struct ClientHandle {
    clients: Arc<Clients>,
    entry: Arc<ClientEntry>,
}

impl std::ops::Deref for ClientHandle {
    type Target = ClientEntry;

    fn deref(&self) -> &ClientEntry {
        &self.entry
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        let mut entries = self.clients.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&self.entry.id);
    }
}
