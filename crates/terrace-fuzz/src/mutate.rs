use terrace_base::put_varint;

use crate::random::Random;

/// Numbers that decoders stumble over, with their neighbours: sizes at which something wraps, and
/// none at all.
const EDGES: [u64; 10] =
    [0, 1, 1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 63, u64::MAX];

/// Makes inputs out of inputs.
#[derive(Debug)]
pub struct Mutator<'a> {
    random: Random,
    /// Words that mean something to the decoder.
    words: &'a [&'a [u8]],
    bytes_max: usize,
}

impl<'a> Mutator<'a> {
    /// Mutations of this seed. No result is longer than `bytes_max`.
    #[must_use]
    pub fn new(seed: u64, words: &'a [&'a [u8]], bytes_max: usize) -> Mutator<'a> {
        Mutator { random: Random::new(seed), words, bytes_max }
    }

    /// A mutation of one input of the pool, which holds something; others may lend it parts.
    pub fn mutate(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        // What came last into the pool reached something new.
        let newest = pool.len() - self.random.below(pool.len().min(16)) - 1;
        let parent = if self.random.below(2) == 0 { newest } else { self.random.below(pool.len()) };
        let mut data = pool[parent].clone();
        let mut steps = 1 + self.random.below(3);
        if self.random.below(8) == 0 {
            steps += self.random.below(12);
        }
        for _ in 0..steps {
            self.step(&mut data, pool);
        }
        data.truncate(self.bytes_max);
        data
    }

    fn step(&mut self, data: &mut Vec<u8>, pool: &[Vec<u8>]) {
        match self.random.below(16) {
            0 | 1 => self.flip_bit(data),
            2 => self.set_byte(data),
            3 | 4 => self.set_integer(data),
            5 => self.set_varint(data),
            6 => self.set_decimal(data),
            7 | 8 => self.nudge_length(data),
            9 => self.remove(data),
            10 => self.repeat(data),
            11 => self.insert_random(data),
            12 => self.put_word(data),
            13 => self.splice(data, pool),
            14 => self.fill(data),
            _ => self.swap(data),
        }
    }

    /// A number at an edge, or next to one.
    fn edge(&mut self) -> u64 {
        let edge = *self.random.pick(&EDGES);
        match self.random.below(3) {
            0 => edge.wrapping_sub(1),
            1 => edge,
            _ => edge.wrapping_add(1),
        }
    }

    /// An interval inside the data, mostly short.
    fn interval(&mut self, data: &[u8]) -> std::ops::Range<usize> {
        let start = self.random.below(data.len() + 1);
        let longest = if self.random.below(4) == 0 { data.len() } else { 16 };
        start..data.len().min(start + 1 + self.random.below(longest))
    }

    fn flip_bit(&mut self, data: &mut [u8]) {
        let bit = self.random.below(data.len() * 8);
        if let Some(byte) = data.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }

    fn set_byte(&mut self, data: &mut [u8]) {
        let at = self.random.below(data.len());
        let byte = self.random.next_u64() as u8;
        if let Some(place) = data.get_mut(at) {
            *place = *self.random.pick(&[0, 1, 0x7f, 0x80, 0xff, byte, byte]);
        }
    }

    /// Overwrites one, two, four or eight bytes by a number at an edge.
    fn set_integer(&mut self, data: &mut [u8]) {
        let width = *self.random.pick(&[1_usize, 2, 4, 8]);
        let at = self.random.below(data.len());
        let number = self.edge();
        let big_endian = self.random.below(4) == 0;
        let mut bytes = [0; 8];
        if big_endian {
            bytes[..width].copy_from_slice(&number.to_be_bytes()[8 - width..]);
        } else {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        for (place, byte) in data.iter_mut().skip(at).zip(&bytes[..width]) {
            *place = *byte;
        }
    }

    /// Replaces what may be a varint by one that holds a number at an edge.
    fn set_varint(&mut self, data: &mut Vec<u8>) {
        let start = self.random.below(data.len());
        let more = data[start.min(data.len())..].iter().take_while(|&&byte| byte >= 0x80).count();
        let end = data.len().min(start + more + 1);
        let mut varint = Vec::new();
        put_varint(&mut varint, self.edge());
        data.splice(start.min(end)..end, varint);
    }

    /// Replaces a run of digits by a number at an edge.
    fn set_decimal(&mut self, data: &mut Vec<u8>) {
        let from = self.random.below(data.len());
        let Some(start) = data.iter().skip(from).position(u8::is_ascii_digit) else { return };
        let start = from + start;
        let digits = data[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = self.edge();
        let text = match self.random.below(3) {
            0 => format!("-{number}"),
            _ => number.to_string(),
        };
        data.splice(start..start + digits, text.into_bytes());
    }

    /// Changes a little-endian number a little, as an off-by-one in a length would.
    fn nudge_length(&mut self, data: &mut [u8]) {
        let width = *self.random.pick(&[1_usize, 2, 4, 8]);
        let at = self.random.below(data.len());
        let Some(place) = data.get_mut(at..at + width) else { return };
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(place);
        let number = u64::from_le_bytes(bytes);
        let nudged = match self.random.below(6) {
            0 => number.wrapping_add(1),
            1 => number.wrapping_sub(1),
            2 => number.wrapping_add(8),
            3 => number.wrapping_sub(8),
            4 => number.wrapping_mul(2),
            _ => number / 2,
        };
        place.copy_from_slice(&nudged.to_le_bytes()[..width]);
    }

    fn remove(&mut self, data: &mut Vec<u8>) {
        let gone = self.interval(data);
        data.drain(gone);
    }

    /// Repeats a part of the data where it stands, once or many times.
    fn repeat(&mut self, data: &mut Vec<u8>) {
        let part = data[self.interval(data)].to_vec();
        let times = if self.random.below(4) == 0 { 1 + self.random.below(64) } else { 1 };
        let at = self.random.below(data.len() + 1);
        let room = self.bytes_max.saturating_sub(data.len());
        let inserted: Vec<u8> = part.repeat(times).into_iter().take(room).collect();
        data.splice(at..at, inserted);
    }

    fn insert_random(&mut self, data: &mut Vec<u8>) {
        let at = self.random.below(data.len() + 1);
        let count = 1 + self.random.below(9);
        let bytes: Vec<u8> = (0..count).map(|_| self.random.next_u64() as u8).collect();
        data.splice(at..at, bytes);
    }

    /// Puts a word of the dictionary in, over what stands there or between.
    fn put_word(&mut self, data: &mut Vec<u8>) {
        if self.words.is_empty() {
            return;
        }
        let word: &[u8] = self.words[self.random.below(self.words.len())];
        let at = self.random.below(data.len() + 1);
        let end = if self.random.below(2) == 0 { at } else { data.len().min(at + word.len()) };
        data.splice(at..end, word.iter().copied());
    }

    /// Takes a part over from another input.
    fn splice(&mut self, data: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let other = self.random.pick(pool);
        let part = other[self.interval(other)].to_vec();
        let place = self.interval(data);
        data.splice(place, part);
    }

    fn fill(&mut self, data: &mut [u8]) {
        let byte = *self.random.pick(&[0, 0xff, b' ', b'0']);
        let place = self.interval(data);
        data[place].fill(byte);
    }

    /// Lets two parts of the same length change places.
    fn swap(&mut self, data: &mut [u8]) {
        let (first, second) = (self.random.below(data.len()), self.random.below(data.len()));
        let (first, second) = (first.min(second), first.max(second));
        let bytes = (second - first).min(data.len() - second).min(1 + self.random.below(64));
        let (left, right) = data.split_at_mut(second);
        left[first..first + bytes].swap_with_slice(&mut right[..bytes]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_none_too_long() {
        let pool = vec![b"*1\r\n$4\r\nPING\r\n".to_vec(), vec![], vec![7; 100]];
        let made = |seed| {
            let mut mutator = Mutator::new(seed, &[b"word"], 200);
            (0..5000).map(|_| mutator.mutate(&pool)).collect::<Vec<_>>()
        };
        let first = made(1);
        assert!(first.iter().all(|data| data.len() <= 200));
        assert!(first.iter().any(Vec::is_empty) && first.iter().any(|data| data.len() > 150));
        assert_eq!(first, made(1));
        assert_ne!(first, made(2));
    }
}
