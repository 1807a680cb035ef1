//! Without a manifest: rows of L0 in pages, looked for in every page of the containers that there
//! are.
//!
//! A page that was given back keeps what it held until another row is written there. So what is
//! found may be more than what counted, as with tables; and where something else than a row's own
//! bytes is found, only what stands there now says whether that matters:
//!
//! ```text
//!   head     metadata   a page of data   comes to
//!   whole    whole      fits             entries for the merge
//!                       a newer row's    nothing: it was given back, so consumed
//!                       neither          a loss of its keys: consumed, or damaged
//!   whole    not whole                   a loss of the row's keys, or of all if no edit says which
//!   none     pages that are no row's     a loss of all keys, if they are enough for a row: given
//!                                        back, or a row whose head is damaged
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{EntryRef, KeyRange, SeqNo, TableUid, compare_internal};

use super::Repair;
use super::evidence::Evidence;
use super::report::{Loss, LossKind};
use super::salvage::{Losses, losses_of};
use crate::iter::Stream;
use crate::l0::Live;
use crate::l0::triangle::Pages;
use crate::l0::triangle::row::{RowLocation, RowReader, RowStream, SalvagedRow};
use crate::placement::ContainerPlace;
use crate::survey::Name;
use crate::{Error, Result};

/// A row has a head, and at least one page of metadata.
const ROW_PAGES_MIN: usize = 2;

/// A row in pages that is to be merged.
pub(super) struct FoundRow {
    /// Open, as far as it is there.
    pub row: Arc<RowReader>,
    /// Where it counts, if readable edits say that it is consumed elsewhere.
    pub parts: Option<Arc<[KeyRange]>>,
}

impl Repair<'_> {
    /// Every row of L0 in pages that may count.
    pub(super) fn find_rows(&mut self, evidence: &Evidence) -> Result<Vec<FoundRow>> {
        let mut rows = Vec::new();
        let mut uids = BTreeSet::new();
        for pages in self.open_containers(evidence)? {
            self.total_bytes += pages.total_pages() as u64 * pages.page_bytes() as u64;
            let salvaged = self.salvage_rows(&pages, evidence)?;
            uids.extend(salvaged.iter().map(|one| one.row.uid()));
            self.lose_unowned(&pages, &salvaged);
            let numbers = newest_numbers(&salvaged);
            for one in salvaged {
                rows.extend(self.judge_row(&pages, one, &numbers, evidence));
            }
        }
        self.lose_missing_rows(evidence, &uids);
        Ok(rows)
    }

    /// Opens what may be the range's container: where readable edits say, where the options say,
    /// and in the range's directory.
    fn open_containers(&mut self, evidence: &Evidence) -> Result<Vec<Arc<Pages>>> {
        let is_wanted = self.options.l0.has_container();
        let named = evidence.container.as_ref().map(|place| place.file(self.source));
        let mut paths: Vec<PathBuf> = named.iter().cloned().collect();
        if let Some(database) = evidence.database.filter(|_| is_wanted) {
            let medium = self.options.l0.path();
            let path = ContainerPlace::path_of(medium, database);
            let place = ContainerPlace { path, bytes: 0, page_bytes: 1 };
            paths.push(place.file(self.source));
        }
        for entry in self.env.fs().list(self.source)? {
            if !entry.is_dir && Name::parse(&entry.name) == Name::Container {
                paths.push(self.source.join(entry.name));
            }
        }
        let mut opened = Vec::new();
        // The manifest may call a file in the range's directory by another path to it.
        let mut done = BTreeSet::new();
        for path in paths {
            let name = path.file_name().map(ToOwned::to_owned);
            if done.contains(&name) {
                continue;
            }
            match Pages::open_any(self.env, &path) {
                Ok(pages) if evidence.database.is_some_and(|own| own != pages.database()) => {
                    let text = format!("{} belongs to another database", path.display());
                    self.report.notes.push(text);
                    continue;
                }
                Ok(pages) => opened.push(pages),
                Err(Error::Corruption(damage)) => {
                    self.lose_all(&path, damage.offset, &damage.detail);
                }
                Err(Error::Io(error)) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            }
            done.insert(name);
        }
        let is_found = |path: &PathBuf| done.contains(&path.file_name().map(ToOwned::to_owned));
        if !named.as_ref().is_none_or(is_found) || is_wanted && done.is_empty() {
            let path = named.unwrap_or_else(|| self.source.join("l0.rows"));
            let why = "the container of L0 is missing, but the manifest or the options name one";
            self.lose_all(&path, 0, why);
        }
        Ok(opened)
    }

    fn lose_all(&mut self, file: &Path, offset: u64, why: &str) {
        let losses = losses_of(&KeyRange::all(), None, file.to_path_buf(), offset, why);
        self.report.losses.extend(losses);
    }

    /// Opens every row whose head and metadata are whole.
    fn salvage_rows(
        &mut self,
        pages: &Arc<Pages>,
        evidence: &Evidence,
    ) -> Result<Vec<SalvagedRow>> {
        let heads = RowReader::find_heads(pages, &mut |bytes| self.advance(bytes))?;
        let mut salvaged = Vec::new();
        // A head is written last and so most often behind its row's data: what looks like a head,
        // but is part of another row's data, is that row's by then.
        for (RowLocation(number), uid) in heads.into_iter().rev() {
            if pages.claim(number).is_err() {
                continue;
            }
            match RowReader::salvage(pages, RowLocation(number)) {
                Ok(row) => salvaged.push(row),
                // One that edits know is missing then, and is judged as such.
                Err(Error::Corruption(_)) if evidence.row_in_pages(uid).is_some() => {}
                Err(Error::Corruption(damage)) => {
                    self.report.lost_table_count += 1;
                    let why = format!("{}: the row was given back, or is damaged", damage.detail);
                    self.lose_all(&damage.file, damage.offset, &why);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(salvaged)
    }

    /// Looks at the pages that are no row's.
    fn lose_unowned(&mut self, pages: &Arc<Pages>, salvaged: &[SalvagedRow]) {
        let listed = salvaged.iter().flat_map(|one| &one.unfit).map(|page| page.number);
        let listed: BTreeSet<u32> = listed.collect();
        let numbers = 1..=pages.total_pages() as u32;
        let unowned: Vec<u32> = numbers
            .filter(|number| {
                let page = pages.claim(*number);
                let holds = |page: &[u8]| page.iter().any(|&byte| byte != 0);
                page.is_ok_and(|page| listed.contains(number) || holds(&page))
            })
            .collect();
        // What is wrong with a single one that a row lists is told with that row.
        let [first, ..] = unowned[..] else { return };
        if unowned.len() < ROW_PAGES_MIN && listed.contains(&first) {
            return;
        }
        let why = format!(
            "{} pages hold something and are no row's: they were given back, or the head of their row is \
             damaged",
            unowned.len()
        );
        self.lose_all(pages.path(), pages.offset_of(first), &why);
    }

    /// Takes a row for the merge, unless edits say that nothing of it counts. Says what of it may
    /// be lost.
    fn judge_row(
        &mut self,
        pages: &Pages,
        salvaged: SalvagedRow,
        numbers: &BTreeMap<u32, SeqNo>,
        evidence: &Evidence,
    ) -> Option<FoundRow> {
        let SalvagedRow { row, unfit } = salvaged;
        let meta = evidence.row_in_pages(row.uid());
        let parts = match meta.map_or(Live::Everywhere, |meta| evidence.live(meta.id)) {
            _ if meta.is_some_and(|meta| evidence.removed.contains(&meta.id)) => return None,
            Live::Nowhere => return None,
            Live::Everywhere => None,
            Live::Within(parts) => Some(parts),
        };
        let everywhere = [KeyRange::all()];
        let mut is_whole = true;
        for page in unfit {
            let owner = numbers.get(&page.number);
            if owner.is_some_and(|newest| *newest > row.properties().greatest_seqno) {
                continue;
            }
            for part in parts.as_deref().unwrap_or(&everywhere) {
                let keys = part.intersection(&page.keys);
                if keys.is_empty() {
                    continue;
                }
                is_whole = false;
                let (file, offset) = (pages.path().to_path_buf(), pages.offset_of(page.number));
                let why =
                    "a page of a row is not what was written: it was given back, or is damaged";
                self.report.losses.extend(losses_of(&keys, meta, file, offset, why));
            }
        }
        match is_whole {
            true => self.report.whole_table_count += 1,
            false => self.report.rewritten_table_count += 1,
        }
        self.report.losses.push(Loss {
            kind: LossKind::MayReappear,
            keys: row.properties().bounds(),
            numbers: None,
            file: pages.path().to_path_buf(),
            offset: pages.offset_of(row.location().0),
            why: "without a manifest nobody knows whether the row still counted".into(),
        });
        Some(FoundRow { row, parts })
    }

    /// Rows that edits know and nothing removed, and that are not among those with these
    /// identities.
    fn lose_missing_rows(&mut self, evidence: &Evidence, found: &BTreeSet<TableUid>) {
        let in_source = || self.source.join("l0.rows");
        let file =
            evidence.container.as_ref().map_or_else(in_source, |place| place.file(self.source));
        for (id, meta) in &evidence.metas {
            if !meta.is_in_pages() || evidence.removed.contains(id) || found.contains(&meta.uid) {
                continue;
            }
            let (live, span) = (evidence.live(*id), meta.span());
            if live == Live::Nowhere {
                continue;
            }
            self.report.lost_table_count += 1;
            for part in live.parts(&span) {
                let why = "a row is missing, or its head or its metadata is damaged";
                let losses = losses_of(part, Some(meta), file.clone(), 0, why);
                self.report.losses.extend(losses);
            }
        }
    }
}

/// For each page that a row has, the greatest number of the row.
fn newest_numbers(salvaged: &[SalvagedRow]) -> BTreeMap<u32, SeqNo> {
    let of_row = |one: &SalvagedRow| {
        let newest = one.row.properties().greatest_seqno;
        one.row.page_numbers().map(|number| (number, newest)).collect::<Vec<_>>()
    };
    salvaged.iter().flat_map(of_row).collect()
}

/// Every entry of a row that is there, in internal order. Behind one that cannot be read nothing of
/// the row is trusted, and that is noted as lost.
pub(super) struct FoundRowStream {
    row: Arc<RowReader>,
    stream: Option<RowStream>,
    /// The entry before.
    last: Option<(Vec<u8>, SeqNo)>,
    losses: Losses,
}

impl FoundRowStream {
    /// Stands on the first entry that is there.
    pub fn new(row: Arc<RowReader>, losses: Losses) -> Result<FoundRowStream> {
        let stream = row.stream(&KeyRange::all());
        let mut found = FoundRowStream { row, stream: None, last: None, losses };
        match stream {
            Ok(stream) => found.stream = Some(stream),
            Err(error) => found.lose_rest(error)?,
        }
        Ok(found)
    }

    /// Ends here. Errors: those that are no damage.
    fn lose_rest(&mut self, error: Error) -> Result<()> {
        let Error::Corruption(damage) = error else { return Err(error) };
        self.stream = None;
        let start = self.last.as_ref().map_or_else(Vec::new, |(key, _)| key.clone());
        let keys = KeyRange::new(start, None).intersection(&self.row.properties().bounds());
        let losses = losses_of(&keys, None, damage.file, damage.offset, &damage.detail);
        self.losses.lock().extend(losses);
        Ok(())
    }
}

impl Stream for FoundRowStream {
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.stream.as_ref()?.entry()
    }

    fn advance(&mut self) -> Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let Some(entry) = stream.entry() else { return Ok(()) };
        let (key, seqno) = self.last.get_or_insert_default();
        key.clear();
        key.extend_from_slice(entry.key);
        *seqno = entry.seqno;
        let is_behind =
            |entry: EntryRef<'_>| compare_internal(key, *seqno, entry.key, entry.seqno).is_lt();
        match stream.advance() {
            Ok(()) if stream.entry().is_none_or(is_behind) => Ok(()),
            Ok(()) => self.lose_rest(self.row.damaged_metadata("entries out of order")),
            Err(error) => self.lose_rest(error),
        }
    }
}
