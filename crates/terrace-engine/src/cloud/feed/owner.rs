use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_base::{Epoch, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::objects::FeedObjects;
use super::reading::{AtEnd, read_all, read_on, read_to_end};
use super::{FedState, FeedMark};
use crate::Result;
use crate::cloud::format::{Author, Collected, Extent, FeedContent, FeedObject};
use crate::cloud::numbered::Placed;
use crate::cloud::{CloudName, CloudNames, CloudStore};

/// The feed as its owner writes it. One caller at a time.
#[derive(Debug)]
pub struct CloudFeed {
    objects: FeedObjects,
    author: Author,
    /// The number of the owner's fence: what stands from there on is known here.
    fence: u64,
    next: u64,
    /// What was sent without an answer.
    pending: Option<FeedContent>,
    fenced: Option<Fenced>,
    /// The newest snapshot of this owner, if there is one.
    snapshot: Option<u64>,
    /// Whether there was no snapshot before.
    is_new: bool,
    /// Numbers that stay, and numbers that leave a stone.
    fences: BTreeSet<u64>,
    stones: BTreeSet<u64>,
    collected: Collected,
    /// Pins below count no more, by the newest snapshot that is there.
    first_pin: u64,
}

/// Who becomes the owner of a feed.
#[derive(Clone, Copy, Debug)]
pub struct FeedTaker {
    /// Drawn for this opening.
    pub nonce: u128,
    /// The least epoch that it gets.
    pub at_least_epoch: Epoch,
    /// The number up to which it has everything, if it is to be known afterwards.
    pub through: Option<SeqNo>,
}

impl FeedTaker {
    /// One that does not say what it has.
    #[must_use]
    pub fn new(nonce: u128, at_least_epoch: Epoch) -> FeedTaker {
        FeedTaker { nonce, at_least_epoch, through: None }
    }
}

/// Somebody else owns the database.
#[derive(Clone, Copy, Debug)]
struct Fenced {
    /// The epoch of whoever wrote what was found; nothing if that has been collected since.
    by: Option<Epoch>,
}

impl CloudFeed {
    /// What a database's feed comes to; `None` if there is no database.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn read(store: &Arc<CloudStore>, names: CloudNames) -> Result<Option<FedState>> {
        read_all(&FeedObjects::new(store, names))
    }

    /// What stands behind `mark`. Errors: as of [`CloudFeed::read`].
    pub fn read_on(
        store: &Arc<CloudStore>,
        names: CloudNames,
        mark: &FeedMark,
    ) -> Result<Option<FedState>> {
        read_on(&FeedObjects::new(store, names), mark)
    }

    /// Up to which number those had everything who became owners after the one with this epoch:
    /// what that one had written behind it was taken over by nobody. `None` if they do not say.
    /// Reads every fence that they left.
    ///
    /// Errors: as of [`CloudFeed::read`].
    pub fn taken_through(
        store: &Arc<CloudStore>,
        names: CloudNames,
        epoch: Epoch,
    ) -> Result<Option<SeqNo>> {
        let objects = FeedObjects::new(store, names);
        let mut least: Option<SeqNo> = None;
        for (_, object) in objects.read_each(objects.listed()?.into_iter().rev()) {
            let Some(FeedObject { author, what: FeedContent::Fence { through } }) = object? else {
                continue;
            };
            // Whoever had read less than that owner's fence created nothing behind it.
            if author.epoch <= epoch {
                break;
            }
            let Some(through) = through else { return Ok(None) };
            least = Some(least.map_or(through, |least| least.min(through)));
        }
        Ok(least)
    }

    /// Whether `author`, whose feed had come to `number`, still is the owner: nobody of a higher
    /// epoch, and no other opener of this one, has taken the number that it wants next.
    ///
    /// Errors: as of [`CloudFeed::read`].
    pub fn owns(
        store: &Arc<CloudStore>,
        names: CloudNames,
        author: Author,
        number: u64,
    ) -> Result<bool> {
        Ok(overtaken_by(&FeedObjects::new(store, names), author, number)?.is_none())
    }

    /// As [`CloudFeed::owns`]. Errors: `Fenced` if somebody else is the owner, too.
    pub fn require_owner(
        store: &Arc<CloudStore>,
        names: CloudNames,
        author: Author,
        number: u64,
    ) -> Result<()> {
        let objects = FeedObjects::new(store, names);
        match overtaken_by(&objects, author, number)? {
            Some(by) => Err(objects.overtaken(author, Some(by.epoch))),
            None => Ok(()),
        }
    }

    /// Makes the caller the owner of the feed: reads it, and fences its end with the next epoch, or
    /// with the taker's if that is higher. Returns what the feed comes to, with that epoch. What it
    /// was `known` to come to a moment ago is not read again, unless it has gone on.
    ///
    /// `may_take` sees what was read before anything is fenced, perhaps several times, and refuses
    /// by an error.
    ///
    /// Errors: what `may_take` says; `Unsupported` if the store cannot tell creators apart, or the
    /// feed was written by a later version; `Corruption`; the environment's. After an error a fence
    /// may be there, which takes the feed from its owner; the next opener goes on behind it.
    pub fn open(
        store: &Arc<CloudStore>,
        names: CloudNames,
        taker: FeedTaker,
        known: Option<FedState>,
        mut may_take: impl FnMut(&FedState) -> Result<()>,
    ) -> Result<(CloudFeed, FedState)> {
        store.prove_put_if_absent(&names.of(&CloudName::Proof))?;
        let objects = FeedObjects::new(store, names);
        read_to_end(&objects, known, |state| {
            may_take(state)?;
            let epoch = Epoch(state.mark.epoch.0 + 1).max(taker.at_least_epoch);
            let author = Author { epoch, nonce: taker.nonce };
            let number = state.mark.next;
            let fence = FeedObject { author, what: FeedContent::Fence { through: taker.through } };
            match objects.place(number, &fence)? {
                Placed::There { .. } => {
                    state.take(number, fence);
                }
                Placed::Taken(Some(_)) => return Ok(AtEnd::ReadOn),
                // It was taken and has been collected since.
                Placed::Taken(None) => return Ok(AtEnd::BeginAnew),
            }
            if !state.mark.is_still_there(&objects)? {
                return Ok(AtEnd::BeginAnew);
            }
            let feed = CloudFeed::behind_fence(objects.clone(), author, number, state);
            Ok(AtEnd::Done((feed, state.clone())))
        })
    }

    fn behind_fence(
        objects: FeedObjects,
        author: Author,
        fence: u64,
        state: &FedState,
    ) -> CloudFeed {
        let mark = &state.mark;
        CloudFeed {
            objects,
            author,
            fence,
            next: mark.next,
            pending: None,
            fenced: None,
            snapshot: None,
            is_new: state.is_new(),
            fences: mark.fences.clone(),
            // A put of the owner before may still land, for all that is known here.
            stones: mark.snapshots.clone(),
            collected: mark.collected,
            first_pin: mark.collected.pins,
        }
    }

    /// The owner's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.author.epoch
    }

    /// Who writes here.
    #[must_use]
    pub fn author(&self) -> Author {
        self.author
    }

    /// The greatest number that is known to be there.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.next - 1
    }

    /// The number of the owner's fence. What its version does not name was dropped below.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// The number of the newest snapshot of this owner, if there is one.
    #[must_use]
    pub fn newest_snapshot(&self) -> Option<u64> {
        self.snapshot
    }

    /// How far collection is; see [`CloudFeed::set_first_pin`].
    #[must_use]
    pub fn collected(&self) -> Collected {
        self.collected
    }

    /// The first pin that counts, by the newest snapshot that is there.
    #[must_use]
    pub fn first_pin(&self) -> u64 {
        self.first_pin
    }

    /// Says that pins below this number count no more. The next snapshot carries it.
    pub fn set_first_pin(&mut self, pins: u64) {
        self.collected.pins = self.collected.pins.max(pins);
    }

    /// Whether something was sent without an answer: [`CloudFeed::resume`] goes on with it.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Feeds a snapshot, from which on the feed is read; its number. The first one of an owner
    /// comes before anything else, and nothing may be acknowledged before it is there.
    ///
    /// Errors and panics as [`CloudFeed::append`].
    pub fn begin(&mut self, snapshot: &[u8], extent: Extent) -> Result<u64> {
        let (edit, collected) = (snapshot.to_vec(), self.collected);
        self.send(FeedContent::Snapshot { edit, collected, extent })
    }

    /// Feeds edits, as one object; its number. `extent` says how much of the database the feed
    /// comes to with them.
    ///
    /// Errors: [`Error::Fenced`](crate::Error::Fenced) if somebody else owns the database now, from
    /// then on always. The edits are not fed then, unless an earlier call for them had ended
    /// without an answer. After the environment's errors they are pending.
    ///
    /// # Panics
    /// If something is pending, or there was no snapshot yet.
    pub fn append(&mut self, edits: &[Vec<u8>], extent: Extent) -> Result<u64> {
        assert!(self.snapshot.is_some() || self.fenced.is_some(), "a feed begins with a snapshot");
        self.send(FeedContent::Edits { edits: edits.to_vec(), extent })
    }

    /// Sends again what is pending; its number, if something was.
    ///
    /// Errors: as of [`CloudFeed::append`].
    pub fn resume(&mut self) -> Result<Option<u64>> {
        match self.pending.clone() {
            Some(what) => self.send_pending(what).map(Some),
            None => Ok(None),
        }
    }

    fn send(&mut self, what: FeedContent) -> Result<u64> {
        assert!(self.pending.is_none(), "what was sent before has no answer yet");
        self.send_pending(what)
    }

    fn send_pending(&mut self, what: FeedContent) -> Result<u64> {
        let first_pin = match &what {
            FeedContent::Snapshot { collected, .. } => Some(collected.pins),
            _ => None,
        };
        let is_snapshot = first_pin.is_some();
        self.pending = Some(what.clone());
        let object = FeedObject { author: self.author, what };
        loop {
            if let Some(fenced) = self.fenced {
                self.pending = None;
                return Err(self.objects.overtaken(self.author, fenced.by));
            }
            let number = self.next;
            let placed = self.objects.place(number, &object);
            let is_clean = matches!(placed, Ok(Placed::There { may_come_again: false }));
            if is_snapshot && (!is_clean || self.is_new) {
                self.stones.insert(number);
            }
            match placed? {
                Placed::There { .. } => {
                    self.pending = None;
                    self.next += 1;
                    if is_snapshot {
                        self.snapshot = Some(number);
                        self.first_pin = first_pin.unwrap_or(self.first_pin);
                        self.is_new = false;
                    }
                    return Ok(number);
                }
                Placed::Taken(there) => self.step_over(number, there),
            }
        }
    }

    /// Goes on behind what somebody else has put at `number`, if that came too late.
    fn step_over(&mut self, number: u64, there: Option<FeedObject>) {
        let skips_fence = is_planted(PlantedBug::SkipFence);
        match there {
            Some(object) if object.author.epoch < self.author.epoch || skips_fence => {
                match object.what {
                    FeedContent::Fence { .. } => self.fences.insert(number),
                    _ => self.stones.insert(number),
                };
                self.next += 1;
            }
            // Of a higher epoch, of another opener of this one, or collected by one.
            there => self.fenced = Some(Fenced { by: there.map(|object| object.author.epoch) }),
        }
    }

    /// Collects the feed below `below` and below the newest snapshot, in ascending order, each
    /// answered before the next; to where it has come.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's. The next call goes on.
    pub fn collect_below(&mut self, below: u64) -> Result<u64> {
        let below = below.min(self.snapshot.unwrap_or(0));
        while self.collected.feed < below {
            let number = self.collected.feed;
            self.collect_one(number)?;
            self.collected.feed = number + 1;
            self.fences.remove(&number);
            self.stones.remove(&number);
        }
        Ok(self.collected.feed)
    }

    fn collect_one(&self, number: u64) -> Result<()> {
        if is_planted(PlantedBug::CollectFences) {
            return self.objects.delete(number);
        }
        if self.fences.contains(&number) {
            return Ok(());
        }
        let is_known = number > self.fence;
        if is_known && !self.stones.contains(&number) {
            return self.objects.delete(number);
        }
        let Some(object) = self.objects.read(number)? else { return Ok(()) };
        match object.what {
            FeedContent::Fence { .. } | FeedContent::Stone => Ok(()),
            // A put of it may still land, for all that is known here.
            FeedContent::Snapshot { .. } => {
                let stone = FeedObject { what: FeedContent::Stone, ..object };
                self.objects.replace(number, &stone)
            }
            FeedContent::Edits { .. } => self.objects.delete(number),
        }
    }
}

/// Who has taken the number that `author`, whose feed had come to `number`, wants next: somebody of
/// a higher epoch, or another opener of the same one.
fn overtaken_by(objects: &FeedObjects, author: Author, number: u64) -> Result<Option<Author>> {
    let mut next = number + 1;
    while let Some(there) = objects.read(next)? {
        if there.author == author {
            return Ok(None);
        }
        if there.author.epoch >= author.epoch {
            return Ok(Some(there.author));
        }
        next += 1;
    }
    Ok(None)
}
