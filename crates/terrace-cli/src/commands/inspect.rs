//! Single files in readable form, and all files of a directory in short.

use std::collections::BTreeMap;
use std::path::Path;

use terrace::inspect::{self, FileKind, Line};

use super::maintain::json;
use crate::args::{self, InspectArgs, InspectKind};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::terminal::Output;

/// The parts that a summary counts instead of showing them.
const COUNTED: [&str; 11] = [
    "block",
    "slot",
    "slot unfinished",
    "value",
    "batch",
    "edit",
    "  row added",
    "  row removed",
    "  rows consumed",
    "  table added",
    "  table removed",
];

pub(super) fn inspect(args: &InspectArgs) -> Outcome {
    let (path, kind) = args.target()?;
    let mut view = View { kind: args.output, output: Output::new(), summary: args.summary };
    if !files::is_directory(path) {
        let kind = kind.map(file_kind).map_or_else(|| seen(path), Ok)?;
        let has_damage = view.file(kind, path, args.entries)?;
        view.output.finish()?;
        return match has_damage {
            false => Ok(()),
            true => Err(Failure::Negative(format!("{} is damaged", path.display()))),
        };
    }
    view.summary = !args.entries;
    let mut damaged = Vec::new();
    for file in files::list(path)? {
        let Some(kind) = FileKind::of(&file)? else { continue };
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        view.title(&name, kind)?;
        if view.file(kind, &file, args.entries)? {
            damaged.push(name);
        }
    }
    view.output.finish()?;
    match damaged.as_slice() {
        [] => Ok(()),
        names => Err(Failure::Negative(format!(
            "damaged in {}: {}; `terrace check --data {}` says what that means",
            path.display(),
            names.join(", "),
            path.display()
        ))),
    }
}

fn file_kind(kind: InspectKind) -> FileKind {
    match kind {
        InspectKind::Manifest => FileKind::Manifest,
        InspectKind::Table => FileKind::Table,
        InspectKind::Log => FileKind::Log,
        InspectKind::Current => FileKind::Current,
        InspectKind::Values => FileKind::Values,
        InspectKind::CachedBlocks => FileKind::CachedBlocks,
        InspectKind::CachedMetadata => FileKind::CachedMetadata,
    }
}

fn seen(path: &Path) -> Outcome<FileKind> {
    FileKind::of(path)?.ok_or_else(|| {
        Failure::Usage(format!(
            "{} says nothing by which it is known: it is no CURRENT, manifest, log segment, table, \
             value file or file of the cache; if it is one, and damaged, say --kind. (What is in a container of L0, `terrace stats l0` \
             shows.)",
            path.display()
        ))
    })
}

struct View {
    kind: args::Output,
    output: Output,
    summary: bool,
}

impl View {
    /// Begins with a file of a directory.
    fn title(&mut self, name: &str, kind: FileKind) -> Outcome {
        let kind = kind.to_string();
        match self.kind {
            args::Output::Text => self.output.line(format_args!("{name}: {kind}")),
            args::Output::Json => {
                let title = serde_json::json!({ "what": "file", "name": name, "kind": kind });
                self.output.line(json(&title)?)
            }
        }
    }

    /// Shows a file; whether something in it is damaged.
    fn file(&mut self, kind: FileKind, path: &Path, with_entries: bool) -> Outcome<bool> {
        let mut written = Ok(());
        let mut counts = BTreeMap::new();
        let has_damage = inspect::inspect(kind, path, with_entries, &mut |line| {
            if self.summary && !line.is_damage && COUNTED.contains(&line.what) {
                *counts.entry(line.what.trim()).or_insert(0_u64) += 1;
                return true;
            }
            written = self.line(&line);
            written.is_ok()
        })?;
        written?;
        if !counts.is_empty() {
            match self.kind {
                args::Output::Text => {
                    let parts: Vec<String> =
                        counts.iter().map(|(what, count)| format!("{what}: {count}")).collect();
                    self.output.line(format_args!("{:>10}  {}", "", parts.join(", ")))?;
                }
                args::Output::Json => {
                    let counts = serde_json::json!({ "what": "counts", "counts": counts });
                    self.output.line(json(&counts)?)?;
                }
            }
        }
        Ok(has_damage)
    }

    fn line(&mut self, line: &Line) -> Outcome {
        match self.kind {
            args::Output::Text => self.output.line(line),
            args::Output::Json => json(line).and_then(|line| self.output.line(line)),
        }
    }
}
