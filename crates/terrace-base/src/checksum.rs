use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A CRC-32C that covers where the bytes should be, and not only the bytes.
///
/// The identity of the file and the logical offset go in first, so that a block that was written
/// to the wrong place, or read from the wrong file, fails its check.
///
/// ```
/// use terrace_base::Checksum;
///
/// let here = Checksum::at(7, 4096).bytes(b"block").finish();
/// assert_ne!(here, Checksum::at(7, 8192).bytes(b"block").finish());
/// assert_ne!(here, Checksum::at(8, 4096).bytes(b"block").finish());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Checksum(u32);

impl Checksum {
    /// Starts a checksum of bytes at `offset` of the file with this identity.
    #[must_use]
    pub fn at(identity: u128, offset: u64) -> Checksum {
        let mut place = [0; 24];
        place[..16].copy_from_slice(&identity.to_le_bytes());
        place[16..].copy_from_slice(&offset.to_le_bytes());
        Checksum(crc32c::crc32c(&place))
    }

    /// Adds `bytes`.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Checksum {
        Checksum(crc32c::crc32c_append(self.0, bytes))
    }

    /// The checksum of all that was added.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.0
    }
}

/// A 64-bit hash (XXH3) that is the same on every machine and in every version: it stands in
/// filters on disk.
#[must_use]
pub fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persistent_functions_keep_their_values() {
        assert_eq!(
            Checksum::at(1, 2).bytes(b"terrace").finish(),
            Checksum::at(1, 2).bytes(b"ter").bytes(b"race").finish()
        );
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283, "the published check value");
        assert_eq!(hash_bytes(0, b""), 0x2d06_8005_38d3_94c2, "the published value of XXH3-64");
    }
}
