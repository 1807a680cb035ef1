//! Sorted files become tables of a database, all at once.

use std::io::BufRead;

use terrace::{Expiry, Ingest, Keyspace, WallTime};

use crate::args::IngestArgs;
use crate::commands::Target;
use crate::data::{Access, keyspace_of};
use crate::failure::{Failure, Outcome};
use crate::files::{ImportFile, ReadPosition};
use crate::format::{EntryReader, Lines, ReadError, Record};
use crate::signals::StopFlag;
use crate::terminal::{self, Progress, rate};

pub(super) fn ingest(args: IngestArgs, target: &Target) -> Outcome {
    let paths = args.files.iter().chain(args.into.iter().map(|other| &other.file));
    let (files, total) = ImportFile::all(&paths.cloned().collect::<Vec<_>>())?;
    let stop = StopFlag::on_signals()?;
    let (db, keyspace) = target.open_directory(Access::Create)?;
    let mut keyspaces = vec![keyspace.clone(); args.files.len()];
    for other in &args.into {
        keyspaces.push(keyspace_of(&db, &other.keyspace, true)?);
    }
    let mut reading = Reading {
        ingest: keyspace.ingest()?,
        stop,
        progress: Progress::of_bytes(total),
        position: ReadPosition::default(),
    };
    let mut each = files.iter().zip(&keyspaces);
    let read = each.try_for_each(|(file, keyspace)| reading.file(&args, file, keyspace));
    let Reading { ingest, progress, .. } = reading;
    let outcome = read.and_then(|()| Ok(ingest.finish()?));
    let took = progress.finish().as_secs_f64();
    let closed = db.close();
    let report = outcome?;
    closed?;
    terminal::note(&format!(
        "{} entries in {took:.1} s, {}/s; {} tables in level {}",
        report.entry_count,
        rate(report.entry_count, took),
        report.table_count,
        report.level
    ));
    Ok(())
}

/// How many entries are read between two looks at the clock and at Ctrl-C.
const LOOK_EVERY: u64 = 1000;

/// Files on their way into an ingest.
struct Reading {
    ingest: Ingest,
    stop: StopFlag,
    progress: Progress,
    position: ReadPosition,
}

impl Reading {
    fn file(&mut self, args: &IngestArgs, file: &ImportFile, keyspace: &Keyspace) -> Outcome {
        let lines = Lines::new(file.open(&self.position)?);
        let template = args.key_field.clone();
        let mut reader = EntryReader::new(lines, args.format, template).map_err(Failure::Usage)?;
        while let Some(record) = self.next(&mut reader, file)? {
            self.add(&record, reader.lines_read(), file, keyspace)?;
            if self.ingest.len().is_multiple_of(LOOK_EVERY) {
                self.progress.set(self.position.bytes(), self.ingest.len(), "entries");
                self.heed_stop()?;
            }
        }
        // The same Ctrl-C may have ended whoever wrote the stream.
        self.heed_stop()
    }

    fn heed_stop(&self) -> Outcome {
        match self.stop.is_set() {
            true => Err(Failure::Interrupted("stopped; nothing was ingested".into())),
            false => Ok(()),
        }
    }

    fn next(
        &self,
        reader: &mut EntryReader<impl BufRead>,
        file: &ImportFile,
    ) -> Outcome<Option<Record>> {
        let name = file.name();
        reader.next().map_err(|error| {
            Failure::Failed(match error {
                ReadError::Io(error) => {
                    format!("{name} cannot be read: {error}; nothing was ingested")
                }
                ReadError::Line(number, text) => {
                    format!("{name}:{number}: {text}; nothing was ingested")
                }
            })
        })
    }

    fn add(
        &mut self,
        record: &Record,
        line: u64,
        file: &ImportFile,
        keyspace: &Keyspace,
    ) -> Outcome {
        let expiry = record.expiry_ms.map(|ms| Expiry::at(WallTime(ms)));
        let added = self.ingest.add_to_until(keyspace, &record.key, &record.value, expiry);
        added.map_err(|error| match error.kind() {
            terrace::ErrorKind::Invalid => {
                let name = file.name();
                Failure::Failed(format!("{name}:{line}: {error}; nothing was ingested"))
            }
            _ => error.into(),
        })
    }
}
