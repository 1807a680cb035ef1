use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use terrace_base::{Corruption, Epoch};
use terrace_env::{PlantedBug, is_planted};

use super::objects::FeedObjects;
use crate::cloud::format::{Author, Collected, Extent, FeedContent, FeedObject};
use crate::{Error, Result};

/// How often a reading begins anew because what it had begun with was collected meanwhile. Each
/// time somebody else has fed a snapshot, so this many say that something else is wrong.
const BEGINNINGS_MAX: usize = 32;

/// The place in a feed up to which somebody has read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedMark {
    /// The newest snapshot that was read, if any: while it is there, nothing behind it was
    /// collected.
    pub(super) anchor: Option<Anchor>,
    /// The next number.
    pub(super) next: u64,
    pub(super) epoch: Epoch,
    pub(super) collected: Collected,
    pub(super) extent: Extent,
    /// Fences that were read, and snapshots.
    pub(super) fences: BTreeSet<u64>,
    pub(super) snapshots: BTreeSet<u64>,
}

/// A snapshot that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub number: u64,
    pub author: Author,
}

/// What a feed comes to, or what it holds that its reader does not know yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FedState {
    /// Whether the edits begin with a snapshot and replace all that was read before; otherwise they
    /// go on from there.
    pub begins_anew: bool,
    /// The edits, in their order.
    pub edits: Vec<Vec<u8>>,
    /// Where they end.
    pub mark: FeedMark,
}

/// What stands at the next number.
pub(super) enum Step {
    Missing,
    Read,
    /// A stone, or edits that nothing stands before: the reading has to begin elsewhere.
    OutOfPlace,
}

impl FeedMark {
    /// The greatest number that was read: a pin there holds all that the reader needs.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.next - 1
    }

    /// The number that is created next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The epoch of the feed's owner.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How much of the database the feed comes to.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Who wrote the newest content that was read, which is not always who owns the feed: an owner
    /// that has only fenced it has written none. `None` if there is no database yet.
    #[must_use]
    pub fn author(&self) -> Option<Author> {
        // Each owner's content begins with a snapshot.
        self.anchor.map(|anchor| anchor.author)
    }

    /// The nonce of that author; 0 if there is no database yet.
    #[must_use]
    pub fn nonce(&self) -> u128 {
        self.author().map_or(0, |author| author.nonce)
    }

    /// How far collection is, by the newest snapshot that was read.
    #[must_use]
    pub fn collected(&self) -> Collected {
        self.collected
    }

    /// The number of the newest snapshot that was read: the feed is read from there on. `None` if
    /// there is no database yet.
    #[must_use]
    pub fn newest_snapshot(&self) -> Option<u64> {
        self.anchor.map(|anchor| anchor.number)
    }

    /// Whether there is no database yet.
    pub(super) fn has_nothing(&self) -> bool {
        self.anchor.is_none()
    }

    /// Whether what the reading rests on is still there, so that a number which was missing before
    /// this was asked had not been collected. Nothing but fences stands below the first snapshot.
    pub(super) fn is_still_there(&self, objects: &FeedObjects) -> Result<bool> {
        let Some(anchor) = self.anchor else { return Ok(true) };
        if is_planted(PlantedBug::BelieveMissing) {
            return Ok(true);
        }
        let there = objects.read(anchor.number)?;
        // A fence of somebody who took the number for the end may be there instead.
        Ok(there.is_some_and(|object| {
            let is_snapshot = matches!(object.what, FeedContent::Snapshot { .. });
            is_snapshot && object.author == anchor.author
        }))
    }
}

impl FedState {
    /// Before anything is read.
    pub(super) fn empty() -> FedState {
        let mark = FeedMark {
            anchor: None,
            next: 1,
            epoch: Epoch(0),
            collected: Collected { feed: 1, pins: 1 },
            extent: Extent::Some,
            fences: BTreeSet::new(),
            snapshots: BTreeSet::new(),
        };
        FedState { begins_anew: true, edits: Vec::new(), mark }
    }

    /// Whether there is no database yet: its owner writes the first snapshot.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.mark.has_nothing()
    }

    /// Reads the next number.
    pub(super) fn read_next(&mut self, objects: &FeedObjects) -> Result<Step> {
        let number = self.mark.next;
        match objects.read(number)? {
            None => Ok(Step::Missing),
            Some(object) => Ok(self.take(number, object)),
        }
    }

    /// Takes what stands at the next number.
    pub(super) fn take(&mut self, number: u64, object: FeedObject) -> Step {
        let mark = &mut self.mark;
        assert_eq!(number, mark.next, "numbers are dense");
        mark.next = number + 1;
        match object.what {
            // Also those that came too late: they are to be collected as what they are.
            FeedContent::Fence { .. } => {
                mark.fences.insert(number);
            }
            FeedContent::Snapshot { .. } => {
                mark.snapshots.insert(number);
            }
            FeedContent::Edits { .. } | FeedContent::Stone => {}
        }
        if object.author.epoch < mark.epoch {
            return Step::Read;
        }
        mark.epoch = object.author.epoch;
        match object.what {
            FeedContent::Fence { .. } if mark.extent == Extent::Closed => {
                mark.extent = Extent::Moment
            }
            FeedContent::Fence { .. } => {}
            FeedContent::Stone => return Step::OutOfPlace,
            FeedContent::Edits { .. } if mark.anchor.is_none() => return Step::OutOfPlace,
            FeedContent::Edits { edits, extent } => {
                self.edits.extend(edits);
                mark.extent = extent;
            }
            FeedContent::Snapshot { edit, collected, extent } => {
                mark.collected = collected;
                mark.extent = extent;
                mark.anchor = Some(Anchor { number, author: object.author });
                // It may hold more than was fed before: what waited for it was left out then.
                self.begins_anew = true;
                self.edits = vec![edit];
            }
        }
        Step::Read
    }
}

/// Objects of a feed that were read on the way to where a reading begins.
type Passed = BTreeMap<u64, FeedObject>;

/// A reading from the newest snapshot on that a list shows, as far as it goes; or from the first
/// number, if it shows none. And what was read behind there.
///
/// What was read before the snapshot serves as well as what is read after it: as long as the
/// snapshot is there, no number behind it has other bytes than it ever had. Others, such as a stone
/// or the fence of somebody who took a collected number for the end, come only where the snapshot
/// is gone, and whoever has come to an end looks whether it is.
fn begin(objects: &FeedObjects) -> Result<(FedState, Passed)> {
    let mut passed = Passed::new();
    for (number, object) in objects.read_each(objects.listed()?.into_iter().rev()) {
        let object = match object {
            Ok(Some(object)) => object,
            // It was collected meanwhile.
            Ok(None) => continue,
            // A reading from further down will come to it, and say so if it is needed.
            Err(Error::Corruption(_)) => continue,
            Err(error) => return Err(error),
        };
        if matches!(object.what, FeedContent::Snapshot { .. }) {
            let mut state = FedState::empty();
            state.mark.next = number;
            state.take(number, object);
            return Ok((state, passed));
        }
        passed.insert(number, object);
    }
    // Without a start nothing holds up what was read against collection.
    Ok((FedState::empty(), Passed::new()))
}

/// What comes of a missing number.
pub(super) enum AtEnd<T> {
    Done(T),
    /// It is not missing any more.
    ReadOn,
    /// It may have been collected.
    BeginAnew,
}

/// Reads from a snapshot to the first missing number, and hands that to `at_end`, which says
/// whether it is done or the reading is to go on. What was `known` a moment ago is handed over
/// first, as if it ended there still.
pub(super) fn read_to_end<T>(
    objects: &FeedObjects,
    mut known: Option<FedState>,
    mut at_end: impl FnMut(&mut FedState) -> Result<AtEnd<T>>,
) -> Result<T> {
    for _ in 0..BEGINNINGS_MAX {
        let mut may_be_at_end = known.is_some();
        let (mut state, mut passed) = match known.take() {
            Some(known) => (known, Passed::new()),
            None => begin(objects)?,
        };
        loop {
            let step = match passed.remove(&state.mark.next) {
                None if std::mem::take(&mut may_be_at_end) => Step::Missing,
                Some(object) => state.take(state.mark.next, object),
                None => state.read_next(objects)?,
            };
            match step {
                Step::Read => continue,
                Step::OutOfPlace => break,
                Step::Missing => {}
            }
            match at_end(&mut state)? {
                AtEnd::Done(done) => return Ok(done),
                AtEnd::ReadOn => {}
                AtEnd::BeginAnew => break,
            }
        }
    }
    let path = objects.names.feed_prefix();
    let detail = format!(
        "{BEGINNINGS_MAX} readings of the feed found no snapshot with all that follows it; see \
         whether something else deletes objects of this database"
    );
    Err(Corruption::new(Path::new(&path), 0, detail).into())
}

/// All of the feed, from its newest snapshot on; `None` if there is no database.
pub(super) fn read_all(objects: &FeedObjects) -> Result<Option<FedState>> {
    read_to_end(objects, None, |state| {
        if !state.mark.is_still_there(objects)? {
            return Ok(AtEnd::BeginAnew);
        }
        Ok(AtEnd::Done((!state.is_new()).then(|| state.clone())))
    })
}

/// What stands behind `mark`; all from the newest snapshot on, if some of that has been collected.
/// `None` if there is no database.
pub(super) fn read_on(objects: &FeedObjects, mark: &FeedMark) -> Result<Option<FedState>> {
    if mark.has_nothing() {
        return read_all(objects);
    }
    let mut state = FedState { begins_anew: false, edits: Vec::new(), mark: mark.clone() };
    loop {
        match state.read_next(objects)? {
            Step::Read => {}
            Step::Missing if state.mark.is_still_there(objects)? => return Ok(Some(state)),
            Step::Missing | Step::OutOfPlace => return read_all(objects),
        }
    }
}
