/// The first bytes of a key or of what follows a prefix of it, padded with zeros: as a big-endian
/// number it never decreases as the key grows, so it tells most keys apart without a look at them.
#[must_use]
#[inline]
pub fn hint_of<const BYTES: usize>(suffix: &[u8]) -> [u8; BYTES] {
    match suffix.first_chunk() {
        Some(chunk) => *chunk,
        None => {
            let mut padded = [0; BYTES];
            padded[..suffix.len()].copy_from_slice(suffix);
            padded
        }
    }
}

/// How many bytes `a` and `b` have in common from their start.
#[must_use]
pub fn common_prefix_bytes(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let words = a_words.iter().zip(b_words).take_while(|(a, b)| a == b).count() * 8;
    let rest = a[words..].iter().zip(&b[words..]).take_while(|(a, b)| a == b).count();
    words + rest
}
