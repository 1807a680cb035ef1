use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::Password;

/// How a server listens and what its clients may hold. Kept for as long as the server runs.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen. Port 0 takes any free port. An address that other machines reach needs a
    /// password, or `insecure`.
    pub listen: SocketAddr,
    /// What clients have to give before they are served; none by default.
    pub password: Option<Password>,
    /// Allows an address that other machines reach without a password. Off by default.
    pub insecure: bool,
    /// The most clients at a time (default 10,000); more are told so and cut.
    pub clients_max: usize,
    /// The memory for requests and replies of all clients together, in bytes, beyond 64 KiB each
    /// (default 1 GiB). A request counts twice while it runs, since what it writes is copied once.
    /// One that would go over the bound, or whose reply would, gets an error; a client whose input
    /// alone goes over it is cut. The value of a read goes straight into its reply; one that a
    /// command reads to write it anew counts twice.
    pub client_bytes_max: usize,
    /// A connection with this many bytes of replies waiting is not parsed further until they are
    /// sent (default 1 MiB).
    pub output_soft_bytes: usize,
    /// How long a connection may stand above `output_soft_bytes` without taking that many bytes,
    /// above 64 KiB of replies without taking 64 KiB, or in the middle of a request without sending
    /// its end or 64 KiB more, before it is cut (default 60 s).
    pub stall_timeout: Duration,
    /// How long a connection may stay without a request before it is cut (none by default: such
    /// connections hold next to nothing, and programs keep them for later).
    pub idle_timeout: Option<Duration>,
    /// How long a client that must authenticate may take for it (default 60 s).
    pub authentication_timeout: Duration,
    /// How many commands may wait for the disk at a time (default 64); more stand in line. One in
    /// eight of these threads may run a long scan.
    pub blocking_threads_max: usize,
    /// The directory under which operators' commands make checkpoints and backups; it is made, for
    /// its owner alone, if it is missing. Without one (the default) there are no such commands.
    pub operator_dir: Option<PathBuf>,
    /// How long a shutdown waits for running commands and for clients to take their replies
    /// (default 10 s).
    pub shutdown_grace: Duration,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)),
            password: None,
            insecure: false,
            clients_max: 10_000,
            client_bytes_max: 1 << 30,
            output_soft_bytes: 1 << 20,
            stall_timeout: Duration::from_secs(60),
            idle_timeout: None,
            authentication_timeout: Duration::from_secs(60),
            blocking_threads_max: 64,
            operator_dir: None,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// The port to listen on unless another is given. Not Redis's own, so that both can run.
pub const DEFAULT_PORT: u16 = 7379;

impl ServerOptions {
    /// Checks the options against each other.
    ///
    /// Errors: an address that other machines reach, with neither password nor `insecure`; a
    /// bound of 0.
    pub fn validate(&self) -> Result<(), OptionsError> {
        if !self.listen.ip().is_loopback() && self.password.is_none() && !self.insecure {
            return Err(OptionsError::Exposed(self.listen));
        }
        let bounds = [
            ("clients_max", self.clients_max),
            ("client_bytes_max", self.client_bytes_max),
            ("output_soft_bytes", self.output_soft_bytes),
            ("blocking_threads_max", self.blocking_threads_max),
        ];
        match bounds.iter().find(|(_, bound)| *bound == 0) {
            Some((name, _)) => Err(OptionsError::Zero(name)),
            None => Ok(()),
        }
    }
}

/// Why a server does not start with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// Other machines would reach it without a password.
    Exposed(SocketAddr),
    /// The option of this name is 0.
    Zero(&'static str),
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionsError::Exposed(address) => write!(
                f,
                "other machines could reach {address} and read and change everything; listen on \
                 127.0.0.1, or set a password (--password-file FILE or the environment variable \
                 TERRACE_PASSWORD), or say --insecure if the network keeps everybody else out"
            ),
            OptionsError::Zero(name) => write!(f, "{name} must be at least 1"),
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_address_needs_a_password_or_a_clear_word() {
        let listen = "0.0.0.0:7379".parse().unwrap();
        let mut options = ServerOptions { listen, ..ServerOptions::default() };
        let error = options.validate().expect_err("is refused");
        assert!(error.to_string().contains("--password-file"));
        options.password = Password::new(b"secret");
        assert_eq!(options.validate(), Ok(()));
        options = ServerOptions { listen, insecure: true, ..ServerOptions::default() };
        assert_eq!(options.validate(), Ok(()));
        options.clients_max = 0;
        assert_eq!(options.validate(), Err(OptionsError::Zero("clients_max")));
        for loopback in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1"] {
            let listen = loopback.parse().unwrap();
            assert_eq!(ServerOptions { listen, ..ServerOptions::default() }.validate(), Ok(()));
        }
    }
}
