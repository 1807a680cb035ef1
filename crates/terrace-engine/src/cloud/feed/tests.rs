//! Goal: a database has one owner, who knows all that was fed, and whoever was one hears of it.
//! Method: owners and readers one after the other, and inside of each other's openings, on a store
//! in memory whose requests go as the test says.

use std::io::ErrorKind;
use std::sync::Arc;

use terrace_base::{Epoch, SeqNo};
use terrace_env::{ObjectName, SharedEnv, SimEnv, SimOptions};

use super::*;
use crate::cloud::format::{Extent, FeedContent, decode_feed};
use crate::cloud::tests::{Fate, ScriptedStore};
use crate::cloud::{CloudName, CloudNames, CloudStore};
use crate::{Error, Result};

const NAMES: CloudNames = CloudNames::new(0xda7a);
const LOST: Fate = Fate::Lost(ErrorKind::TimedOut);
const DENIED: Fate = Fate::Refused(ErrorKind::PermissionDenied);

fn with_store(test: impl FnOnce(&Arc<CloudStore>, &ScriptedStore) + Send) {
    SimEnv::run(SimOptions::new(11), |env| {
        let env: SharedEnv = env;
        let scripted = ScriptedStore::default();
        let store = CloudStore::new(&env, Arc::new(scripted.clone()));
        test(&Arc::new(store), &scripted);
    });
}

fn open(store: &Arc<CloudStore>, nonce: u128) -> (CloudFeed, FedState) {
    CloudFeed::open(store, NAMES, FeedTaker::new(nonce, Epoch(0)), None, |_| Ok(())).unwrap()
}

/// As [`open`], of one that says up to which number it has everything.
fn open_with(store: &Arc<CloudStore>, nonce: u128, through: u64) -> CloudFeed {
    let through = Some(SeqNo(through));
    let taker = FeedTaker { through, ..FeedTaker::new(nonce, Epoch(0)) };
    CloudFeed::open(store, NAMES, taker, None, |_| Ok(())).unwrap().0
}

/// An owner of a database that holds `snapshot`.
fn owner(store: &Arc<CloudStore>, nonce: u128, snapshot: &str) -> CloudFeed {
    let (mut feed, _) = open(store, nonce);
    feed.begin(snapshot.as_bytes(), Extent::Some).unwrap();
    feed
}

fn append(feed: &mut CloudFeed, edit: &str) -> Result<u64> {
    feed.append(&[edit.as_bytes().to_vec()], Extent::Some)
}

fn read(store: &Arc<CloudStore>) -> FedState {
    CloudFeed::read(store, NAMES).unwrap().expect("there is a database")
}

fn edits(state: &FedState) -> Vec<&str> {
    state.edits.iter().map(|edit| str::from_utf8(edit).unwrap()).collect()
}

fn name(number: u64) -> ObjectName {
    NAMES.of(&CloudName::Feed(number))
}

/// What stands at each number, a letter each: a fence, edits, a snapshot, a stone, or nothing.
fn drawn(scripted: &ScriptedStore, count: u64) -> String {
    let letter = |number| {
        let Some(bytes) = scripted.bytes(&name(number)) else { return '.' };
        match decode_feed(NAMES.database(), number, &bytes).unwrap().what {
            FeedContent::Fence { .. } => 'F',
            FeedContent::Edits { .. } => 'e',
            FeedContent::Snapshot { .. } => 'S',
            FeedContent::Stone => 'o',
        }
    };
    (1..=count).map(letter).collect()
}

#[test]
fn what_was_fed_is_read() {
    with_store(|store, scripted| {
        assert_eq!(CloudFeed::read(store, NAMES).unwrap(), None);
        let (mut feed, state) = open(store, 1);
        assert!(state.is_new() && state.edits.is_empty());
        assert_eq!((feed.epoch(), feed.number(), feed.fence()), (Epoch(1), 1, 1));
        assert_eq!(CloudFeed::read(store, NAMES).unwrap(), None, "a fence holds nothing");
        feed.begin(b"all", Extent::Some).unwrap();
        feed.append(&[b"a".to_vec(), b"b".to_vec()], Extent::Some).unwrap();
        assert_eq!(append(&mut feed, "c").unwrap(), 4);
        let state = read(store);
        assert_eq!(edits(&state), ["all", "a", "b", "c"]);
        assert_eq!((state.mark.epoch(), state.mark.next()), (Epoch(1), 5));
        assert_eq!(state.mark.extent(), Extent::Some);
        feed.append(&[], Extent::Closed).unwrap();
        assert_eq!(read(store).mark.extent(), Extent::Closed);
        feed.begin(b"more", Extent::Some).unwrap();
        append(&mut feed, "d").unwrap();
        let state = read(store);
        assert_eq!(edits(&state), ["more", "d"]);
        assert!(state.mark.extent() == Extent::Some && state.begins_anew);
        assert_eq!(drawn(scripted, 8), "FSeeeSe.");
    });
}

#[test]
fn fences_say_what_was_taken_over_from_each_owner() {
    with_store(|store, _| {
        let through = |epoch| CloudFeed::taken_through(store, NAMES, Epoch(epoch)).unwrap();
        assert_eq!(through(0), None, "there is no fence");
        for (nonce, number) in [(1, 0), (2, 40), (3, 30), (4, u64::MAX)] {
            let mut feed = open_with(store, nonce, number);
            feed.begin(b"all", Extent::Some).unwrap();
            for edit in ["a", "b", "c"] {
                append(&mut feed, edit).unwrap();
            }
            feed.begin(b"all of it", Extent::Some).unwrap();
            let newest = feed.newest_snapshot().unwrap();
            feed.collect_below(newest).unwrap();
        }
        // The last one has more than a fence can say.
        assert_eq!([1, 2, 3].map(through), [None; 3]);
        open_with(store, 5, 70).begin(b"all", Extent::Some).unwrap();
        open_with(store, 6, 60);
        assert_eq!([4, 5, 6].map(through), [Some(SeqNo(60)), Some(SeqNo(60)), None]);
    });
}

#[test]
fn whoever_was_fenced_hears_of_it_and_writes_nothing() {
    with_store(|store, scripted| {
        let mut first = owner(store, 1, "all");
        append(&mut first, "a").unwrap();
        let (mut second, state) = open(store, 2);
        assert_eq!(edits(&state), ["all", "a"]);
        assert_eq!((state.mark.epoch(), second.epoch()), (Epoch(2), Epoch(2)));
        for _ in 0..2 {
            let Err(Error::Fenced(text)) = append(&mut first, "b") else { panic!("not fenced") };
            assert!(text.contains("with epoch 2, since it was opened here with epoch 1"), "{text}");
        }
        assert!(matches!(first.begin(b"mine", Extent::Closed), Err(Error::Fenced(_))));
        assert!(!first.is_pending());
        second.begin(b"all of the second", Extent::Some).unwrap();
        assert_eq!(drawn(scripted, 6), "FSeFS.");
        let (third, state) =
            CloudFeed::open(store, NAMES, FeedTaker::new(3, Epoch(77)), None, |_| Ok(())).unwrap();
        assert_eq!(third.epoch(), Epoch(77), "at least what was asked for");
        assert_eq!(edits(&state), ["all of the second"]);
        let (fourth, _) =
            CloudFeed::open(store, NAMES, FeedTaker::new(4, Epoch(5)), None, |_| Ok(())).unwrap();
        assert_eq!(fourth.epoch(), Epoch(78), "never less than the next one");
    });
}

#[test]
fn a_refused_opening_fences_nobody() {
    with_store(|store, scripted| {
        let mut first = owner(store, 1, "all");
        let refused = CloudFeed::open(store, NAMES, FeedTaker::new(2, Epoch(0)), None, |state| {
            assert_eq!(state.mark.extent(), Extent::Some);
            Err(Error::Invalid("it was not closed".into()))
        });
        assert!(matches!(refused, Err(Error::Invalid(_))));
        append(&mut first, "a").unwrap();
        assert_eq!(drawn(scripted, 4), "FSe.");
    });
}

#[test]
fn an_opener_that_was_overtaken_reads_on() {
    with_store(|store, scripted| {
        let mut first = owner(store, 1, "all");
        let mut seen = Vec::new();
        let (feed, state) =
            CloudFeed::open(store, NAMES, FeedTaker::new(2, Epoch(0)), None, |state| {
                seen.push(state.edits.len());
                if seen.len() == 1 {
                    append(&mut first, "a").unwrap();
                } else if seen.len() == 2 {
                    drop(open(store, 3));
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [1, 2, 2]);
        assert_eq!((feed.epoch(), edits(&state)), (Epoch(3), vec!["all", "a"]));
        assert_eq!(drawn(scripted, 5), "FSeFF");
    });
}

#[test]
fn what_an_opener_knows_already_is_not_read_again() {
    with_store(|store, scripted| {
        let mut first = owner(store, 1, "all");
        let known = CloudFeed::read(store, NAMES).unwrap();
        let open_knowing = |nonce| {
            let taker = FeedTaker::new(nonce, Epoch(0));
            CloudFeed::open(store, NAMES, taker, known.clone(), |_| Ok(())).unwrap()
        };
        let before = store.counts().requests();
        let (mut second, state) = open_knowing(2);
        assert_eq!(edits(&state), ["all"]);
        let requests = store.counts().requests() - before;
        assert_eq!(requests, 4, "two for the proof, a fence, and whether the snapshot is there");
        assert_eq!(drawn(scripted, 4), "FSF.");
        assert!(matches!(append(&mut first, "a"), Err(Error::Fenced(_))));
        // What is known is out of date by now.
        second.begin(b"all of 2", Extent::Some).unwrap();
        let (mut third, state) = open_knowing(3);
        assert_eq!((third.epoch(), edits(&state)), (Epoch(3), vec!["all of 2"]));
        // Its end is the number of a fence, and its snapshot was collected.
        let newest = third.begin(b"all of 3", Extent::Some).unwrap();
        third.collect_below(newest).unwrap();
        let (fourth, state) = open_knowing(4);
        assert_eq!((fourth.epoch(), edits(&state)), (Epoch(4), vec!["all of 3"]));
    });
}

#[test]
fn an_opener_whose_end_was_a_collected_number_begins_anew() {
    with_store(|store, scripted| {
        let mut first = owner(store, 1, "all");
        let mut calls = 0;
        let (_, state) = CloudFeed::open(store, NAMES, FeedTaker::new(2, Epoch(0)), None, |_| {
            calls += 1;
            if calls == 1 {
                // It has read as far as 2, and takes 3 for the end.
                append(&mut first, "a").unwrap();
                let newest = first.begin(b"all and a", Extent::Some).unwrap();
                assert_eq!(first.collect_below(newest).unwrap(), 4);
                assert_eq!(drawn(scripted, 4), "Fo.S");
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(edits(&state), ["all and a"]);
        assert_eq!(drawn(scripted, 5), "FoFSF", "its first fence stays, and means nothing");
        assert!(matches!(append(&mut first, "b"), Err(Error::Fenced(_))));
    });
}

/// An owner of a feed that a reading asks several numbers of at once.
fn owner_of_many(store: &Arc<CloudStore>) -> CloudFeed {
    let mut feed = owner(store, 1, "all");
    for edit in ["a", "b", "c", "d", "e"] {
        append(&mut feed, edit).unwrap();
    }
    feed
}

#[test]
fn each_number_behind_the_snapshot_is_read_once() {
    with_store(|store, scripted| {
        owner_of_many(store);
        assert_eq!(drawn(scripted, 8), "FSeeeee.");
        let before = store.counts().get.requests;
        assert_eq!(edits(&read(store)), ["all", "a", "b", "c", "d", "e"]);
        // Six numbers and one that was asked for in vain, the end, and the snapshot once more.
        assert_eq!(store.counts().get.requests - before, 9);
    });
}

#[test]
fn whenever_the_snapshot_goes_a_reading_comes_to_what_was_fed() {
    for requests_before in 0.. {
        let mut has_happened = true;
        with_store(|store, scripted| {
            let mut first = owner_of_many(store);
            let others = Arc::clone(store);
            scripted.meanwhile(requests_before, move || {
                append(&mut first, "f").unwrap();
                let newest = first.begin(b"all to f", Extent::Some).unwrap();
                append(&mut first, "g").unwrap();
                first.collect_below(newest).unwrap();
                // Somebody who took a collected number for the end fences it, and begins anew.
                others.create(&name(5), &format_fence(5)).unwrap();
            });
            let state = read(store);
            has_happened = !scripted.forget_meanwhile();
            if has_happened {
                assert_eq!(drawn(scripted, 10), "Fo..F...Se", "{requests_before}");
                assert_eq!(edits(&state), ["all to f", "g"], "{requests_before}");
            } else {
                assert_eq!(edits(&state), ["all", "a", "b", "c", "d", "e"]);
            }
        });
        if !has_happened {
            assert!(requests_before > 8, "only {requests_before} requests were made");
            return;
        }
    }
}

#[test]
fn a_fence_in_the_place_of_a_snapshot_is_no_snapshot() {
    with_store(|store, scripted| {
        let mut first = owner(store, 1, "1");
        first.begin(b"2", Extent::Some).unwrap();
        let mark = read(store).mark;
        first.begin(b"3", Extent::Some).unwrap();
        first.collect_below(4).unwrap();
        assert_eq!(drawn(scripted, 4), "Fo.S");
        // Somebody's fence, at 3, as in the test above; 4 was collected as well by now.
        first.begin(b"4", Extent::Some).unwrap();
        first.collect_below(5).unwrap();
        let fence = format_fence(3);
        scripted.insert(&name(3), &fence);
        assert_eq!(drawn(scripted, 5), "FoF.S");
        let state = CloudFeed::read_on(store, NAMES, &mark).unwrap().unwrap();
        assert_eq!((state.begins_anew, edits(&state)), (true, vec!["4"]));
    });
}

fn format_fence(number: u64) -> Vec<u8> {
    use crate::cloud::format::{Author, FeedObject, encode_feed};
    let author = Author { epoch: Epoch(2), nonce: 9 };
    encode_feed(
        NAMES.database(),
        number,
        &FeedObject { author, what: FeedContent::Fence { through: None } },
    )
}

#[test]
fn whoever_follows_gets_what_is_new() {
    with_store(|store, _| {
        let mut first = owner(store, 1, "all");
        let mark = read(store).mark;
        let follow = |mark: &FeedMark| CloudFeed::read_on(store, NAMES, mark).unwrap().unwrap();
        assert_eq!(follow(&mark).edits, Vec::<Vec<u8>>::new());
        append(&mut first, "a").unwrap();
        first.begin(b"all and a", Extent::Some).unwrap();
        append(&mut first, "b").unwrap();
        let state = follow(&mark);
        assert_eq!((state.begins_anew, edits(&state)), (true, vec!["all and a", "b"]));
        assert_eq!(state.mark.author(), Some(first.author()));
        // Collected up to its newest snapshot, a follower still goes on from where it is.
        first.collect_below(5).unwrap();
        append(&mut first, "c").unwrap();
        assert_eq!(edits(&follow(&state.mark)), ["c"]);
        // One who is behind it begins anew.
        let anew = follow(&mark);
        assert_eq!((anew.begins_anew, edits(&anew)), (true, vec!["all and a", "b", "c"]));
        // And so does everybody at another owner's first snapshot.
        let second = owner(store, 2, "all of the second");
        let anew = follow(&anew.mark);
        assert_eq!((anew.begins_anew, edits(&anew)), (true, vec!["all of the second"]));
        assert_eq!(anew.mark.author(), Some(second.author()));
    });
}

#[test]
fn an_end_is_not_believed_because_edits_came_again() {
    with_store(|store, scripted| {
        let mut first = owner(store, 1, "all");
        let mark = read(store).mark;
        append(&mut first, "a").unwrap();
        let late = scripted.bytes(&name(3)).unwrap();
        append(&mut first, "b").unwrap();
        first.begin(b"all, a and b", Extent::Some).unwrap();
        first.collect_below(5).unwrap();
        scripted.insert(&name(3), &late);
        assert_eq!(drawn(scripted, 6), "Foe.S.");
        let state = CloudFeed::read_on(store, NAMES, &mark).unwrap().unwrap();
        assert_eq!((state.begins_anew, edits(&state)), (true, vec!["all, a and b"]));
    });
}

#[test]
fn what_had_no_answer_is_sent_again_and_keeps_its_number() {
    with_store(|store, scripted| {
        let mut feed = owner(store, 1, "all");
        assert_eq!(feed.resume().unwrap(), None);
        // Done, and the answer is lost; the look at who has taken the name is denied.
        scripted.script(&[LOST, Fate::Done, DENIED]);
        assert!(matches!(append(&mut feed, "a"), Err(Error::Io(_))));
        assert!(feed.is_pending());
        assert_eq!(feed.resume().unwrap(), Some(3));
        assert!(!feed.is_pending());
        assert_eq!(append(&mut feed, "b").unwrap(), 4);
        assert_eq!(edits(&read(store)), ["all", "a", "b"]);
        // Not done; somebody else has come meanwhile.
        scripted.script(&[DENIED]);
        append(&mut feed, "c").unwrap_err();
        owner(store, 2, "second");
        assert!(matches!(feed.resume(), Err(Error::Fenced(_))));
        assert_eq!(feed.resume().unwrap(), None, "it was not fed, and never will be");
    });
}

#[test]
fn fences_stay_and_snapshots_that_may_come_again_leave_a_stone() {
    with_store(|store, scripted| {
        let mut first = owner(store, 1, "1");
        first.begin(b"2", Extent::Some).unwrap();
        scripted.script(&[LOST]);
        first.begin(b"3", Extent::Some).unwrap();
        append(&mut first, "a").unwrap();
        first.begin(b"4", Extent::Some).unwrap();
        assert_eq!(drawn(scripted, 6), "FSSSeS");
        assert_eq!(first.collect_below(3).unwrap(), 3, "a pin at 3");
        assert_eq!(drawn(scripted, 6), "FoSSeS");
        // The first one leaves one always, 3 was clean, and of 4 a put may still land.
        assert_eq!(first.collect_below(100).unwrap(), 6, "never the newest snapshot");
        assert_eq!(drawn(scripted, 6), "Fo.o.S");
        first.begin(b"5", Extent::Some).unwrap();
        let mut second = owner(store, 2, "second");
        assert_eq!(second.collected().feed, 6, "as the newest snapshot says");
        second.begin(b"more", Extent::Some).unwrap();
        second.collect_below(100).unwrap();
        // Of the first owner's it is not known whether a put may still land; its own was clean.
        assert_eq!(drawn(scripted, 10), "Fo.o.ooF.S");
        assert_eq!(edits(&read(store)), ["more"]);
    });
}

#[test]
fn a_collection_that_fails_goes_on_at_the_same_number() {
    with_store(|store, scripted| {
        let mut feed = owner(store, 1, "all");
        for edit in ["a", "b", "c"] {
            append(&mut feed, edit).unwrap();
        }
        let newest = feed.begin(b"all of it", Extent::Some).unwrap();
        // The first fence is known; the first snapshot is read and replaced.
        scripted.script(&[Fate::Done, Fate::Done, Fate::Done, DENIED]);
        feed.collect_below(newest).unwrap_err();
        assert_eq!((feed.collected().feed, &*drawn(scripted, 6)), (4, "Fo.eeS"));
        feed.collect_below(newest).unwrap();
        assert_eq!(drawn(scripted, 6), "Fo...S");
    });
}

#[test]
fn a_damaged_snapshot_is_read_from_before_or_said() {
    with_store(|store, scripted| {
        let mut feed = owner(store, 1, "all");
        append(&mut feed, "a").unwrap();
        feed.begin(b"all and a", Extent::Some).unwrap();
        scripted.insert(&name(4), b"nonsense");
        let damaged = CloudFeed::read(store, NAMES);
        assert!(matches!(damaged, Err(Error::Corruption(_))), "{damaged:?}");
        // Where it is the start only, the one before serves; but what stands behind is not skipped.
        let refused = CloudFeed::open(store, NAMES, FeedTaker::new(2, Epoch(0)), None, |_| Ok(()));
        assert!(matches!(refused, Err(Error::Corruption(_))), "{refused:?}");
    });
}

#[test]
fn databases_are_found_by_one_request_each() {
    with_store(|store, scripted| {
        scripted.set_page(3);
        for foreign in ["a", "b/c", "zz", "00/feed/1"] {
            scripted.insert(&ObjectName::new(foreign).unwrap(), b"");
        }
        assert_eq!(find_databases(store).unwrap(), [0u128; 0]);
        for database in [7, 8, u128::MAX] {
            let names = CloudNames::new(database);
            for number in 1..20 {
                scripted.insert(&names.of(&CloudName::Feed(number)), b"");
            }
        }
        let before = store.counts().list.requests;
        assert_eq!(find_databases(store).unwrap(), [7, 8, u128::MAX]);
        assert!(store.counts().list.requests - before <= 8);
    });
}
