//! A compaction plan: everything a job needs to know, as data, so that it runs here or elsewhere.

use terrace_base::{
    ByteReader, CodecError, Epoch, FileId, KeyRange, LevelNo, SeqNo, WallTime, put_field,
    put_varint,
};

use super::classes::short_value_bytes;
use super::filter::PlanFilter;
use crate::table::Compression;
use crate::version::TableMeta;
use crate::version::format::{
    put_file_id, put_range, put_table, put_value_file, read_file_id, read_operator, read_range,
    read_table, read_value_file,
};
use crate::vlog::{ValueFileMeta, ValueHome};

/// One input of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInput {
    /// The level that it lies in; 0 for a table of an L0 row.
    pub level: LevelNo,
    /// The table. One of a row that is consumed elsewhere is an input once for each interval in
    /// which it counts, which is then its clip.
    pub table: TableMeta,
}

/// What one compaction job is to do. Its outcome may be installed only under the same epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// The owner's epoch when the plan was made.
    pub epoch: Epoch,
    /// Expired at this moment means deleted.
    pub now: WallTime,
    /// Read points that must be served, ascending.
    pub snapshots: Vec<SeqNo>,
    /// The keys that the job moves; inputs are read within it only.
    pub slice: KeyRange,
    /// The inputs, newest first.
    pub inputs: Vec<PlanInput>,
    /// Where the outputs go.
    pub output_level: LevelNo,
    /// Where tombstones may be dropped: nothing older can exist there.
    pub droppable: Vec<KeyRange>,
    /// The first of the file ids that the outputs may take.
    pub first_output: FileId,
    /// How many ids for tables.
    pub output_count_max: u64,
    /// An output ends at the first new key beyond this many bytes.
    pub table_bytes: u64,
    /// Bytes of a block of the outputs.
    pub block_bytes: u64,
    /// Filter bits for each key of the outputs.
    pub filter_bits_per_key: u64,
    /// How the blocks of the outputs are compressed.
    pub compression: Compression,
    /// Whether the outputs have a trie of their keys where it is smaller than filter and index.
    pub trie: bool,
    /// The name of the operator that folds merge operands; without one, or where whoever does the
    /// work does not know it, they stay as they are.
    pub merge_operator: Option<String>,
    /// The filter that is asked what becomes of values; without one they stay.
    pub filter: Option<PlanFilter>,
    /// Values of this many bytes and more are taken out of the tables, into a value file with the
    /// id behind those of the outputs; none are if there is no number.
    pub large_bytes: Option<u64>,
    /// Values that the inputs point to come in place, into the tables, if they have fewer bytes
    /// than this; none do if there is no number.
    pub pointers_from: Option<u64>,
    /// The value files that the inputs name, where a value may have to be read.
    pub value_files: Vec<ValueFileMeta>,
}

/// The fields of a plan. Numbers are persistent across versions that compact for each other.
mod field {
    pub const EPOCH: u64 = 1;
    pub const NOW: u64 = 2;
    pub const SNAPSHOTS: u64 = 3;
    pub const SLICE: u64 = 4;
    pub const INPUT: u64 = 5;
    pub const OUTPUT_LEVEL: u64 = 6;
    pub const DROPPABLE: u64 = 7;
    pub const OUTPUT_IDS: u64 = 8;
    pub const SHAPE: u64 = 9;
    pub const MERGE_OPERATOR: u64 = 10;
    pub const LARGE_BYTES: u64 = 20;
    pub const VALUE_FILE: u64 = 21;
    pub const FILTER: u64 = 22;
    /// A value file that is a segment of the log.
    pub const VALUE_SEGMENT: u64 = 23;
    pub const POINTERS_FROM: u64 = 24;
    /// Without a body, and there only if tables may have a trie.
    pub const TRIE: u64 = 25;
}

impl CompactionPlan {
    /// Bytes of all inputs.
    #[must_use]
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.table.bytes).sum()
    }

    /// About how many bytes of values come in place.
    #[must_use]
    pub fn in_place_bytes(&self) -> u64 {
        let Some(pointers_from) = self.pointers_from else { return 0 };
        self.inputs.iter().map(|input| short_value_bytes(&input.table, pointers_from)).sum()
    }

    /// How many file ids the job has: those of its tables, and one for a value file if it may write
    /// one.
    #[must_use]
    pub fn id_count(&self) -> u64 {
        self.output_count_max + u64::from(self.large_bytes.is_some())
    }

    /// The id of the value file, if the job writes one.
    #[must_use]
    pub fn value_file_id(&self) -> FileId {
        let first = self.first_output;
        FileId { counter: first.counter + self.output_count_max, ..first }
    }

    /// The form in which a plan travels: tagged fields, all required.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.inputs.len() * 192);
        let mut value = Vec::new();
        let mut put = |number, fill: &dyn Fn(&mut Vec<u8>)| {
            value.clear();
            fill(&mut value);
            put_field(&mut out, number, true, &value);
        };
        put(field::EPOCH, &|v| put_varint(v, self.epoch.0));
        put(field::NOW, &|v| put_varint(v, self.now.0));
        put(field::SNAPSHOTS, &|v| {
            self.snapshots.iter().for_each(|snapshot| put_varint(v, snapshot.0));
        });
        put(field::SLICE, &|v| put_range(v, &self.slice));
        for input in &self.inputs {
            put(field::INPUT, &|v| {
                v.push(input.level.0);
                put_table(v, &input.table);
            });
        }
        put(field::OUTPUT_LEVEL, &|v| v.push(self.output_level.0));
        for range in &self.droppable {
            put(field::DROPPABLE, &|v| put_range(v, range));
        }
        put(field::OUTPUT_IDS, &|v| {
            put_file_id(v, self.first_output);
            put_varint(v, self.output_count_max);
        });
        put(field::SHAPE, &|v| {
            put_varint(v, self.table_bytes);
            put_varint(v, self.block_bytes);
            put_varint(v, self.filter_bits_per_key);
            v.push(self.compression as u8);
        });
        if self.trie {
            put(field::TRIE, &|_| ());
        }
        if let Some(name) = &self.merge_operator {
            put(field::MERGE_OPERATOR, &|v| v.extend_from_slice(name.as_bytes()));
        }
        if let Some(bytes) = self.large_bytes {
            put(field::LARGE_BYTES, &|v| put_varint(v, bytes));
        }
        if let Some(bytes) = self.pointers_from {
            put(field::POINTERS_FROM, &|v| put_varint(v, bytes));
        }
        for file in &self.value_files {
            let number = match file.home {
                ValueHome::File => field::VALUE_FILE,
                ValueHome::Log => field::VALUE_SEGMENT,
            };
            put(number, &|v| put_value_file(v, file));
        }
        if let Some(filter) = &self.filter {
            put(field::FILTER, &|v| {
                put_varint(v, filter.above.0);
                v.extend_from_slice(filter.name.as_bytes());
            });
        }
        debug_assert_eq!(CompactionPlan::decode(&out).as_ref(), Ok(self));
        out
    }

    /// The inverse of [`CompactionPlan::encode`].
    pub fn decode(bytes: &[u8]) -> Result<CompactionPlan, CodecError> {
        let mut reader = ByteReader::new(bytes);
        let mut plan = CompactionPlan {
            epoch: Epoch(0),
            now: WallTime(0),
            snapshots: Vec::new(),
            slice: KeyRange::all(),
            inputs: Vec::new(),
            output_level: LevelNo(0),
            droppable: Vec::new(),
            first_output: FileId { epoch: Epoch(0), counter: 0 },
            output_count_max: 0,
            table_bytes: 0,
            block_bytes: 0,
            filter_bits_per_key: 0,
            compression: Compression::None,
            trie: false,
            merge_operator: None,
            filter: None,
            large_bytes: None,
            pointers_from: None,
            value_files: Vec::new(),
        };
        let mut seen = 0u32;
        while !reader.is_empty() {
            let (number, required, mut value) = reader.field()?;
            match number {
                field::EPOCH => plan.epoch = Epoch(value.varint()?),
                field::NOW => plan.now = WallTime(value.varint()?),
                field::SNAPSHOTS => {
                    while !value.is_empty() {
                        plan.snapshots.push(SeqNo(value.varint()?));
                    }
                }
                field::SLICE => plan.slice = read_range(&mut value)?,
                field::INPUT => {
                    let level = LevelNo(value.u8()?);
                    plan.inputs.push(PlanInput { level, table: read_table(&mut value)? });
                }
                field::OUTPUT_LEVEL => plan.output_level = LevelNo(value.u8()?),
                field::DROPPABLE => plan.droppable.push(read_range(&mut value)?),
                field::OUTPUT_IDS => {
                    plan.first_output = read_file_id(&mut value)?;
                    plan.output_count_max = value.varint()?;
                }
                field::SHAPE => {
                    plan.table_bytes = value.varint()?;
                    plan.block_bytes = value.varint()?;
                    plan.filter_bits_per_key = value.varint()?;
                    plan.compression = Compression::from_stored(value.u8()?)
                        .ok_or_else(|| value.error("an unknown compression"))?;
                }
                field::TRIE => plan.trie = true,
                field::MERGE_OPERATOR => plan.merge_operator = Some(read_operator(&mut value)?),
                field::LARGE_BYTES => plan.large_bytes = Some(value.varint()?),
                field::POINTERS_FROM => plan.pointers_from = Some(value.varint()?),
                field::VALUE_FILE => {
                    plan.value_files.push(read_value_file(&mut value, ValueHome::File)?);
                }
                field::VALUE_SEGMENT => {
                    plan.value_files.push(read_value_file(&mut value, ValueHome::Log)?);
                }
                field::FILTER => {
                    let above = SeqNo(value.varint()?);
                    plan.filter = Some(PlanFilter { name: read_operator(&mut value)?, above });
                }
                _ if required => return Err(reader.error("an unknown required field of a plan")),
                _ => continue,
            }
            value.finish()?;
            seen |= 1 << number;
        }
        let needed = [
            field::EPOCH,
            field::NOW,
            field::SNAPSHOTS,
            field::SLICE,
            field::OUTPUT_LEVEL,
            field::OUTPUT_IDS,
            field::SHAPE,
        ];
        if needed.iter().any(|number| seen & (1 << number) == 0) {
            return Err(reader.error("a plan lacks a field"));
        }
        Ok(plan)
    }
}
