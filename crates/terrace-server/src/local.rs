use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use terrace::Db;

use crate::command::Mode;
use crate::protocol::Replies;
use crate::session::{Outcome, Session};
use crate::shared::Shared;
use crate::{ServeError, ServerOptions};

/// A server that listens nowhere: connections to it are [`LocalSession`]s, which have no sockets.
///
/// What a request means, and what a client may hold, is the same as over a socket. For tests that
/// give a server any bytes in any pieces, and for programs that take requests by another way.
#[derive(Debug)]
pub struct LocalServer {
    shared: Arc<Shared>,
}

/// One connection of a [`LocalServer`]: bytes go in, reply bytes come out.
pub struct LocalSession {
    session: Box<Session>,
    is_open: bool,
}

impl LocalServer {
    /// Serves `db`. Of the options those about listening, threads and time have no meaning here.
    ///
    /// Errors: those of opening keyspaces, and of making the directory for operators.
    pub fn new(db: &Db, options: ServerOptions) -> Result<LocalServer, ServeError> {
        Ok(LocalServer { shared: Arc::new(Shared::new(db, options)?) })
    }

    /// A connection; none if there are as many as the options allow.
    #[must_use]
    pub fn connect(&self) -> Option<LocalSession> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let clients_max = self.shared.options.clients_max;
        let entry = self.shared.clients.add(nowhere, nowhere, clients_max)?;
        let session = Box::new(Session::new(Arc::clone(&self.shared), entry));
        Some(LocalSession { session, is_open: true })
    }

    /// The memory that the connections are charged for, in bytes.
    #[must_use]
    pub fn charged_bytes(&self) -> usize {
        self.shared.budget.used_bytes()
    }
}

impl LocalSession {
    /// Receives `bytes`, runs what is complete on this thread, waiting where a command has to, and
    /// appends what the client would get to `replies`. After [`LocalSession::is_open`] has become
    /// false nothing happens any more.
    pub fn receive(&mut self, mut bytes: &[u8], replies: &mut Vec<u8>) {
        while self.is_open {
            let mut outcome = self.session.process(Mode::Inline);
            while let Outcome::Wait(weight) = outcome {
                outcome = self.session.process(Mode::Blocking(weight));
            }
            match outcome {
                Outcome::NeedInput if bytes.is_empty() => break,
                Outcome::NeedInput => {
                    let room = self.session.read_buffer();
                    let taken = bytes.len().min(room.capacity() - room.len());
                    room.extend_from_slice(&bytes[..taken]);
                    bytes = &bytes[taken..];
                }
                Outcome::Close | Outcome::Cut | Outcome::Wait(_) => self.is_open = false,
                Outcome::OutputFull | Outcome::Yield | Outcome::Delay(_) => {}
            }
            self.is_open &= self.session.charge().is_ok();
            take_replies(self.session.replies(), replies);
        }
        take_replies(self.session.replies(), replies);
    }

    /// Whether the server would keep the connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The memory that the session holds for requests and replies, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.session.memory_bytes()
    }
}

fn take_replies(from: &mut Replies, to: &mut Vec<u8>) {
    to.extend_from_slice(from.unsent());
    from.mark_sent(from.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_without_a_socket_answers_in_any_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let server = LocalServer::new(&db, ServerOptions::default()).unwrap();
        let request =
            b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\nxy\r\nRANGE - +\r\nSTRLEN a\r\nQUIT\r\n";
        for piece_bytes in [1, 2, 7, request.len()] {
            let mut session = server.connect().unwrap();
            let mut replies = Vec::new();
            request.chunks(piece_bytes).for_each(|piece| session.receive(piece, &mut replies));
            assert_eq!(replies, b"+OK\r\n*2\r\n$1\r\na\r\n$2\r\nxy\r\n:2\r\n+OK\r\n");
            assert!(!session.is_open());
        }
        assert_eq!(server.charged_bytes(), 0);
    }
}
