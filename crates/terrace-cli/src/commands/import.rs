use std::io::BufRead;

use crate::args::ImportArgs;
use crate::commands::Session;
use crate::data::Data;
use crate::failure::{Failure, Outcome};
use crate::files::{ImportFile, ReadPosition};
use crate::format::{EntryReader, Format, Lines, ReadError, Record};
use crate::signals::StopFlag;
use crate::terminal::{self, Progress, rate};

/// How many entries are written together.
const BATCH_RECORDS: usize = 1000;

/// How many bytes of keys and values are written together, the last entry apart.
const BATCH_BYTES: usize = 1024 * 1024;

pub(super) fn import(args: ImportArgs, session: &mut Session) -> Outcome {
    let (files, total) = ImportFile::all(&args.input.files)?;
    if args.input.files.iter().any(|file| file.as_os_str() == "-") {
        session.check_input()?;
    }
    let stop = session.stop()?;
    let mut import = Import {
        data: session.data()?,
        stop,
        progress: Progress::of_bytes(total),
        position: ReadPosition::default(),
        batch: Vec::new(),
        batch_bytes: 0,
        lines_added: 0,
        stored: 0,
        lines_stored: 0,
    };
    let outcome = import.run(&args, &files);
    let (stored, took) = (import.stored, import.progress.finish().as_secs_f64());
    outcome?;
    terminal::note(&format!("{stored} entries in {took:.1} s, {}/s", rate(stored, took)));
    Ok(())
}

/// An import under way. What is counted as stored has been acknowledged by the database.
struct Import<'a> {
    data: &'a mut dyn Data,
    stop: StopFlag,
    progress: Progress,
    position: ReadPosition,
    batch: Vec<Record>,
    batch_bytes: usize,
    /// The lines of all files up to the last entry in the batch.
    lines_added: u64,
    stored: u64,
    /// The lines of all files whose entries are stored or were left out.
    lines_stored: u64,
}

impl Import<'_> {
    fn run(&mut self, args: &ImportArgs, files: &[ImportFile]) -> Outcome {
        let mut lines_before = 0;
        for file in files {
            lines_before = self.read_file(args, file, lines_before)?;
        }
        Ok(())
    }

    /// Stores the entries of one file; returns how many lines are behind it.
    fn read_file(
        &mut self,
        args: &ImportArgs,
        file: &ImportFile,
        lines_before: u64,
    ) -> Outcome<u64> {
        let mut lines = Lines::new(file.open(&self.position)?);
        let broken = |error| Failure::Failed(format!("{} cannot be read: {error}", file.name()));
        while lines_before + lines.number() < args.skip {
            if lines.next().map_err(broken)?.is_none() {
                return Ok(lines_before + lines.number());
            }
        }
        let template = args.input.key_field.clone();
        let reader = EntryReader::new(lines, args.format, template).map_err(Failure::Usage)?;
        self.read_entries(reader, args, file, lines_before)
    }

    fn read_entries(
        &mut self,
        mut reader: EntryReader<impl BufRead>,
        args: &ImportArgs,
        file: &ImportFile,
        lines_before: u64,
    ) -> Outcome<u64> {
        loop {
            let next = reader.next();
            let lines = lines_before + reader.lines_read();
            match next {
                Ok(Some(record)) => self.add(record, lines)?,
                Ok(None) if !self.stop.is_set() => {
                    self.store(lines)?;
                    return Ok(lines);
                }
                // The same Ctrl-C may have ended whoever wrote the stream.
                Ok(None) => {}
                Err(error) => {
                    // What came before is good.
                    self.store(self.lines_added.max(self.lines_stored))?;
                    return Err(self.damaged(error, args.format, file, lines_before));
                }
            }
            if self.stop.is_set() {
                self.store(lines)?;
                let (stored, lines) = (self.stored, self.lines_stored);
                return Err(Failure::Interrupted(format!(
                    "stopped; {stored} entries are stored, go on with --skip {lines}"
                )));
            }
        }
    }

    fn damaged(
        &self,
        error: ReadError,
        format: Format,
        file: &ImportFile,
        lines_before: u64,
    ) -> Failure {
        let (name, stored, lines) = (file.name(), self.stored, self.lines_stored);
        let stored = format!("{stored} entries before it are stored");
        let correct = format!("correct it and go on with --skip {lines}");
        Failure::Failed(match error {
            ReadError::Io(error) => {
                format!("{name} cannot be read: {error}; {stored}, go on with --skip {lines}")
            }
            // A paragraph has more lines than the damaged one.
            ReadError::Line(number, text) if format == Format::Deb822 => {
                format!("{name}:{number}: {text}; {stored}. Now {correct}")
            }
            ReadError::Line(number, text) => {
                let after = lines_before + number;
                format!(
                    "{name}:{number}: {text}; {stored}. Now {correct}, or leave the line out with \
                     --skip {after}"
                )
            }
        })
    }

    /// Adds an entry, up to which `lines` have been read.
    fn add(&mut self, record: Record, lines: u64) -> Outcome {
        self.batch_bytes += record.key.len() + record.value.len();
        self.batch.push(record);
        self.lines_added = lines;
        if self.batch.len() >= BATCH_RECORDS || self.batch_bytes >= BATCH_BYTES {
            self.store(lines)?;
        }
        Ok(())
    }

    /// Writes the running batch, with which everything in the first `lines` lines is stored.
    fn store(&mut self, lines: u64) -> Outcome {
        if !self.batch.is_empty() {
            self.data.put(&self.batch).map_err(|failure| {
                let (stored, lines) = (self.stored, self.lines_stored);
                Failure::Failed(format!(
                    "{failure}; {stored} entries are stored, go on with --skip {lines}"
                ))
            })?;
            self.stored += self.batch.len() as u64;
            self.batch.clear();
            self.batch_bytes = 0;
        }
        self.lines_stored = lines;
        self.progress.set(self.position.bytes(), self.stored, "entries");
        Ok(())
    }
}
