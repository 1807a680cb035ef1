//! The listing of the library's public surface, which is kept beside the library, so that whoever
//! changes the surface sees it in the change.
//!
//! It is made from what rustdoc tells in JSON. What the library exports from the crates below it
//! (such as the fields of its statistics) is listed by the names that these crates give it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates whose types the library shows.
const BELOW: [&str; 3] = ["terrace-base", "terrace-env", "terrace-engine"];

/// Where the listing lies.
fn path_of(root: &Path) -> PathBuf {
    root.join("crates/terrace/public-surface.txt")
}

/// Writes the listing, or compares it with the one that is there. Errors: what a person should do.
pub(crate) fn check(root: &Path, writes: bool) -> Result<(), String> {
    let listing = listing(root)?;
    let path = path_of(root);
    if writes {
        return std::fs::write(&path, listing).map_err(|error| format!("{path:?}: {error}"));
    }
    let kept = std::fs::read_to_string(&path).map_err(|error| format!("{path:?}: {error}"))?;
    if kept.lines().next() != listing.lines().next() {
        println!("the public surface was listed by another compiler, and is not compared");
        return Ok(());
    }
    let differences = differences(&kept, &listing);
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the public surface of the library has changed:\n{differences}If that is meant, run `cargo \
         xtask surface write`, and tell of it in CHANGELOG.md."
    ))
}

/// The lines that are in one of the two only, with a sign as in a patch.
fn differences(kept: &str, now: &str) -> String {
    let (kept, now): (BTreeSet<&str>, BTreeSet<&str>) =
        (kept.lines().collect(), now.lines().collect());
    let mut text = String::new();
    kept.difference(&now).for_each(|line| text += &format!("- {line}\n"));
    now.difference(&kept).for_each(|line| text += &format!("+ {line}\n"));
    text
}

/// One item a line: the library's own, then those of the crates below that it shows.
fn listing(root: &Path) -> Result<String, String> {
    let library = rustdoc(root, "terrace")?;
    let mut text = format!("# Listed by {}", compiler()?);
    for line in items_of(&library)? {
        writeln!(text, "{line}").expect("a text grows");
    }
    let shown = exported(&library)?;
    for name in BELOW {
        let below = rustdoc(root, name)?;
        for line in items_of(&below)?.into_iter().filter(|line| is_of(line, &shown)) {
            writeln!(text, "{line}").expect("a text grows");
        }
    }
    Ok(text)
}

/// What the compiler calls itself: another one may write the same item in another way.
fn compiler() -> Result<String, String> {
    let told = Command::new("rustc").arg("--version").output();
    let told = told.map_err(|error| format!("rustc could not be started: {error}"))?;
    Ok(String::from_utf8_lossy(&told.stdout).into_owned())
}

/// Whether an item is one of these, or a part of one.
fn is_of(line: &str, shown: &BTreeSet<String>) -> bool {
    shown.iter().any(|path| {
        line.match_indices(path.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let behind = &line[at + path.len()..];
            let is_declared = !line[..at].contains(['(', ':', '>']);
            let is_whole = behind.is_empty() || behind.starts_with(['<', '(', ' ', ':']);
            before.is_none_or(|before| before == ' ') && is_declared && is_whole
        })
    })
}

/// The documentation of a crate in JSON, with all its features.
fn rustdoc(root: &Path, package: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["rustdoc", "--quiet", "--locked", "--lib", "--all-features", "--package", package]);
    cargo.args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    // This form of the output is not stable yet, so a stable compiler has to be asked twice.
    let run = cargo.current_dir(root).env("RUSTC_BOOTSTRAP", "1").status();
    match run {
        Ok(status) if status.success() => {
            Ok(root.join(format!("target/doc/{}.json", package.replace('-', "_"))))
        }
        Ok(status) => Err(format!("rustdoc of {package} ended with {status}")),
        Err(error) => Err(format!("cargo could not be started: {error}")),
    }
}

fn items_of(json: &Path) -> Result<BTreeSet<String>, String> {
    let surface = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| format!("{}: {error}", json.display()))?;
    Ok(surface.items().map(|item| item.to_string()).collect())
}

/// The paths, in other crates of the project, of what a crate exports from there.
fn exported(json: &Path) -> Result<BTreeSet<String>, String> {
    let text = std::fs::read_to_string(json).map_err(|error| error.to_string())?;
    let parsed: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let index = parsed["index"].as_object().ok_or("rustdoc's output has no index")?;
    let sources = index.values().filter_map(|item| item["inner"]["use"]["source"].as_str());
    let ours = sources
        .filter(|source| BELOW.iter().any(|name| source.starts_with(&name.replace('-', "_"))));
    Ok(ours.map(str::to_owned).collect())
}
