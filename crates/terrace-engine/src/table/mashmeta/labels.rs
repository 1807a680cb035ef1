//! The labels of a trie: by which byte a key goes on from a node to each of its children.
//!
//! Labels are numbers in the table's own alphabet, the bytes that stand behind a branch of its
//! keys. Those of one node stand together, ascending, in the smaller of two forms, which follows
//! from how many they are; `σ` is the size of the alphabet, and `w` the bits that number it:
//!
//! ```text
//!  d × w < σ    d numbers of w bits
//!  else         σ bits, a one for each label that is there
//! ```
//!
//! A key that is the beginning of another has a child of its own there, whose label comes before
//! all bytes; it is the number 0 of an alphabet that has it.

use terrace_base::{ByteReader, CodecError};
use vers_vecs::BitVec;

use super::bits::{WORD_BITS, word_at};

/// A label while a trie is built: 0 for the end of a key, else the byte and 1.
pub(super) type Label = u16;

/// The label of a key's end.
pub(super) const END: Label = 0;

/// The label of a byte.
pub(super) fn label_of(byte: u8) -> Label {
    Label::from(byte) + 1
}

/// How many labels there can be.
pub(super) const LABELS_MAX: usize = 257;

/// Words with a bit for each of them.
pub(super) const LABEL_WORDS: usize = LABELS_MAX.div_ceil(WORD_BITS);

/// Which labels there are, and how they are numbered.
#[derive(Debug)]
pub(super) struct Alphabet {
    /// For each label, how many lie below it.
    below: Box<[u16; LABELS_MAX]>,
    is_there: [u64; LABEL_WORDS],
    /// σ.
    count: usize,
    /// w.
    width: usize,
    /// The fewest labels of a node that are a bit for each of the alphabet; at least 1.
    many: usize,
}

impl Alphabet {
    /// The alphabet of some labels, in any order.
    pub(super) fn of(labels: &[Label]) -> Alphabet {
        let mut is_there = [0u64; LABEL_WORDS];
        for &label in labels {
            is_there[usize::from(label) / WORD_BITS] |= 1 << (usize::from(label) % WORD_BITS);
        }
        Alphabet::new(is_there)
    }

    fn new(is_there: [u64; LABEL_WORDS]) -> Alphabet {
        let mut below = Box::new([0; LABELS_MAX]);
        let mut count = 0u16;
        for (label, below) in below.iter_mut().enumerate() {
            *below = count;
            count += u16::from(is_there[label / WORD_BITS] >> (label % WORD_BITS) & 1 == 1);
        }
        let count = usize::from(count);
        // With one label there is nothing to tell apart.
        let width = count.next_power_of_two().trailing_zeros() as usize;
        // Numbers of no bits are always shorter, and a word has no row of 65.
        let many = if width == 0 { WORD_BITS + 1 } else { count.div_ceil(width) };
        Alphabet { below, is_there, count, width, many }
    }

    /// Appends it: a byte that is 1 if there is the end of a key, and a bit for each byte.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push((self.is_there[0] & 1) as u8);
        let bits = |word: usize| self.is_there[word] >> 1 | self.is_there[word + 1] << 63;
        (0..4).for_each(|word| out.extend_from_slice(&bits(word).to_le_bytes()));
    }

    /// Reads what [`Alphabet::encode`] wrote.
    pub(super) fn decode(reader: &mut ByteReader<'_>) -> Result<Alphabet, CodecError> {
        let end = reader.u8()?;
        if end > 1 {
            return Err(reader.error("an alphabet that has a part of an end"));
        }
        let mut is_there = [u64::from(end), 0, 0, 0, 0];
        for word in 0..4 {
            let bits = reader.u64()?;
            is_there[word] |= bits << 1;
            is_there[word + 1] |= bits >> 63;
        }
        Ok(Alphabet::new(is_there))
    }

    /// The number of a label, and whether the alphabet has it: if not, how many lie below.
    #[inline]
    pub(super) fn number(&self, label: Label) -> (usize, bool) {
        let label = usize::from(label);
        let is_there = self.is_there[label / WORD_BITS] >> (label % WORD_BITS) & 1 == 1;
        (usize::from(self.below[label]), is_there)
    }

    /// The byte whose label has a number; none if it is the end of a key.
    pub(super) fn byte(&self, number: usize) -> Option<u8> {
        let above = self.below.partition_point(|below| usize::from(*below) <= number);
        // The label is the last that has no more labels below it, and a label is a byte and 1.
        above.checked_sub(2).map(|byte| byte as u8)
    }

    /// Bytes in memory, beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.below)
    }

    /// Bits that the labels of a node with `degree` children take.
    #[inline]
    pub(super) fn bits(&self, degree: usize) -> usize {
        (degree * self.width).min(self.count)
    }

    /// Bits that the labels of several nodes take: each row of ones in the word has a one for each
    /// child of a node.
    #[inline]
    pub(super) fn bits_of_rows(&self, word: u64) -> usize {
        // What is left of rows that have `many` ones: all but the last ones of each.
        let mut left = word;
        let mut shrunk = 1;
        while shrunk < self.many && left != 0 {
            let by = shrunk.min(self.many - shrunk);
            left &= left >> by;
            shrunk += by;
        }
        let long_rows = (left & !(left << 1)).count_ones() as usize;
        let in_long_rows = left.count_ones() as usize + long_rows * (self.many - 1);
        let in_short_rows = word.count_ones() as usize - in_long_rows;
        long_rows * self.count + in_short_rows * self.width
    }

    /// Whether the labels of such a node are numbers.
    #[inline]
    fn are_numbers(&self, degree: usize) -> bool {
        degree * self.width < self.count
    }

    /// Appends the labels of a node, which ascend.
    pub(super) fn put(&self, out: &mut BitVec, labels: &[Label]) {
        if self.are_numbers(labels.len()) {
            for &label in labels {
                out.append_bits(self.number(label).0 as u64, self.width);
            }
            return;
        }
        let mut words = [0u64; LABEL_WORDS];
        for &label in labels {
            let number = self.number(label).0;
            words[number / WORD_BITS] |= 1 << (number % WORD_BITS);
        }
        for (word, bits) in words.iter().zip((0..self.count).step_by(WORD_BITS)) {
            out.append_bits(*word, (self.count - bits).min(WORD_BITS));
        }
    }

    /// Among the `degree` labels that begin at bit `at`: how many are below the one with this
    /// number, and whether it is there.
    #[inline]
    pub(super) fn find(
        &self,
        bits: &BitVec,
        at: usize,
        degree: usize,
        number: usize,
    ) -> (usize, bool) {
        if self.are_numbers(degree) {
            for index in 0..degree {
                let found = self.nth(bits, at, index);
                if found >= number {
                    return (index, found == number);
                }
            }
            return (degree, false);
        }
        let mut before = 0;
        for start in (0..number).step_by(WORD_BITS) {
            let word = word_at(bits, at + start);
            let rest = number - start;
            let word = if rest < WORD_BITS { word & ((1 << rest) - 1) } else { word };
            before += word.count_ones() as usize;
        }
        (before, number < self.count && bits.get_bits_unchecked(at + number, 1) == 1)
    }

    #[inline]
    fn nth(&self, bits: &BitVec, at: usize, index: usize) -> usize {
        bits.get_bits_unchecked(at + index * self.width, self.width) as usize
    }

    /// The number of label `index` of the `degree` that begin at bit `at`.
    pub(super) fn number_at(&self, bits: &BitVec, at: usize, degree: usize, index: usize) -> usize {
        if self.are_numbers(degree) {
            return self.nth(bits, at, index);
        }
        let mut ones =
            (0..self.count).filter(|number| bits.get_bits_unchecked(at + number, 1) == 1);
        ones.nth(index).unwrap_or(0)
    }

    /// Whether `used` are all numbers of the alphabet.
    pub(super) fn is_used_up(&self, used: &[u64; LABEL_WORDS]) -> bool {
        used.iter().map(|word| word.count_ones() as usize).sum::<usize>() == self.count
    }

    /// The number of the first of the `degree` labels that begin at bit `at`, if they are so many
    /// of the alphabet, ascending. Notes all of them in `used`.
    pub(super) fn check(
        &self,
        bits: &BitVec,
        at: usize,
        degree: usize,
        used: &mut [u64; LABEL_WORDS],
    ) -> Option<usize> {
        let mut first = None;
        if self.are_numbers(degree) {
            let mut before = None;
            for index in 0..degree {
                let number = self.nth(bits, at, index);
                if number >= self.count || before.is_some_and(|before| before >= number) {
                    return None;
                }
                used[number / WORD_BITS] |= 1 << (number % WORD_BITS);
                before = Some(number);
                first = first.or(before);
            }
            return first;
        }
        let mut count = 0;
        for start in (0..self.count).step_by(WORD_BITS) {
            let word = bits.get_bits_unchecked(at + start, (self.count - start).min(WORD_BITS));
            first = first.or((word != 0).then(|| start + word.trailing_zeros() as usize));
            used[start / WORD_BITS] |= word;
            count += word.count_ones() as usize;
        }
        first.filter(|_| count == degree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_word_take_what_their_nodes_take() {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        for count in [1, 2, 3, 10, 16, 60, 200, 257] {
            let labels: Vec<Label> = (0..count).collect();
            let alphabet = Alphabet::of(&labels);
            for round in 0..200 {
                word = word.wrapping_mul(0xd129_0d3a_31a4_b1d5).rotate_left(round % 64);
                // Words with long rows too.
                let word = if round % 2 == 0 { word } else { word | word << 1 | word << 3 };
                let (mut rest, mut expected) = (word, 0);
                while rest != 0 {
                    rest >>= rest.trailing_zeros();
                    let ones = rest.trailing_ones();
                    expected += alphabet.bits(ones as usize);
                    rest = rest.checked_shr(ones).unwrap_or(0);
                }
                assert_eq!(alphabet.bits_of_rows(word), expected, "{word:#b}, {count} labels");
            }
        }
    }
}
