//! Programs that were built without a codec: they say so by its name, and take nothing for damage.
//! Built with it, they read the same tables.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "the specimens are real files")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::inspect::{FileKind, inspect};
use terrace::{Compression, Db, ErrorKind, SeqNo};
use terrace_engine::Error as EngineError;
use terrace_engine::cache::BlockCache;
use terrace_engine::table::{MemoryTableFile, ReadMode, TableReader};

/// Each codec, and whether this test was built with it.
const CODECS: [(Compression, bool); 2] =
    [(Compression::Lz4, cfg!(feature = "lz4")), (Compression::Zstd, cfg!(feature = "zstd"))];

/// A table that was written with it.
fn specimen(codec: Compression) -> PathBuf {
    let testdata = "../terrace-engine/src/table/testdata";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(testdata).join(format!("v1-{codec}.table"))
}

fn assert_names(codec: Compression, error: &str) {
    assert!(error.contains(&format!("the cargo feature `{codec}`")), "{error}");
}

#[test]
fn a_codec_that_is_not_built_in_cannot_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    for (codec, is_built_in) in CODECS {
        let opened = Db::options().compression(codec).open(dir.path().join(codec.to_string()));
        match opened {
            Ok(_) => assert!(is_built_in, "{codec}"),
            Err(error) => {
                assert!(!is_built_in, "{error}");
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert_names(codec, &error.to_string());
            }
        }
    }
}

#[test]
fn a_table_of_a_codec_that_is_not_built_in_is_refused_and_is_no_damage() {
    for (codec, is_built_in) in CODECS {
        let path = specimen(codec);
        let file = MemoryTableFile::new(&path, std::fs::read(&path).unwrap());
        let reader = TableReader::open(Arc::new(file), Arc::new(BlockCache::new(0)), None).unwrap();
        let answers = [
            reader.get(b"versions", SeqNo::MAX, ReadMode::BLOCK).map(drop),
            reader.stream(None).map(drop),
            reader.verify(None).map(drop),
        ];
        for answer in answers {
            match answer {
                Ok(()) => assert!(is_built_in, "{codec}"),
                Err(EngineError::NoCodec(text)) => {
                    assert!(!is_built_in, "{text}");
                    assert_names(codec, &text);
                    assert!(text.contains("v1-"), "the file is named: {text}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        let mut damage = Vec::new();
        let shown = inspect(FileKind::Table, &path, true, &mut |line| {
            damage.extend(line.is_damage.then(|| line.to_string()));
            true
        });
        assert!(damage.is_empty(), "{damage:?}");
        match shown {
            Ok(has_damage) => assert!(is_built_in && !has_damage, "{codec}"),
            Err(error) => {
                assert!(!is_built_in, "{error}");
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert_names(codec, &error.to_string());
            }
        }
    }
}
