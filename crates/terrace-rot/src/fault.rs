//! Faults: ways in which a disk gives back something else than what was written.

use std::fmt;
use std::path::{Path, PathBuf};

use terrace_env::{DiskImage, SeededRng};

use crate::specimen::{Specimen, files_of};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// One bit is another.
    Flip,
    /// 1 to 64 bytes are others.
    Burst,
    /// A file ends too early.
    Truncate,
    /// A file has zeros at its end.
    Extend,
    /// 512 bytes are zeros.
    ZeroSector,
    /// 4 KiB are zeros.
    ZeroPage,
    /// 512 bytes are what stood there before, or in a former file of the name.
    OldSector,
    /// 4 KiB are.
    OldPage,
    /// Two blocks of a file stand in each other's place.
    SwapInFile,
    /// A block of one file stands in another one, and the other way round.
    SwapBetweenFiles,
    /// A block is that of another database at the same place.
    ForeignBlock,
    /// A file is the one of the same name at an earlier moment.
    StaleFile,
    /// A file is the one of the same name, or kind, of another database.
    ForeignFile,
    /// A file has the content of another one of the range.
    Misplaced,
    /// Two files have each other's names.
    SwapNames,
    /// A file is not there.
    Missing,
}

impl FaultKind {
    /// Bit rot.
    pub const ROT: [FaultKind; 2] = [FaultKind::Flip, FaultKind::Burst];
    /// Torn, lost and misplaced.
    pub const MISPLACED: [FaultKind; 14] = [
        FaultKind::Truncate,
        FaultKind::Extend,
        FaultKind::ZeroSector,
        FaultKind::ZeroPage,
        FaultKind::OldSector,
        FaultKind::OldPage,
        FaultKind::SwapInFile,
        FaultKind::SwapBetweenFiles,
        FaultKind::ForeignBlock,
        FaultKind::StaleFile,
        FaultKind::ForeignFile,
        FaultKind::Misplaced,
        FaultKind::SwapNames,
        FaultKind::Missing,
    ];
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Flip => "bit flip",
            FaultKind::Burst => "burst of bytes",
            FaultKind::Truncate => "truncated file",
            FaultKind::Extend => "extended file",
            FaultKind::ZeroSector => "zero sector",
            FaultKind::ZeroPage => "zero page",
            FaultKind::OldSector => "old sector",
            FaultKind::OldPage => "old page",
            FaultKind::SwapInFile => "blocks swapped in a file",
            FaultKind::SwapBetweenFiles => "blocks swapped between files",
            FaultKind::ForeignBlock => "block of another database",
            FaultKind::StaleFile => "stale file",
            FaultKind::ForeignFile => "file of another database",
            FaultKind::Misplaced => "file under another name",
            FaultKind::SwapNames => "files swapped",
            FaultKind::Missing => "missing file",
        })
    }
}

/// What a fault did to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// The bytes that are others now; none if the file's size changed.
    pub offsets: Option<Vec<u64>>,
}

/// Plants a fault. Returns what has changed; nothing if the fault made no difference.
pub fn plant(
    kind: FaultKind,
    specimen: &Specimen,
    other: &Specimen,
    random: &mut SeededRng,
) -> (DiskImage, Vec<Change>) {
    let mut damaged = specimen.disk.clone();
    let file = pick_file(&specimen.disk, random);
    let path = file.as_path();
    let whole = bytes_of(&specimen.disk, path);
    match kind {
        FaultKind::Flip => {
            let offset = random.index(whole.len());
            let byte = whole[offset] ^ (1 << random.below(8));
            write(&mut damaged, path, offset, &[byte]);
        }
        FaultKind::Burst => {
            let offset = random.index(whole.len());
            let bytes: Vec<u8> =
                (0..1 + random.index(64)).map(|_| random.next_u64() as u8).collect();
            let fits = bytes.len().min(whole.len() - offset);
            write(&mut damaged, path, offset, &bytes[..fits]);
        }
        FaultKind::Truncate => {
            let _ = damaged.truncate(path, random.below(whole.len() as u64));
        }
        FaultKind::Extend => {
            let added = [1, 8, 128, 512, 4096][random.index(5)];
            let _ = damaged.truncate(path, whole.len() as u64 + added);
        }
        FaultKind::ZeroSector => set_unit(&mut damaged, path, 512, random, |_, unit| unit.fill(0)),
        FaultKind::ZeroPage => set_unit(&mut damaged, path, 4096, random, |_, unit| unit.fill(0)),
        FaultKind::OldSector | FaultKind::OldPage => {
            let unit = if kind == FaultKind::OldSector { 512 } else { 4096 };
            let source = earlier_bytes(specimen, path, random);
            set_unit(&mut damaged, path, unit, random, |at, unit| copy_at(&source, at, unit));
        }
        FaultKind::ForeignBlock => {
            let source = bytes_of(&other.disk, &like(&other.disk, path, random));
            set_unit(&mut damaged, path, 512, random, |at, unit| copy_at(&source, at, unit));
        }
        FaultKind::SwapInFile => swap_units(&mut damaged, path, path, random),
        FaultKind::SwapBetweenFiles => {
            let second = pick_file(&specimen.disk, random);
            swap_units(&mut damaged, path, &second, random);
        }
        FaultKind::StaleFile => {
            let source = earlier_bytes(specimen, path, random);
            replace(&mut damaged, path, &source);
        }
        FaultKind::ForeignFile => {
            let source = bytes_of(&other.disk, &like(&other.disk, path, random));
            replace(&mut damaged, path, &source);
        }
        FaultKind::Misplaced => {
            let source = bytes_of(&specimen.disk, &like(&specimen.disk, path, random));
            replace(&mut damaged, path, &source);
        }
        FaultKind::SwapNames => {
            let second = like(&specimen.disk, path, random);
            let source = bytes_of(&specimen.disk, &second);
            replace(&mut damaged, path, &source);
            replace(&mut damaged, &second, &whole);
        }
        FaultKind::Missing => {
            let _ = damaged.remove(path);
        }
    }
    let changes = changes(&specimen.disk, &damaged);
    (damaged, changes)
}

/// What is different on two disks.
#[must_use]
pub fn changes(whole: &DiskImage, damaged: &DiskImage) -> Vec<Change> {
    let mut changes = Vec::new();
    for (path, _) in files_of(whole) {
        let (before, after) = (bytes_of(whole, &path), damaged.read(&path).ok());
        if after.as_ref() == Some(&before) {
            continue;
        }
        let same_size = after.filter(|after| after.len() == before.len());
        let offsets = same_size.map(|after| {
            let pairs = before.iter().zip(&after).enumerate();
            pairs.filter(|(_, (a, b))| a != b).map(|(at, _)| at as u64).collect()
        });
        changes.push(Change { path, offsets });
    }
    changes
}

/// Any file, each kind as often as the others.
fn pick_file(disk: &DiskImage, random: &mut SeededRng) -> PathBuf {
    let files = files_of(disk);
    let of = |ending: &str| -> Vec<PathBuf> {
        let paths = files.iter().map(|(path, _)| path.clone());
        paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    };
    let endings = ["CURRENT", ".manifest", ".log", ".table", ".table", ".rows", ".rows"];
    let kinds: Vec<_> = endings.map(of).into_iter().filter(|kind| !kind.is_empty()).collect();
    let kind = &kinds[random.index(kinds.len())];
    kind[random.index(kind.len())].clone()
}

/// A file of the same kind: the one of the same name, if it is there and `random` wants it.
fn like(disk: &DiskImage, path: &Path, random: &mut SeededRng) -> PathBuf {
    let files = files_of(disk);
    let same_kind: Vec<_> = files
        .iter()
        .map(|(other, _)| other)
        .filter(|other| other.extension() == path.extension())
        .collect();
    if same_kind.is_empty() {
        return path.to_path_buf();
    }
    let by_name = same_kind.iter().find(|other| other.as_path() == path);
    match by_name {
        Some(found) if random.one_in(2) => found.to_path_buf(),
        _ => same_kind[random.index(same_kind.len())].clone(),
    }
}

/// The file of this name at an earlier moment, or another of its kind then.
fn earlier_bytes(specimen: &Specimen, path: &Path, random: &mut SeededRng) -> Vec<u8> {
    let with_name: Vec<_> =
        specimen.earlier.iter().filter_map(|disk| disk.read(path).ok()).collect();
    if !with_name.is_empty() {
        return with_name[random.index(with_name.len())].clone();
    }
    match specimen.earlier.len() {
        0 => Vec::new(),
        count => {
            let disk = &specimen.earlier[random.index(count)];
            bytes_of(disk, &like(disk, path, random))
        }
    }
}

fn bytes_of(disk: &DiskImage, path: &Path) -> Vec<u8> {
    disk.read(path).unwrap_or_default()
}

fn write(disk: &mut DiskImage, path: &Path, offset: usize, bytes: &[u8]) {
    // The file was just listed.
    let _ = disk.write(path, offset as u64, bytes);
}

fn replace(disk: &mut DiskImage, path: &Path, bytes: &[u8]) {
    if !bytes.is_empty() {
        let _ = disk.truncate(path, 0);
        write(disk, path, 0, bytes);
    }
}

/// Copies what `source` holds at an offset; where it ends, nothing changes.
fn copy_at(source: &[u8], at: usize, unit: &mut [u8]) {
    let there = source.get(at..).unwrap_or_default();
    let count = there.len().min(unit.len());
    unit[..count].copy_from_slice(&there[..count]);
}

fn set_unit(
    disk: &mut DiskImage,
    path: &Path,
    unit_bytes: usize,
    random: &mut SeededRng,
    change: impl FnOnce(usize, &mut [u8]),
) {
    let bytes = bytes_of(disk, path);
    let at = random.index(bytes.len().div_ceil(unit_bytes)) * unit_bytes;
    let end = bytes.len().min(at + unit_bytes);
    let mut unit = bytes[at..end].to_vec();
    change(at, &mut unit);
    write(disk, path, at, &unit);
}

/// Swaps two blocks of a size that tables, pages or records have.
fn swap_units(disk: &mut DiskImage, first: &Path, second: &Path, random: &mut SeededRng) {
    let unit = [64, 256, 512, 4096][random.index(4)];
    let (a, b) = (bytes_of(disk, first), bytes_of(disk, second));
    let place = |bytes: &[u8], random: &mut SeededRng| {
        let at = random.index(bytes.len().div_ceil(unit)) * unit;
        (at, bytes[at..bytes.len().min(at + unit)].to_vec())
    };
    let ((at_a, from_a), (at_b, from_b)) = (place(&a, random), place(&b, random));
    let count = from_a.len().min(from_b.len());
    write(disk, first, at_a, &from_b[..count]);
    write(disk, second, at_b, &from_a[..count]);
}
