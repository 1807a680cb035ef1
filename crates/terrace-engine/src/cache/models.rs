//! Models of the slots of one table: at rest a slot holds what the cache holds, or nothing.
//!
//! The cache's own locks are no part of a model: a call of it is one step, and steps of other
//! threads come between such calls and the latches of slots.

use std::sync::Arc;

use loom::thread;
use terrace_base::TableUid;
use terrace_env::model::{Weakened, explore, must_fail};

use super::{BlockCache, BlockKey, BlockSlots};

const PLACE: (TableUid, u64) = (TableUid(1), 0);

/// A cache, the slot of one block, and that block.
struct Table {
    cache: BlockCache,
    slots: Arc<BlockSlots>,
    block: Arc<[u8]>,
}

impl Table {
    /// The block is in the cache, and not in its slot.
    fn new() -> Arc<Table> {
        let block: Arc<[u8]> = vec![1; 100].into();
        let table = Table {
            cache: BlockCache::new(1 << 20),
            slots: Arc::new(BlockSlots::new(1)),
            block: Arc::clone(&block),
        };
        table.cache.insert_at(&table.slots, 0, PLACE, block);
        Arc::new(table)
    }

    fn get(&self) -> Option<Arc<[u8]>> {
        self.cache.get_at(&self.slots, 0, || PLACE)
    }

    /// As a read does: what the cache has not is read from the file, into other memory.
    fn read(&self) -> Arc<[u8]> {
        self.get().unwrap_or_else(|| {
            let block: Arc<[u8]> = self.block.to_vec().into();
            self.cache.insert_at(&self.slots, 0, PLACE, Arc::clone(&block));
            block
        })
    }

    fn evict_all(&self) {
        self.cache.set_capacity_bytes(0);
    }

    fn check(&self) {
        let strays = self.cache.stray_count(&self.slots, PLACE.0, |_| PLACE.1);
        assert_eq!(strays, 0, "a slot holds a block that the cache has evicted");
    }
}

/// A reader leaves the block in its slot while it is evicted.
fn leaves_while_evicted(leave: fn(&Table)) {
    let table = Table::new();
    let other = Arc::clone(&table);
    let reader = thread::spawn(move || leave(&other));
    table.evict_all();
    reader.join().unwrap();
    table.check();
    assert!(table.get().is_none(), "it is in neither");
}

#[test]
fn a_block_that_is_evicted_while_it_is_left_in_its_slot_does_not_stay_there() {
    let name = "block slots: evicted while left";
    explore(name, 3, || {
        leaves_while_evicted(|table| {
            table.get().inspect(|block| assert_eq!(block[..], table.block[..]));
        });
    });
    // Looks whether the cache has the block, and only then leaves it.
    must_fail("block slots: left after the look", Weakened::Nothing, 3, || {
        leaves_while_evicted(|table| {
            if table.cache.holds(BlockKey::new(PLACE.0, PLACE.1), &table.block) {
                table.slots.put(0, &table.block, 0);
            }
        });
    });
}

/// The block is in its slot when it is evicted, and two readers want it: both may bring it anew.
#[test]
fn readers_beside_an_eviction_agree_with_the_cache() {
    explore("block slots: two readers and an eviction", 2, || {
        let table = Table::new();
        drop(table.get());
        let readers = [(); 2].map(|()| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                assert_eq!(table.read()[..], table.block[..]);
                drop(table.get());
            })
        });
        table.evict_all();
        table.cache.set_capacity_bytes(1 << 20);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        table.check();
    });
}
