//! Files beside the code that tests compare with: specimens of stored bytes, which must stay
//! readable for ever, and drawings.
//!
//! `TERRACE_WRITE_SPECIMENS=1` writes the specimens of the present formats and the drawings anew. A
//! difference in a specimen is a change of its format, which then needs a new version; a difference
//! in a drawing is to be looked at.

use std::path::PathBuf;

/// The path of a file that is named from `src/` on.
pub(crate) fn path_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src").join(name)
}

/// Whether the files are to be written anew.
pub(crate) fn is_writing() -> bool {
    std::env::var_os("TERRACE_WRITE_SPECIMENS").is_some()
}

/// The bytes of a specimen.
pub(crate) fn read(name: &str) -> Vec<u8> {
    let path = path_of(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The bytes of the specimen of a format that is still written; they are `written`, byte for byte.
pub(crate) fn assert_as_ever(name: &str, written: &[u8]) -> Vec<u8> {
    if is_writing() {
        std::fs::write(path_of(name), written).expect("the source tree can be written");
    }
    let specimen = read(name);
    assert!(specimen == written, "{name}: the format has changed");
    specimen
}

/// A file of drawings is what is drawn now. Each case is an input, `----`, and what `draw` makes of
/// the input, up to the next empty line.
pub(crate) fn assert_as_drawn(name: &str, mut draw: impl FnMut(&str) -> String) {
    let drawn = String::from_utf8(read(name)).expect("drawings are text");
    let mut now = String::new();
    for case in drawn.split_inclusive("\n\n") {
        match case.split_once("----\n") {
            Some((input, _)) => now += &format!("{input}----\n{}\n", draw(input)),
            // What stands before the first case explains the cases.
            None => now += case,
        }
    }
    if is_writing() {
        std::fs::write(path_of(name), &now).expect("the source tree can be written");
    } else {
        assert!(now == drawn, "{name}: the drawings are now\n{now}");
    }
}
