//! Which levels lie in the object store. Pure, but for the one number that many threads read.
//!
//! ```text
//!   L0                 ┐
//!   L1 … L(line - 1)   │ together, with what a job writes before it deletes, at most the room
//!   ━━ the waterline ━━┘ that is left of the local bytes
//!   L(line) … L6         objects
//! ```
//! A level stands on one side as a whole: then what is read most often, which is what was written
//! last, is what is near. *Source:* RocksMash (TACO 2022), section 3.1.

use std::sync::atomic::{AtomicU8, Ordering};

use terrace_base::{LEVEL_MAX, LevelNo};

/// The bytes of L1 and so on.
pub type LevelBytes = [u64; LEVEL_MAX.0 as usize];

/// To come back, a level has to fit into this share of the room, in percent: a tree whose size
/// stands at the bound would otherwise be carried to and fro.
const COMES_BACK_PERCENT: u64 = 75;

/// The first level that lies in the object store; one behind the last level if none does.
#[derive(Debug)]
pub struct Waterline(AtomicU8);

/// Where the line stands if all levels are local.
const BELOW_ALL: u8 = LEVEL_MAX.0 + 1;

impl Waterline {
    /// Below all levels.
    #[must_use]
    pub fn below_all() -> Waterline {
        Waterline(AtomicU8::new(BELOW_ALL))
    }

    /// Whether tables of this level belong into the object store.
    #[must_use]
    pub fn is_below(&self, level: LevelNo) -> bool {
        level.0 >= self.first_far()
    }

    /// The first level below it; one behind the last level if there is none.
    #[must_use]
    pub fn first_far(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// The level at which it should stand.
    #[must_use]
    pub fn wanted(&self, levels: &LevelBytes, room: &LocalRoom) -> u8 {
        wanted_line(levels, room, self.first_far())
    }

    /// Puts it at a level. L0 is local in any case.
    pub fn put_at(&self, first_far: u8) {
        self.0.store(first_far.clamp(1, BELOW_ALL), Ordering::Relaxed);
    }
}

/// What of the local bytes is for L0 and the levels, and what shares it with the levels.
#[derive(Clone, Copy, Debug)]
pub struct LocalRoom {
    /// For L0, the levels, and what jobs write before they delete what they have read.
    pub bytes: u64,
    /// What L0 holds, or will hold before it is cut.
    pub l0_bytes: u64,
    /// A cut out of L0 writes at most so much.
    pub cut_bytes: u64,
    /// A compaction of a level into the next one writes about so much at most.
    pub job_bytes: u64,
}

/// Where the line should stand that stands at `now`: the lowest place above which the levels fit
/// into the room.
#[must_use]
pub fn wanted_line(levels: &LevelBytes, room: &LocalRoom, now: u8) -> u8 {
    let (mut above, mut job) = (0_u64, 0);
    for (index, bytes) in levels.iter().enumerate() {
        let level = index as u8 + 1;
        // A cut goes to the first level that holds something, and meets all of it at worst.
        job = match above {
            0 => room.l0_bytes.saturating_add(*bytes).min(room.cut_bytes),
            _ => room.job_bytes.min(*bytes).max(job),
        };
        above = above.saturating_add(*bytes);
        let needed = room.l0_bytes.saturating_add(above).saturating_add(job);
        let limit = if level < now { room.bytes } else { room.bytes / 100 * COMES_BACK_PERCENT };
        if needed > limit {
            return level;
        }
    }
    BELOW_ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No L0, and jobs that write nothing to speak of.
    fn room(bytes: u64) -> LocalRoom {
        LocalRoom { bytes, l0_bytes: 0, cut_bytes: 0, job_bytes: 0 }
    }

    #[test]
    fn the_line_stands_below_what_fits() {
        let levels = [0, 0, 0, 10, 100, 1000];
        assert_eq!(wanted_line(&levels, &room(2000), BELOW_ALL), BELOW_ALL);
        assert_eq!(wanted_line(&levels, &room(1110), BELOW_ALL), BELOW_ALL);
        assert_eq!(wanted_line(&levels, &room(1109), BELOW_ALL), 6);
        assert_eq!(wanted_line(&levels, &room(109), BELOW_ALL), 5);
        assert_eq!(wanted_line(&levels, &room(0), BELOW_ALL), 4, "an empty level takes nothing");
        assert_eq!(wanted_line(&[0; 6], &room(0), 1), BELOW_ALL);
    }

    #[test]
    fn what_a_job_writes_has_room_beside_what_it_reads() {
        let levels = [0, 0, 0, 10, 100, 1000];
        let unbounded = LocalRoom { l0_bytes: 5, cut_bytes: u64::MAX, ..room(30) };
        // L0 and L4 are there, and once more as the output of a cut.
        assert_eq!(wanted_line(&levels, &unbounded, BELOW_ALL), 5);
        assert_eq!(wanted_line(&levels, &LocalRoom { bytes: 29, ..unbounded }, BELOW_ALL), 4);
        let bounded = LocalRoom { cut_bytes: 3, bytes: 18, ..unbounded };
        assert_eq!(wanted_line(&levels, &bounded, BELOW_ALL), 5);
        let of_levels = LocalRoom { job_bytes: 20, bytes: 135, ..unbounded };
        assert_eq!(wanted_line(&levels, &of_levels, BELOW_ALL), 6);
        assert_eq!(wanted_line(&levels, &LocalRoom { bytes: 134, ..of_levels }, BELOW_ALL), 5);
        let full = LocalRoom { l0_bytes: 16, ..unbounded };
        assert_eq!(wanted_line(&[0; 6], &full, BELOW_ALL), 1, "a cut of all of L0 goes far");
    }

    #[test]
    fn a_level_comes_back_only_where_it_fits_well() {
        let levels = [0, 0, 0, 0, 0, 1000];
        assert_eq!(wanted_line(&levels, &room(1200), 6), 6);
        assert_eq!(wanted_line(&levels, &room(1400), 6), BELOW_ALL);
    }

    #[test]
    fn the_line_moves_and_says_so() {
        let line = Waterline::below_all();
        assert!(!line.is_below(LEVEL_MAX));
        assert_eq!(line.wanted(&[0; 6], &room(10)), line.first_far(), "it stays");
        let too_much = [0, 0, 0, 0, 0, 11];
        assert_ne!(line.wanted(&too_much, &room(10)), line.first_far());
        line.put_at(line.wanted(&too_much, &room(10)));
        assert!(line.is_below(LevelNo(6)) && !line.is_below(LevelNo(5)));
        line.put_at(0);
        assert_eq!(line.first_far(), 1, "L0 is always local");
    }
}
