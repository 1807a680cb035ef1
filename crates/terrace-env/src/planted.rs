//! Bugs that a simulation may plant, to see whether its checks find them.
//!
//! # Why
//! A harness that finds nothing is either in front of a good store or blind. So bugs of the kinds
//! that stores really had stand in the code beside what is right, behind the feature
//! `planted-bugs`: at each place `is_planted` asks whether the simulation that the calling thread
//! belongs to wants this one. A simulation says so in its options; nothing is global, and two
//! simulations of one process may differ.
//!
//! Without the feature `is_planted` is the constant `false`, and the compiler drops the bugs: no
//! binary that is shipped contains them.

/// The enum and the list of all of it, from one place: a bug that is not listed would never be
/// looked for.
macro_rules! planted_bugs {
    ($($(#[$meaning:meta])* $bug:ident,)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum PlantedBug {
            $($(#[$meaning])* $bug,)*
        }

        impl PlantedBug {
            /// Every bug.
            pub const ALL: &[PlantedBug] = &[$(PlantedBug::$bug),*];
        }

        // A simulation has a bit for each.
        const _: () = assert!(PlantedBug::ALL.len() <= u128::BITS as usize);
    };
}

planted_bugs! {
    /// Names of tables are not made durable before an edit names them.
    SkipDirectorySync,
    /// The name of a log segment is not made durable before it is written to.
    SkipLogDirectorySync,
    /// A write is acknowledged as synced before its sync.
    AcknowledgeBeforeSync,
    /// Tables are installed before the log is synced through what they hold.
    InstallBeforeLogSync,
    /// A record that ends exactly where its segment ends is not replayed.
    OffByOneAtLogTail,
    /// A record of the log is believed without looking at its checksum.
    SkipChecksum,
    /// A write is published as soon as it is done, though an earlier one is not.
    PublishOutOfOrder,
    /// A batch becomes visible before all of it is inserted.
    PublishByHalf,
    /// Of two versions of a key in two sources a scan shows the older one.
    WrongMergeOrder,
    /// A compaction drops a tombstone above older versions of its key.
    DropTombstoneEarly,
    /// A compaction drops versions that a snapshot can see.
    IgnoreSnapshot,
    /// A table gets a name that another one had.
    ReuseFileName,
    /// A sync of the log that failed is tried again, and the second answer believed.
    RetryFailedSync,
    /// An expired entry is dropped while an older version lies under it.
    ResurrectExpired,
    /// The block cache takes one table's block for another's.
    StaleBlock,
    /// A block that the cache has evicted stays in its table's slot, and is read there.
    SlotKeepsEvicted,
    /// A read of a key leaves out the table of a row, or of a level, whose end begins as the key
    /// does.
    LeaveOutTableAtItsEnd,
    /// A scan goes through all tables of a row of L0 but the last one.
    ScanLeavesOutLastTable,
    /// A scan that walks through a block of one source does not look where those of others begin.
    WalkForgetsOthers,
    /// A scan that walks through a block goes on behind its own end.
    WalkForgetsEnd,
    /// A scan that walks through a block shows entries that are newer than its read point.
    WalkShowsTooNew,
    /// A scan goes on with the cursors of an earlier one though the view was replaced since.
    SpareOfOldView,
    /// A scan goes on with the cursors of an earlier one, and reads at its number.
    SpareKeepsItsNumber,
    /// A range tombstone is lost behind the boundary of two output tables.
    LoseRangeTombstoneAtBoundary,
    /// The log is given up through all that is written, above what the memtables need.
    AdvanceLogStartTooFar,
    /// The records of a memtable that was merged are given up, although it was not flushed.
    MergedLetsTheLogGo,
    /// Of the keys of a batch only the first is noted in the lookup index.
    NoteFirstKeyOnly,
    /// Log segments are given up before the edit that makes them unneeded is durable.
    ReleaseLogEarly,
    /// The log is given up below a segment whose header is not durable.
    ReleaseAtLooseHeader,
    /// The manifest is not synced before an edit counts as durable.
    SkipManifestSync,
    /// Recycled segments keep their identity, so that stale records pass for new ones.
    KeepSegmentIdentity,
    /// The header that cuts a torn tail off is not durable before the range is written to.
    SkipTailCut,
    /// Numbers go on after the tables and not after the log, so that some are given out twice.
    ReuseNumbers,
    /// A conditional write looks at what is published instead of what is inserted.
    UpdateReadsPublished,
    /// A transaction commits although what it walked over was written meanwhile.
    CommitForgetsIntervals,
    /// An iterator judges expiry by the present instead of by the moment of its making.
    IteratorForgetsItsMoment,
    /// Whoever waits for an earlier write is not woken.
    LoseWakeUp,
    /// A memtable that is frozen while others wait is flushed before them, and alone.
    FlushNewestFirst,
    /// The key at which a compaction is divided belongs to none of its parts.
    LoseKeyBetweenParts,
    /// The start of the log is computed from frozen memtables that were listed before the active
    /// ones: one that is frozen in between is overlooked. This harness found it in the engine.
    LookAtFrozenFirst,
    /// Of a stack of merge operands that a flush or a compaction works on the oldest is lost.
    DropOperand,
    /// Of memtables that are duplicates a read believes the first one that has the key.
    GetStopsAtFirstDuplicate,
    /// Merge operands are folded together across the read point of a snapshot.
    FoldAcrossSnapshot,
    /// Merge operands are folded over nothing though a value may lie in another level.
    FoldOverUnknown,
    /// A read of operands goes on to the value below a range tombstone.
    MergeUnderRangeTombstone,
    /// What merge operands make of a value that will expire is kept for ever.
    FoldOverExpiring,
    /// A checkpoint lacks what was in memtables alone.
    CheckpointMissesTheLog,
    /// A checkpoint lacks the newest row of L0.
    CheckpointForgetsAFile,
    /// Ingested tables are installed before their names are durable.
    IngestInstallsBeforeSync,
    /// An ingest takes its number before the memtables of its keys are flushed out of its way.
    IngestBelowOlderEntries,
    /// An ingest writes a number into the manifest that is below one that was given out.
    IngestLowersGreatestNumber,
    /// An ingest publishes its number before the view names its tables.
    IngestPublishesBeforeInstall,
    /// The number of a keyspace that was dropped is given out again by the same opening, as if it
    /// had never been used.
    ReuseKeyspaceNumber,
    /// A compaction filter is asked about what a snapshot sees, if an older one does not.
    FilterAboveTheOldestReader,
    /// An iterator goes on in a view in which a filter has changed what it sees.
    IteratorSeesTheFilter,
    /// A read point is read before the latch is taken under which it is registered.
    ReadPointBeforeLatch,
    /// A read keeps a view that was replaced before its read point was taken.
    KeepOldView,
    /// What rows of L0 name of the value log does not count as alive.
    JudgeLiveValuesDead,
    /// A rewritten value file says of each value that it lies a byte further on.
    PlaceOffByOne,
    /// A rewritten value file is installed before its name is durable.
    InstallValuesBeforeSync,
    /// A rewrite does not copy the values that the last table of the levels names.
    RewriteForgetsATable,
    /// Of each list of values that a table points to, a rewrite does not see the last one.
    ListLacksAName,
    /// A value file goes with the edit that removes it, though older views still read it.
    DropValuesUnderReaders,
    /// A large value loses its expiry when it is taken out of its table.
    SeparationLosesExpiry,
    /// A medium value loses its expiry when it comes in place.
    InPlaceLosesExpiry,
    /// A medium value that comes in place is taken from the entry before it.
    InPlaceTakesNeighbour,
    /// Merge operands are folded over the pointer to a value, as if it were the value.
    FoldOverPointer,
    /// A checkpoint lacks the value files.
    CheckpointForgetsValues,
    /// The file of a log segment that is a value file is used again for another segment.
    ReuseRetiredSegment,
    /// A flush names values of the log that are not synced.
    NameUnsyncedValues,
    /// A segment that the log keeps is judged as if no more of its values could be named.
    JudgeKeptSegment,
    /// The lookup index is asked for a key before it is asked for its floor.
    FloorAfterBucket,
    /// A table goes from the object store before the feed there has the edit that drops it.
    CollectBeforeFed,
    /// What a table in the object store is held by is what the pins held a collection before.
    CollectBeforePins,
    /// Numbers of the feed at which fences stand are collected, and then free again.
    CollectFences,
    /// The manifest names a table in the object store while it is still on its way there.
    NameBeforeUpload,
    /// A missing number is the end of the feed, though it may have been collected.
    BelieveMissing,
    /// An owner goes on although a later one has taken the number that it wants.
    SkipFence,
    /// An open deletes all tables that a list shows and its version does not name.
    OpenDeletesByListing,
    /// A missing number is not the end of the log in the store, and records are taken that do not
    /// follow on those before.
    LogWithGaps,
    /// A chain of the log in the store goes on where an ingest has changed the range.
    LogOverIngests,
    /// A record is safe before the store has it.
    LogSafeBeforeStored,
    /// A record is safe once the store has it, whatever is missing before it.
    LogSafeOverGaps,
    /// Objects of the log go when a moment is taken that does not need them, before it is fed.
    LogCollectedEarly,
    /// The log is collected as if nobody kept an archive.
    ArchiveMissesObjects,
    /// A log on a volume is released as tables here have its records, whatever the store has.
    VolumeLogReleasedEarly,
    /// Records of a log on a volume are replayed that follow on an ingest which the store lacks.
    VolumeLogOverIngests,
    /// A record on a volume is safe though no moment of this owner is in the feed, or an ingest
    /// before it is in none.
    VolumeLogWithoutMoment,
    /// A replay hands over records whose entries are in tables, since the log is kept for a taker.
    KeptLogReplayedTwice,
    /// A block of the persistent cache is believed without looking at its checksum.
    UncheckedCache,
    /// A block of the persistent cache can be found before its bytes are there, and is believed.
    ValidBeforeBytes,
    /// The persistent cache takes a table of an earlier epoch for one of today's with its counter.
    StaleCachedTable,
    /// What a block displaces in the persistent cache are metadata.
    DataDisplacesMeta,
    /// The first key of a block is looked for in the block before.
    MarkOffByOne,
    /// A cursor over a table in an object store takes the key after the next one for the next.
    FarKeySkipped,
}

impl PlantedBug {
    /// Bugs of what a database does with an object store: the worlds of the engine's own tests look
    /// for them, in which several machines share one.
    pub const OF_OBJECT_STORE: &[PlantedBug] = &[
        PlantedBug::CollectBeforeFed,
        PlantedBug::CollectBeforePins,
        PlantedBug::CollectFences,
        PlantedBug::NameBeforeUpload,
        PlantedBug::BelieveMissing,
        PlantedBug::SkipFence,
        PlantedBug::OpenDeletesByListing,
    ];

    /// Bugs of the log in an object store: the engine's own tests look for them, where machines are
    /// lost.
    pub const OF_STORE_LOG: &[PlantedBug] = &[
        PlantedBug::LogWithGaps,
        PlantedBug::LogOverIngests,
        PlantedBug::LogSafeBeforeStored,
        PlantedBug::LogSafeOverGaps,
        PlantedBug::LogCollectedEarly,
    ];

    /// Bugs of the archive of a database in an object store: the engine's own test of it looks for
    /// them.
    pub const OF_ARCHIVE: &[PlantedBug] = &[PlantedBug::ArchiveMissesObjects];

    /// Bugs of the log on a volume: as above.
    pub const OF_VOLUME_LOG: &[PlantedBug] = &[
        PlantedBug::VolumeLogReleasedEarly,
        PlantedBug::VolumeLogOverIngests,
        PlantedBug::VolumeLogWithoutMoment,
        PlantedBug::KeptLogReplayedTwice,
    ];

    /// Bugs of what is kept on the local disk of tables in an object store, and known of them: the
    /// engine's own tests look for them, beside the cache.
    pub const OF_PERSISTENT_CACHE: &[PlantedBug] = &[
        PlantedBug::UncheckedCache,
        PlantedBug::ValidBeforeBytes,
        PlantedBug::StaleCachedTable,
        PlantedBug::DataDisplacesMeta,
        PlantedBug::MarkOffByOne,
        PlantedBug::FarKeySkipped,
    ];

    /// Bugs that show on one machine alone, without an object store.
    #[must_use]
    pub fn of_one_machine() -> Vec<PlantedBug> {
        let elsewhere = [
            PlantedBug::OF_OBJECT_STORE,
            PlantedBug::OF_STORE_LOG,
            PlantedBug::OF_VOLUME_LOG,
            PlantedBug::OF_ARCHIVE,
            PlantedBug::OF_PERSISTENT_CACHE,
        ]
        .concat();
        let shows = |bug: &PlantedBug| !elsewhere.contains(bug);
        PlantedBug::ALL.iter().copied().filter(shows).collect()
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// The bug with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<PlantedBug> {
        PlantedBug::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

/// Whether the simulation that this thread belongs to has planted `bug`.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn is_planted(bug: PlantedBug) -> bool {
    crate::sim::is_planted(bug)
}

/// Whether the simulation that this thread belongs to has planted `bug`: never without the feature
/// `planted-bugs`.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
#[must_use]
pub const fn is_planted(_: PlantedBug) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for bug in PlantedBug::ALL {
            assert_eq!(PlantedBug::parse(&bug.name()), Some(*bug));
        }
        assert_eq!(PlantedBug::SkipDirectorySync.name(), "skip-directory-sync");
        assert_eq!(PlantedBug::parse("no-such-bug"), None);
    }

    #[test]
    #[cfg(not(feature = "planted-bugs"))]
    fn without_the_feature_nothing_is_planted() {
        const PLANTED: bool = is_planted(PlantedBug::SkipChecksum);
        const { assert!(!PLANTED) };
    }

    #[test]
    #[cfg(feature = "planted-bugs")]
    fn a_bug_is_planted_in_its_own_simulation_only() {
        use crate::{SimEnv, SimOptions};
        let seen = |planted: &[PlantedBug]| {
            let options = SimOptions { planted: planted.to_vec(), ..SimOptions::new(1) };
            SimEnv::run(options, |_| {
                (is_planted(PlantedBug::SkipChecksum), is_planted(PlantedBug::StaleBlock))
            })
        };
        assert_eq!(seen(&[PlantedBug::SkipChecksum]), (true, false));
        assert_eq!(seen(&[]), (false, false));
        assert!(!is_planted(PlantedBug::SkipChecksum), "outside of any simulation");
    }
}
