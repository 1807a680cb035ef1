//! Reads the source tree and compares it with the rules.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::rules::{ARROWS, IMPURE, MARKS, OUTSIDE, Outside, UNSAFE};

/// A place that breaks a rule.
pub struct Finding {
    file: PathBuf,
    line: usize,
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}

/// A source file.
struct Source {
    /// Relative to the root, with `/`.
    path: String,
    text: String,
}

impl Source {
    /// Its lines outside of tests and comments, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.is_test();
        let tests_from = self.text.lines().position(|line| line.trim() == "#[cfg(test)]");
        // A test module stands last in its file; an attribute on a single item does not.
        let end = tests_from.filter(|at| {
            let next = self.text.lines().nth(at + 1).unwrap_or_default().trim();
            next.starts_with("mod ") && next.ends_with('{')
        });
        let numbered = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered
            .take(if is_test { 0 } else { end.unwrap_or(usize::MAX) })
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || ["/tests.rs", "/models.rs", "/contract.rs"]
                .iter()
                .any(|name| self.path.ends_with(name))
    }

    fn finding(&self, line: usize, text: impl Into<String>) -> Finding {
        Finding { file: self.path.clone().into(), line, text: text.into() }
    }
}

/// Every place under `root` that breaks a rule.
pub fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let mut sources = Vec::new();
    for dir in ["crates", "xtask"] {
        collect(root, &root.join(dir), &mut sources)?;
    }
    let mut findings = Vec::new();
    for source in &sources {
        check_outside(source, &mut findings);
        check_unsafe(source, &mut findings);
        check_format(source, &mut findings);
        check_marks(source, &mut findings);
        check_comments(source, &mut findings);
    }
    check_arrows(root, &mut findings)?;
    for listed in OUTSIDE.iter().flat_map(listed_paths) {
        if !sources.iter().any(|source| source.path == listed) {
            let text = "listed as touching the outside, but not there".to_string();
            findings.push(Finding { file: listed.into(), line: 0, text });
        }
    }
    Ok(findings)
}

fn listed_paths(outside: &Outside) -> impl Iterator<Item = String> + use<'_> {
    outside.listed.iter().map(|(path, _)| format!("crates/{}/{path}", outside.krate))
}

fn collect(root: &Path, dir: &Path, sources: &mut Vec<Source>) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(root, &path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            sources.push(Source { path: parts.join("/"), text: fs::read_to_string(&path)? });
        }
    }
    Ok(())
}

fn check_outside(source: &Source, findings: &mut Vec<Finding>) {
    for outside in OUTSIDE {
        let inside = source.path.starts_with(&format!("crates/{}/src/", outside.krate));
        if !inside || listed_paths(outside).any(|listed| listed == source.path) {
            continue;
        }
        for (line, text) in source.code() {
            for word in outside.banned.iter().copied().flatten() {
                if text.contains(word) {
                    let advice = "goes through terrace-env, or one of the modules in xtask's rules";
                    findings.push(source.finding(line, format!("`{word}`: {advice}")));
                }
            }
        }
    }
}

fn check_unsafe(source: &Source, findings: &mut Vec<Finding>) {
    if UNSAFE.contains(&source.path.as_str()) || source.is_test() {
        return;
    }
    for (line, text) in source.code() {
        let has_word = text
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == "unsafe" || word == "unsafe_code");
        if has_word && !source.path.starts_with("xtask/") {
            findings.push(source.finding(line, "`unsafe` may not stand here"));
        }
    }
}

fn check_format(source: &Source, findings: &mut Vec<Finding>) {
    let is_format = source.path.ends_with("/format.rs") || source.path.contains("/format/");
    if !is_format || !source.path.starts_with("crates/terrace-engine/") {
        return;
    }
    for (line, text) in source.code() {
        if let Some(word) = IMPURE.iter().find(|word| text.contains(*word)) {
            findings.push(source.finding(line, format!("a byte format knows nothing of `{word}`")));
        }
    }
}

fn check_marks(source: &Source, findings: &mut Vec<Finding>) {
    if source.path.starts_with("xtask/") {
        return;
    }
    for (index, text) in source.text.lines().enumerate() {
        if let Some(mark) = MARKS.iter().find(|mark| text.contains(*mark)) {
            findings.push(source.finding(index + 1, format!("`{mark}` is left")));
        }
    }
}

/// Columns of a line of a comment, as of code. A row of a table has as many as it needs.
const COLUMNS_MAX: usize = 100;

/// Each item's description is whole sentences of its own. One that goes on at the next item is torn
/// apart by whatever shows a single item: an editor, the pages of rustdoc, a reader who searches.
/// And rustfmt does not look at the length of comments.
fn check_comments(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.text.lines().enumerate() {
        let is_comment = line.trim_start().starts_with("//");
        let is_row = line.trim_start_matches([' ', '/', '!']).starts_with('|');
        if is_comment && !is_row && line.chars().count() > COLUMNS_MAX {
            let text = format!("a comment has more than {COLUMNS_MAX} columns");
            findings.push(source.finding(index + 1, text));
        }
    }
    let mut lines = source.text.lines().map(str::trim).enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let goes_on = lines.peek().is_some_and(|(_, next)| next.starts_with("///"));
        if line.starts_with("///") && line.ends_with([',', ';']) && !goes_on {
            let text = "half a sentence: the description of an item ends in a comma or semicolon";
            findings.push(source.finding(index + 1, text));
        }
    }
}

/// Looks at each crate's manifest for crates of the workspace that it may not depend on.
fn check_arrows(root: &Path, findings: &mut Vec<Finding>) -> io::Result<()> {
    for (krate, allowed) in ARROWS {
        let dir = if *krate == "xtask" { String::new() } else { "crates/".into() };
        let path = format!("{dir}{krate}/Cargo.toml");
        let manifest = fs::read_to_string(root.join(&path))?;
        let mut is_dev = false;
        for (index, line) in manifest.lines().enumerate() {
            if line.starts_with('[') {
                is_dev = line == "[dev-dependencies]";
            }
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let is_ours = ARROWS.iter().any(|(ours, _)| *ours == name);
            if is_ours && !is_dev && !allowed.contains(&name) {
                let text = format!("{krate} may not depend on {name}");
                findings.push(Finding { file: path.clone().into(), line: index + 1, text });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Goal: what breaks a rule of comments is found, and nothing else. Method: sources of a few
    //! lines.

    use super::*;

    fn lines_found(text: &str) -> Vec<usize> {
        let source = Source { path: "crates/some/src/lib.rs".into(), text: text.into() };
        let mut findings = Vec::new();
        check_comments(&source, &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_description_that_goes_on_at_the_next_item_is_found() {
        let halves = "    /// Bytes read,\n    a: u64,\n    /// and written.\n    b: u64,\n";
        assert_eq!(lines_found(halves), [1]);
        let whole = "/// Bytes read,\n/// and written.\na: u64,\n// so,\nb: u64,\n";
        assert_eq!(lines_found(whole), [0usize; 0]);
    }

    #[test]
    fn a_comment_that_is_too_wide_is_found_and_a_row_of_a_table_is_not() {
        let wide = "word ".repeat(30);
        let text = format!("//! {wide}\n//! | {wide} |\n/// {}\n", "é".repeat(90));
        assert_eq!(lines_found(&text), [1]);
    }
}
