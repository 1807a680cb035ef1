#![allow(clippy::disallowed_types, reason = "a server is not part of any simulation")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace::Db;
use terrace_server::{ServeError, ServerOptions, serve_opening as serve_until_stopped};

use crate::args::ServeArgs;
use crate::commands::Target;
use crate::data::{Access, open};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::terminal::{self, Output};

pub(super) fn serve(args: ServeArgs, target: &Target) -> Outcome {
    let defaults = ServerOptions::default();
    let client_bytes_max = match args.client_bytes {
        None => defaults.client_bytes_max,
        Some(bytes) => bytes
            .try_into()
            .map_err(|_| Failure::Usage("a size is larger than memory can be".to_owned()))?,
    };
    let options = ServerOptions {
        listen: args.listen,
        password: files::password(target.args.password_file())?,
        insecure: args.insecure,
        clients_max: args.max_clients,
        client_bytes_max,
        stall_timeout: Duration::from_secs(args.stall_timeout),
        idle_timeout: (args.idle_timeout > 0).then(|| Duration::from_secs(args.idle_timeout)),
        operator_dir: args.operator_dir,
        ..defaults
    };
    // Before the directory is touched.
    options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
    let store_options = args.store.options()?;
    terminal::show_log();
    let directory = target.directory()?;
    // What was opened, to be closed if the server does not start over it.
    let opened = Arc::new(OnceLock::new());
    let keep = Arc::clone(&opened);
    let open_it = move || {
        let db = open(&directory, Access::Create, store_options)?;
        Ok::<Db, Failure>(keep.get_or_init(|| db).clone())
    };
    let served = serve_until_stopped(open_it, options, |address| {
        let mut output = Output::new();
        // Whoever started the server may not be listening, which is no reason to stop.
        let _ = output.line(format_args!("listening on {address}")).and_then(|()| output.finish());
    })?;
    // Closed already if the server ran; if it did not start, this does it.
    let closed = opened.get().map_or(Ok(()), Db::close);
    served.map_err(|error| match error {
        ServeError::Stopped => Failure::Interrupted(error.to_string()),
        _ => Failure::Failed(error.to_string()),
    })?;
    closed.or_else(|error| match error.kind() {
        terrace::ErrorKind::Closed => Ok(()),
        _ => Err(error.into()),
    })
}
