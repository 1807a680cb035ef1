//! One connection without its socket: bytes go in, commands run, reply bytes come out.
//!
//! # Why apart from the socket
//! A session is a value that moves: it runs on the network's thread as long as nothing has to
//! wait, and is handed to a thread that may wait, with the rest of its pipeline, when something
//! does. And it can be tested byte by byte.
//!
//! # Invariants
//! 1. Requests run in the order in which they were received, and so come their replies.
//! 2. Nothing is left of a command that ends with [`Fail::Wait`]: no reply, no write.
//! 3. The replies of a [`WriteRun`] that is not yet written are the last ones in the buffer, and
//!    [`Session::process`] returns only when there is no such run.

mod client;
mod write_run;

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) use client::{Client, ReplyMode, is_printable};
pub(crate) use write_run::WriteRun;

use crate::budget::{Charge, FREE_BYTES};
use crate::clients::ClientHandle;
use crate::command::{
    CommandResult, CommandSpec, Context, Fail, Mode, NO_ROOM, NO_ROOM_TEXT, Running, Weight,
    look_up,
};
use crate::net;
use crate::protocol::{DecodeLimits, Decoder, Progress, Replies};
use crate::shared::Shared;

/// How long a client waits for the answer to a wrong password.
const FAILED_AUTHENTICATION_DELAY: Duration = Duration::from_millis(250);

/// The replies that may wait before a client has authenticated, in bytes.
const UNAUTHENTICATED_OUTPUT_BYTES: usize = 4 * 1024;

/// How many commands run before other connections get their turn.
const COMMANDS_PER_TURN: u64 = 512;

/// What a session needs to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// More bytes from the client.
    NeedInput,
    /// That the client takes some of its replies.
    OutputFull,
    /// A turn, after others had theirs.
    Yield,
    /// A thread that may wait.
    Wait(Weight),
    /// That some time passes.
    Delay(Duration),
    /// That the remaining replies are sent; then it is over.
    Close,
    /// That it ends at once.
    Cut,
}

/// One connection's state.
pub(crate) struct Session {
    shared: Arc<Shared>,
    decoder: Decoder,
    replies: Replies,
    client: Client,
    running: Option<Running>,
    run: WriteRun,
    /// Where the run began: the position in the input, and the length of the output.
    run_mark: (usize, usize),
    charge: Charge,
    last_command: &'static str,
    request_count: u64,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, entry: ClientHandle) -> Session {
        let authenticated = shared.options.password.is_none();
        Session {
            decoder: Decoder::new(decode_limits(authenticated)),
            replies: Replies::new(),
            client: Client::new(entry, &shared, authenticated),
            running: None,
            run: WriteRun::default(),
            run_mark: (0, 0),
            charge: Charge::new(&shared.budget),
            last_command: "NULL",
            request_count: 0,
            shared,
        }
    }

    /// Room for received bytes; see [`Decoder::read_buffer`].
    pub(crate) fn read_buffer(&mut self) -> &mut Vec<u8> {
        self.decoder.read_buffer()
    }

    /// The replies to send.
    pub(crate) fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    /// Whether the client has authenticated or need not.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.client.authenticated
    }

    /// Above how many bytes of waiting replies nothing more is parsed.
    pub(crate) fn output_soft_bytes(&self) -> usize {
        if self.client.authenticated {
            self.shared.options.output_soft_bytes
        } else {
            UNAUTHENTICATED_OUTPUT_BYTES
        }
    }

    /// Accounts for the memory held; if all connections together hold too much, says so to this
    /// one, which must end.
    pub(crate) fn charge(&mut self) -> Result<(), Outcome> {
        if self.charge.set(self.memory_bytes()) {
            return Ok(());
        }
        if self.running.is_some() {
            // Half of a reply is out: an error in its middle would be taken for a part of it.
            return Err(Outcome::Cut);
        }
        self.replies.error(NO_ROOM_TEXT);
        Err(Outcome::Close)
    }

    /// The memory held for requests and replies, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.replies.memory_bytes()
    }

    /// Whether some bytes of a request have come, but not all.
    pub(crate) fn is_mid_request(&self) -> bool {
        self.decoder.is_mid_request()
    }

    /// How many requests have been run.
    pub(crate) fn request_count(&self) -> u64 {
        self.request_count
    }

    /// Gives back memory that an idle connection should not hold.
    pub(crate) fn trim(&mut self) {
        self.decoder.trim();
    }

    /// Runs what can run.
    pub(crate) fn process(&mut self, mode: Mode) -> Outcome {
        let mut commands = 0;
        let mut outcome = self.process_requests(mode, &mut commands);
        if let Err(fail) = self.finish_run(mode) {
            outcome = stopped_by(&fail);
        }
        if commands > 0 {
            self.request_count += commands;
            self.shared.counters.commands.fetch_add(commands, Ordering::Relaxed);
            let mut details = self.client.entry.details();
            details.last_command = self.last_command;
            details.last_active = net::now();
            details.keyspace = self.client.served.number;
            details.resp = self.replies.resp();
        }
        outcome
    }

    fn process_requests(&mut self, mode: Mode, commands: &mut u64) -> Outcome {
        loop {
            if self.replies.len() >= self.output_soft_bytes() {
                return Outcome::OutputFull;
            }
            if self.running.is_some() {
                match self.step_running(mode) {
                    Ok(true) => self.end_request(),
                    Ok(false) => return Outcome::OutputFull,
                    Err(fail) => return stopped_by(&fail),
                }
                continue;
            }
            if self.client.closing {
                return Outcome::Close;
            }
            if *commands >= COMMANDS_PER_TURN {
                return Outcome::Yield;
            }
            match self.decoder.poll() {
                Ok(Progress::NeedBytes) => return Outcome::NeedInput,
                Ok(Progress::Request) => {}
                Err(error) => return self.refuse_input(mode, &error.to_string()),
            }
            *commands += 1;
            if let Err(fail) = self.run_request(mode) {
                return stopped_by(&fail);
            }
            if std::mem::take(&mut self.client.authentication_failed) {
                self.shared.counters.failed_authentications.fetch_add(1, Ordering::Relaxed);
                return Outcome::Delay(FAILED_AUTHENTICATION_DELAY);
            }
        }
    }

    fn refuse_input(&mut self, mode: Mode, error: &str) -> Outcome {
        if let Err(fail) = self.finish_run(mode) {
            return stopped_by(&fail);
        }
        self.shared.counters.cut.fetch_add(1, Ordering::Relaxed);
        self.replies.error(&format!("ERR {error}"));
        Outcome::Close
    }

    /// Runs the request that stands ready, up to its reply or the beginning of a long one.
    ///
    /// Errors: it has to run elsewhere, or the connection has to end.
    fn run_request(&mut self, mode: Mode) -> CommandResult {
        let request = self.decoder.request();
        let spec = look_up(&request, self.client.authenticated);
        let joins = spec.as_ref().is_ok_and(|spec| (spec.joins_run)(&request))
            && !request.is_inline()
            && self.client.reply_mode == ReplyMode::On;
        if !joins || self.run.is_full() {
            self.finish_run(mode)?;
        }
        if self.run.is_empty() {
            self.run_mark = (self.decoder.position(), self.replies.len());
        }
        let mark = self.replies.len();
        match spec.and_then(|spec| self.call(spec, mode, joins)) {
            Ok(()) => {}
            Err(Fail::Reply(text)) => {
                self.running = None;
                self.replies.truncate(mark);
                // This reply is not the run's, so the run ends before it.
                self.finish_run(mode)?;
                self.replies.error(&text);
            }
            Err(fail) => {
                self.running = None;
                self.replies.truncate(mark);
                return Err(fail);
            }
        }
        if self.client.reply_mode != ReplyMode::On {
            self.running = None;
        }
        if self.running.is_none() {
            self.apply_reply_mode(mark);
            self.end_request();
        }
        Ok(())
    }

    fn call(&mut self, spec: &'static CommandSpec, mode: Mode, joins: bool) -> CommandResult {
        self.last_command = spec.name;
        let mut context = Context {
            shared: &self.shared,
            client: &mut self.client,
            replies: &mut self.replies,
            mode,
            running: &mut self.running,
            write_run: joins.then_some(&mut self.run),
            now: OnceCell::new(),
            charge: &mut self.charge,
        };
        // What is written is copied once on its way.
        let request = self.decoder.request();
        if self.decoder.memory_bytes() > FREE_BYTES
            && !context.charge.add(request.from(0).map(<[u8]>::len).sum())
        {
            return Err(NO_ROOM);
        }
        (spec.run)(&mut context, &request)
    }

    /// Takes back the replies that the client does not want.
    fn apply_reply_mode(&mut self, mark: usize) {
        let mode = self.client.reply_mode;
        if mode == ReplyMode::On {
            return;
        }
        self.replies.truncate(mark);
        self.client.reply_mode = match mode {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            other => other,
        };
    }

    fn end_request(&mut self) {
        self.running = None;
        self.decoder.consume();
        self.decoder.set_limits(decode_limits(self.client.authenticated));
    }

    /// Goes on with a reply in pieces; whether it is done.
    fn step_running(&mut self, mode: Mode) -> Result<bool, Fail> {
        if mode == Mode::Inline {
            return Err(Fail::Wait(Weight::Point));
        }
        let soft_bytes = self.output_soft_bytes();
        let done = match &mut self.running {
            Some(Running::Mget(reply)) => {
                let request = self.decoder.request();
                reply.step(&request, &mut self.replies, &mut self.charge, soft_bytes)
            }
            Some(Running::Range(reply)) => {
                reply.step(&mut self.replies, &mut self.charge, soft_bytes)
            }
            None => Ok(true),
        };
        // Part of the reply is out already, so an error has no place to go.
        done.map_err(|_| Fail::Cut)
    }

    /// Writes the run of plain writes, if there is one. If that has to wait, the session stands
    /// before the first of them again; if it fails, their replies are errors.
    fn finish_run(&mut self, mode: Mode) -> CommandResult {
        if self.run.is_empty() {
            return Ok(());
        }
        let (position, replies_len) = self.run_mark;
        let count = self.run.count();
        let options = terrace::WriteOptions::new();
        let options = if mode == Mode::Inline { options.no_wait() } else { options };
        match self.run.write(&self.shared.db, &options) {
            Ok(()) => Ok(()),
            Err(Fail::Reply(text)) => {
                self.replies.truncate(replies_len);
                (0..count).for_each(|_| self.replies.error(&text));
                Ok(())
            }
            Err(fail) => {
                self.replies.truncate(replies_len);
                self.decoder.rewind(position);
                Err(fail)
            }
        }
    }
}

impl Context<'_> {
    /// Shows this command as the client's last one before its turn ends.
    pub(crate) fn note_activity(&self) {
        let mut details = self.client.entry.details();
        details.last_command = "client";
        details.last_active = net::now();
        details.keyspace = self.client.served.number;
        details.resp = self.replies.resp();
    }
}

fn decode_limits(authenticated: bool) -> DecodeLimits {
    if authenticated { DecodeLimits::AUTHENTICATED } else { DecodeLimits::UNAUTHENTICATED }
}

fn stopped_by(fail: &Fail) -> Outcome {
    match fail {
        Fail::Wait(weight) => Outcome::Wait(*weight),
        Fail::Reply(_) | Fail::Cut => Outcome::Cut,
    }
}
