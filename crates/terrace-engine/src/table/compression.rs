//! Compressing blocks and decoding them again.

use std::cell::RefCell;

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use terrace_base::CodecError;

use super::format::BLOCK_TARGET_BYTES_MAX;
use super::format::frame::{Compression, split_compressed};

/// The level of zstd: its own default.
const ZSTD_LEVEL: i32 = 3;

/// Compresses blocks one after the other with the same working memory.
pub(super) struct Compressor {
    method: Method,
    /// Where a block is compressed to.
    scratch: Vec<u8>,
}

enum Method {
    None,
    Lz4(Box<CompressTable>),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// A compressor; one whose working memory cannot be had does not compress.
    pub(super) fn new(compression: Compression) -> Compressor {
        let method = match compression {
            Compression::None => Method::None,
            // The small table makes fewer matches, and does not make up for it in speed.
            Compression::Lz4 => Method::Lz4(Box::new(CompressTable::large())),
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
        let output_bytes = get_maximum_output_size(block.len());
        if self.scratch.len() < output_bytes {
            self.scratch.resize(output_bytes, 0);
        }
        let (compressed_bytes, compression) = match &mut self.method {
            Method::None => (None, Compression::None),
            Method::Lz4(table) => {
                let bytes = compress_into_with_table(block, &mut self.scratch, table);
                (bytes.ok(), Compression::Lz4)
            }
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

thread_local! {
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decodes compressed bytes into `block`, which they must fill exactly.
///
/// Allocates nothing but, once a thread, zstd's working memory.
pub(super) fn decompress(
    compression: Compression,
    compressed: &[u8],
    block: &mut [u8],
) -> Result<(), CodecError> {
    let error = |what| CodecError { offset: 0, what };
    let bytes = match compression {
        Compression::None => return Err(error("a block that is not compressed")),
        Compression::Lz4 => decompress_into(compressed, block).ok(),
        Compression::Zstd => ZSTD.with(|cell| {
            let mut slot = cell.borrow_mut();
            if slot.is_none() {
                *slot = zstd::bulk::Decompressor::new().ok();
            }
            slot.as_mut()?.decompress_to_buffer(compressed, block).ok()
        }),
    };
    match bytes {
        Some(bytes) if bytes == block.len() => Ok(()),
        _ => Err(error("compressed bytes that do not decode to their stated size")),
    }
}

/// The payload of a frame as the block that it holds, decoded and at most `bytes_max` long.
pub fn decompress_frame(
    compression: Compression,
    payload: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, CodecError> {
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
