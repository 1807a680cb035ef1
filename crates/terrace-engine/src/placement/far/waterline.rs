//! Which levels lie in the object store. Pure, but for the one number that many threads read.
//!
//! ```text
//!   L0                 ┐
//!   L1 … L(line - 1)   │ together at most the room that is left of the local bytes
//!   ━━ the waterline ━━┘
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
    pub fn wanted(&self, levels: &LevelBytes, room: u64) -> u8 {
        wanted_line(levels, room, self.first_far())
    }

    /// Puts it at a level. L0 is local in any case.
    pub fn put_at(&self, first_far: u8) {
        self.0.store(first_far.clamp(1, BELOW_ALL), Ordering::Relaxed);
    }
}

/// Where the line should stand that stands at `now`: the lowest place above which the levels fit
/// into `room` bytes.
#[must_use]
pub fn wanted_line(levels: &LevelBytes, room: u64, now: u8) -> u8 {
    let mut above = 0_u64;
    for (index, bytes) in levels.iter().enumerate() {
        let level = index as u8 + 1;
        above = above.saturating_add(*bytes);
        let room = if level < now { room } else { room / 100 * COMES_BACK_PERCENT };
        if above > room {
            return level;
        }
    }
    BELOW_ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_stands_below_what_fits() {
        let levels = [0, 0, 0, 10, 100, 1000];
        assert_eq!(wanted_line(&levels, 2000, BELOW_ALL), BELOW_ALL);
        assert_eq!(wanted_line(&levels, 1110, BELOW_ALL), BELOW_ALL);
        assert_eq!(wanted_line(&levels, 1109, BELOW_ALL), 6);
        assert_eq!(wanted_line(&levels, 109, BELOW_ALL), 5);
        assert_eq!(wanted_line(&levels, 0, BELOW_ALL), 4, "an empty level takes nothing");
        assert_eq!(wanted_line(&[0; 6], 0, 1), BELOW_ALL);
    }

    #[test]
    fn a_level_comes_back_only_where_it_fits_well() {
        let levels = [0, 0, 0, 0, 0, 1000];
        assert_eq!(wanted_line(&levels, 1200, 6), 6);
        assert_eq!(wanted_line(&levels, 1400, 6), BELOW_ALL);
    }

    #[test]
    fn the_line_moves_and_says_so() {
        let line = Waterline::below_all();
        assert!(!line.is_below(LEVEL_MAX));
        assert_eq!(line.wanted(&[0; 6], 10), line.first_far(), "it stays");
        let too_much = [0, 0, 0, 0, 0, 11];
        assert_ne!(line.wanted(&too_much, 10), line.first_far());
        line.put_at(line.wanted(&too_much, 10));
        assert!(line.is_below(LevelNo(6)) && !line.is_below(LevelNo(5)));
        line.put_at(0);
        assert_eq!(line.first_far(), 1, "L0 is always local");
    }
}
