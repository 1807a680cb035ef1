//! Random numbers that a seed fixes, today and in later versions.

/// A generator of random numbers (xoshiro256++ by Blackman and Vigna, seeded through SplitMix64).
/// Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

/// A number in which every bit depends on every bit of `number`; different for different numbers.
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The generator of one of the streams of a seed.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Random {
        let start = mix(seed) ^ mix(!stream);
        Random { state: [1, 2, 3, 4].map(|step| mix(start.wrapping_add(step))) }
    }

    /// A number out of all.
    pub fn draw(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is a number below the bound");
        // The bias of this reduction is below bound / 2^64.
        let product = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the upper half of a product fits")
    }

    /// A number from 0 up to, not including, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_streams_fix_the_numbers() {
        let numbers = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.draw(), random.draw(), random.draw()]
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(1, 3));
        assert_ne!(numbers(1, 2), numbers(2, 2));
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let mut random = Random::new(7, 0);
        let mut buckets = [0_u32; 10];
        for _ in 0..100_000 {
            buckets[usize::try_from(random.below(10)).unwrap()] += 1;
            assert!((0.0..1.0).contains(&random.fraction()));
        }
        assert!(buckets.iter().all(|&count| (9_600..10_400).contains(&count)), "{buckets:?}");
    }
}
