//! The binary `terrace`; see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    terrace_cli::main()
}
