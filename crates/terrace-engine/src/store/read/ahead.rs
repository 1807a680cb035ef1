//! Which values a scan asks for before it comes to them.
//!
//! # Why
//! Values of neighbouring keys lie far apart in the value log until they are rewritten. A scan
//! whose values are in no memory would wait for the disk at each of them, one after the other,
//! where a disk serves dozens at once.
//!
//! ```text
//!   scan    v─── v─── ┐ has waited twice: asks for the values of the keys that follow
//!           v──v v v v v v v v─── ┐ waits again behind them: asks for twice as many
//!           v──v v v v v v v v v v v v v v v v v ...
//! ```
//! A scan that waits for nothing asks for nothing. What was asked for goes into the system's pages:
//! nothing is kept here but a count, and whoever ends a scan early has read a few values for
//! nothing: eight, or about as many as the scan had come to.

use std::time::Duration;

/// A value that took longer came from the disk: the system's pages are faster.
const WAIT_MIN: Duration = Duration::from_micros(20);

/// How many values a scan waits for before it asks for others.
const WAITS_BEFORE: u32 = 2;

/// How many values it asks for first, and at most.
const STRETCH_MIN: u32 = 8;
const STRETCH_MAX: u32 = 256;

/// How many bytes of values it asks for at once, at most.
const STRETCH_BYTES_MAX: u64 = 1 << 20;

/// How many keys it looks at for each value that it is to ask for: keys may be hidden, or have
/// their values in tables.
const KEYS_PER_VALUE: u32 = 4;

/// When a scan asks for values, and for how many. Pure. It begins anew with each seek.
#[derive(Debug, Default)]
pub(super) struct AskAhead {
    waits: u32,
    /// How many values the last stretch had.
    stretch: u32,
    /// How many of them the scan has not come to.
    left: u32,
}

impl AskAhead {
    /// The scan has a value that it waited for as long as this; what to ask for now, if anything.
    pub fn fetched(&mut self, waited: Duration) -> Option<Stretch> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        if waited < WAIT_MIN {
            return None;
        }
        self.waits += 1;
        if self.waits < WAITS_BEFORE {
            return None;
        }
        self.stretch = (2 * self.stretch).clamp(STRETCH_MIN, STRETCH_MAX);
        Some(Stretch {
            values: self.stretch,
            keys: self.stretch * KEYS_PER_VALUE,
            bytes: STRETCH_BYTES_MAX,
        })
    }

    /// So many values were asked for.
    pub fn asked(&mut self, values: u32) {
        self.left = values;
    }
}

/// What a scan asks for at once: as long as none of these is used up, what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub values: u32,
    pub keys: u32,
    pub bytes: u64,
}

impl Stretch {
    /// The scan looks at one key more; whether there is room for that.
    pub fn take_key(&mut self) -> bool {
        let has_room = self.values > 0 && self.keys > 0 && self.bytes > 0;
        self.keys = self.keys.saturating_sub(1);
        has_room
    }

    /// A value of so many bytes was asked for.
    pub fn take_value(&mut self, bytes: u64) {
        self.values = self.values.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(5);
    const SLOW: Duration = Duration::from_micros(60);

    /// How many values a scan asks for after each of those that it comes to.
    fn asked_after(ahead: &mut AskAhead, waits: &[Duration]) -> Vec<u32> {
        let one = |waited: &Duration| {
            let Some(stretch) = ahead.fetched(*waited) else { return 0 };
            ahead.asked(stretch.values);
            stretch.values
        };
        waits.iter().map(one).collect()
    }

    #[test]
    fn a_scan_asks_when_it_has_waited_and_for_more_when_it_waits_again() {
        let mut ahead = AskAhead::default();
        assert_eq!(asked_after(&mut ahead, &[FAST; 100]), [0; 100], "it waits for nothing");
        assert_eq!(asked_after(&mut ahead, &[SLOW, FAST, SLOW]), [0, 0, 8]);
        assert_eq!(asked_after(&mut ahead, &[SLOW; 8]), [0; 8], "they are on their way");
        assert_eq!(asked_after(&mut ahead, &[FAST, FAST, SLOW]), [0, 0, 16]);
        let mut stretches = Vec::new();
        for _ in 0..6 {
            let left = ahead.left as usize;
            asked_after(&mut ahead, &vec![FAST; left]);
            stretches.extend(asked_after(&mut ahead, &[SLOW]));
        }
        assert_eq!(stretches, [32, 64, 128, 256, 256, 256]);
    }

    #[test]
    fn a_stretch_ends_with_its_values_its_bytes_or_its_keys() {
        let stretch = Stretch { values: 2, keys: 4, bytes: 1000 };
        let steps = |bytes: &[u64]| {
            let mut stretch = stretch;
            let asked = bytes.iter().take_while(|bytes| {
                let has_room = stretch.take_key();
                if has_room && **bytes > 0 {
                    stretch.take_value(**bytes);
                }
                has_room
            });
            asked.count()
        };
        assert_eq!(steps(&[10, 0, 10, 10]), 3, "two values");
        assert_eq!(steps(&[0, 10, 0, 0, 0]), 4, "four keys");
        assert_eq!(steps(&[1500, 10]), 1, "the bytes are used up");
    }
}
