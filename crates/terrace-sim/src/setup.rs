//! How a range is opened and on what machine it runs, as data with a text form.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use terrace_engine::options::{
    CloudOptions, Durability, FormatOptions, L0Kind, L0Options, Options, ProcessOptions,
    ValueLogOptions,
};
use terrace_engine::process::Process;
use terrace_engine::store::Store;
use terrace_engine::table::{Compression, TableOptions};
use terrace_env::{PlantedBug, SeededRng, SharedEnv, SimOptions};

use crate::storage::Storage;
use crate::workload::{ParseError, Shape};

/// Where the range of a run lies.
pub const DIR: &str = "/db";

/// A run that makes more calls of its environment than this goes round in circles. The largest
/// ones of this crate make a few hundred thousand.
const STEPS_MAX: u64 = 5_000_000;

/// Which way clients go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// To the tree of one range.
    Engine,
    /// To the library, which has keyspaces.
    Library,
}

impl Through {
    fn name(self) -> &'static str {
        match self {
            Through::Engine => "engine",
            Through::Library => "library",
        }
    }
}

/// What L0 is.
#[derive(Clone, Copy, Debug)]
pub struct L0Setup {
    /// Its kind: plain, container or matrix.
    pub kind: L0Kind,
    /// Its bytes, unless it is plain and in files.
    pub bytes: u64,
    /// Whether it lies on a medium of its own.
    pub in_memory: bool,
}

/// Options of a range, of its process and of the simulated machine. Everything is small, so that a
/// few hundred writes reach every level.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which way clients go.
    pub through: Through,
    /// Of the range.
    pub options: Options,
    /// What the options say of L0, as words do.
    pub l0: L0Setup,
    /// Of its process.
    pub process: ProcessOptions,
    /// The first level that lies in an object store; 0 if none does.
    pub first_far: u8,
    /// Whether the log is written through a mapping.
    pub mapped_logs: bool,
    /// Whether what was stored to persistent memory survives a power cut before it is flushed.
    pub pmem_keeps_stores: bool,
    /// Whether a keyspace of the library has a compaction filter, and a client of its own.
    pub filtered: bool,
    /// Another thread gets its turn once in this many calls.
    pub switch_one_in: u32,
    /// And also where a thread takes a latch, in builds with debug assertions.
    pub at_latches: bool,
    /// A read that must not wait finds nothing once in this many times; 0 for never.
    pub read_miss_one_in: u32,
    /// Each call of the file system takes up to so long.
    pub io_delay_max: Duration,
    /// Bugs that are planted in the engine; builds without the feature `planted-bugs` have none to
    /// plant.
    pub planted: Vec<PlantedBug>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::small()
    }
}

impl Setup {
    /// The usual small one.
    #[must_use]
    pub fn small() -> Setup {
        Setup {
            through: Through::Engine,
            options: Options {
                memtable_bytes: 16 << 10,
                frozen_memtables_max: 2,
                log_segment_bytes: 4 << 10,
                log_bytes_max: 32 << 10,
                table_bytes: 8 << 10,
                table: TableOptions {
                    block_bytes: 512,
                    filter_bits_per_key: 10,
                    compression: Compression::None,
                    trie: false,
                },
                l0_rows_per_cut: 2,
                l0_rows_slow: 4,
                l0_rows_stop: 8,
                level_bytes_base: 16 << 10,
                level_ratio: 3,
                cut_bytes: 12 << 10,
                format: FormatOptions { merge_operator: Some("append".to_string()) },
                ..Options::default()
            },
            l0: L0Setup { kind: L0Kind::Plain, bytes: 1 << 20, in_memory: false },
            process: ProcessOptions {
                memory_bytes: 2 << 30,
                cache_bytes: 64 << 10,
                flush_threads: 1,
                compaction_threads: 2,
                background_io_limit: None,
                recovery_threads: 1,
            },
            first_far: 0,
            mapped_logs: true,
            pmem_keeps_stores: false,
            filtered: false,
            switch_one_in: 4,
            at_latches: false,
            read_miss_one_in: 4,
            io_delay_max: Duration::ZERO,
            planted: Vec::new(),
        }
    }

    /// A random one.
    #[must_use]
    pub fn draw(random: &mut SeededRng) -> Setup {
        let mut setup = Setup::small();
        let options = &mut setup.options;
        options.durability = match random.below(4) {
            0 | 1 => Durability::Buffered,
            2 => Durability::Interval(Duration::from_millis([1, 50][random.index(2)])),
            _ => Durability::Sync,
        };
        options.memtable_bytes = [16 << 10, 16 << 10, 40 << 10][random.index(3)];
        options.frozen_memtables_max = [1, 2, 3, 8][random.index(4)];
        options.log_segment_bytes = [4 << 10, 4 << 10, 12 << 10, 64 << 10][random.index(4)];
        options.log_bytes_max =
            (2 * options.log_segment_bytes).max([16 << 10, 64 << 10][random.index(2)]);
        options.table_bytes = [4 << 10, 8 << 10, 16 << 10][random.index(3)];
        options.table.block_bytes = [64, 512, 4096][random.index(3)];
        options.table.filter_bits_per_key = [0, 1, 10][random.index(3)];
        options.table.compression =
            [Compression::None, Compression::None, Compression::Lz4, Compression::Zstd]
                [random.index(4)];
        options.memtable_merging = random.one_in(2);
        options.l0_rows_per_cut = [1, 2, 4][random.index(3)];
        options.l0_rows_slow = options.l0_rows_per_cut + random.index(4);
        options.l0_rows_stop = options.l0_rows_slow + 1 + random.index(5);
        options.level_bytes_base = options.table_bytes * [1, 3, 30][random.index(3)];
        options.level_ratio = [2, 4][random.index(2)];
        options.cut_bytes = [0, 1, options.table_bytes, 4 * options.table_bytes][random.index(4)];
        setup.process.cache_bytes = [0, 8 << 10, 32 << 10, 256 << 10][random.index(4)];
        setup.process.flush_threads = [1, 1, 2][random.index(3)];
        setup.process.compaction_threads = [1, 2, 3][random.index(3)];
        setup.mapped_logs = !random.one_in(3);
        setup.switch_one_in = [1, 2, 4, 8][random.index(4)];
        setup.read_miss_one_in = [0, 2, 4][random.index(3)];
        // None, one that runs over, one that does not.
        setup.options.lookup_index_bytes = [0, 256, 64 << 10][random.index(3)];
        let kept_max = setup.options.frozen_memtables_max - 1;
        setup.options.memtables_kept = kept_max.min(random.index(3));
        setup.options.research.scan_all_memtables = random.one_in(4);
        // Drawn apart, so that seeds keep what else they draw.
        let mut apart = SeededRng::new(random.clone().next_u64());
        setup.process.recovery_threads = [1, 2, 4][apart.index(3)];
        setup.draw_l0(&mut apart);
        setup.options.log_path = apart.one_in(3).then(|| DIR.into());
        setup.process.background_io_limit = [None, None, None, Some(64 << 10)][apart.index(4)];
        setup.options.value_log = draw_value_log(&mut apart);
        if apart.one_in(3) {
            setup.choose_far(1 + apart.below(6) as u8);
        }
        setup.options.research.local_tries = apart.one_in(3);
        if setup.options.log_path.is_some() && apart.one_in(2) {
            setup.options.log_volume = setup.options.log_path.take();
        }
        // Scans that are timed by chance pay for cuts, or each, or none.
        let prices = [None, Some(0), Some(u32::MAX)];
        setup.options.research.scan_price_percent = prices[apart.index(3)];
        // Rows go down as soon as no compaction is due, or after a while, or never. At once only
        // where slices are of some size: else each key has a compaction of its own.
        let rests = [None, Some(Duration::ZERO), Some(Duration::MAX)];
        let is_sliced_thin = (1..2048).contains(&setup.options.cut_bytes);
        let rest = rests[apart.index(3)].filter(|rest| !(rest.is_zero() && is_sliced_thin));
        setup.options.research.rest = rest;
        setup
    }

    /// What L0 is: half of the time a container, on memory, on memory below caches that survive, or
    /// a file; so small that it runs over, or not.
    fn draw_l0(&mut self, random: &mut SeededRng) {
        let kinds =
            [L0Kind::Plain, L0Kind::Plain, L0Kind::Container, L0Kind::Container, L0Kind::Matrix];
        let kind = kinds[random.index(kinds.len())];
        self.pmem_keeps_stores = random.one_in(3);
        let (bytes, in_memory) = match random.one_in(4) {
            true => (1 << 20, false),
            false => ([64 << 10, 128 << 10, 512 << 10][random.index(3)], true),
        };
        self.choose_l0(L0Setup { kind, bytes, in_memory });
    }

    fn choose_l0(&mut self, l0: L0Setup) {
        let path = l0.in_memory.then(|| DIR.into());
        self.options.l0 = match (l0.kind, path) {
            (L0Kind::Container | L0Kind::Matrix, path) => {
                L0Options::Container { bytes: l0.bytes, path }
            }
            (_, Some(path)) => L0Options::on_medium(path, l0.bytes),
            (_, None) => L0Options::PLAIN,
        };
        self.options.research.l0_matrix = l0.kind == L0Kind::Matrix;
        self.l0 = l0;
    }

    /// Puts the levels from this one on into an object store; 0 for none.
    pub fn choose_far(&mut self, first_far: u8) {
        self.first_far = first_far;
        // A cache of few blocks, which come and go, or one of many.
        let cache_bytes = if first_far.is_multiple_of(2) { 80_000 } else { 1 << 20 };
        let in_store = CloudOptions {
            first_level: Some(first_far),
            cache_bytes: Some(cache_bytes),
            ..CloudOptions::as_it_is("sim://store")
        };
        self.options.cloud = (first_far > 0).then_some(in_store);
    }

    /// The same with boundaries of dranges among the keys of `shape`, half of the time; else the
    /// range may be divided when its first memtable is full.
    #[must_use]
    pub fn with_dranges_of(mut self, random: &mut SeededRng, shape: &Shape) -> Setup {
        if random.one_in(2) {
            let count = 1 + random.index(4);
            let mut boundaries: Vec<Vec<u8>> =
                (0..count).map(|_| shape.key(random.below(shape.key_count))).collect();
            boundaries.retain(|boundary| !boundary.is_empty());
            boundaries.sort();
            boundaries.dedup();
            self.options.drange_boundaries = boundaries;
        } else {
            self.options.dranges = [1, 2, 3, 5][random.index(4)];
        }
        self
    }

    /// Options of a simulation that starts with `storage`.
    #[must_use]
    pub fn sim(&self, seed: u64, storage: Storage) -> SimOptions {
        let Storage { disk, objects } = storage;
        SimOptions {
            disk,
            objects,
            switch_one_in: self.switch_one_in,
            switch_at_latches: self.at_latches,
            try_read_miss_one_in: self.read_miss_one_in,
            io_delay_max: self.io_delay_max,
            mapped_logs: self.mapped_logs,
            pmem_keeps_stores: self.pmem_keeps_stores,
            steps_max: STEPS_MAX,
            #[cfg(feature = "planted-bugs")]
            planted: self.planted.clone(),
            ..SimOptions::new(seed)
        }
    }

    /// Starts a process and opens the range.
    pub fn open(&self, env: &SharedEnv) -> terrace_engine::Result<Store> {
        self.open_with(env, self.options.clone())
    }

    /// As [`Setup::open`], for reading only.
    pub fn open_read_only(&self, env: &SharedEnv) -> terrace_engine::Result<Store> {
        self.open_with(env, Options { read_only: true, ..self.options.clone() })
    }

    fn open_with(&self, env: &SharedEnv, options: Options) -> terrace_engine::Result<Store> {
        let process = Process::start(Arc::clone(env), &self.process)?;
        Store::open(&process, std::path::Path::new(DIR), options)
    }

    /// Opens another directory, for reading only.
    pub fn open_copy(
        &self,
        env: &SharedEnv,
        dir: &std::path::Path,
    ) -> terrace_engine::Result<Store> {
        let process = Process::start(Arc::clone(env), &self.process)?;
        Store::open(&process, dir, Options { read_only: true, ..self.options.clone() })
    }

    /// Bytes of a block, for shapes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.options.table.block_bytes as u32
    }

    /// Bytes of a log segment, for shapes.
    #[must_use]
    pub fn segment_bytes(&self) -> u32 {
        self.options.log_segment_bytes as u32
    }

    /// Each setting by name.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let options = &self.options;
        let values = options.value_log;
        let boundaries: Vec<String> = options
            .drange_boundaries
            .iter()
            .map(|key| key.iter().map(|byte| format!("{byte:02x}")).collect())
            .collect();
        vec![
            ("through", self.through.name().to_string()),
            ("class", options.durability.to_string()),
            ("memtable", options.memtable_bytes.to_string()),
            ("frozen", options.frozen_memtables_max.to_string()),
            ("segment", options.log_segment_bytes.to_string()),
            ("log", options.log_bytes_max.to_string()),
            ("reserve", options.reserved_percent.to_string()),
            ("table", options.table_bytes.to_string()),
            ("block", options.table.block_bytes.to_string()),
            ("filter", options.table.filter_bits_per_key.to_string()),
            ("compression", options.table.compression.to_string()),
            ("l0", self.l0.kind.to_string()),
            ("l0-bytes", self.l0.bytes.to_string()),
            ("l0-in-memory", self.l0.in_memory.to_string()),
            ("log-in-memory", options.log_path.is_some().to_string()),
            ("log-on-volume", options.log_volume.is_some().to_string()),
            ("rows-per-cut", options.l0_rows_per_cut.to_string()),
            ("rows-slow", options.l0_rows_slow.to_string()),
            ("rows-stop", options.l0_rows_stop.to_string()),
            ("level", options.level_bytes_base.to_string()),
            ("ratio", options.level_ratio.to_string()),
            ("cut", options.cut_bytes.to_string()),
            ("dranges", boundaries.join(",")),
            ("divide", options.dranges.to_string()),
            ("merging", options.memtable_merging.to_string()),
            ("index", options.lookup_index_bytes.to_string()),
            ("kept", options.memtables_kept.to_string()),
            ("values", values.map_or(0, |values| values.large_bytes).to_string()),
            ("values-all", values.is_some_and(|values| values.large_bytes == 0).to_string()),
            ("values-medium", values.map_or(0, medium_bytes).to_string()),
            ("values-ratio", values.map_or(130, |values| values.space_ratio_percent).to_string()),
            ("tries", options.research.local_tries.to_string()),
            ("scan-all", options.research.scan_all_memtables.to_string()),
            ("scan-price", options.research.scan_price_percent.unwrap_or(100).to_string()),
            ("rest", options.research.rest.map_or(2_000, |rest| rest.as_millis()).to_string()),
            ("cache", self.process.cache_bytes.to_string()),
            ("flushers", self.process.flush_threads.to_string()),
            ("compactors", self.process.compaction_threads.to_string()),
            ("io-limit", self.process.background_io_limit.unwrap_or(0).to_string()),
            ("replayers", self.process.recovery_threads.to_string()),
            ("far", self.first_far.to_string()),
            ("mapped", self.mapped_logs.to_string()),
            ("keeps-stores", self.pmem_keeps_stores.to_string()),
            ("filtered", self.filtered.to_string()),
            ("switch", self.switch_one_in.to_string()),
            ("at-latches", self.at_latches.to_string()),
            ("miss", self.read_miss_one_in.to_string()),
            ("delay-us", self.io_delay_max.as_micros().to_string()),
            ("planted", self.planted.iter().map(|bug| bug.name()).collect::<Vec<_>>().join(",")),
        ]
    }

    fn set(&mut self, name: &str, text: &str) -> Result<(), ParseError> {
        fn number<T: FromStr>(text: &str) -> Result<T, ParseError> {
            text.parse().map_err(|_| ParseError(format!("{text:?} does not fit")))
        }
        let options = &mut self.options;
        match name {
            "through" => {
                let ways = [Through::Engine, Through::Library];
                let way = ways.into_iter().find(|way| way.name() == text);
                self.through = way.ok_or_else(|| ParseError(format!("no way: {text}")))?;
            }
            "class" => {
                options.durability = text.parse().map_err(|_| {
                    ParseError(format!("{text:?} is no class: buffered, interval:MS, sync"))
                })?;
            }
            "compression" => {
                options.table.compression =
                    text.parse().map_err(|_| ParseError(format!("no compression: {text}")))?;
            }
            "memtable" => options.memtable_bytes = number(text)?,
            "frozen" => options.frozen_memtables_max = number(text)?,
            "segment" => options.log_segment_bytes = number(text)?,
            "log" => options.log_bytes_max = number(text)?,
            "reserve" => options.reserved_percent = number(text)?,
            "table" => options.table_bytes = number(text)?,
            "block" => options.table.block_bytes = number(text)?,
            "filter" => options.table.filter_bits_per_key = number(text)?,
            "l0" => {
                let kinds = [L0Kind::Plain, L0Kind::Container, L0Kind::Matrix];
                let kind = kinds.into_iter().find(|kind| kind.name() == text);
                let kind = kind.ok_or_else(|| ParseError(format!("no L0: {text}")))?;
                self.choose_l0(L0Setup { kind, ..self.l0 });
            }
            "l0-bytes" => self.choose_l0(L0Setup { bytes: number(text)?, ..self.l0 }),
            "l0-in-memory" => self.choose_l0(L0Setup { in_memory: number(text)?, ..self.l0 }),
            "log-in-memory" => {
                let is_in_memory: bool = number(text)?;
                options.log_path = is_in_memory.then(|| DIR.into());
            }
            "log-on-volume" => {
                let is_on_volume: bool = number(text)?;
                options.log_volume = is_on_volume.then(|| DIR.into());
            }
            "rows-per-cut" => options.l0_rows_per_cut = number(text)?,
            "rows-slow" => options.l0_rows_slow = number(text)?,
            "rows-stop" => options.l0_rows_stop = number(text)?,
            "level" => options.level_bytes_base = number(text)?,
            "ratio" => options.level_ratio = number(text)?,
            "cut" => options.cut_bytes = number(text)?,
            "dranges" => options.drange_boundaries = boundaries(text)?,
            "divide" => options.dranges = number(text)?,
            "merging" => options.memtable_merging = number(text)?,
            "index" => options.lookup_index_bytes = number(text)?,
            "kept" => options.memtables_kept = number(text)?,
            "values" => {
                let large_bytes = number(text)?;
                let known = options.value_log.unwrap_or_default();
                let values = ValueLogOptions { large_bytes, ..known };
                options.value_log = (large_bytes > 0).then_some(values);
            }
            "values-all" => {
                let is_every = number::<bool>(text)?;
                let known = options.value_log.unwrap_or_default();
                if is_every {
                    options.value_log = Some(ValueLogOptions { large_bytes: 0, ..known });
                }
            }
            "values-medium" => {
                let medium_bytes = match number(text)? {
                    0 => usize::MAX,
                    bytes => bytes,
                };
                options.value_log =
                    options.value_log.map(|values| ValueLogOptions { medium_bytes, ..values });
            }
            "values-ratio" => {
                let space_ratio_percent = number(text)?;
                // Without a bound for values there are none, whatever their ratio.
                options.value_log = options
                    .value_log
                    .map(|values| ValueLogOptions { space_ratio_percent, ..values });
            }
            "tries" => options.research.local_tries = number(text)?,
            "scan-all" => options.research.scan_all_memtables = number(text)?,
            "scan-price" => options.research.scan_price_percent = Some(number(text)?),
            "rest" => {
                let millis: u128 = number(text)?;
                let rest = u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis);
                options.research.rest = Some(rest);
            }
            "cache" => self.process.cache_bytes = number(text)?,
            "flushers" => self.process.flush_threads = number(text)?,
            "compactors" => self.process.compaction_threads = number(text)?,
            "io-limit" => {
                let limit: u64 = number(text)?;
                self.process.background_io_limit = (limit > 0).then_some(limit);
            }
            "replayers" => self.process.recovery_threads = number(text)?,
            "far" => self.choose_far(number(text)?),
            "mapped" => self.mapped_logs = number(text)?,
            "keeps-stores" => self.pmem_keeps_stores = number(text)?,
            "filtered" => self.filtered = number(text)?,
            "switch" => self.switch_one_in = number(text)?,
            "at-latches" => self.at_latches = number(text)?,
            "miss" => self.read_miss_one_in = number(text)?,
            "delay-us" => self.io_delay_max = Duration::from_micros(number(text)?),
            "planted" => self.planted = planted(text)?,
            other => return Err(ParseError(format!("there is no setting {other:?}"))),
        }
        Ok(())
    }
}

fn planted(text: &str) -> Result<Vec<PlantedBug>, ParseError> {
    if cfg!(not(feature = "planted-bugs")) {
        return Err(ParseError("bugs are planted in builds with planted-bugs only".to_string()));
    }
    let wrong = |name: &str| ParseError(format!("there is no bug {name:?} to plant"));
    text.split(',').map(|name| PlantedBug::parse(name).ok_or_else(|| wrong(name))).collect()
}

fn boundaries(text: &str) -> Result<Vec<Vec<u8>>, ParseError> {
    let wrong = || ParseError(format!("{text:?} is no list of keys in hexadecimal"));
    text.split(',')
        .filter(|key| !key.is_empty())
        .map(|key| {
            let digits: Option<Vec<u8>> =
                key.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
            let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(wrong)?;
            Ok(digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect())
        })
        .collect()
}

/// Half of the time a value log, for values of a few bytes on; if so, half of the time one that
/// writes files anew as soon as there is garbage in them.
fn draw_value_log(random: &mut SeededRng) -> Option<ValueLogOptions> {
    let large_bytes = [32, 32, 100, 1000][random.index(4)];
    let space_ratio_percent = [105, 130][random.index(2)];
    let values = ValueLogOptions { large_bytes, space_ratio_percent, ..ValueLogOptions::default() };
    let values = random.one_in(2).then_some(values)?;
    // Drawn apart, so that seeds keep what else they draw.
    let mut apart = SeededRng::new(random.clone().next_u64());
    Some(match apart.index(6) {
        0..=2 => values,
        3 => ValueLogOptions { large_bytes: 0, ..values },
        _ => {
            ValueLogOptions { medium_bytes: 32, large_bytes: [100, 1000][apart.index(2)], ..values }
        }
    })
}

/// From how many bytes on values are medium; 0 if none are.
fn medium_bytes(values: ValueLogOptions) -> usize {
    if values.medium_bytes < values.large_bytes { values.medium_bytes } else { 0 }
}

/// What differs from [`Setup::small`], as words `name=value`.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Setup::small().settings();
        let differing = self.settings().into_iter().zip(usual).filter(|(own, usual)| own != usual);
        let words: Vec<String> =
            differing.map(|((name, value), _)| format!("{name}={value}")).collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Setup {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Setup, ParseError> {
        let mut setup = Setup::small();
        for word in text.split_whitespace() {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| ParseError(format!("{word:?} is no setting name=value")))?;
            setup.set(name, value)?;
        }
        setup.options.validate().map_err(|error| ParseError(error.to_string()))?;
        Ok(setup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Purpose;

    #[test]
    fn a_setup_reads_back_as_it_was_printed_and_is_valid() {
        assert_eq!(Setup::small().to_string(), "");
        for seed in 0..200 {
            let mut random = SeededRng::new(seed);
            let setup = Setup::draw(&mut random);
            let shape = Shape::draw(&mut random, Purpose::Steps, 512, 4096);
            let setup = setup.with_dranges_of(&mut random, &shape);
            assert!(setup.options.validate().is_ok(), "seed {seed}: {setup}");
            let text = setup.to_string();
            let again: Setup = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(again.to_string(), text);
        }
        for wrong in ["class", "class=safe", "memtable=1", "fast=yes", "dranges=0"] {
            assert!(wrong.parse::<Setup>().is_err(), "{wrong}");
        }
    }
}
