//! Whole directories: whatever files lie there, an open answers, and what opened goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::Db;
use terrace_base::{ByteReader, FileId, KeyRange, put_bytes, put_varint};
use terrace_engine::WriteBatch;
use terrace_engine::options::{Options, ProcessOptions};
use terrace_engine::process::Process;
use terrace_engine::store::{GetOptions, IterOptions, Store, WriteOptions};
use terrace_engine::table::{Compression, TableOptions};
use terrace_env::{DiskImage, SharedEnv, SimOptions};

use super::Target;
use super::simulation::simulate;
use crate::notes::{note_result, note_size};
use crate::seal;

/// Directories. Of the first byte bit 0 says whether the files are sealed again, bit 1 whether the
/// library opens them or the engine, bit 2 whether only for reading.
pub const DATABASE: Target = Target {
    name: "database",
    about: "whole directories of a database: opened, read, written, closed",
    run: database,
    seeds: database_seeds,
    words: &[b"terrlog\0", b"terrmani", b"terrcurr", b"terr.tbl", b"CURRENT"],
    executions: 12_000,
    bytes_max: 16 << 10,
    memory_fixed_bytes: 24 << 20,
    memory_per_byte: 4096,
};

const DIR: &str = "/db";

/// How far walks go: a damaged table may hold many entries in few bytes.
const STEPS_MAX: usize = 300;

/// The kinds of file, as inputs number them.
const SUFFIXES: [&str; 5] = [".log", ".manifest", ".table", "CURRENT", ""];

/// All files of a disk together are at most this much longer than their input.
const ZEROS_MAX: usize = 2 << 20;

/// Puts the files of an input on a disk: for each its kind, its id (or for the last kind its name),
/// how long it is, what it begins with, and what it ends with; between them are zeros.
fn disk_of(files: &[u8], is_sealed: bool) -> DiskImage {
    let mut reader = ByteReader::new(files);
    let mut disk = DiskImage::new();
    let dir = Path::new(DIR);
    let mut zeros_left = ZEROS_MAX;
    disk.write(&dir.join("LOCK"), 0, &[]).expect("an image takes any file");
    for _ in 0..16 {
        let (Ok(kind), Ok(epoch), Ok(counter)) = (reader.u8(), reader.varint(), reader.varint())
        else {
            break;
        };
        let kind = usize::from(kind) % SUFFIXES.len();
        let length = reader.varint_usize().unwrap_or(0);
        let content = reader.bytes().unwrap_or_default();
        let end = reader.bytes().unwrap_or_default();
        let zeros = length.saturating_sub(content.len() + end.len()).min(zeros_left);
        zeros_left -= zeros;
        let mut file = [content, &vec![0; zeros], end].concat();
        if is_sealed {
            match kind {
                0 => seal::segment(&mut file),
                1 => seal::manifest(&mut file),
                2 => seal::table(&mut file),
                3 => drop(seal::header(&mut file, 64)),
                _ => {}
            }
        }
        let id = FileId { epoch: terrace_base::Epoch(epoch), counter };
        let name = match kind {
            3 => "CURRENT".to_owned(),
            4 => {
                let text = String::from_utf8_lossy(content).replace(['/', '\0'], "-");
                if text.is_empty() || text.starts_with('.') { continue } else { text }
            }
            _ => format!("{id}{}", SUFFIXES[kind]),
        };
        disk.write(&dir.join(name), 0, &file).expect("an image takes any file");
    }
    disk
}

/// Everything small, so that a few files are a whole tree.
fn small() -> Options {
    Options {
        memtable_bytes: 16 << 10,
        frozen_memtables_max: 2,
        log_segment_bytes: 4 << 10,
        log_bytes_max: 16 << 10,
        table_bytes: 4 << 10,
        table: TableOptions {
            block_bytes: 128,
            compression: Compression::Lz4,
            ..TableOptions::default()
        },
        l0_rows_per_cut: 2,
        l0_rows_slow: 4,
        l0_rows_stop: 8,
        level_bytes_base: 8 << 10,
        cut_bytes: 4 << 10,
        level_ratio: 2,
        ..Options::default()
    }
}

fn process(env: &SharedEnv) -> terrace_engine::Result<Arc<Process>> {
    let options = ProcessOptions { cache_bytes: 64 << 10, ..ProcessOptions::default() };
    Process::start(Arc::clone(env), &options)
}

fn database(data: &[u8]) {
    let &[choice, ref files @ ..] = data else { return };
    let disk = disk_of(files, choice & 1 != 0);
    let options = SimOptions { disk, steps_max: 2_000_000, ..SimOptions::new(1) };
    simulate(options, |env| {
        if choice & 2 != 0 {
            open_library(&(env as SharedEnv));
        } else {
            open_engine(&(env as SharedEnv), choice & 4 != 0);
        }
    });
}

/// Uses a directory in every way; each may fail, and none may do worse.
fn open_engine(env: &SharedEnv, read_only: bool) {
    let options = Options { read_only, ..small() };
    for round in 0..2 {
        let process = process(env).expect("threads can be had");
        let store = Store::open(&process, Path::new(DIR), options.clone());
        note_result("open", &store.as_ref().map_err(ToString::to_string));
        let Ok(store) = store else { return };
        note_size("replayed", store.recovery().replayed_entries as usize);
        read(&store);
        if round == 0 {
            write(&store);
        }
        let checked = store.check(&mut |_, _| ());
        note_result("check", &checked.as_ref().map_err(ToString::to_string));
        note_result("close", &store.close().map_err(|error| error.to_string()));
    }
}

fn read(store: &Store) {
    for key in [&b""[..], b"k1", b"k10", b"zzz"] {
        let got = store.get(key, &GetOptions::default());
        note_result("get", &got.as_ref().map_err(ToString::to_string));
    }
    let iter = store.iter(IterOptions::default());
    note_result("iter", &iter.as_ref().map_err(ToString::to_string));
    let Ok(mut iter) = iter else { return };
    let mut moved = iter.seek_to_first();
    for _ in 0..STEPS_MAX {
        note_result("step", &moved.as_ref().map_err(ToString::to_string));
        if moved.is_err() || iter.entry().is_none() {
            break;
        }
        moved = iter.next();
    }
    let mut moved = iter.seek_back(None);
    for _ in 0..STEPS_MAX {
        if moved.is_err() || iter.entry().is_none() {
            break;
        }
        moved = iter.prev();
    }
    let _ = store.stats().to_string();
}

fn write(store: &Store) {
    let options = WriteOptions::default();
    for number in 0..20 {
        let mut batch = WriteBatch::new();
        let key = format!("k{number}");
        let mut put = batch.put(key.as_bytes(), &[b'w'; 100]);
        if number % 7 == 6 {
            put = put.and_then(|()| batch.delete_range(b"k1", b"k12"));
        }
        put.expect("it is within the bounds");
        let written = store.write(&batch, &options);
        note_result("write", &written.as_ref().map_err(ToString::to_string));
        if written.is_err() {
            return;
        }
    }
    note_result("flush", &store.flush().map_err(|error| error.to_string()));
    let compacted = store.compact(&KeyRange::all());
    note_result("compact", &compacted.map_err(|error| error.to_string()));
}

/// The same through the library, which takes keys apart.
fn open_library(env: &SharedEnv) {
    let options = Db::options().memtable_bytes(16 << 10).cache_bytes(0);
    let db = options.open_in(Arc::clone(env), DIR);
    note_result("library", &db.as_ref().map_err(ToString::to_string));
    let Ok(db) = db else { return };
    note_result("keyspaces", &db.keyspaces().map_err(|error| error.to_string()));
    for name in ["default", "1", "users"] {
        let Ok(keyspace) = db.keyspace(name) else { continue };
        let rows = keyspace.iter().take(STEPS_MAX).take_while(Result::is_ok);
        note_size("rows", rows.count());
        let _ = (keyspace.get("k1"), keyspace.put("k1", "v"), keyspace.get("k1"));
    }
    note_result("dropped", &db.drop_keyspace("users").map_err(|error| error.to_string()));
    note_result("library closes", &db.close().map_err(|error| error.to_string()));
}

/// The files of a disk as an input.
fn input_of(choice: u8, disk: &DiskImage) -> Vec<u8> {
    let mut input = vec![choice];
    for (path, _) in disk.files() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let kind = SUFFIXES.iter().position(|suffix| name.ends_with(suffix)).unwrap_or(4);
        let stem = name.strip_suffix(SUFFIXES[kind]).and_then(FileId::parse);
        let Some(id) = stem.or_else(|| FileId::parse("000000-00000000").filter(|_| kind == 3))
        else {
            continue;
        };
        let bytes = disk.read(&path).unwrap_or_default();
        let (begin, end) = around_zeros(&bytes);
        input.push(u8::try_from(kind).unwrap_or(4));
        put_varint(&mut input, id.epoch.0);
        put_varint(&mut input, id.counter);
        put_varint(&mut input, bytes.len() as u64);
        put_bytes(&mut input, begin);
        put_bytes(&mut input, end);
    }
    input
}

/// What stands before and behind the longest run of zeros: the unused part of a log segment.
fn around_zeros(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut longest = bytes.len()..bytes.len();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != 0 {
            start = at + 1;
        } else if at + 1 - start > longest.len() {
            longest = start..at + 1;
        }
    }
    (&bytes[..longest.start], &bytes[longest.end..])
}

/// A directory as a real run leaves it: after a close, or in the middle.
fn left_behind(is_closed: bool, is_library: bool) -> DiskImage {
    simulate(SimOptions::new(7), |sim| {
        let env = Arc::clone(&sim) as SharedEnv;
        if is_library {
            let options = Db::options().memtable_bytes(16 << 10);
            let db = options.open_in(Arc::clone(&env), DIR).expect("a new database opens");
            for name in ["1", "users"] {
                let keyspace = db.keyspace(name).expect("a new database takes keyspaces");
                keyspace.put("k1", "v1").expect("a new database takes writes");
            }
            db.put("k1", "v2").expect("a new database takes writes");
            if is_closed {
                db.close().expect("a database closes");
            }
            return sim.disk();
        }
        let process = process(&env).expect("threads can be had");
        let dir = PathBuf::from(DIR);
        let store = Store::open(&process, &dir, small()).expect("a new range opens");
        for round in 0..3 {
            for number in 0..6 {
                let mut batch = WriteBatch::new();
                let key = format!("k{}", number * (round + 1));
                batch.put(key.as_bytes(), &[b'a' + round; 20]).expect("within the bounds");
                batch.delete(format!("k{number}").as_bytes()).expect("within the bounds");
                if number == 4 {
                    batch.delete_range(b"k1", b"k13").expect("within the bounds");
                }
                store.write(&batch, &WriteOptions::default()).expect("a new range takes writes");
            }
            if round < 2 {
                store.flush().expect("a new range takes writes");
            }
        }
        store.settle();
        if is_closed {
            store.close().expect("a range closes");
        }
        sim.disk()
    })
}

fn database_seeds() -> Vec<Vec<u8>> {
    let middle = left_behind(false, false);
    let closed = left_behind(true, false);
    vec![
        input_of(0, &closed),
        input_of(1, &closed),
        input_of(1, &middle),
        input_of(5, &middle),
        input_of(3, &left_behind(true, true)),
        input_of(3, &left_behind(false, true)),
    ]
}
