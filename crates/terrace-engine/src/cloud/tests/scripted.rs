//! An object store in memory whose next requests go as a test says.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use terrace_env::{
    EnvError, EnvResult, Latch, ListPage, ListedObject, ObjectName, ObjectStore, ObjectUpload,
    Operation, PendingObject, Put,
};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cloud) enum Fate {
    /// It is done.
    Done,
    /// It is not done, and fails so.
    Refused(ErrorKind),
    /// It is done, and fails so.
    Lost(ErrorKind),
    /// Conditional puts overwrite, in this request.
    Unconditional,
    /// The same, and it says that the name was taken.
    Overwritten,
}

#[derive(Debug, Default)]
pub(in crate::cloud) struct ScriptedStore(Arc<Latch<State>>);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<ObjectName, Vec<u8>>,
    script: VecDeque<Fate>,
    uploads_open: usize,
    page: usize,
    meanwhile: Option<Meanwhile>,
}

/// What happens before a later request.
struct Meanwhile {
    requests_before: usize,
    act: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meanwhile(after {} requests)", self.requests_before)
    }
}

impl Clone for ScriptedStore {
    fn clone(&self) -> ScriptedStore {
        ScriptedStore(Arc::clone(&self.0))
    }
}

impl ScriptedStore {
    /// The next requests go like this; those after them are done.
    pub fn script(&self, fates: &[Fate]) {
        self.0.lock().script = fates.iter().copied().collect();
    }

    /// Once so many requests have been made, and before the next one, somebody else acts.
    pub fn meanwhile(&self, requests_before: usize, act: impl FnOnce() + Send + 'static) {
        self.0.lock().meanwhile = Some(Meanwhile { requests_before, act: Box::new(act) });
    }

    /// What was to happen meanwhile and has not happened yet is not to happen any more; whether
    /// there was any.
    pub fn forget_meanwhile(&self) -> bool {
        self.0.lock().meanwhile.take().is_some()
    }

    /// What happens before this request, if it is the one that [`ScriptedStore::meanwhile`] means.
    fn due(&self) -> Option<Meanwhile> {
        let mut state = self.0.lock();
        let meanwhile = state.meanwhile.as_mut()?;
        if meanwhile.requests_before == 0 {
            return state.meanwhile.take();
        }
        meanwhile.requests_before -= 1;
        None
    }

    /// A list answers with so many names at most.
    pub fn set_page(&self, page: usize) {
        self.0.lock().page = page;
    }

    pub fn bytes(&self, name: &ObjectName) -> Option<Vec<u8>> {
        self.0.lock().objects.get(name).cloned()
    }

    /// Somebody else's put.
    pub fn insert(&self, name: &ObjectName, bytes: &[u8]) {
        self.0.lock().objects.insert(name.clone(), bytes.to_vec());
    }

    /// Uploads that were neither finished nor given up.
    pub fn uploads_open(&self) -> usize {
        self.0.lock().uploads_open
    }

    fn ask<T>(
        &self,
        operation: Operation,
        name: &str,
        act: impl FnOnce(&mut State, Fate) -> Result<T, ErrorKind>,
    ) -> EnvResult<T> {
        if let Some(due) = self.due() {
            (due.act)();
        }
        let mut state = self.0.lock();
        let error = |kind| EnvError::new(operation, Path::new(name), Error::from(kind));
        let fate = state.script.pop_front().unwrap_or(Fate::Done);
        match fate {
            Fate::Done | Fate::Unconditional | Fate::Overwritten => {
                act(&mut state, fate).map_err(error)
            }
            Fate::Refused(kind) => Err(error(kind)),
            Fate::Lost(kind) => {
                act(&mut state, fate).map_err(error)?;
                Err(error(kind))
            }
        }
    }
}

impl ObjectStore for ScriptedStore {
    fn url(&self) -> &str {
        "sim://scripted"
    }

    fn put(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<()> {
        self.ask(Operation::PutObject, name.as_str(), |state, _| {
            state.objects.insert(name.clone(), bytes.to_vec());
            Ok(())
        })
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<Put> {
        self.ask(Operation::PutObjectIfAbsent, name.as_str(), |state, fate| {
            let is_kept = !matches!(fate, Fate::Unconditional | Fate::Overwritten);
            if is_kept && state.objects.contains_key(name) {
                return Ok(Put::Taken);
            }
            state.objects.insert(name.clone(), bytes.to_vec());
            Ok(if fate == Fate::Overwritten { Put::Taken } else { Put::Created })
        })
    }

    fn begin_upload(&self, name: &ObjectName) -> EnvResult<Box<dyn ObjectUpload>> {
        self.ask(Operation::UploadObject, name.as_str(), |state, _| {
            state.uploads_open += 1;
            Ok(())
        })?;
        let upload = ScriptedUpload { store: self.clone(), name: name.clone(), bytes: Vec::new() };
        Ok(Box::new(upload))
    }

    fn begin_get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> PendingObject {
        let answer = self.ask(Operation::GetObject, name.as_str(), |state, _| {
            let bytes = state.objects.get(name).ok_or(ErrorKind::NotFound)?;
            let all = 0..bytes.len() as u64;
            let Range { start, end } = interval.unwrap_or(all);
            let part = bytes.get(start as usize..end as usize);
            Ok(part.ok_or(ErrorKind::InvalidInput)?.to_vec())
        });
        PendingObject::new(Box::new(|| answer))
    }

    fn bytes_of(&self, name: &ObjectName) -> EnvResult<u64> {
        self.ask(Operation::GetObject, name.as_str(), |state, _| {
            state.objects.get(name).map(|bytes| bytes.len() as u64).ok_or(ErrorKind::NotFound)
        })
    }

    fn delete(&self, name: &ObjectName) -> EnvResult<()> {
        self.ask(Operation::DeleteObject, name.as_str(), |state, _| {
            state.objects.remove(name);
            Ok(())
        })
    }

    fn list(&self, prefix: &str, after: Option<&ObjectName>) -> EnvResult<ListPage> {
        self.ask(Operation::ListObjects, prefix, |state, _| {
            let page = if state.page == 0 { 1000 } else { state.page };
            let names = state.objects.iter().filter(|(name, _)| {
                name.as_str().starts_with(prefix) && after.is_none_or(|after| *name > after)
            });
            let mut listed = names.map(|(name, bytes)| ListedObject {
                name: name.clone(),
                bytes: bytes.len() as u64,
            });
            let objects = listed.by_ref().take(page).collect();
            Ok(ListPage { objects, is_last: listed.next().is_none() })
        })
    }
}

#[derive(Debug)]
struct ScriptedUpload {
    store: ScriptedStore,
    name: ObjectName,
    bytes: Vec<u8>,
}

impl ObjectUpload for ScriptedUpload {
    fn append(&mut self, part: &[u8]) -> EnvResult<()> {
        let bytes = &mut self.bytes;
        self.store.ask(Operation::UploadObject, self.name.as_str(), |_, _| {
            bytes.extend_from_slice(part);
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        self.store.ask(Operation::UploadObject, self.name.as_str(), |state, _| {
            state.uploads_open -= 1;
            state.objects.insert(self.name.clone(), self.bytes.clone());
            Ok(())
        })
    }

    fn abort(self: Box<Self>) -> EnvResult<()> {
        self.store.ask(Operation::DeleteObject, self.name.as_str(), |state, _| {
            state.uploads_open -= 1;
            Ok(())
        })
    }
}
