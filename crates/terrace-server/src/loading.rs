//! Clients that come while the database is being opened, which may take long after a crash and
//! after a take-over: the log is read first.
//!
//! ```text
//!   connects, asks before it is open     LOADING, and the connection ends
//!   connects, asks afterwards            is served
//! ```
//! So whoever waits for the server learns that it is on its way, by the same word as from Redis,
//! and clients that try again find it. Nobody is served from half of a database.

#![allow(
    clippy::disallowed_types,
    reason = "the server's threads are tokio's, and nobody waits under this lock"
)]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::net::{self, Listener, Socket, Stop, Tasks, Transfer};
use crate::server::TOO_MANY_CLIENTS;

/// What is said to who asks too early.
const LOADING: &[u8] =
    b"-LOADING the database is being opened, its log may be long; ask again in a moment\r\n";

/// So much of what a client asks is read before it is answered: a socket that is closed with bytes
/// unread may take its last answer back.
const READ_BYTES: usize = 64 << 10;

/// The pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who has connected and not asked anything yet.
#[derive(Clone, Default)]
pub(crate) struct Early(Arc<Mutex<Vec<Socket>>>);

impl Early {
    /// Lets clients connect, `clients_max` at once, until `stop` is set; those who have asked for
    /// nothing by then are handed on.
    pub(crate) async fn gather(
        listener: &Listener,
        clients_max: usize,
        mut stop: Stop,
    ) -> Vec<Socket> {
        let (early, mut tasks, mut count) = (Early::default(), Tasks::new(), 0);
        loop {
            net::select! {
                () = stop.wait() => break,
                accepted = listener.accept() => match accepted {
                    Ok(socket) if count < clients_max => {
                        count += 1;
                        tasks.spawn(early.clone().wait_for(socket, stop.clone()));
                    }
                    Ok(socket) => {
                        // If even this cannot be sent, there is nobody to tell.
                        let _ = socket.try_write(TOO_MANY_CLIENTS);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        net::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = tasks.next_end(), if !tasks.is_empty() => count -= 1,
            }
        }
        while tasks.next_end().await.is_some() {}
        std::mem::take(&mut *early.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, socket: Socket) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    }

    /// Answers a client, or keeps it for later.
    async fn wait_for(self, socket: Socket, mut stop: Stop) {
        loop {
            net::select! {
                ready = socket.ready(true, false) => if ready.is_err() { return },
                () = stop.wait() => return self.keep(socket),
            }
            match socket.try_read(&mut Vec::with_capacity(READ_BYTES)) {
                Ok(Transfer::NotReady) => {}
                Ok(Transfer::Bytes(1..)) => break,
                // It has gone.
                Ok(Transfer::Bytes(_)) | Err(_) => return,
            }
        }
        // If it cannot be sent, there is nobody to tell.
        let _ = socket.try_write(LOADING);
    }
}
