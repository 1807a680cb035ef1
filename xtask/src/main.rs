//! Checks of the source tree that a machine judges well: `cargo xtask tidy`.
//!
//! Sizes, names and words stay a matter of taste; what is checked here is what everything else
//! rests on: which way crates depend, where the outside world is touched, where `unsafe` may
//! stand, and that byte formats stay pure.

mod rules;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => {}
        _ => {
            eprintln!("usage: cargo xtask tidy");
            return ExitCode::from(2);
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match tidy::check(&root) {
        Ok(findings) if findings.is_empty() => {
            println!("tidy");
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            findings.iter().for_each(|finding| eprintln!("{finding}"));
            eprintln!("{} places are not tidy", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("the source tree cannot be read: {error}");
            ExitCode::from(3)
        }
    }
}
