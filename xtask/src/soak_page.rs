//! `cargo xtask soak-page MINUTES SEED`: the reports of a soak as one page.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// What each report is about, in the order of the page.
const PARTS: &[(&str, &str)] = &[
    (
        "sim",
        "Simulated machines (T1, T2, T3, T9, T11): schedules, option sets, crashes, failing calls",
    ),
    ("models", "Models (T11): every order of steps within bounds"),
    ("memcheck", "Memory of memtables and their arena: Memcheck, and Miri where it is at hand"),
    ("planted", "Planted bugs (T26): each is planted, and looked for"),
    (
        "worlds",
        "Worlds of the object store (T13, R01, R02, R03, R14): owners, readers and checkpoints",
    ),
    ("values", "Value logs that are written over and over: the bound on their space"),
    ("rot", "Bit rot, torn and misplaced writes, lying disks (T5, T6, T7, T24); check and repair"),
    ("fuzz", "Hostile bytes for every decoder (T12)"),
    ("kill", "The real server, killed (T4)"),
];

/// A list of seeds or the like that is longer than this is left to the report.
const LISTED_MAX: usize = 4;

/// Writes `docs/reliability/soak.md` from the reports beside it; whether nothing was found.
///
/// Errors: a report is missing or is no JSON, or the page cannot be written.
pub fn write(root: &Path, minutes: &str, seed: &str, commit: &str) -> Result<bool, String> {
    let dir = root.join("docs/reliability/soak");
    let mut page = String::from("# The last soak\n\n");
    let _ = writeln!(
        page,
        "`make soak MINUTES={minutes} SEED={seed}` at commit {commit}. The reports themselves lie \
         in [`soak/`](soak).\n"
    );
    let mut is_clean = true;
    for (name, meaning) in PARTS {
        let path = dir.join(format!("{name}.json"));
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
        let report: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        let found = findings(&report);
        is_clean &= found == 0;
        let _ = writeln!(page, "## {meaning}\n\n{found} findings.\n\n| | |\n|---|---:|");
        rows(&mut page, "", &report);
        page.push('\n');
    }
    let path = root.join("docs/reliability/soak.md");
    fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{} findings or more: {}", u8::from(!is_clean), path.display());
    Ok(is_clean)
}

/// How many findings a report names, wherever they stand.
fn findings(report: &Value) -> u64 {
    match report {
        Value::Object(fields) => {
            let one = |(name, value): (&String, &Value)| match (name.as_str(), value) {
                ("findings" | "missed", Value::Number(count)) => count.as_u64().unwrap_or(1),
                ("findings", Value::Array(list)) => list.len() as u64,
                (_, value) => findings(value),
            };
            fields.iter().map(one).sum()
        }
        Value::Array(list) => list.iter().map(findings).sum(),
        _ => 0,
    }
}

/// A row for each number and text; what is nested has its place in the name.
fn rows(page: &mut String, prefix: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('_', " ");
                let name = if prefix.is_empty() { name } else { format!("{prefix}: {name}") };
                rows(page, &name, value);
            }
        }
        Value::Array(list) => {
            let is_flat = list.iter().all(|value| !value.is_object() && !value.is_array());
            if is_flat && list.len() > LISTED_MAX {
                let _ = writeln!(page, "| {prefix} | {} of them |", list.len());
            } else {
                for value in list {
                    let name =
                        ["target", "name", "bug", "suite"].iter().find_map(|n| value[*n].as_str());
                    rows(page, &format!("{prefix} {}", name.unwrap_or_default()), value);
                }
            }
        }
        Value::Number(number) => {
            let _ = writeln!(page, "| {prefix} | {number} |");
        }
        Value::String(text) if !text.contains('\n') && text.len() < 120 => {
            let _ = writeln!(page, "| {prefix} | {text} |");
        }
        Value::Bool(flag) => {
            let _ = writeln!(page, "| {prefix} | {flag} |");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn findings_are_found_wherever_they_stand() {
        assert_eq!(findings(&json!({"findings": [], "missed": 0})), 0);
        assert_eq!(findings(&json!({"findings": [1, 2], "kinds": {"a": {"missed": 3}}})), 5);
        assert_eq!(findings(&json!({"targets": [{"target": "x", "findings": 1}]})), 1);
    }

    #[test]
    fn a_row_says_where_its_number_stands() {
        let mut page = String::new();
        rows(
            &mut page,
            "",
            &json!({"kinds": {"bit_flip": {"planted": 3}}, "list": [1, 2, 3, 4, 5]}),
        );
        assert_eq!(page, "| kinds: bit flip: planted | 3 |\n| list | 5 of them |\n");
    }
}
