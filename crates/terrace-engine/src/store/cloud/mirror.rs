use std::collections::BTreeSet;

use terrace_base::{Corruption, Epoch, FileId, TableUid};

use crate::placement::FarName;
use crate::store::bulk::stored::Stored;
use crate::table::{ByteInterval, TableFile, TableLocation};
use crate::version::{TableMeta, TableOpener, Version, VersionEdit};
use crate::vlog::SegmentDamage;
use crate::{Error, Result};

/// A file is read in pieces of so many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// The files of a range on its local disk that the object store has as well, so that whoever reads
/// the feed there finds all that it names.
///
/// A file is there under its own identity, byte for byte: whoever stores it again stores the same.
#[derive(Debug)]
pub struct Mirror {
    /// Of this owner.
    own: Epoch,
    there: BTreeSet<FarName>,
    /// An earlier owner may have stored these.
    perhaps: BTreeSet<FarName>,
}

impl Mirror {
    /// The mirror of the owner whose manifest begins with this snapshot, and whose feed in the
    /// store with `fed`, if that is another one.
    pub fn new(own: Epoch, snapshot: &VersionEdit, fed: Option<&VersionEdit>) -> Mirror {
        let of_fed = fed.map(far_names).unwrap_or_default();
        let far = far_names(snapshot);
        let perhaps = names_in(snapshot).chain(of_fed);
        let perhaps = perhaps.filter(|name| name.id.epoch < own && !far.contains(name)).collect();
        Mirror { own, there: BTreeSet::new(), perhaps }
    }

    /// Stores what the version names on the local disk and the store does not have yet. Each file
    /// is compared with what the version knows of it. `go_on` says whether to.
    ///
    /// Cost: a request for each file, and one more for each that an earlier owner may have stored.
    /// Errors: `Cancelled`, `Corruption`; the environment's. The next call goes on.
    pub fn bring(
        &mut self,
        opener: &TableOpener,
        version: &Version,
        go_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        for (stored, name) in local_files(version) {
            if self.there.contains(&name) {
                continue;
            }
            if !go_on() {
                return Err(Error::Cancelled);
            }
            let may_be = name.id.epoch < self.own && self.perhaps.contains(&name);
            if !(may_be && opener.far.has(&name.location())?) {
                opener.far.store(&name, &read(opener, stored)?)?;
            }
            self.perhaps.remove(&name);
            self.there.insert(name);
        }
        Ok(())
    }

    /// Forgets what the version does not name, whose edits are in the feed by now; that is nobody's
    /// but readers' who are further back.
    pub fn let_go_of(&mut self, version: &Version) -> Vec<FarName> {
        let named: BTreeSet<FarName> = local_files(version).map(|(_, name)| name).collect();
        let mut gone: Vec<FarName> = self.there.difference(&named).copied().collect();
        gone.extend(self.perhaps.difference(&named));
        self.there.retain(|name| named.contains(name));
        self.perhaps.retain(|name| named.contains(name));
        gone
    }
}

/// The name under which a file that lies elsewhere is mirrored.
fn name_of(id: FileId, uid: TableUid, bytes: u64) -> FarName {
    FarName { id, nonce: uid.0, bytes }
}

/// Whether a table lies where the mirror has what was a local file of that table.
pub fn is_mirrored_as(meta: &TableMeta) -> bool {
    meta.location == name_of(meta.id, meta.uid, meta.bytes).location()
}

/// Whether a table is a file that lies on the local disk.
fn is_local(meta: &TableMeta) -> bool {
    !meta.is_in_pages() && !meta.location.is_far()
}

/// The files of a version on the local disk, and what they are in the store.
fn local_files(version: &Version) -> impl Iterator<Item = (Stored<'_>, FarName)> {
    let tables = version.tables().map(|table| table.meta()).filter(|meta| is_local(meta));
    let tables = tables.map(|meta| (Stored::Table(meta), name_of(meta.id, meta.uid, meta.bytes)));
    let values = version
        .values()
        .local()
        .map(|meta| (Stored::Values(meta), name_of(meta.id, meta.uid, meta.bytes)));
    tables.chain(values)
}

/// What the local files of a snapshot are in the store.
pub fn names_in(snapshot: &VersionEdit) -> impl Iterator<Item = FarName> {
    let tables = snapshot.tree.tables().filter(|meta| is_local(meta));
    let values = snapshot.values.added.iter().filter(|meta| !meta.location.is_far());
    let values = values.map(|meta| name_of(meta.id, meta.uid, meta.bytes));
    tables.map(|meta| name_of(meta.id, meta.uid, meta.bytes)).chain(values)
}

/// Places of files that an edit names.
fn places(edit: &mut VersionEdit) -> impl Iterator<Item = (&mut TableLocation, FarName)> {
    let tables = edit.tree.tables_mut().filter(|meta| !meta.is_in_pages()).map(|meta| {
        let name = name_of(meta.id, meta.uid, meta.bytes);
        (&mut meta.location, name)
    });
    let values = edit.values.added.iter_mut().map(|meta| {
        let name = name_of(meta.id, meta.uid, meta.bytes);
        (&mut meta.location, name)
    });
    tables.chain(values)
}

/// The edit as the store gets it: what lies on the local disk is named where the mirror has it.
pub fn as_mirrored(mut edit: VersionEdit) -> VersionEdit {
    for (location, name) in places(&mut edit).filter(|(location, _)| !location.is_far()) {
        *location = name.location();
    }
    edit.media = None;
    edit
}

/// How many files the edits name that whoever has only the store does not find.
pub fn count_missing(edits: &[VersionEdit]) -> usize {
    let in_edit = |edit: &VersionEdit| {
        let tables = edit.tree.tables().filter(|meta| !meta.location.is_far()).count();
        tables + edit.values.added.iter().filter(|meta| !meta.location.is_far()).count()
    };
    edits.iter().map(in_edit).sum()
}

/// All bytes of a local file.
fn read(opener: &TableOpener, stored: Stored<'_>) -> Result<Vec<u8>> {
    let file = stored.open(opener)?;
    if !stored.may_have(file.bytes()) {
        return Err(Corruption::new(file.name(), 0, "the file has another length").into());
    }
    let mut verifier = stored.verifier();
    let mut all = Vec::with_capacity(stored.bytes() as usize);
    while (all.len() as u64) < stored.bytes() {
        let offset = all.len() as u64;
        let bytes = (stored.bytes() - offset).min(PIECE_BYTES) as usize;
        let piece = file.read(&[ByteInterval { offset, bytes }]).wait()?.pop().unwrap_or_default();
        let damage = |found| damaged(&*file, found);
        verifier.add(&piece).map_err(damage)?;
        all.extend_from_slice(&piece);
    }
    verifier.finish().map_err(|found| damaged(&*file, found))?;
    Ok(all)
}

fn damaged(file: &dyn TableFile, found: SegmentDamage) -> Error {
    Corruption::new(file.name(), found.offset, found.what).into()
}

/// The tables that the snapshot of a checkpoint names in the store.
pub fn far_names(edit: &VersionEdit) -> BTreeSet<FarName> {
    let tables = edit.tree.tables().map(|table| &table.location);
    let values = edit.values.added.iter().map(|meta| &meta.location);
    tables.chain(values).filter_map(FarName::of).collect()
}
