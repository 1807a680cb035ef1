use std::collections::{BTreeMap, BTreeSet};

use crate::sim::random::SeededRng;

/// A file of a simulated disk, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sim) struct InodeId(pub u64);

/// The names of the files in one directory.
///
/// `written` is what the system shows; it is `synced` with every change in `unsynced` applied in
/// order. A power cut keeps any subset of the unsynced changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    written: BTreeMap<String, InodeId>,
    synced: BTreeMap<String, InodeId>,
    unsynced: Vec<NameChange>,
}

/// A change of one directory that is kept or lost as a whole.
///
/// A rename is one change, as on every journaling file system: its source does not go unless its
/// target comes, and what had the target's name goes only when the new file has it.
#[derive(Clone, Debug)]
enum NameChange {
    Set { name: String, inode: InodeId },
    Remove { name: String },
    Rename { from: String, to: String, inode: InodeId },
}

impl Directory {
    /// The names that the system shows, in order.
    pub fn written(&self) -> &BTreeMap<String, InodeId> {
        &self.written
    }

    /// Gives `name` to a file; returns the file that had it.
    pub fn set(&mut self, name: &str, inode: InodeId) -> Option<InodeId> {
        self.change(NameChange::Set { name: name.to_string(), inode })
    }

    /// Takes `name` from a file, which is returned.
    pub fn remove(&mut self, name: &str) -> Option<InodeId> {
        self.change(NameChange::Remove { name: name.to_string() })
    }

    /// Gives the file `from` the name `to` in its place; returns the file that had it.
    pub fn rename(&mut self, from: &str, to: &str, inode: InodeId) -> Option<InodeId> {
        self.change(NameChange::Rename { from: from.to_string(), to: to.to_string(), inode })
    }

    fn change(&mut self, change: NameChange) -> Option<InodeId> {
        let before = change.apply(&mut self.written);
        self.unsynced.push(change);
        before
    }

    /// Makes every change so far durable.
    pub fn sync(&mut self) {
        self.synced.clone_from(&self.written);
        self.unsynced.clear();
    }

    /// The names after a power cut that kept those unsynced changes that `keep` chooses.
    pub fn after_power_cut(&self, mut keep: impl FnMut() -> bool) -> Directory {
        let mut names = self.synced.clone();
        for change in &self.unsynced {
            if keep() {
                change.apply(&mut names);
            }
        }
        Directory { written: names.clone(), synced: names, unsynced: Vec::new() }
    }

    /// Adds every file that the directory names, or may name after a power cut.
    pub fn collect_inodes(&self, inodes: &mut BTreeSet<InodeId>) {
        inodes.extend(self.written.values());
        inodes.extend(self.synced.values());
        inodes.extend(self.unsynced.iter().filter_map(|change| match change {
            NameChange::Set { inode, .. } | NameChange::Rename { inode, .. } => Some(*inode),
            NameChange::Remove { .. } => None,
        }));
    }
}

impl NameChange {
    /// Applies the change; returns the file that lost the name it was about.
    fn apply(&self, names: &mut BTreeMap<String, InodeId>) -> Option<InodeId> {
        match self {
            NameChange::Set { name, inode } => names.insert(name.clone(), *inode),
            NameChange::Remove { name } => names.remove(name),
            NameChange::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode)
            }
        }
    }
}

/// Whether a power cut keeps all, none or a random half of the unsynced changes of a directory:
/// the extremes are where one directory runs ahead of the files it names.
pub(super) fn draw_keep(random: &mut SeededRng) -> impl FnMut() -> bool + use<> {
    let extreme = match random.below(4) {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    };
    let mut random = SeededRng::new(random.next_u64());
    move || extreme.unwrap_or_else(|| random.one_in(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_never_leaves_its_target_or_its_file_without_a_name() {
        let mut directory = Directory::default();
        directory.set("current", InodeId(1));
        directory.set("new", InodeId(2));
        directory.sync();
        directory.rename("new", "current", InodeId(2));
        for keep in [false, true] {
            let after = directory.after_power_cut(|| keep);
            let names: Vec<(&str, u64)> =
                after.written().iter().map(|(name, inode)| (name.as_str(), inode.0)).collect();
            if keep {
                assert_eq!(names, [("current", 2)]);
            } else {
                assert_eq!(names, [("current", 1), ("new", 2)]);
            }
        }
    }

    #[test]
    fn each_unsynced_change_is_kept_or_lost_by_itself() {
        let mut directory = Directory::default();
        directory.set("a", InodeId(1));
        directory.sync();
        directory.remove("a");
        directory.set("b", InodeId(2));
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let mut keep = draw_keep(&mut SeededRng::new(seed));
            let after = directory.after_power_cut(&mut keep);
            seen.insert(after.written().keys().cloned().collect::<String>());
        }
        let seen: Vec<String> = seen.into_iter().collect();
        assert_eq!(seen, ["", "a", "ab", "b"]);
    }
}
