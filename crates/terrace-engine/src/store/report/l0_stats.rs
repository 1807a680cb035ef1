//! What is in L0, drawn: what is left of its rows, and what goes next.

use std::fmt;
use std::sync::Arc;

use terrace_base::{KeyRange, LevelNo};

use crate::Result;
use crate::compaction::pick::{self, Compaction};
use crate::explain::text::{Key, bytes, count};
use crate::l0::{Fill, LiveTable, Row};
use crate::store::report::cut_stats::CutStats;
use crate::store::report::l0_picture::{cells, divide, slices_from};
use crate::store::{Inner, Store};
use crate::table::ReadMode;
use crate::version::{OpenTable, Table, Version};

/// Key slices of a picture, at most.
const SLICES_MAX: usize = 48;
/// What is said of a container that slows writers down.
pub(in crate::store) const ON_DATA_DISK: &str =
    "L0's container is a file on the disk of the data: plain tables would be faster there";
/// Rows that a text shows, at most.
const ROWS_SHOWN: usize = 64;

/// What L0 is, what is in it, and what cuts took out of it since the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct L0Stats {
    /// What it is: `plain`, `container`, or the name of a baseline.
    pub kind: &'static str,
    /// How many rows it has.
    pub rows: u64,
    /// About how many bytes are live in them.
    pub bytes: u64,
    /// Whether its container is a file on the disk of the data, where plain tables are faster.
    pub container_is_on_data_disk: bool,
    /// Number of pages of its container that are free.
    pub pages_free: u64,
    /// Number of pages of its container; 0 if it has none.
    pub pages_total: u64,
    /// Cuts since the open.
    pub cuts: u64,
    /// Bytes read for the smallest cut, out of L0 and of what it met below.
    pub cut_bytes_min: u64,
    /// Bytes read for a cut of median size.
    pub cut_bytes_median: u64,
    /// Bytes read for the largest cut.
    pub cut_bytes_max: u64,
}

/// Where rows lie that are not files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ContainerStats {
    /// Its file.
    pub path: String,
    /// What the file lies on: `persistent` memory, memory that stands in for it (`emulated`), an
    /// ordinary `file`, or `simulated`.
    pub medium: &'static str,
    /// Whether it is a file on the disk of the data, where plain tables are faster.
    pub is_on_data_disk: bool,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Number of its pages, without the one that holds its header.
    pub pages_total: u64,
    /// Number of its pages that are free.
    pub pages_free: u64,
}

/// Where memtables are that lie on a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemtableAreaStats {
    /// What it is, as for a container.
    pub medium: &'static str,
    /// Bytes of one memtable there.
    pub memtable_bytes: u64,
    /// How many since the open found no room there, since others were read still, and are in
    /// ordinary memory.
    pub elsewhere_count: u64,
}

/// A slice of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct L0Slice {
    /// Its first key; it ends where the next one begins.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped"))]
    pub start: Vec<u8>,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct L0RowStats {
    /// Its id: a greater one is newer.
    pub id: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// About how many of them are live.
    pub live_bytes: u64,
    /// Number of tables that it consists of.
    pub table_count: u64,
    /// Number of its tables that lie in pages of the container.
    pub page_table_count: u64,
    /// Of each slice the share that is live of what was written there, from 0 to 1; nothing where
    /// nothing was written.
    pub cells: Vec<Option<f64>>,
}

/// The cut that would come next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NextCut {
    /// Its first key.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped"))]
    pub start: Vec<u8>,
    /// The first key behind it, if there is one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped_bound"))]
    pub end: Option<Vec<u8>>,
    /// Number of rows that it takes something of.
    pub row_count: u64,
    /// Bytes that it takes out of L0, about.
    pub l0_bytes: u64,
    /// The level that it writes to.
    pub level: u8,
    /// Bytes that it meets in that level, about.
    pub below_bytes: u64,
    /// Whether it is due.
    pub is_due: bool,
    /// Index of the first slice that it has a key of.
    pub first_slice: usize,
    /// Number of slices that it has a key of.
    pub slice_count: usize,
}

/// L0, drawn. `Display` shows it to people, `Serialize` to programs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct L0Report {
    /// What it is: `plain`, `container`, or the name of a baseline.
    pub kind: &'static str,
    /// What the next four figures count: `bytes`, or `rows` that share a key.
    pub unit: &'static str,
    /// How much of what may be there is there.
    pub used: u64,
    /// The fill from which on cuts are due.
    pub start: u64,
    /// The fill above which writers are slowed down.
    pub slow: u64,
    /// The fill from which on writers wait.
    pub stop: u64,
    /// About how many bytes are live.
    pub live_bytes: u64,
    /// Its container, if it has one.
    pub container: Option<ContainerStats>,
    /// Its memtables, if they lie on the medium.
    pub memtables: Option<MemtableAreaStats>,
    /// The cuts since the open.
    pub cuts: CutStats,
    /// The slices that the rows are drawn by, ascending.
    pub slices: Vec<L0Slice>,
    /// The rows, newest first.
    pub rows: Vec<L0RowStats>,
    /// The cut that would come next if no job ran.
    pub next_cut: Option<NextCut>,
}

impl Store {
    /// What is in L0: how much is left of each row, what the next cut is, and what those before it
    /// read. Tables of L0 that are not open yet are opened, so it may wait for the disk.
    ///
    /// Cost: some searches in a table's index for each row and slice. Errors: what opening a table
    /// gives.
    pub fn l0(&self) -> Result<L0Report> {
        self.inner.check_open()?;
        let version = self.inner.versions.current();
        for live in version.l0().live() {
            live.table.reader(ReadMode::BLOCK)?;
        }
        Ok(self.inner.l0_report(&version))
    }
}

impl Inner {
    /// L0 in figures. Cheap: opens nothing.
    pub(in crate::store) fn l0_stats(&self, version: &Version) -> L0Stats {
        let cuts = self.meters.counters.cut_stats();
        let pages = self.context.opener.container.pages();
        L0Stats {
            kind: self.options.l0_kind().name(),
            rows: version.l0().rows().len() as u64,
            bytes: version.l0().live().iter().map(LiveTable::bytes).sum(),
            container_is_on_data_disk: self.meters.recovery.container_is_on_data_disk,
            pages_free: pages.as_ref().map_or(0, |pages| pages.free_pages() as u64),
            pages_total: pages.map_or(0, |pages| pages.total_pages() as u64),
            cuts: cuts.count,
            cut_bytes_min: cuts.bytes_min,
            cut_bytes_median: cuts.bytes_median,
            cut_bytes_max: cuts.bytes_max,
        }
    }

    fn l0_report(&self, version: &Version) -> L0Report {
        let l0 = version.l0();
        let kind = self.options.l0_kind();
        let is_by_bytes = kind.has_container() || self.options.row_medium().is_some();
        let starts = divide(l0.tables(), SLICES_MAX);
        let slices = slices_from(&starts);
        let container = self.context.opener.container.pages().map(|pages| ContainerStats {
            path: pages.path().to_string_lossy().into_owned(),
            medium: pages.medium().name(),
            is_on_data_disk: self.meters.recovery.container_is_on_data_disk,
            page_bytes: pages.page_bytes() as u64,
            pages_total: pages.total_pages() as u64,
            pages_free: pages.free_pages() as u64,
        });
        let next_cut = pick::next_cut(version, &self.shape);
        let Fill { used, start, slow, stop } = l0.policy().fill();
        L0Report {
            kind: kind.name(),
            unit: if is_by_bytes { "bytes" } else { "rows" },
            used,
            start,
            slow,
            stop,
            live_bytes: l0.live().iter().map(LiveTable::bytes).sum(),
            container,
            memtables: self.spares.medium().map(|(medium, elsewhere_count)| MemtableAreaStats {
                medium: medium.name(),
                memtable_bytes: self.options.memtable_bytes as u64,
                elsewhere_count,
            }),
            cuts: self.meters.counters.cut_stats(),
            rows: l0.rows().iter().map(|row| row_stats(row, l0.live(), &slices)).collect(),
            slices: starts.into_iter().map(|start| L0Slice { start }).collect(),
            next_cut: next_cut.map(|(cut, is_due)| NextCut::new(&cut, is_due, l0.rows(), &slices)),
        }
    }
}

fn row_stats(row: &Row, live: &[LiveTable], slices: &[KeyRange]) -> L0RowStats {
    let is_in_pages = |table: &&Arc<Table>| matches!(table.open_table(), Some(OpenTable::Row(_)));
    let own = live.iter().filter(|one| one.row == row.meta.id);
    L0RowStats {
        id: row.meta.id.0,
        bytes: row.meta.bytes(),
        live_bytes: own.map(LiveTable::bytes).sum(),
        table_count: row.tables.len() as u64,
        page_table_count: row.tables.iter().filter(is_in_pages).count() as u64,
        cells: cells(row, live, slices),
    }
}

impl NextCut {
    fn new(cut: &Compaction, is_due: bool, rows: &[Arc<Row>], slices: &[KeyRange]) -> NextCut {
        let mut met = slices.iter().enumerate().filter(|(_, slice)| slice.overlaps(&cut.slice));
        let first_slice = met.next().map_or(0, |(index, _)| index);
        let gives = |table: &Arc<Table>| {
            let mut inputs = cut.inputs.iter();
            inputs.any(|input| input.level.0 == 0 && Arc::ptr_eq(&input.table, table))
        };
        NextCut {
            start: cut.slice.start().to_vec(),
            end: cut.slice.end().map(<[u8]>::to_vec),
            row_count: rows.iter().filter(|row| row.tables.iter().any(gives)).count() as u64,
            l0_bytes: cut.bytes_from(LevelNo(0)),
            level: cut.output_level.0,
            below_bytes: cut.bytes_from(cut.output_level),
            is_due,
            first_slice,
            slice_count: 1 + met.count(),
        }
    }
}

/// How a text shows a cell.
fn letter(cell: Option<f64>) -> char {
    match cell {
        None => ' ',
        Some(share) if share <= 0.0 => '.',
        Some(share) if share < 0.5 => '-',
        Some(share) if share < 1.0 => '+',
        Some(_) => '#',
    }
}

impl L0Report {
    /// An amount of what is counted.
    fn amount(&self, amount: u64) -> String {
        if self.unit == "bytes" { bytes(amount) } else { count(amount, "row", "rows") }
    }

    fn show_marks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = count(self.rows.len() as u64, "row", "rows");
        writeln!(f, "{}: {rows}, {} live", self.kind, bytes(self.live_bytes))?;
        let there = if self.unit == "bytes" { "there" } else { "share a key" };
        writeln!(
            f,
            "marks       {} {there}: cuts from {} on, writers slow above {}, wait at {}",
            self.amount(self.used),
            self.amount(self.start),
            self.amount(self.slow),
            self.amount(self.stop)
        )?;
        if let Some(container) = &self.container {
            let ContainerStats { medium, pages_total, pages_free, page_bytes, .. } = container;
            let used = pages_total - pages_free;
            writeln!(
                f,
                "container   {medium}, {} of {}: {used} used ({}), {pages_free} free ({})",
                count(*pages_total, "page", "pages"),
                bytes(*page_bytes),
                bytes(used * page_bytes),
                bytes(pages_free * page_bytes)
            )?;
            writeln!(f, "            {}", container.path)?;
            if container.is_on_data_disk {
                writeln!(f, "            {ON_DATA_DISK}")?;
            }
        }
        if let Some(area) = self.memtables {
            let MemtableAreaStats { medium, memtable_bytes, elsewhere_count } = area;
            write!(f, "memtables   {medium}, of {}", bytes(memtable_bytes))?;
            writeln!(f, "; {elsewhere_count} since the open in ordinary memory")?;
        }
        let CutStats { count, l0_bytes, below_bytes, bytes_min, bytes_median, bytes_max } =
            self.cuts;
        write!(f, "cuts        {count} since the open")?;
        if count > 0 {
            writeln!(f, ": {} of L0 and {} below", bytes(l0_bytes), bytes(below_bytes))?;
            write!(f, "            the least {}, ", bytes(bytes_min))?;
            write!(f, "median {}, greatest {}", bytes(bytes_median), bytes(bytes_max))?;
        }
        writeln!(f)
    }

    fn show_next_cut(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cut) = &self.next_cut else {
            return writeln!(f, "next cut    none: there is nothing");
        };
        write!(f, "next cut    from '{}' ", Key(&cut.start))?;
        match &cut.end {
            Some(end) => writeln!(f, "up to '{}'", Key(end))?,
            None => writeln!(f, "on")?,
        }
        writeln!(
            f,
            "            {} of {}, and {} of L{}; {}",
            bytes(cut.l0_bytes),
            count(cut.row_count, "row", "rows"),
            bytes(cut.below_bytes),
            cut.level,
            if cut.is_due { "due" } else { "not due yet" }
        )
    }

    fn show_rows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.slices.len();
        writeln!(f, "row        |{:width$}|       live    written  where", "")?;
        for row in self.rows.iter().take(ROWS_SHOWN) {
            let cells: String = row.cells.iter().map(|cell| letter(*cell)).collect();
            let place = match (row.page_table_count, row.table_count) {
                (0, 1) => "file".to_owned(),
                (0, files) => format!("{files} files"),
                (pages, all) if pages == all => "pages".to_owned(),
                (_, _) => "pages, file".to_owned(),
            };
            let (live, written) = (bytes(row.live_bytes), bytes(row.bytes));
            writeln!(f, "{:<10} |{cells}| {live:>10} {written:>10}  {place}", row.id)?;
        }
        if let Some(more) = self.rows.len().checked_sub(ROWS_SHOWN).filter(|more| *more > 0) {
            writeln!(f, "and {more} older ones")?;
        }
        if let Some(cut) = &self.next_cut {
            let before = " ".repeat(cut.first_slice);
            writeln!(f, "next cut    {before}{}", "^".repeat(cut.slice_count))?;
        }
        writeln!(f, "# live, + at least half, - less, . consumed; slices begin at")?;
        let shown = |part: usize| self.slices.len() * part / 4;
        let mut shown: Vec<usize> = (0..4).map(shown).collect();
        shown.dedup();
        for index in shown {
            let key = &self.slices[index].start;
            let first =
                if key.is_empty() { "(the first key)".into() } else { Key(key).to_string() };
            writeln!(f, "{index:>10}  {first}")?;
        }
        Ok(())
    }
}

impl fmt::Display for L0Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show_marks(f)?;
        self.show_next_cut(f)?;
        if self.rows.is_empty() { Ok(()) } else { self.show_rows(f) }
    }
}
