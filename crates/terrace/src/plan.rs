//! Sizes for a database, from what it will hold and what the machine has; with reasons. Pure.
//!
//! # How
//! * *Depth.* Each level below L0 costs about as many bytes of writing for each byte as it is
//!   larger than the one above. So there should be few, which is to say that the first should be
//!   large: as large as L0, since a cut that takes a slice out of all of L0 then meets about as
//!   much as it brings. The ratio of the levels stays.
//! * *L0.* Plain tables are only worth a few memtables, since a cut out of them meets much, and
//!   each of them is one more place to look. A container on persistent memory may be as large as a
//!   level. In a file on the disk of the data it slows writers down instead, so without persistent
//!   memory none is planned.
//! * *Memory.* What is written needs a fixed share, the filters what the entries ask for, and the
//!   cache has half of the rest.
//!
//! *Source:* TriangleKV (TPDS 2022), §3.3, where L0 and L1 have a tenth of the data each.

mod cost;
mod tiers;

use std::fmt;

use terrace_base::{LEVEL_MAX, LevelNo};
use terrace_engine::Error;
use terrace_engine::compaction::levels::{LevelShape, LevelTargets};

pub use cost::PlannedCost;
pub use tiers::{
    ComparedTier, MeasuredTier, ObservedTier, PlannedTier, PresentTier, RejectedTier, StoreReading,
    TierDollars, TierGoals, TierLoss, TierNeeds, TierPlan, TierReading, TierRequests,
};

use crate::keyspace::OperatorTable;
use crate::{L0Options, Layout, Options, Result};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Four memtables at most exist at a time: together they may take an eighth of the memory.
const MEMTABLE_SHARE: u64 = 32;
/// Larger memtables make nothing faster but a start after a crash slower.
const MEMTABLE_BYTES_MAX: u64 = 256 * MIB;
const MEMTABLE_BYTES_MIN: u64 = MIB;
/// Number of rows that a container should have room for: with few of them one flush fills much of
/// it.
const ROWS_MIN: u64 = 16;
/// L0 need not hold more of the data than one part in this number.
const L0_SHARE: u64 = 10;
/// What a row keeps for each entry beside key and value, about.
const ENTRY_BYTES: u64 = 32;
/// A key, about, with what stands before it.
const KEY_BYTES: u64 = 24;
const MEMORY_BYTES_MIN: u64 = 64 * MIB;

/// What a database will hold, and what there is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Needs {
    /// Bytes of all keys and values that are alive at a time.
    pub data_bytes: u64,
    /// Bytes of memory that the process may take, at least 64 MiB.
    pub memory_bytes: u64,
    /// Bytes of persistent memory, or of memory that stands in for it; 0 for none.
    pub pmem_bytes: u64,
    /// The length of a value, about.
    pub value_bytes: u64,
}

/// A level below L0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PlannedLevel {
    /// Its number.
    pub level: u8,
    /// About how many bytes it will hold.
    pub bytes: u64,
}

/// Why something was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Reason {
    /// What: the name of an option, or `depth`.
    pub of: &'static str,
    /// The reason.
    pub why: String,
}

/// Sizes for a database.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Plan {
    /// What they are for.
    pub needs: Needs,
    /// For [`Options::memory_bytes`].
    pub memory_bytes: u64,
    /// For [`Options::cache_bytes`].
    pub cache_bytes: u64,
    /// For [`Options::memtable_bytes`].
    pub memtable_bytes: u64,
    /// For [`Layout::l0`]. The path of a container has to be added: it belongs on the persistent
    /// memory.
    pub l0: L0Options,
    /// What [`Layout::level_bytes_base`] comes to.
    pub level_bytes_base: u64,
    /// The levels that the tree will have below L0, from the top.
    pub levels: Vec<PlannedLevel>,
    /// A reason for each choice.
    pub reasons: Vec<Reason>,
    /// What it comes to.
    pub cost: PlannedCost,
}

impl Plan {
    /// Chooses sizes. Errors: `Invalid` for needs that no sizes meet.
    pub fn for_needs(needs: &Needs) -> Result<Plan> {
        if needs.data_bytes == 0 {
            return Err(Error::invalid("there is no data to plan for").into());
        }
        if needs.memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::invalid("memory must be at least 64 MiB").into());
        }
        let mut reasons = Vec::new();
        let mut because = |of, why: String| reasons.push(Reason { of, why });
        let l0 = l0_of(needs, &mut because);
        let memtable_bytes = memtable_of(needs, &l0, &mut because);
        let cache_bytes = cache_of(needs, memtable_bytes, &mut because);
        let mut plan = Plan {
            needs: *needs,
            memory_bytes: needs.memory_bytes,
            cache_bytes,
            memtable_bytes,
            l0,
            level_bytes_base: 0,
            levels: Vec::new(),
            reasons: Vec::new(),
            cost: PlannedCost::default(),
        };
        plan.choose_levels(&mut because);
        plan.reasons = reasons;
        let engine = plan.options().engine(&OperatorTable::default());
        plan.cost = PlannedCost::of(&plan.levels, &plan.l0, &engine);
        plan.options().validate()?;
        Ok(plan)
    }

    /// The options of the plan; where L0's container is has to be added, and what it does not speak
    /// of.
    #[must_use]
    pub fn options(&self) -> Options {
        Options::default()
            .memory_bytes(self.memory_bytes)
            .cache_bytes(self.cache_bytes)
            .memtable_bytes(self.memtable_bytes)
            .layout(Layout::new().l0(self.l0.clone()))
    }

    /// The first level and those that follow from it.
    fn choose_levels(&mut self, because: &mut impl FnMut(&'static str, String)) {
        let engine = self.options().engine(&OperatorTable::default());
        let shape = LevelShape::of(&engine);
        self.level_bytes_base = shape.level_bytes_base;
        self.levels = levels_of(self.needs.data_bytes, &shape);
        let ratio = shape.level_ratio;
        because(
            "level_bytes_base",
            match self.l0.has_container() {
                true => "as wide as L0: a cut meets about as much as it brings".to_owned(),
                false => "about what the rows of L0 bring when they are cut".to_owned(),
            },
        );
        let narrow = Options::default().memtable_bytes(self.memtable_bytes);
        let narrow = LevelShape::of(&narrow.engine(&OperatorTable::default()));
        let narrow = levels_of(self.needs.data_bytes, &narrow).len();
        let mut why = format!("each level is {ratio} times the one above, counted from the last");
        if narrow > self.levels.len() {
            why += &format!("; over plain tables as L0 there would be {narrow}");
        }
        because("depth", why);
    }
}

/// The levels of a tree of this shape that holds so much.
fn levels_of(data_bytes: u64, shape: &LevelShape) -> Vec<PlannedLevel> {
    let mut held = [0; LEVEL_MAX.0 as usize];
    held[held.len() - 1] = data_bytes;
    let targets = LevelTargets::new(held, shape);
    let levels = targets.base().0..=LEVEL_MAX.0;
    let bytes = |level: u8| match level == LEVEL_MAX.0 {
        true => data_bytes,
        false => targets.bytes_max(LevelNo(level)),
    };
    levels.map(|level| PlannedLevel { level, bytes: bytes(level) }).collect()
}

fn l0_of(needs: &Needs, because: &mut impl FnMut(&'static str, String)) -> L0Options {
    let room = whole(needs.pmem_bytes, MIB);
    if needs.pmem_bytes == 0 {
        because("l0", "tables in files, which suit ordinary disks".to_owned());
        return L0Options::PLAIN;
    }
    if room < ROWS_MIN * MEMTABLE_BYTES_MIN {
        let why = format!("{} is too little for {ROWS_MIN} rows", size(needs.pmem_bytes));
        because(
            "l0",
            format!(
                "{why}, and on the disk of the data a container is slower than tables in files"
            ),
        );
        return L0Options::PLAIN;
    }
    because("l0", "cuts of bounded size: writers do not wait for L0".to_owned());
    let enough = whole(needs.data_bytes / L0_SHARE, MIB).max(ROWS_MIN * MEMTABLE_BYTES_MIN);
    let entry = KEY_BYTES + needs.value_bytes;
    let kept = entry * 100 / (entry + ENTRY_BYTES);
    let (bytes, mut why) = match room <= enough {
        true => (room, "all of the persistent memory".to_owned()),
        false => (enough, format!("one part in {L0_SHARE} of the data: more makes no level less")),
    };
    if kept < 90 {
        why += &format!("; with values this small about {kept} % of it are keys and values");
    }
    because("l0_bytes", why);
    because(
        "l0_path",
        "a directory on the persistent memory: on the disk of the data a container is slower than tables \
         in files"
            .to_owned(),
    );
    L0Options::Container { bytes, path: None }
}

fn memtable_of(
    needs: &Needs,
    l0: &L0Options,
    because: &mut impl FnMut(&'static str, String),
) -> u64 {
    let by_memory = needs.memory_bytes / MEMTABLE_SHARE;
    let by_rows = match l0 {
        L0Options::Container { bytes, .. } => bytes / ROWS_MIN,
        L0Options::Plain { .. } => u64::MAX,
    };
    let least = by_memory.min(by_rows).min(MEMTABLE_BYTES_MAX);
    let why = match least {
        least if least == MEMTABLE_BYTES_MAX => {
            "larger ones only make a start after a crash longer".to_owned()
        }
        least if least == by_rows => format!("so that L0 holds {ROWS_MIN} rows at least"),
        _ => {
            "four of them, as many as there are at a time, take an eighth of the memory".to_owned()
        }
    };
    because("memtable_bytes", why);
    // A power of two at most as large.
    1 << least.max(MEMTABLE_BYTES_MIN).ilog2()
}

fn cache_of(
    needs: &Needs,
    memtable_bytes: u64,
    because: &mut impl FnMut(&'static str, String),
) -> u64 {
    let bits =
        u64::from(Options::default().engine(&OperatorTable::default()).table.filter_bits_per_key);
    let entries = needs.data_bytes / (KEY_BYTES + needs.value_bytes);
    let filters = entries.saturating_mul(bits) / 8;
    let left = needs.memory_bytes.saturating_sub(4 * memtable_bytes).saturating_sub(filters);
    let bytes = whole(left / 2, MIB).max(MIB);
    let mut why = format!(
        "half of what memtables and the filters of {entries} entries ({}) leave; the other half is for \
         the kernel's pages and requests",
        size(whole(filters, MIB).max(MIB))
    );
    if filters > needs.memory_bytes / 2 {
        why += ". The filters take more than half: reads would gain most by more memory";
    }
    because("cache_bytes", why);
    bytes
}

/// Down to a multiple of `unit`.
fn whole(bytes: u64, unit: u64) -> u64 {
    bytes / unit * unit
}

/// A size as a command line takes it.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(GIB) => format!("{}G", bytes / GIB),
        bytes if bytes > 0 && bytes.is_multiple_of(MIB) => format!("{}M", bytes / MIB),
        bytes if bytes > 0 && bytes.is_multiple_of(1024) => format!("{}K", bytes / 1024),
        bytes => bytes.to_string(),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Needs { data_bytes, memory_bytes, pmem_bytes, value_bytes } = self.needs;
        write!(f, "for {} of data in values of {value_bytes} bytes", size(data_bytes))?;
        write!(f, ", {} of memory", size(memory_bytes))?;
        match pmem_bytes {
            0 => writeln!(f)?,
            bytes => writeln!(f, " and {} of persistent memory", size(bytes))?,
        }
        let (form, l0_bytes) = match self.l0 {
            L0Options::Plain { .. } => ("plain", String::new()),
            L0Options::Container { bytes, .. } => ("container", size(bytes)),
        };
        let depth = format!("{} below L0", self.levels.len());
        for Reason { of, why } in &self.reasons {
            let value = match *of {
                "l0" => form.to_owned(),
                "l0_bytes" => l0_bytes.clone(),
                "l0_path" => "DIR".to_owned(),
                "memtable_bytes" => size(self.memtable_bytes),
                "cache_bytes" => size(self.cache_bytes),
                "level_bytes_base" => size(self.level_bytes_base),
                _ => depth.clone(),
            };
            writeln!(f, "  {of:<16} {value:<10} {why}")?;
        }
        for PlannedLevel { level, bytes } in &self.levels {
            writeln!(f, "    L{level}  {:.1} GiB", *bytes as f64 / GIB as f64)?;
        }
        writeln!(f, "it costs, about:")?;
        self.cost.fmt(f)?;
        write!(f, "options: --memory-bytes {}", size(self.memory_bytes))?;
        write!(f, " --cache-bytes {}", size(self.cache_bytes))?;
        write!(f, " --memtable-bytes {}", size(self.memtable_bytes))?;
        write!(f, " --l0 {form}")?;
        if self.l0.has_container() {
            write!(f, " --l0-bytes {l0_bytes} --l0-path DIR")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is planned is valid, fits what there is, and grows with it.

    use super::*;

    fn plan(data: u64, memory: u64, pmem: u64, value_bytes: u64) -> Plan {
        let needs = Needs { data_bytes: data, memory_bytes: memory, pmem_bytes: pmem, value_bytes };
        Plan::for_needs(&needs).expect("needs that can be met")
    }

    /// The proportions of TriangleKV's evaluation.
    #[test]
    fn a_tenth_of_the_data_on_persistent_memory_makes_a_tree_of_two_levels() {
        let wide = plan(80 * GIB, 32 * GIB, 8 * GIB, 4096);
        assert_eq!(wide.l0, L0Options::Container { bytes: 8 * GIB, path: None });
        assert_eq!(wide.level_bytes_base, 8 * GIB, "L1 is as wide as L0");
        assert_eq!(wide.memtable_bytes, 256 * MIB);
        assert_eq!(wide.levels.len(), 2, "{wide}");
        assert_eq!(wide.levels[1], PlannedLevel { level: 6, bytes: 80 * GIB });
        assert_eq!(wide.levels[0], PlannedLevel { level: 5, bytes: 8 * GIB });
        let narrow = plan(80 * GIB, 2 * GIB, 0, 4096);
        assert_eq!(narrow.l0, L0Options::PLAIN);
        assert_eq!((narrow.memtable_bytes, narrow.level_bytes_base), (64 * MIB, 256 * MIB));
        assert_eq!(narrow.levels.len(), 3, "{narrow}");
    }

    #[test]
    fn a_plan_is_drawn() {
        let drawn = "\
for 80G of data in values of 100 bytes, 4G of memory and 1G of persistent memory
  l0               container  cuts of bounded size: writers do not wait for L0
  l0_bytes         1G         all of the persistent memory; with values this small about 79 % of it are keys and values
  l0_path          DIR        a directory on the persistent memory: on the disk of the data a container is slower than tables in files
  memtable_bytes   64M        so that L0 holds 16 rows at least
";
        let text = plan(80 * GIB, 4 * GIB, GIB, 100).to_string();
        assert!(text.starts_with(drawn), "{text}");
        let ends = " --memtable-bytes 64M --l0 container --l0-bytes 1G --l0-path DIR";
        assert!(text.ends_with(ends), "{text}");
    }

    #[test]
    fn without_persistent_memory_no_container_is_planned_and_the_plan_says_why() {
        for pmem in [0, MIB] {
            let plan = plan(80 * GIB, 4 * GIB, pmem, 4096);
            assert_eq!(plan.l0, L0Options::PLAIN);
            let text = plan.to_string();
            let speaks_of_it = text.contains("a container is slower than tables in files");
            assert_eq!(speaks_of_it, pmem > 0, "only to who has some: {text}");
            assert_eq!(text.contains("persistent memory"), pmem > 0, "{text}");
            assert!(text.ends_with(" --l0 plain"), "{text}");
        }
    }

    #[test]
    fn a_plan_says_what_it_costs() {
        let (small, large) = (plan(GIB, GIB, 0, 256).cost, plan(80 * GIB, GIB, 0, 256).cost);
        assert!(small.disk_bytes > GIB && small.disk_bytes < 4 * GIB, "{small:?}");
        assert!(large.disk_bytes > 80 * GIB && large.disk_bytes < 120 * GIB, "{large:?}");
        assert!(large.write_amplification > small.write_amplification + 4.0, "a level more");
        assert!((5.0..25.0).contains(&large.write_amplification), "{large:?}");
        assert!(large.file_count > 80 * 32 && small.replay_s > 0, "{large:?} {small:?}");
        // A wide L0 saves writing, and larger memtables cost a start time.
        let wide = plan(80 * GIB, GIB, 8 * GIB, 256).cost;
        assert!(wide.write_amplification < large.write_amplification, "{wide:?} {large:?}");
        let memory = plan(80 * GIB, 16 * GIB, 0, 256).cost;
        assert!(memory.replay_s > large.replay_s, "{memory:?} {large:?}");
    }

    #[test]
    fn plans_fit_what_there_is() {
        let sizes = [1, MIB, 100 * MIB, 3 * GIB + 7, 80 * GIB, 5000 * GIB];
        for data in sizes {
            for memory in [64 * MIB, 100 * MIB + 1, GIB, 16 * GIB, 512 * GIB] {
                let mut depth = usize::MAX;
                for pmem in [0, 1, 15 * MIB, 16 * MIB, 900 * MIB, 8 * GIB, 3000 * GIB] {
                    for value_bytes in [0, 100, 4096, 1 << 20] {
                        let plan = plan(data, memory, pmem, value_bytes);
                        let name = format!("{:?}", plan.needs);
                        let memtables = 4 * plan.memtable_bytes;
                        assert!(plan.cache_bytes + memtables <= memory, "{name}: {plan}");
                        let l0_bytes = match plan.l0 {
                            L0Options::Plain { .. } => 0,
                            L0Options::Container { bytes, .. } => bytes,
                        };
                        assert!(l0_bytes <= pmem, "{name}: {plan}");
                        let has_container = plan.l0.has_container();
                        assert_eq!(has_container, pmem >= 16 * MIB, "{name}: {plan}");
                        assert!(
                            !has_container || l0_bytes >= 16 * plan.memtable_bytes,
                            "{name}: {plan}"
                        );
                        assert!(!plan.levels.is_empty(), "{name}");
                        if value_bytes == 4096 && has_container {
                            assert!(plan.levels.len() <= depth, "{name}: more memory, more depth");
                            depth = plan.levels.len();
                        }
                        let named: Vec<_> = plan.reasons.iter().map(|reason| reason.of).collect();
                        let l0 = if has_container { &["l0_bytes", "l0_path"][..] } else { &[] };
                        let rest = ["memtable_bytes", "cache_bytes", "level_bytes_base", "depth"];
                        assert_eq!(named, [&["l0"][..], l0, &rest].concat(), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn needs_that_cannot_be_met_are_refused() {
        let needs = Needs { data_bytes: 0, memory_bytes: GIB, pmem_bytes: 0, value_bytes: 100 };
        assert!(Plan::for_needs(&needs).is_err());
        let needs = Needs { data_bytes: GIB, memory_bytes: MIB, ..needs };
        assert!(Plan::for_needs(&needs).is_err());
    }

    #[test]
    fn sizes_are_those_of_a_command_line() {
        let sizes = [0, 7, 3 << 10, 5 * MIB, 1536 * MIB, 2 * GIB];
        assert_eq!(sizes.map(size), ["0", "7", "3K", "5M", "1536M", "2G"]);
    }
}
