//! The task of one connection: moves bytes between a socket and a [`Session`].

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::ServerOptions;
use crate::budget::FREE_BYTES;
use crate::command::{Mode, Weight};
use crate::net::{self, Instant, Semaphore, Socket, Stop, Transfer};
use crate::session::{Outcome, Session};
use crate::shared::Shared;

/// Who may wait for the disk.
#[derive(Clone)]
pub(crate) struct WaitingThreads {
    all: Arc<Semaphore>,
    scans: Arc<Semaphore>,
    operations: Arc<Semaphore>,
}

impl WaitingThreads {
    /// Room for `count` commands, one in eight of which may be a scan, and for one operation
    /// besides.
    pub(crate) fn new(count: usize) -> WaitingThreads {
        WaitingThreads {
            all: net::permits(count),
            scans: net::permits((count / 8).max(1)),
            operations: net::permits(1),
        }
    }
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) shared: Arc<Shared>,
    pub(crate) waiting_threads: WaitingThreads,
    pub(crate) stop: Stop,
    pub(crate) patience: Patience,
}

/// Since when a client has sent or taken too little.
pub(crate) struct Patience {
    sending_since: Instant,
    received: usize,
    /// Number of requests that had been run by then.
    requests: u64,
    /// Whether another request had begun.
    mid_request: bool,
    /// Since when replies beyond [`FREE_BYTES`] have waited, and how much was taken since.
    taking_since: Option<Instant>,
    taken: usize,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience {
            sending_since: net::now(),
            received: 0,
            requests: 0,
            mid_request: false,
            taking_since: None,
            taken: 0,
        }
    }

    /// When the connection ends unless the client goes on; `sent` bytes were just sent.
    fn deadline(
        &mut self,
        session: &mut Session,
        sent: usize,
        options: &ServerOptions,
        opened: Instant,
    ) -> Option<Instant> {
        let now = net::now();
        let (requests, mid_request) = (session.request_count(), session.is_mid_request());
        if (requests, mid_request) != (self.requests, self.mid_request)
            || self.received >= FREE_BYTES
        {
            self.sending_since = now;
            self.received = 0;
            (self.requests, self.mid_request) = (requests, mid_request);
        }
        let send_within =
            if mid_request { Some(options.stall_timeout) } else { options.idle_timeout };
        self.taken += sent;
        if session.replies().len() <= FREE_BYTES {
            self.taking_since = None;
        } else if self.taking_since.is_none() || self.taken >= FREE_BYTES {
            self.taking_since = Some(now);
            self.taken = 0;
        }
        let must_authenticate = !session.is_authenticated();
        [
            send_within.map(|within| self.sending_since + within),
            self.taking_since.map(|since| since + options.stall_timeout),
            must_authenticate.then_some(opened + options.authentication_timeout),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Connection {
    /// Serves the connection until it ends.
    pub(crate) async fn run(mut self, session: Box<Session>) {
        // A client that is gone is the usual way for a connection to end, not an error.
        let _ = self.serve(session).await;
    }

    async fn serve(&mut self, mut session: Box<Session>) -> io::Result<()> {
        let opened = net::now();
        let mut input_ended = false;
        loop {
            let mut outcome = session.process(Mode::Inline);
            while let Outcome::Wait(weight) = outcome {
                (session, outcome) = self.process_waiting(session, weight).await?;
            }
            if let Err(cut) = session.charge() {
                self.count_cut();
                outcome = cut;
            }
            match outcome {
                Outcome::NeedInput if input_ended => return self.drain(&mut session).await,
                Outcome::NeedInput => match self.receive(&mut session, opened).await? {
                    Received::Bytes => {}
                    Received::End => input_ended = true,
                    Received::Stop => return self.drain(&mut session).await,
                    Received::TooSlow => {
                        self.send(&mut session)?;
                        return Ok(());
                    }
                },
                Outcome::OutputFull => {
                    let room = session.output_soft_bytes() / 2;
                    if self.send_down_to(&mut session, room).await?.is_break() {
                        return Ok(());
                    }
                }
                Outcome::Yield => {
                    self.send(&mut session)?;
                    net::yield_now().await;
                }
                Outcome::Delay(time) => net::sleep(time).await,
                Outcome::Close => return self.drain(&mut session).await,
                Outcome::Cut | Outcome::Wait(_) => {
                    self.count_cut();
                    return Ok(());
                }
            }
        }
    }

    /// Lets the session go on where it may wait.
    async fn process_waiting(
        &mut self,
        mut session: Box<Session>,
        weight: Weight,
    ) -> io::Result<(Box<Session>, Outcome)> {
        self.shared.counters.moved.fetch_add(1, Ordering::Relaxed);
        // Replies to earlier requests need not wait for this one.
        self.send(&mut session)?;
        let stopping = |_| io::Error::from(io::ErrorKind::Interrupted);
        let WaitingThreads { all, scans, operations } = self.waiting_threads.clone();
        let scan_permit = match weight {
            Weight::Scan => Some(scans.acquire_owned().await.map_err(stopping)?),
            Weight::Point | Weight::Operation => None,
        };
        // If an operation has just begun, this one is told so, for which it need not wait.
        let own = (weight == Weight::Operation).then(|| operations.try_acquire_owned().ok());
        let permit = match own.flatten() {
            Some(permit) => permit,
            None => all.acquire_owned().await.map_err(stopping)?,
        };
        let moved = net::on_waiting_thread(move || {
            // Given back by the thread, which runs on even if the connection is gone.
            let _permits = (permit, scan_permit);
            let outcome = session.process(Mode::Blocking(weight));
            (session, outcome)
        });
        let Some(back) = moved.await else {
            // The session went down with the panic, and so goes the connection.
            self.shared.counters.panics.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::Interrupted.into());
        };
        Ok(back)
    }

    /// Sends replies and waits for bytes.
    async fn receive(&mut self, session: &mut Session, opened: Instant) -> io::Result<Received> {
        session.trim();
        loop {
            let sent = self.send(session)?;
            let deadline = self.patience.deadline(session, sent, &self.shared.options, opened);
            let unsent = !session.replies().is_empty();
            let readable = net::select! {
                biased;
                () = self.stop.wait() => return Ok(Received::Stop),
                ready = self.socket.ready(true, unsent) => ready?,
                () = net::sleep_until(deadline.unwrap_or(opened)), if deadline.is_some() => {
                    self.count_cut();
                    return Ok(Received::TooSlow);
                }
            };
            if !readable {
                continue;
            }
            match self.socket.try_read(session.read_buffer())? {
                Transfer::Bytes(0) => return Ok(Received::End),
                Transfer::Bytes(bytes) => {
                    self.patience.received += bytes;
                    return Ok(Received::Bytes);
                }
                Transfer::NotReady => {}
            }
        }
    }

    /// Sends what can be sent without waiting.
    fn send(&mut self, session: &mut Session) -> io::Result<usize> {
        let mut sent = 0;
        while !session.replies().is_empty() {
            match self.socket.try_write(session.replies().unsent())? {
                Transfer::Bytes(bytes) => {
                    session.replies().mark_sent(bytes);
                    sent += bytes;
                }
                Transfer::NotReady => break,
            }
        }
        Ok(sent)
    }

    /// Sends until at most `room` bytes wait, or the client has taken too little for too long.
    async fn send_down_to(
        &mut self,
        session: &mut Session,
        room: usize,
    ) -> io::Result<ControlFlow<()>> {
        let least = session.output_soft_bytes();
        let timeout = self.shared.options.stall_timeout;
        let mut since = net::now();
        let mut sent = 0;
        loop {
            sent += self.send(session)?;
            if session.replies().len() <= room {
                return Ok(ControlFlow::Continue(()));
            }
            if sent >= least {
                since = net::now();
                sent = 0;
            }
            net::select! {
                ready = self.socket.ready(false, true) => { ready?; }
                () = net::sleep_until(since + timeout) => {
                    self.count_cut();
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }

    /// Sends everything that is left, for as long as a client may stall.
    async fn drain(&mut self, session: &mut Session) -> io::Result<()> {
        let grace = self.shared.options.shutdown_grace;
        let stopping = self.stop.is_set();
        net::select! {
            drained = self.send_down_to(session, 0) => drained.map(|_| ()),
            () = net::sleep(grace), if stopping => Ok(()),
        }
    }

    fn count_cut(&self) {
        self.shared.counters.cut.fetch_add(1, Ordering::Relaxed);
    }
}

/// How waiting for bytes ended.
enum Received {
    Bytes,
    /// The client sends no more, but may still read.
    End,
    /// The connection is to end.
    Stop,
    /// The client has lost its place.
    TooSlow,
}
