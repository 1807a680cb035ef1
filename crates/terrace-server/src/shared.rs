#![allow(
    clippy::disallowed_types,
    reason = "the server's threads are tokio's, and nobody waits under this lock"
)]

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terrace::{Db, Keyspace, ReadOptions, View};

use crate::budget::Budget;
use crate::clients::Clients;
use crate::cursors::Cursors;
use crate::net::{self, Instant};
use crate::operations::{Operations, OperatorDir};
use crate::{ServeError, ServerOptions};

/// How many keyspaces `SELECT` chooses from.
const KEYSPACES: u16 = 16;

/// What all connections of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) db: Db,
    /// What `SELECT` chooses from.
    pub(crate) keyspaces: Vec<Arc<Served>>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) counters: Counters,
    pub(crate) started: Instant,
    pub(crate) local_port: AtomicU16,
    pub(crate) operations: Operations,
    pub(crate) operator_dir: Option<OperatorDir>,
    cursors: Mutex<Cursors>,
    cancelled: AtomicBool,
}

impl Shared {
    /// Errors: those of opening keyspaces, and of making `operator_dir`.
    pub(crate) fn new(db: &Db, options: ServerOptions) -> Result<Shared, ServeError> {
        let operator_dir = options.operator_dir.as_ref().map(|dir| {
            OperatorDir::make(dir).map_err(|error| ServeError::OperatorDir(dir.clone(), error))
        });
        let keyspaces = (0..KEYSPACES).map(|number| Served::numbered(db, number).map(Arc::new));
        Ok(Shared {
            db: db.clone(),
            keyspaces: keyspaces.collect::<terrace::Result<_>>().map_err(ServeError::Open)?,
            clients: Arc::new(Clients::default()),
            budget: Budget::new(options.client_bytes_max, db.admin().client_memory()),
            counters: Counters::default(),
            started: net::now(),
            local_port: AtomicU16::new(options.listen.port()),
            operations: Operations::default(),
            operator_dir: operator_dir.transpose()?,
            cursors: Mutex::new(Cursors::new(net::wall_now().0 / 1000)),
            cancelled: AtomicBool::new(false),
            options,
        })
    }

    /// The keyspace that connections begin in.
    pub(crate) fn first_keyspace(&self) -> Arc<Served> {
        Arc::clone(&self.keyspaces[0])
    }

    pub(crate) fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether long walks should stop because the server's time to stop is over.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// A keyspace as connections use it.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) keyspace: Keyspace,
    /// For reads on the network's thread: they do not wait.
    pub(crate) at_once: View,
    /// The number by which `SELECT` knows it.
    pub(crate) number: Option<u16>,
}

impl Served {
    /// The keyspace that `SELECT number` chooses.
    fn numbered(db: &Db, number: u16) -> terrace::Result<Served> {
        let keyspace = db.keyspace(&number.to_string())?;
        Ok(Served { number: Some(number), ..Served::new(keyspace) })
    }

    /// A keyspace that was chosen by its name.
    pub(crate) fn new(keyspace: Keyspace) -> Served {
        let at_once = keyspace.with(ReadOptions::new().no_wait());
        Served { keyspace, at_once, number: None }
    }
}

/// What happened since the server was started (or `CONFIG RESETSTAT`).
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) failed_authentications: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) panics: AtomicU64,
}

impl Counters {
    pub(crate) fn reset(&self) {
        let all = [
            &self.connections,
            &self.commands,
            &self.rejected,
            &self.moved,
            &self.failed_authentications,
            &self.cut,
            &self.panics,
        ];
        all.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}
