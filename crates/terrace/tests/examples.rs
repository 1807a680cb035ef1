//! Every example is run, and prints what its first lines say. There, `…` stands for anything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "the examples are real files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the example says that it prints.
fn promised(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source).unwrap();
    let doc = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim_start);
    let block = doc.skip_while(|line| *line != "```text").skip(1);
    block.take_while(|line| *line != "```").map(str::to_string).collect()
}

/// The example as cargo built it, beside the directory of this test.
fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.is_file(), "{} is not built: run `cargo build --examples`", program.display());
    program
}

fn fits(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut is_open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = if part.is_empty() { "" } else { &rest[at + part.len()..] };
        is_open = part.is_empty();
    }
    rest.is_empty() || is_open
}

/// Whether lines are as promised; a line `…` is any number of them.
fn are_as_promised(lines: &[&str], promised: &[String]) -> bool {
    match promised.split_first() {
        None => lines.is_empty(),
        Some((any, rest)) if any == "…" => {
            (0..=lines.len()).any(|at| are_as_promised(&lines[at..], rest))
        }
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| fits(line, first) && are_as_promised(lines, rest)),
    }
}

#[test]
fn examples_print_what_they_promise() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let source = entry.unwrap().path();
        let name = source.file_stem().unwrap().to_str().unwrap().to_string();
        if name == "web" {
            // It serves until it is stopped, and has a test of its own.
            continue;
        }
        let promised = promised(&source);
        assert!(!promised.is_empty(), "{name} does not say what it prints");
        let output = Command::new(built(&name)).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} failed: {errors}");
        let text = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = text.lines().collect();
        assert!(are_as_promised(&lines, &promised), "{name} prints\n{text}not {promised:#?}");
        count += 1;
    }
    assert!(count >= 10, "{count} examples were found");
}

#[test]
fn a_pattern_is_no_other_line() {
    for (line, pattern) in [("a 7 b", "a … b"), ("a", "a…"), ("", "…"), ("ab", "ab"), ("xb", "…b")]
    {
        assert!(fits(line, pattern), "{line} {pattern}");
    }
    for (line, pattern) in [("a 7 c", "a … b"), ("ab", "a"), ("", "a"), ("ab", "b…")] {
        assert!(!fits(line, pattern), "{line} {pattern}");
    }
}
