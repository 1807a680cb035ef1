//! The targets: what gets hostile bytes, and what it promises.

mod cached;
mod command_line;
mod database;
mod log;
mod log_object;
mod manifest;
mod mashmeta;
mod plan;
mod protocol;
mod row;
mod session;
mod simulation;
mod table_file;
mod table_parts;
mod value_file;

/// One decoder, or several that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its corpus, too.
    pub name: &'static str,
    /// What it reads, in one line.
    pub about: &'static str,
    /// Takes any bytes, and panics if a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs that the real encoders made. The same at every call.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something in its inputs.
    pub words: &'static [&'static [u8]],
    /// How many executions the tests of this crate give it: about fifteen seconds on a slow core.
    pub executions: u64,
    /// The longest input.
    pub bytes_max: usize,
    /// Bytes of memory that an execution may hold, whatever its input.
    pub memory_fixed_bytes: usize,
    /// Bytes of memory that an execution may hold besides, for each byte of its input.
    pub memory_per_byte: usize,
}

impl Target {
    /// What most targets have.
    pub(crate) const DEFAULT: Target = Target {
        name: "nothing",
        about: "nothing",
        run: |_| (),
        seeds: Vec::new,
        words: &[],
        executions: 1_000_000,
        bytes_max: 4096,
        memory_fixed_bytes: 16 << 10,
        memory_per_byte: 64,
    };

    /// The most memory that an execution with an input of this length may hold, in bytes.
    #[must_use]
    pub fn memory_max(&self, input_bytes: usize) -> usize {
        self.memory_fixed_bytes + self.memory_per_byte * input_bytes
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    protocol::RESP,
    protocol::INLINE,
    protocol::REPLY,
    session::SESSION,
    table_parts::BLOCK,
    table_parts::FILTER,
    table_parts::INDEX,
    table_parts::FOOTER,
    table_parts::NAMES,
    table_parts::RANGE_TOMBSTONES,
    table_file::TABLE,
    value_file::VALUES,
    cached::CACHED,
    mashmeta::MASHMETA,
    row::ROW,
    log::SEGMENT_HEADER,
    log::LOG_RECORD,
    log::LOG_DIRECTORY,
    log_object::LOG_OBJECT,
    manifest::MANIFEST,
    manifest::EDIT,
    manifest::CURRENT,
    plan::PLAN,
    database::DATABASE,
    command_line::OPTIONS,
    command_line::IMPORT,
];

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
