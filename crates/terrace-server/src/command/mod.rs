//! The commands: a request comes in, a reply is written, with Redis's replies and error texts.
//!
//! # How a command waits
//! A command first runs on the network's thread, where it may not wait: the store answers
//! `NeedsIo` or `WouldBlock` instead, the command ends with [`Fail::Wait`] having done nothing,
//! and runs again on a thread that may wait. So a command must be safe to begin twice, and changes
//! the store in one step (those that cannot, ask for a waiting thread first).
//!
//! # Where things are
//! [`table`] lists the commands; `strings`, `keys`, `expire` and `ordered` work on the store,
//! `connection`, `client` and `describe` on the server, `keyspace` on sets of keys; `explain` says
//! why; `operator` has what takes long. [`running`] has the replies that are too long to hold.

mod client;
mod connection;
mod context;
mod describe;
mod expire;
mod explain;
mod fail;
mod keys;
mod keyspace;
mod numbers;
mod operator;
mod ordered;
mod running;
mod strings;
mod table;

pub(crate) use context::{Context, Mode};
pub(crate) use fail::{CommandResult, Fail, NO_ROOM, NO_ROOM_TEXT, Weight};
pub(crate) use running::Running;
pub(crate) use table::CommandSpec;

use crate::protocol::Request;
use fail::{fail, fail_with, shown};

/// The most bytes of arguments that an error repeats.
const SHOWN_BYTES_MAX: usize = 128;

/// The command that a request asks for, if this client may ask for it.
pub(crate) fn look_up(
    request: &Request<'_>,
    authenticated: bool,
) -> Result<&'static CommandSpec, Fail> {
    let name = request.get(0);
    let spec = table::find(name).ok_or_else(|| unknown_command(request))?;
    if !spec.takes(request.len()) {
        let text = format!("ERR wrong number of arguments for '{}' command", spec.name);
        return Err(fail_with(text));
    }
    if !authenticated && !spec.before_authentication {
        return Err(fail("NOAUTH Authentication required."));
    }
    Ok(spec)
}

fn unknown_command(request: &Request<'_>) -> Fail {
    let mut arguments = String::new();
    for argument in request.from(1) {
        if arguments.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let room = SHOWN_BYTES_MAX - arguments.len();
        arguments.push_str(&format!("'{}' ", shown(argument, room)));
    }
    let name = shown(request.get(0), SHOWN_BYTES_MAX);
    fail_with(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
}
