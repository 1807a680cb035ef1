use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use terrace_base::hash_bytes;

use super::image::{Change, ObjectImage, key, root};
use super::requests::{Look, Request, SimObjects};
use crate::objects::directory;
use crate::sim::files::SimFileSystem;
use crate::sim::io::SimDisk;
use crate::sim::random::SeededRng;
use crate::{
    EnvError, EnvResult, ListPage, ListedObject, ObjectName, ObjectStore, ObjectStores,
    ObjectUpload, Operation, PendingObject, Put,
};

const SCHEME: &str = "sim://";

/// The object stores of a simulation.
pub(in crate::sim) struct SimObjectStores {
    objects: Arc<SimObjects>,
    disk: Arc<SimDisk>,
}

impl SimObjectStores {
    pub fn new(objects: Arc<SimObjects>, disk: Arc<SimDisk>) -> SimObjectStores {
        SimObjectStores { objects, disk }
    }
}

impl ObjectStores for SimObjectStores {
    fn open(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>> {
        if url.starts_with(directory::SCHEME) {
            let fs = Arc::new(SimFileSystem::new(Arc::clone(&self.disk)));
            return directory::open(fs, url, self.objects.draw_u64());
        }
        let root = root(url);
        let is_one = root.strip_prefix(SCHEME).is_some_and(|name| ObjectName::new(name).is_some());
        if !is_one {
            let why =
                "a simulated store has a URL like sim://NAME, sim://NAME/PREFIX or file:///DIR";
            let why = io::Error::new(io::ErrorKind::InvalidInput, why);
            return Err(EnvError::new(Operation::OpenStore, Path::new(url), why));
        }
        Ok(Arc::new(SimStore { objects: Arc::clone(&self.objects), root: root.to_string() }))
    }
}

impl fmt::Debug for SimObjectStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimObjectStores")
    }
}

/// One store of a simulation.
struct SimStore {
    objects: Arc<SimObjects>,
    root: String,
}

impl ObjectStore for SimStore {
    fn url(&self) -> &str {
        &self.root
    }

    fn put(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<()> {
        let key = key(&self.root, name);
        let request = Request { bytes, ..Request::new(Operation::PutObject, &key) };
        let change = || Change::Put(bytes.into());
        self.objects.change(request, Some(&change), |image| {
            image.put(&key, bytes);
            Ok(())
        })
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<Put> {
        let key = key(&self.root, name);
        let request = Request { bytes, ..Request::new(Operation::PutObjectIfAbsent, &key) };
        let change = || Change::PutIfAbsent(bytes.into());
        self.objects.change(request, Some(&change), |image| Ok(image.put_if_absent(&key, bytes)))
    }

    fn begin_upload(&self, name: &ObjectName) -> EnvResult<Box<dyn ObjectUpload>> {
        let key = key(&self.root, name);
        let request = Request::new(Operation::UploadObject, &key);
        let upload = self.objects.change(request, None, |image| Ok(image.begin_upload(&key)))?;
        let objects = Arc::clone(&self.objects);
        Ok(Box::new(SimUpload { objects, key, upload, parts: Vec::new() }))
    }

    fn begin_get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> PendingObject {
        let key = key(&self.root, name);
        let objects = Arc::clone(&self.objects);
        let begun = objects.begin(Request::new(Operation::GetObject, &key));
        let look = move |image: &ObjectImage, key: &str| cut_out(image.find(key), &interval);
        let early = objects.draw_either().then(|| look(&objects.image(), &key));
        PendingObject::new(Box::new(move || {
            let request = Request::new(Operation::GetObject, &key);
            let look = |image: &ObjectImage| early.unwrap_or_else(|| look(image, &key));
            let hash = |bytes: &Vec<u8>| hash_bytes(0, bytes);
            objects.answer(
                request,
                begun,
                Look { look, spoil: |bytes, random| flip_bit(bytes, random), hash },
            )
        }))
    }

    fn bytes_of(&self, name: &ObjectName) -> EnvResult<u64> {
        let key = key(&self.root, name);
        let request = Request::new(Operation::GetObject, &key);
        let look = |image: &ObjectImage| Ok(found(image.find(&key))?.len() as u64);
        self.objects.look(request, Look { look, spoil: |_, _| false, hash: |bytes| *bytes })
    }

    fn delete(&self, name: &ObjectName) -> EnvResult<()> {
        let key = key(&self.root, name);
        let request = Request::new(Operation::DeleteObject, &key);
        self.objects.change(request, Some(&|| Change::Delete), |image| {
            image.delete(&key);
            Ok(())
        })
    }

    fn list(&self, prefix: &str, after: Option<&ObjectName>) -> EnvResult<ListPage> {
        let url = format!("{}/{prefix}", self.root);
        let request = Request::new(Operation::ListObjects, &url);
        let look = |image: &ObjectImage| Ok(image.page(&self.root, prefix, after));
        let hash = |page: &ListPage| {
            let add = |hash: u64, one: &ListedObject| {
                hash_bytes(hash ^ one.bytes, one.name.as_str().as_bytes())
            };
            page.objects.iter().fold(u64::from(page.is_last), add)
        };
        self.objects.look(request, Look { look, spoil: lose_names, hash })
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({})", self.root)
    }
}

/// Changes one bit; false if there is none.
fn flip_bit(bytes: &mut [u8], random: &mut SeededRng) -> bool {
    let is_possible = !bytes.is_empty();
    if is_possible {
        let at = random.index(bytes.len());
        bytes[at] ^= 1 << random.index(8);
    }
    is_possible
}

/// Leaves out one name at least; false if there is none.
fn lose_names(page: &mut ListPage, random: &mut SeededRng) -> bool {
    let listed = &mut page.objects;
    let is_possible = !listed.is_empty();
    if is_possible {
        listed.remove(random.index(listed.len()));
        if random.one_in(2) {
            listed.retain(|_| random.one_in(2));
        }
    }
    is_possible
}

/// The object, or that there is none.
fn found(object: Option<Arc<[u8]>>) -> io::Result<Arc<[u8]>> {
    object.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no such object"))
}

/// The bytes of an interval, all without one.
fn cut_out(object: Option<Arc<[u8]>>, interval: &Option<Range<u64>>) -> io::Result<Vec<u8>> {
    let object = found(object)?;
    let Some(interval) = interval else {
        return Ok(object.to_vec());
    };
    let start = usize::try_from(interval.start).unwrap_or(usize::MAX);
    let end = usize::try_from(interval.end).unwrap_or(usize::MAX);
    object.get(start..end).map(<[u8]>::to_vec).ok_or_else(|| {
        let why = format!("the object of {} bytes does not hold {interval:?}", object.len());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}

/// An object that comes in parts.
struct SimUpload {
    objects: Arc<SimObjects>,
    key: String,
    upload: u64,
    parts: Vec<Vec<u8>>,
}

impl ObjectUpload for SimUpload {
    fn append(&mut self, part: &[u8]) -> EnvResult<()> {
        let request = Request { bytes: part, ..Request::new(Operation::UploadObject, &self.key) };
        self.objects.change(request, None, |_| Ok(()))?;
        self.parts.push(part.to_vec());
        Ok(())
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        let bytes = self.parts.concat();
        let all_but_last = self.parts.split_last().map_or(&[][..], |(_, others)| others);
        let bytes_min = self.objects.part_bytes_min;
        let has_small_part = all_but_last.iter().any(|part| (part.len() as u64) < bytes_min);
        let request = Request::new(Operation::UploadObject, &self.key);
        let finish = || Change::Finish { upload: self.upload, bytes: bytes.as_slice().into() };
        let late = (!has_small_part).then_some(&finish as &dyn Fn() -> Change);
        self.objects.change(request, late, |image| {
            if has_small_part {
                let why =
                    format!("a part that is not the last one has less than {bytes_min} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            image.apply(&self.key, &finish());
            Ok(())
        })
    }

    fn abort(self: Box<Self>) -> EnvResult<()> {
        let request = Request::new(Operation::UploadObject, &self.key);
        self.objects.change(request, None, |image| {
            image.end_upload(self.upload);
            Ok(())
        })
    }
}

impl fmt::Debug for SimUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimUpload({}, {} parts)", self.key, self.parts.len())
    }
}
