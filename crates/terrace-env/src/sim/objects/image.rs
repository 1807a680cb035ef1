use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::LIST_NAMES_MAX;
use crate::{ListPage, ListedObject, ObjectName, Operation, Put};

/// What the object stores of a simulation hold at one moment. A clone is cheap and shares what
/// neither side changes afterwards.
#[derive(Clone, Debug, Default)]
pub struct ObjectImage {
    /// By the URL of the object: that of its store, a slash, its name.
    objects: Arc<BTreeMap<String, Arc<[u8]>>>,
    /// The URLs of the objects that come in parts and are neither finished nor given up.
    uploads: Arc<BTreeMap<u64, String>>,
    next_upload: u64,
    /// What failed and will be done all the same.
    late: Arc<Vec<Late>>,
}

/// A change that can be done without whoever asked for it.
#[derive(Clone, Debug)]
pub(in crate::sim) enum Change {
    Put(Arc<[u8]>),
    PutIfAbsent(Arc<[u8]>),
    Delete,
    /// Makes an upload an object, unless it was given up.
    Finish {
        upload: u64,
        bytes: Arc<[u8]>,
    },
}

/// A change that will be done.
#[derive(Clone, Debug)]
pub(super) struct Late {
    /// Before which of the following requests it is done, from 1.
    pub due_in: u32,
    pub operation: Operation,
    pub key: String,
    pub change: Change,
}

impl ObjectImage {
    /// Stores without an object.
    #[must_use]
    pub fn new() -> ObjectImage {
        ObjectImage::default()
    }

    /// The objects of the store at `url`, in the order of their names.
    #[must_use]
    pub fn list(&self, url: &str) -> Vec<ListedObject> {
        self.objects_below(root(url), "", None).collect()
    }

    /// The bytes of an object, if it is there.
    #[must_use]
    pub fn get(&self, url: &str, name: &ObjectName) -> Option<&[u8]> {
        self.objects.get(&key(root(url), name)).map(|bytes| &**bytes)
    }

    /// Puts an object there, in place of what had its name: what a test wants to be found.
    pub fn insert(&mut self, url: &str, name: &ObjectName, bytes: &[u8]) {
        self.put(&key(root(url), name), bytes);
    }

    /// Takes an object away; whether it was there.
    pub fn remove(&mut self, url: &str, name: &ObjectName) -> bool {
        self.delete(&key(root(url), name))
    }

    /// How many objects of the store at `url` come in parts and were neither finished nor given
    /// up; what they hold is paid for.
    #[must_use]
    pub fn unfinished_uploads(&self, url: &str) -> usize {
        let below = key_prefix(root(url), "");
        self.uploads.values().filter(|key| key.starts_with(&below)).count()
    }

    /// How many changes failed, are not done, and will be.
    #[must_use]
    pub fn late_changes(&self) -> usize {
        self.late.len()
    }

    /// Does all changes that are late.
    pub fn land_late_changes(&mut self) {
        for late in std::mem::take(Arc::make_mut(&mut self.late)) {
            self.apply(&late.key, &late.change);
        }
    }

    pub(super) fn put_off(&mut self, late: Late) {
        Arc::make_mut(&mut self.late).push(late);
    }

    /// One more request has come: what is to be done before it.
    pub(super) fn take_due(&mut self) -> Vec<Late> {
        if self.late.is_empty() {
            return Vec::new();
        }
        let late = Arc::make_mut(&mut self.late);
        late.iter_mut().for_each(|one| one.due_in -= 1);
        let (due, left) = std::mem::take(late).into_iter().partition(|one| one.due_in == 0);
        *late = left;
        due
    }

    /// Does a change.
    pub(super) fn apply(&mut self, key: &str, change: &Change) -> Put {
        match change {
            Change::Put(bytes) => self.put(key, bytes),
            Change::PutIfAbsent(bytes) => return self.put_if_absent(key, bytes),
            Change::Delete => {
                self.delete(key);
            }
            Change::Finish { upload, bytes } => {
                if self.end_upload(*upload) {
                    self.put(key, bytes);
                }
            }
        }
        Put::Created
    }

    pub(super) fn find(&self, key: &str) -> Option<Arc<[u8]>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn put(&mut self, key: &str, bytes: &[u8]) {
        Arc::make_mut(&mut self.objects).insert(key.to_string(), bytes.into());
    }

    pub(super) fn put_if_absent(&mut self, key: &str, bytes: &[u8]) -> Put {
        if self.objects.contains_key(key) {
            return Put::Taken;
        }
        self.put(key, bytes);
        Put::Created
    }

    pub(super) fn delete(&mut self, key: &str) -> bool {
        Arc::make_mut(&mut self.objects).remove(key).is_some()
    }

    /// The first names behind `after`, as one request lists them.
    pub(super) fn page(&self, root: &str, prefix: &str, after: Option<&ObjectName>) -> ListPage {
        let mut listed = self.objects_below(root, prefix, after);
        let objects = listed.by_ref().take(LIST_NAMES_MAX).collect();
        ListPage { objects, is_last: listed.next().is_none() }
    }

    fn objects_below(
        &self,
        root: &str,
        prefix: &str,
        after: Option<&ObjectName>,
    ) -> impl Iterator<Item = ListedObject> {
        let below = key_prefix(root, prefix);
        let behind = after.map(|name| key(root, name));
        let root_bytes = root.len() + 1;
        let first = behind.clone().filter(|behind| *behind > below).unwrap_or(below.clone());
        self.objects
            .range(first..)
            .skip_while(move |(key, _)| behind.as_ref().is_some_and(|behind| *key <= behind))
            .take_while(move |(key, _)| key.starts_with(&below))
            .filter_map(move |(key, bytes)| {
                let name = ObjectName::new(&key[root_bytes..])?;
                Some(ListedObject { name, bytes: bytes.len() as u64 })
            })
    }

    /// Begins an object that comes in parts; its number.
    pub(super) fn begin_upload(&mut self, key: &str) -> u64 {
        let upload = self.next_upload;
        self.next_upload += 1;
        Arc::make_mut(&mut self.uploads).insert(upload, key.to_string());
        upload
    }

    pub(super) fn end_upload(&mut self, upload: u64) -> bool {
        Arc::make_mut(&mut self.uploads).remove(&upload).is_some()
    }
}

/// The URL of a store as the keys of its objects begin.
pub(super) fn root(url: &str) -> &str {
    url.trim_end_matches('/')
}

/// The key of an object.
pub(super) fn key(root: &str, name: &ObjectName) -> String {
    key_prefix(root, name.as_str())
}

fn key_prefix(root: &str, prefix: &str) -> String {
    format!("{root}/{prefix}")
}
