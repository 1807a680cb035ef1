//! Goal: without a manifest a repair finds the rows that lie in pages, leaves out what does not fit
//! its checksum, and says of every key that is not as it was. Method: ranges with small containers,
//! of which manifest and container are damaged in known places and at random.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{KeyRange, LevelNo};
use terrace_env::{CrashPolicy, DiskImage, SeededRng, SharedEnv, SimEnv, SimOptions};

use crate::l0::triangle::Pages;
use crate::l0::triangle::row::RowReader;
use crate::options::{L0Kind, Options};
use crate::repair::{Basis, Loss, LossKind, RepairReport, repair};
use crate::store::tests::{DIR, delete, in_pages, of_kind, open, process, put, small};
use crate::store::{IterOptions, Store, WriteOptions};
use crate::{Result, WriteBatch};

type Content = BTreeMap<String, String>;

/// A range on a disk, what it holds, and what was ever written to it.
#[derive(Clone, Default)]
struct Specimen {
    disk: DiskImage,
    content: Content,
    written: BTreeSet<(String, String)>,
    /// Whether there are rows in pages that are consumed in part.
    has_cut_rows: bool,
}

impl Specimen {
    fn put(&mut self, store: &Store, key: String, value: String) -> Result<()> {
        put(store, &key, &value)?;
        self.written.insert((key.clone(), value.clone()));
        self.content.insert(key, value);
        Ok(())
    }

    fn delete_range(&mut self, store: &Store, start: &str, end: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(start.as_bytes(), end.as_bytes())?;
        store.write(&batch, &WriteOptions::default())?;
        self.content.retain(|key, _| key.as_str() < start || key.as_str() >= end);
        Ok(())
    }

    /// The files of the range whose names end so.
    fn files(&self, ending: &str) -> Vec<(PathBuf, u64)> {
        let files = self.disk.files().into_iter().filter(|(path, _)| path.starts_with(DIR));
        files.filter(|(path, _)| path.to_string_lossy().ends_with(ending)).collect()
    }

    fn container(&self) -> (PathBuf, Vec<u8>) {
        let (path, _) = self.files(".rows").pop().expect("there is a container");
        let bytes = self.disk.read(&path).expect("it was listed");
        (path, bytes)
    }

    fn remove(&mut self, ending: &str) {
        for (path, _) in self.files(ending) {
            self.disk.remove(&path).expect("it was listed");
        }
    }

    fn overwrite(&mut self, path: &Path, offset: usize, bytes: &[u8]) {
        self.disk.write(path, offset as u64, bytes).expect("it was listed");
    }

    /// Flips a bit of the byte at `at` thousandths of each manifest, behind the header.
    fn flip_in_manifests(&mut self, at: u64) {
        for (path, bytes) in self.files(".manifest") {
            let offset = (64 + at * (bytes - 65) / 1000) as usize;
            let before = self.disk.read(&path).expect("it was listed")[offset];
            self.overwrite(&path, offset, &[before ^ 4]);
        }
    }

    /// What a repair makes of it.
    fn repaired(&self, options: &Options) -> (RepairReport, Content) {
        let disk = self.disk.clone();
        SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
            let env: SharedEnv = env;
            let target = Path::new("/repaired");
            let report = repair(&env, Path::new(DIR), target, options, &mut |_, _| true)?;
            let store = Store::open(&process(&env)?, target, small())?;
            let found = store.check(&mut |_, _| ())?;
            assert!(found.is_clean(), "{found}");
            Ok::<_, crate::Error>((report, content_of(&store)?))
        })
        .expect("a repair fails on nothing that is damaged")
    }

    /// Nothing is made up, and of each key that is not as it was the report says so, with the right
    /// kind.
    fn check(&self, report: &RepairReport, found: &Content, place: &str) {
        for (key, value) in found {
            let is_written = self.written.contains(&(key.clone(), value.clone()));
            assert!(is_written, "{place}: {key} has a value that was never written");
        }
        let keys: BTreeSet<&String> = self.written.iter().map(|(key, _)| key).collect();
        for key in keys {
            let wanted = self.content.get(key);
            if found.get(key) != wanted {
                let kind = if wanted.is_some() { LossKind::Lost } else { LossKind::MayReappear };
                let is_said = is_lost(report, kind, key);
                assert!(is_said, "{place}: nothing is said of {key} ({kind:?}): {report}");
            }
        }
    }
}

/// Whether the report says so of a key, whatever it says of the log: that is whole, and where
/// nothing closed it, a repair without a manifest does not vouch for its end.
fn is_lost(report: &RepairReport, kind: LossKind, key: &str) -> bool {
    let mut losses = losses_of_rows(report).filter(|loss| loss.kind == kind);
    losses.any(|loss| loss.keys.contains(key.as_bytes()))
}

fn losses_of_rows(report: &RepairReport) -> impl Iterator<Item = &Loss> {
    let is_of_log = |loss: &&Loss| loss.why.starts_with("part of the log");
    report.losses.iter().filter(move |loss| !is_of_log(loss))
}

fn content_of(store: &Store) -> Result<Content> {
    let mut iter = store.iter(IterOptions::default())?;
    let mut content = Content::new();
    iter.seek_to_first()?;
    while let Some(entry) = iter.entry() {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("tests write text");
        content.insert(text(entry.key), text(entry.value));
        iter.next()?;
    }
    Ok(content)
}

/// Runs `work` on a new range and keeps what is on the disk after a kill.
fn killed(
    seed: u64,
    options: &Options,
    work: impl FnOnce(&Store, &mut Specimen) -> Result<()> + Send,
) -> Specimen {
    SimEnv::run(SimOptions::new(seed), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let mut specimen = Specimen::default();
        let store = open(&env, options)?;
        work(&store, &mut specimen)?;
        specimen.disk = sim.disk().crash(CrashPolicy::ProcessKill, 0);
        Ok::<_, crate::Error>(specimen)
    })
    .expect("the disk is whole")
}

/// Rows that share keys, some of them cut and some of their pages another row's.
fn random_range(seed: u64, options: &Options, has_deletions: bool, is_closed: bool) -> Specimen {
    killed(seed, options, |store, specimen| {
        let mut random = SeededRng::new(seed);
        for number in 0..1500 {
            let key = format!("{:03}", random.below(300));
            match random.below(24) {
                0 | 1 if has_deletions => {
                    delete(store, &key)?;
                    specimen.content.remove(&key);
                }
                2 if has_deletions => specimen.delete_range(store, &key, &format!("{key}~"))?,
                _ => {
                    let value = format!("{number}/").repeat(1 + random.below(60) as usize);
                    specimen.put(store, key, value)?;
                }
            }
            match random.below(200) {
                0 | 1 => store.flush()?,
                2..=4 => {
                    let start = format!("{:02}", random.below(30));
                    let slice = KeyRange::new(start.clone(), Some(format!("{start}~").into()));
                    store.inner.force(LevelNo(0), &slice)?;
                }
                _ => {}
            }
        }
        store.flush()?;
        store.inner.force(LevelNo(0), &KeyRange::new("05", Some("07".into())))?;
        store.settle();
        let version = store.inner.versions.current();
        specimen.has_cut_rows = version.has_rows_in_pages() && !version.l0().consumed().is_empty();
        drop(version);
        if is_closed { store.close() } else { Ok(()) }
    })
}

fn options(kind: L0Kind) -> Options {
    in_pages(small(), kind, 160 << 10)
}

/// How many pages rows list that are another row's by now.
fn reused_pages(specimen: &Specimen) -> usize {
    let (disk, path) = (specimen.disk.clone(), specimen.container().0);
    SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
        let env: SharedEnv = env;
        let pages = Pages::open_any(&env, &path)?;
        let heads = RowReader::find_heads(&pages, &mut |_| Ok(()))?;
        // Of some rows that nothing names any more the metadata is gone.
        let rows: Vec<_> =
            heads.iter().filter_map(|(place, _)| RowReader::salvage(&pages, *place).ok()).collect();
        let owned: BTreeSet<u32> = rows.iter().flat_map(|one| one.row.page_numbers()).collect();
        let unfit = rows.iter().flat_map(|one| &one.unfit);
        Ok::<_, crate::Error>(unfit.filter(|page| owned.contains(&page.number)).count())
    })
    .expect("the container is whole")
}

#[test]
fn without_a_manifest_all_that_was_written_is_found() {
    let (mut reused, mut with_cut_rows) = (0, 0);
    for seed in 0..8 {
        let kind = [L0Kind::Container, L0Kind::Matrix][seed as usize % 2];
        let whole = random_range(seed, &options(kind), false, true);
        reused += reused_pages(&whole);
        with_cut_rows += usize::from(whole.has_cut_rows);
        for how in ["deleted", "cut short", "damaged", "log gone"] {
            let mut specimen = whole.clone();
            match how {
                "deleted" => specimen.remove(".manifest"),
                "cut short" => {
                    for (path, bytes) in specimen.files(".manifest") {
                        specimen.disk.truncate(&path, bytes / 2).expect("it was listed");
                    }
                }
                "damaged" => specimen.flip_in_manifests(300 + seed * 50),
                // Everything was flushed: what is not in tables is in the container only.
                _ => {
                    specimen.remove(".manifest");
                    specimen.remove(".log");
                }
            }
            let place = format!("seed {seed}, {how}");
            let (report, found) = specimen.repaired(&small());
            assert_eq!(report.basis, Basis::Number, "{place}");
            assert_eq!(found, whole.content, "{place}");
            // The container is where the options say, and the manifest is no help.
            if how == "deleted" {
                let (path, bytes) = specimen.container();
                let medium = Path::new("/medium").join(path.file_name().expect("it has a name"));
                let sim = SimOptions { disk: specimen.disk.clone(), ..SimOptions::new(1) };
                specimen.disk = SimEnv::run(sim, |sim| {
                    let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
                    env.fs().create_dir_all(Path::new("/medium"))?;
                    let mut file = env.fs().create(&medium, 0)?;
                    file.append(&bytes)?;
                    file.finish()?;
                    env.fs().remove(&path)?;
                    Ok::<_, crate::Error>(sim.disk().crash(CrashPolicy::ProcessKill, 0))
                })
                .expect("the disk is whole");
                let elsewhere = of_kind(small(), kind, "/medium", 160 << 10);
                assert_eq!(specimen.repaired(&elsewhere).1, whole.content, "{place}, elsewhere");
            }
        }
    }
    println!("{reused} pages are another row's by now; {with_cut_rows} of 8 ranges have cut rows");
    assert!(reused > 20 && with_cut_rows >= 4, "{reused}, {with_cut_rows}");
}

/// One row that nobody cut, and that is all there is.
fn one_row() -> Specimen {
    let options =
        in_pages(Options { memtable_bytes: 256 << 10, ..small() }, L0Kind::Container, 1 << 20);
    let mut specimen = killed(3, &options, |store, specimen| {
        for key in 0..300 {
            specimen.put(store, format!("{key:04}"), format!("{key}/").repeat(40))?;
        }
        store.flush()?;
        let version = store.inner.versions.current();
        assert!(version.has_rows_in_pages());
        Ok(())
    });
    specimen.remove(".manifest");
    specimen.remove(".log");
    specimen
}

#[test]
fn a_damaged_page_loses_its_own_keys_only() {
    let whole = one_row();
    let (report, found) = whole.repaired(&small());
    assert_eq!(found, whole.content);
    assert!(losses_of_rows(&report).all(|loss| loss.kind == LossKind::MayReappear), "{report}");
    let (path, bytes) = whole.container();
    let mut narrow = 0;
    let mut everything = 0;
    for (number, page) in bytes.chunks(4096).enumerate().skip(1) {
        if page.iter().all(|&byte| byte == 0) {
            continue;
        }
        for is_zero in [false, true] {
            let mut specimen = whole.clone();
            match is_zero {
                true => specimen.overwrite(&path, number * 4096, &[0; 4096]),
                false => specimen.overwrite(&path, number * 4096 + 77, &[page[77] ^ 1]),
            }
            let place = format!("page {number}, zero: {is_zero}");
            let (report, found) = specimen.repaired(&small());
            assert_ne!(found, whole.content, "{place}");
            specimen.check(&report, &found, &place);
            let lost = whole.content.keys().filter(|key| is_lost(&report, LossKind::Lost, key));
            match lost.count() {
                300 => everything += 1,
                lost => {
                    let missing = 300 - found.len();
                    assert!(lost <= missing + 2, "{place}: {lost} for {missing}");
                    narrow += 1;
                }
            }
        }
    }
    // Head and metadata are a few pages of many.
    assert!(everything >= 4 && narrow > 20, "{everything} lose everything, {narrow} do not");
}

#[test]
fn a_container_that_is_missing_or_cannot_be_opened_is_told() {
    let whole = one_row();
    let (path, bytes) = whole.container();
    let wanted = options(L0Kind::Container);
    for how in ["missing", "cut short", "torn", "header"] {
        let mut specimen = whole.clone();
        match how {
            // Something has to be there for a repair.
            "missing" => specimen.disk.remove(&path).expect("it was listed"),
            "cut short" => specimen.disk.truncate(&path, 256 << 10).expect("it was listed"),
            "torn" => specimen.disk.truncate(&path, 1000).expect("it was listed"),
            _ => specimen.overwrite(&path, 40, &[bytes[40] ^ 1]),
        }
        let (report, found) = specimen.repaired(&wanted);
        assert_eq!(found, Content::new(), "{how}");
        specimen.check(&report, &found, how);
    }
    // Nobody asks for one that neither manifest nor options name.
    let mut specimen = whole.clone();
    specimen.disk.remove(&path).expect("it was listed");
    assert_eq!(losses_of_rows(&specimen.repaired(&small()).0).count(), 0);
    // One that the manifest names is missed whatever the options say.
    let mut specimen = random_range(4, &wanted, false, true);
    specimen.flip_in_manifests(600);
    specimen.remove(".rows");
    let (report, found) = specimen.repaired(&small());
    assert_eq!(report.basis, Basis::Number);
    specimen.check(&report, &found, "named by the manifest");
    let is_told = report.losses.iter().any(|loss| loss.why.contains("container of L0 is missing"));
    assert!(is_told, "{report}");
}

#[test]
fn of_every_key_that_is_not_as_it_was_the_report_says_so() {
    let (mut changed, mut by_number, mut cases) = (0, 0, 0);
    for seed in 100..112 {
        let is_closed = seed % 3 > 0;
        let whole = random_range(seed, &options(L0Kind::Container), true, is_closed);
        let (path, bytes) = whole.container();
        let mut random = SeededRng::new(seed);
        for case in 0..12 {
            let mut specimen = whole.clone();
            match random.below(4) {
                0 => specimen.remove(".manifest"),
                1 => {
                    for (path, bytes) in
                        specimen.files(".manifest").into_iter().filter(|_| is_closed)
                    {
                        let length = random.below(bytes);
                        specimen.disk.truncate(&path, length).expect("it was listed");
                    }
                }
                _ => specimen.flip_in_manifests(random.below(1000)),
            }
            for _ in 0..random.below(4) {
                let offset = random.below(bytes.len() as u64) as usize;
                let page = offset / 4096 * 4096;
                match random.below(4) {
                    0 => specimen.overwrite(&path, page, &[0; 4096]),
                    // The row's head, most often.
                    1 => specimen.overwrite(&path, page + 20, &[bytes[page + 20] ^ 1]),
                    2 => {
                        let other = random.below(bytes.len() as u64 / 4096) as usize * 4096;
                        specimen.overwrite(&path, page, &bytes[other..other + 4096]);
                    }
                    _ => specimen.overwrite(&path, offset, &[bytes[offset] ^ 1]),
                }
            }
            let (report, found) = specimen.repaired(&small());
            specimen.check(&report, &found, &format!("seed {seed}, case {case}"));
            changed += usize::from(found != whole.content);
            by_number += usize::from(report.basis == Basis::Number);
            cases += 1;
        }
    }
    println!(
        "{by_number} of {cases} ranges were repaired by number, {changed} are not as they were"
    );
    assert!(changed > cases / 8 && by_number > cases / 2, "{by_number} and {changed} of {cases}");
}
