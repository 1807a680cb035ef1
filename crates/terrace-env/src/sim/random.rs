/// A pseudo-random generator whose numbers are the same on every machine and in every version, so
/// that the seed of a failed run replays it for ever: xoshiro256++ (Blackman and Vigna, 2018),
/// its state filled from the seed by splitmix64. Not for secrets.
#[derive(Clone, Debug)]
pub struct SeededRng {
    state: [u64; 4],
}

impl SeededRng {
    /// The generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> SeededRng {
        let mut mixed = seed;
        SeededRng { state: std::array::from_fn(|_| split_mix(&mut mixed)) }
    }

    /// A generator of its own for the use `stream` of this seed, so that how much one use draws
    /// does not change what another one gets.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> SeededRng {
        let mut mixed = stream;
        SeededRng::new(seed ^ split_mix(&mut mixed))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`, which is above 0. The bias is below 2^-64 × `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into something of `count` elements, which is above 0.
    pub fn index(&mut self, count: usize) -> usize {
        // Both casts are lossless: an index is below a `usize`, which has at most 64 bits.
        self.below(count as u64) as usize
    }

    /// One of `from`, which is not empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// True once in `n` times on average; never for 0.
    pub fn one_in(&mut self, n: u32) -> bool {
        n > 0 && self.below(u64::from(n)) == 0
    }
}

/// splitmix64 (Steele, Lea, Flood, 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        let mut mixed = 0;
        assert_eq!(split_mix(&mut mixed), 0xe220_a839_7b1d_cdaf, "the published value");
        // The state {1, 2, 3, 4} is the reference implementation's usual example.
        let mut random = SeededRng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn bounds_hold_and_streams_differ() {
        let mut random = SeededRng::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.index(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert!(!random.one_in(0));
        assert!(random.one_in(1));
        assert_ne!(SeededRng::stream(7, 1).next_u64(), SeededRng::stream(7, 2).next_u64());
    }
}
