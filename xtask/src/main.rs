//! Checks of the source tree that a machine judges well (`cargo xtask tidy`), and the page that a
//! soak leaves (`cargo xtask soak-page`), and the listing of the library's public surface
//! (`cargo xtask surface`).
//!
//! Sizes, names and words stay a matter of taste; what is checked here is what everything else
//! rests on: which way crates depend, where the outside world is touched, where `unsafe` may
//! stand, and that byte formats stay pure.

#![allow(clippy::disallowed_methods, reason = "the checks read the source tree")]

mod rules;
mod soak_page;
mod surface;
mod tidy;

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match words[..] {
        ["tidy"] => tidy(&root),
        ["surface"] => surface(&root, false),
        ["surface", "write"] => surface(&root, true),
        ["soak-page", minutes, seed] => soak_page(&root, minutes, seed),
        _ => {
            eprintln!(
                "usage: cargo xtask tidy\n       cargo xtask surface [write]\n       cargo xtask \
                 soak-page MINUTES SEED"
            );
            ExitCode::from(2)
        }
    }
}

fn surface(root: &Path, writes: bool) -> ExitCode {
    match surface::check(root, writes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn tidy(root: &Path) -> ExitCode {
    match tidy::check(root) {
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

fn soak_page(root: &Path, minutes: &str, seed: &str) -> ExitCode {
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match soak_page::write(root, minutes, seed, &commit.unwrap_or_default()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}
