//! Goal: a crash leaves what was synced, some of the rest, and nothing else; and every such
//! outcome is reached. Method: small disks crashed under many seeds.

use std::collections::BTreeSet;
use std::path::Path;

use super::{CrashPolicy, DiskImage, InodeId};
use crate::sim::random::SeededRng;

const DIR: &str = "/d";
const SEEDS: u64 = 1500;

fn disk() -> DiskImage {
    let mut disk = DiskImage::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk
}

fn path(name: &str) -> std::path::PathBuf {
    Path::new(DIR).join(name)
}

fn create(disk: &mut DiskImage, name: &str, bytes: &[u8]) -> InodeId {
    let inode = disk.create(&path(name), 0).unwrap();
    disk.write_inode(inode, 0, bytes).unwrap();
    inode
}

fn sync_dir(disk: &mut DiskImage) {
    disk.sync_dir(Path::new(DIR)).unwrap();
}

fn names(disk: &DiskImage) -> Vec<String> {
    disk.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name).collect()
}

/// The disks that crashes under this policy leave.
fn crashes(disk: &DiskImage, policy: CrashPolicy) -> impl Iterator<Item = DiskImage> {
    (0..SEEDS).map(move |seed| disk.crash(policy, seed))
}

#[test]
fn a_killed_process_loses_nothing_and_a_later_power_cut_does() {
    let mut disk = disk();
    create(&mut disk, "f", b"bytes");
    let killed = disk.crash(CrashPolicy::ProcessKill, 1);
    assert_eq!(killed.read(&path("f")).unwrap(), b"bytes");
    let mut emptied = killed.clone();
    emptied.unlink(&path("f")).unwrap();
    assert_eq!(emptied.used_bytes, 0, "the dead process has nothing open");
    let cut = killed.crash(CrashPolicy::SyncedOnly, 1);
    assert!(cut.files().is_empty());
    assert!(cut.list(Path::new(DIR)).unwrap().is_empty(), "the directory itself is durable");
}

#[test]
fn bytes_and_names_are_synced_apart() {
    let mut named = disk();
    create(&mut named, "f", b"bytes");
    sync_dir(&mut named);
    let left = named.crash(CrashPolicy::SyncedOnly, 1);
    assert_eq!(left.read(&path("f")).unwrap(), b"", "a name without its bytes");

    let mut written = disk();
    let inode = create(&mut written, "f", b"bytes");
    written.sync_inode(inode);
    assert!(written.crash(CrashPolicy::SyncedOnly, 1).files().is_empty(), "bytes without a name");
    sync_dir(&mut written);
    let left = written.crash(CrashPolicy::SyncedOnly, 1);
    assert_eq!(left.read(&path("f")).unwrap(), b"bytes");
}

#[test]
fn a_range_is_synced_by_whole_pages() {
    let mut disk = disk();
    let inode = create(&mut disk, "f", &[b'a'; 3 * 4096]);
    disk.sync_inode(inode);
    sync_dir(&mut disk);
    disk.write_inode(inode, 0, &[b'b'; 3 * 4096]).unwrap();
    disk.sync_range_of_inode(inode, 4096 + 10, 20);
    let left = disk.crash(CrashPolicy::SyncedOnly, 1).read(&path("f")).unwrap();
    let bytes_of = |page: usize| &left[page * 4096..(page + 1) * 4096];
    assert!(bytes_of(0).iter().all(|byte| *byte == b'a'));
    assert!(bytes_of(1).iter().all(|byte| *byte == b'b'));
    assert!(bytes_of(2).iter().all(|byte| *byte == b'a'));
}

#[test]
fn a_removal_is_durable_when_the_directory_is_synced() {
    let mut disk = disk();
    let inode = create(&mut disk, "f", b"bytes");
    disk.sync_inode(inode);
    sync_dir(&mut disk);
    disk.close(inode);
    disk.unlink(&path("f")).unwrap();
    assert_eq!(disk.used_bytes, 0);
    let left = disk.crash(CrashPolicy::SyncedOnly, 1);
    assert_eq!(left.read(&path("f")).unwrap(), b"bytes");
    assert_eq!(left.used_bytes, 5);
    sync_dir(&mut disk);
    assert!(disk.crash(CrashPolicy::SyncedOnly, 1).files().is_empty());
    assert!(disk.inodes.is_empty(), "nothing names the file any more");
}

#[test]
fn a_removed_file_can_come_back_until_its_directory_is_synced() {
    let mut disk = disk();
    disk.create_dir_all(Path::new("/other")).unwrap();
    let inode = create(&mut disk, "f", b"bytes");
    disk.sync_inode(inode);
    sync_dir(&mut disk);
    disk.unlink(&path("f")).unwrap();
    disk.close(inode);
    disk.sync_dir(Path::new("/other")).unwrap();
    let left = disk.crash(CrashPolicy::SyncedOnly, 1);
    assert_eq!(left.read(&path("f")).unwrap(), b"bytes");
}

#[test]
fn a_power_cut_keeps_any_sectors_and_any_size() {
    let mut disk = disk();
    let inode = create(&mut disk, "f", &[1; 1024]);
    disk.sync_inode(inode);
    sync_dir(&mut disk);
    disk.write_inode(inode, 0, &[2; 2048]).unwrap();
    let mut outcomes = BTreeSet::new();
    for left in crashes(&disk, CrashPolicy::Sectors) {
        let bytes = left.read(&path("f")).unwrap();
        assert!([1024, 1536, 2048].contains(&bytes.len()), "{} bytes", bytes.len());
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|&byte| byte == sector[0])));
        assert!(sectors[..2].iter().all(|&byte| byte == 1 || byte == 2), "old or new");
        assert!(sectors[2..].iter().all(|&byte| byte == 0 || byte == 2), "nothing or new");
        outcomes.insert(sectors);
    }
    // Two sectors were there before: 4 outcomes; at the greater sizes 2 or 4 times as many.
    assert_eq!(outcomes.len(), 4 + 8 + 16);
}

#[test]
fn pages_are_kept_whole_by_the_policy_of_pages() {
    let mut disk = disk();
    let inode = create(&mut disk, "f", &[1; 8192]);
    disk.sync_inode(inode);
    sync_dir(&mut disk);
    disk.write_inode(inode, 0, &[2; 8192]).unwrap();
    let mut outcomes = BTreeSet::new();
    for left in crashes(&disk, CrashPolicy::Pages) {
        let bytes = left.read(&path("f")).unwrap();
        assert!(bytes.chunks(4096).all(|page| page.iter().all(|&byte| byte == page[0])));
        outcomes.insert((bytes[0], bytes[4096]));
    }
    assert_eq!(outcomes.len(), 4);
}

#[test]
fn one_file_may_run_ahead_of_another() {
    let mut disk = disk();
    create(&mut disk, "a", b"aaa");
    create(&mut disk, "b", b"bbb");
    sync_dir(&mut disk);
    let outcomes: BTreeSet<(bool, bool)> = crashes(&disk, CrashPolicy::Pages)
        .map(|left| {
            let is_there = |name| left.read(&path(name)).unwrap() == [name.as_bytes()[0]; 3];
            (is_there("a"), is_there("b"))
        })
        .collect();
    assert_eq!(outcomes.len(), 4);
}

#[test]
fn a_preallocated_log_is_durable_only_after_its_sync() {
    let mut disk = disk();
    let inode = disk.create(&path("log"), 10_000).unwrap();
    disk.resize_inode(inode, 10_000).unwrap();
    sync_dir(&mut disk);
    assert_eq!(disk.crash(CrashPolicy::SyncedOnly, 1).files(), [(path("log"), 0)]);
    disk.sync_inode(inode);
    disk.write_inode(inode, 100, b"record").unwrap();
    let left = disk.crash(CrashPolicy::SyncedOnly, 1);
    assert_eq!(left.read(&path("log")).unwrap(), vec![0; 10_000]);
}

#[test]
fn a_replaced_name_is_never_absent() {
    let mut disk = disk();
    for (name, bytes) in [("current", b"old"), ("next", b"new")] {
        let inode = create(&mut disk, name, bytes);
        disk.sync_inode(inode);
    }
    sync_dir(&mut disk);
    disk.rename(&path("next"), &path("current"), true).unwrap();
    let mut outcomes = BTreeSet::new();
    for left in crashes(&disk, CrashPolicy::Sectors) {
        outcomes.insert((left.read(&path("current")).unwrap(), names(&left)));
    }
    let both = vec!["current".to_string(), "next".to_string()];
    let expected = [(b"new".to_vec(), vec!["current".to_string()]), (b"old".to_vec(), both)].into();
    assert_eq!(outcomes, expected);
}

#[test]
fn a_crash_keeps_its_promises_on_random_disks() {
    for seed in 0..SEEDS {
        let mut random = SeededRng::new(seed);
        let mut disk = disk();
        let inode = create(&mut disk, "f", &[]);
        sync_dir(&mut disk);
        let mut synced = Vec::new();
        for step in 1..=20 {
            let bytes = vec![step; 1 + random.index(3000)];
            disk.write_inode(inode, random.below(20_000), &bytes).unwrap();
            if random.one_in(5) {
                disk.sync_inode(inode);
                synced = disk.read(&path("f")).unwrap();
            }
        }
        let written = disk.read(&path("f")).unwrap();
        let left = disk.crash(CrashPolicy::Sectors, seed);
        let left_bytes = left.read(&path("f")).unwrap();
        assert!((synced.len()..=written.len()).contains(&left_bytes.len()), "seed {seed}");
        synced.resize(written.len(), 0);
        for (start, sector) in (0..).step_by(512).zip(left_bytes.chunks(512)) {
            let whole = start..start + sector.len();
            let is_promised = sector == &synced[whole.clone()] || sector == &written[whole];
            assert!(is_promised, "seed {seed}: sector at {start} is neither old nor new");
        }
        assert_eq!(left.read(&path("f")).unwrap(), left_bytes);
        let again = left.crash(CrashPolicy::SyncedOnly, seed + 1);
        assert_eq!(again.read(&path("f")).unwrap(), left_bytes, "seed {seed}: left is durable");
    }
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    let mut disk = disk();
    for name in ["a", "b", "c"] {
        create(&mut disk, name, &[7; 5000]);
    }
    let content = |disk: &DiskImage| -> Vec<_> {
        disk.files().into_iter().map(|(path, _)| (disk.read(&path).unwrap(), path)).collect()
    };
    let mut different = BTreeSet::new();
    for seed in 0..20 {
        let left = content(&disk.crash(CrashPolicy::Sectors, seed));
        assert_eq!(left, content(&disk.crash(CrashPolicy::Sectors, seed)), "seed {seed}");
        different.insert(left);
    }
    assert!(different.len() > 10);
}

#[test]
fn clones_share_what_is_not_changed() {
    let mut disk = disk();
    for name in ["a", "b", "c"] {
        create(&mut disk, name, &[7; 5000]);
    }
    let inode = disk.open(&path("b")).unwrap().0;
    let before = disk.clone();
    assert_eq!(disk.shares_files_with(&before), 3);
    disk.write_inode(inode, 0, b"x").unwrap();
    assert_eq!(disk.shares_files_with(&before), 2);
    assert_eq!(before.read(&path("b")).unwrap(), [7; 5000]);
}

#[test]
fn space_is_counted_and_given_back() {
    let mut disk = disk().with_capacity(10_000);
    let inode = disk.create(&path("f"), 6_000).unwrap();
    assert_eq!(disk.free_bytes(), 4_000);
    disk.write_inode(inode, 0, &[1; 6_000]).unwrap();
    assert_eq!(disk.free_bytes(), 4_000, "the space was reserved");
    let error = disk.write_inode(inode, 6_000, &[1; 4_001]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(disk.create(&path("g"), 4_001).is_err());
    assert_eq!(names(&disk), ["f"], "a file that does not fit is not made");
    disk.write_inode(inode, 6_000, &[1; 4_000]).unwrap();
    assert_eq!(disk.free_bytes(), 0);
    disk.unlink(&path("f")).unwrap();
    assert_eq!(disk.free_bytes(), 0, "an open file keeps its space");
    disk.close(inode);
    assert_eq!(disk.free_bytes(), 10_000);
    for name in ["old", "new"] {
        let inode = create(&mut disk, name, &[1; 100]);
        disk.close(inode);
    }
    disk.rename(&path("new"), &path("old"), true).unwrap();
    assert_eq!(disk.free_bytes(), 9_900, "what was replaced takes no space");
    disk.set_capacity(105);
    assert_eq!(disk.free_bytes(), 5);
}

#[test]
fn tests_can_look_at_files_and_damage_them() {
    let mut disk = DiskImage::default();
    disk.write(&path("f"), 3, b"abc").unwrap();
    disk.write(&path("f"), 4, b"X").unwrap();
    assert_eq!(disk.files(), [(path("f"), 6)]);
    assert_eq!(disk.read(&path("f")).unwrap(), b"\0\0\0aXc");
    disk.truncate(&path("f"), 4).unwrap();
    let left = disk.crash(CrashPolicy::SyncedOnly, 0);
    assert_eq!(left.read(&path("f")).unwrap(), b"\0\0\0a", "damage is durable");
    disk.remove(&path("f")).unwrap();
    assert!(disk.crash(CrashPolicy::SyncedOnly, 0).files().is_empty());
    assert!(disk.read(&path("f")).is_err());
    assert!(disk.truncate(&path("f"), 4).is_err());
    assert!(disk.remove(&path("f")).is_err());
}

#[test]
fn a_disk_is_copied_to_and_from_a_real_directory() {
    let mut disk = disk();
    create(&mut disk, "f", b"bytes");
    disk.create_dir_all(&path("below/deep")).unwrap();
    disk.write(&path("below/deep/g"), 0, b"more").unwrap();
    let target = tempfile::tempdir().unwrap();
    disk.copy_to(target.path()).unwrap();
    let mut copied = DiskImage::new();
    copied.copy_from(target.path(), Path::new("/")).unwrap();
    assert_eq!(copied.files(), disk.files());
    assert_eq!(copied.read(&path("below/deep/g")).unwrap(), b"more");
}

#[test]
fn what_a_failed_sync_left_is_written_by_no_later_one_until_it_is_written_again() {
    let mut disk = disk();
    let inode = create(&mut disk, "f", &[1; 3 * 4096]);
    sync_dir(&mut disk);
    disk.sync_inode(inode);
    disk.write_inode(inode, 100, b"lost").unwrap();
    disk.write_inode(inode, 5000, b"written again").unwrap();
    disk.lose_unsynced(&path("f"));
    disk.write_inode(inode, 5000, b"written again").unwrap();
    disk.write_inode(inode, 9000, b"later").unwrap();
    let killed = disk.crash(CrashPolicy::ProcessKill, 0);
    assert_eq!(
        &killed.read(&path("f")).unwrap()[100..104],
        b"lost",
        "the system goes on showing it"
    );
    for mut disk in [disk, killed] {
        disk.sync_inode(inode);
        for policy in [CrashPolicy::SyncedOnly, CrashPolicy::Sectors, CrashPolicy::Pages] {
            for seed in 0..50 {
                let left = disk.crash(policy, seed).read(&path("f")).unwrap();
                assert_eq!(left[100..104], [1; 4], "{policy:?}, seed {seed}");
                assert_eq!(&left[5000..5013], b"written again");
                assert_eq!(&left[9000..9005], b"later");
            }
        }
    }
}

#[test]
fn a_file_is_cut_in_one_step() {
    let mut disk = disk();
    let inode = create(&mut disk, "f", &[1; 9000]);
    sync_dir(&mut disk);
    disk.sync_inode(inode);
    disk.cut_inode(inode, 10).unwrap();
    assert_eq!(disk.used_bytes, 10);
    let sizes: BTreeSet<_> = crashes(&disk, CrashPolicy::Sectors)
        .map(|left| left.read(&path("f")).unwrap().len())
        .collect();
    assert_eq!(Vec::from_iter(sizes), [10, 9000]);
}
