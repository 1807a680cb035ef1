//! Compressing blocks and decoding them again.

#[cfg(feature = "zstd")]
use std::cell::RefCell;

use terrace_base::CodecError;

use super::format::frame::{Compression, split_compressed};
use super::format::{BLOCK_TARGET_BYTES_MAX, FormatError};
use crate::Error;

/// The level of zstd: its own default.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 3;

/// Compresses blocks one after the other with the same working memory.
pub(super) struct Compressor {
    method: Method,
    /// Where a block is compressed to.
    scratch: Vec<u8>,
}

enum Method {
    None,
    #[cfg(feature = "lz4")]
    Lz4(Box<lz4_flex::block::CompressTable>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// A compressor; one whose working memory cannot be had, or whose codec is not built in, does
    /// not compress.
    pub(super) fn new(compression: Compression) -> Compressor {
        let method = match compression {
            Compression::None => Method::None,
            // The small table makes fewer matches, and does not make up for it in speed.
            #[cfg(feature = "lz4")]
            Compression::Lz4 => Method::Lz4(Box::new(lz4_flex::block::CompressTable::large())),
            #[cfg(not(feature = "lz4"))]
            Compression::Lz4 => Method::None,
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => Method::None,
            #[cfg(feature = "zstd")]
            Compression::Zstd => match zstd::bulk::Compressor::new(ZSTD_LEVEL) {
                Ok(compressor) => Method::Zstd(compressor),
                Err(_) => Method::None,
            },
        };
        Compressor { method, scratch: Vec::new() }
    }

    /// Whether blocks come out as they went in.
    pub(super) fn is_none(&self) -> bool {
        matches!(self.method, Method::None)
    }

    /// Appends the compressed payload of `block` to `out` (its size, then its compressed bytes),
    /// or nothing if it does not shrink by an eighth.
    pub(super) fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) -> Compression {
        let Ok(block_bytes) = u32::try_from(block.len()) else { return Compression::None };
        if !self.is_none() {
            // As much as LZ4 asks for, which is more than a block takes that is kept compressed.
            let output_bytes = 32 + block.len() + block.len() / 10;
            self.scratch.resize(self.scratch.len().max(output_bytes), 0);
        }
        let (compressed_bytes, compression) = match &mut self.method {
            Method::None => (None, Compression::None),
            #[cfg(feature = "lz4")]
            Method::Lz4(table) => {
                let bytes =
                    lz4_flex::block::compress_into_with_table(block, &mut self.scratch, table);
                (bytes.ok(), Compression::Lz4)
            }
            #[cfg(feature = "zstd")]
            Method::Zstd(compressor) => {
                let bytes = compressor.compress_to_buffer(block, &mut self.scratch);
                (bytes.ok(), Compression::Zstd)
            }
        };
        let payload_bytes_max = block.len() - block.len().div_ceil(8);
        let compression = match compressed_bytes {
            Some(bytes) if bytes + 4 <= payload_bytes_max => {
                out.extend_from_slice(&block_bytes.to_le_bytes());
                out.extend_from_slice(&self.scratch[..bytes]);
                compression
            }
            _ => Compression::None,
        };
        // One huge value must not hold its memory for the rest of the table.
        if self.scratch.len() > 2 * BLOCK_TARGET_BYTES_MAX {
            self.scratch = Vec::new();
        }
        compression
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

/// Decodes compressed bytes into `block`, which they must fill exactly.
///
/// Allocates nothing but, once a thread, zstd's working memory. Errors: `Unsupported` if the codec
/// is not built in.
pub(super) fn decompress(
    compression: Compression,
    compressed: &[u8],
    block: &mut [u8],
) -> Result<(), FormatError> {
    let error = |what| FormatError::Damaged(CodecError { offset: 0, what });
    if !is_built_in(compression) {
        return Err(FormatError::Unsupported(missing(compression)));
    }
    let bytes: Option<usize> = match compression {
        Compression::None => return Err(error("a block that is not compressed")),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4_flex::block::decompress_into(compressed, block).ok(),
        #[cfg(feature = "zstd")]
        Compression::Zstd => decompress_zstd(compressed, block),
        #[cfg(not(all(feature = "lz4", feature = "zstd")))]
        _ => compressed.first().and(None),
    };
    match bytes {
        Some(bytes) if bytes == block.len() => Ok(()),
        _ => Err(error("compressed bytes that do not decode to their stated size")),
    }
}

#[cfg(feature = "zstd")]
fn decompress_zstd(compressed: &[u8], block: &mut [u8]) -> Option<usize> {
    thread_local! {
        static DECODER: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }
    DECODER.with(|cell| {
        let mut slot = cell.borrow_mut();
        if slot.is_none() {
            *slot = zstd::bulk::Decompressor::new().ok();
        }
        slot.as_mut()?.decompress_to_buffer(compressed, block).ok()
    })
}

/// Errors: `NoCodec` if blocks can be neither compressed nor read in this way, since the program
/// was built without it.
pub fn check_built_in(compression: Compression) -> crate::Result<()> {
    if is_built_in(compression) { Ok(()) } else { Err(Error::NoCodec(missing(compression))) }
}

const fn is_built_in(compression: Compression) -> bool {
    match compression {
        Compression::None => true,
        Compression::Lz4 => cfg!(feature = "lz4"),
        Compression::Zstd => cfg!(feature = "zstd"),
    }
}

#[cold]
fn missing(compression: Compression) -> String {
    format!(
        "this program was built without the compression {compression}: build it with the cargo \
         feature `{compression}` of the crate `terrace`"
    )
}

/// The payload of a frame as the block that it holds, decoded and at most `bytes_max` long.
pub fn decompress_frame(
    compression: Compression,
    payload: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, FormatError> {
    if compression == Compression::None {
        return Ok(payload.to_vec());
    }
    let (bytes, compressed) = split_compressed(payload, bytes_max)?;
    let mut block = vec![0; bytes];
    decompress(compression, compressed, &mut block)?;
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_incompressible_ones_stay_as_they_are() {
        let compressible: Vec<u8> = (0..10_000u32).map(|at| (at / 100) as u8).collect();
        let mut state = 1u64;
        let random: Vec<u8> = (0..10_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for wanted in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let mut compressor = Compressor::new(wanted);
            assert_eq!(compressor.is_none(), wanted == Compression::None);
            let mut out = b"before".to_vec();
            assert_eq!(compressor.compress(&random, &mut out), Compression::None);
            assert_eq!(out, b"before");
            for block in [&compressible[..], &compressible[..100], &random[..1], &[]] {
                out.truncate(6);
                let compression = compressor.compress(block, &mut out);
                if compression == Compression::None {
                    assert_eq!(out, b"before");
                    continue;
                }
                assert_eq!(compression, wanted);
                let (bytes, compressed) = split_compressed(&out[6..], 20_000).unwrap();
                let mut decoded = vec![0xee; bytes];
                decompress(compression, compressed, &mut decoded).unwrap();
                assert_eq!(decoded, block);
                for other_bytes in [0, bytes - 1, bytes + 1] {
                    let mut other = vec![0; other_bytes];
                    assert!(decompress(compression, compressed, &mut other).is_err());
                }
            }
        }
    }

    #[test]
    fn bytes_that_were_never_compressed_are_refused() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            for bytes in [&[][..], &[0xff; 100], b"not compressed at all"] {
                let mut decoded = vec![0; 4096];
                assert!(decompress(compression, bytes, &mut decoded).is_err());
            }
        }
    }
}
