use terrace_base::{CodecError, Corruption, EntryRef, SeqNo, compare_internal, hint_of};
use xxhash_rust::xxh3::Xxh3;

use super::format::{Head, METADATA_PLACE, decode_list_page, page_checksum};
use super::reader::{LoadedEntry, RowReader};
use crate::table::format::FormatError;
use crate::table::{TableProperties, VerifyReport, filter_hash};
use crate::{Error, Result};

impl RowReader {
    /// Checks everything that is there: every checksum, once more; the order of the entries, and
    /// that elements, fences, filter and marks are those of the entries; and, if no page is gone,
    /// that the properties are, and the hash, if one is given.
    ///
    /// Cost: reads and decodes the whole row. Errors: [`Error::Corruption`], the first damage
    /// found.
    pub fn verify(&self, expected_hash: Option<u128>) -> Result<VerifyReport> {
        self.verify_head()?;
        let mut hash = Xxh3::new();
        let mut data_bytes = self.head.data_bytes;
        let mut is_whole = true;
        for ordinal in 0..self.fences.page_count() {
            let used = data_bytes.min(self.page_bytes() as u64);
            data_bytes -= used;
            if !self.recheck_page(ordinal)? {
                is_whole = false;
                continue;
            }
            self.with_page(ordinal, |page| {
                let (used, unused) = page.split_at(used as usize);
                hash.update(used);
                unused.iter().all(|&byte| byte == 0)
            })?;
        }
        self.verify_metadata(&mut hash)?;
        let entry_count = self.verify_entries(is_whole)?;
        let hash = hash.digest128();
        if let Some(expected) = expected_hash.filter(|_| is_whole)
            && expected != hash
        {
            let detail = format!("the hash of the row is {hash:032x}, not {expected:032x}");
            let offset = self.pages.offset_of(self.location().0);
            return Err(Corruption::new(self.pages.path(), offset, detail).into());
        }
        let (bytes, block_count) = (self.held_bytes(), self.fences.page_count() as u64);
        Ok(VerifyReport { bytes, block_count, entry_count, hash })
    }

    /// Runs `check` on a page of data, if it is not gone; it says whether what is not used is zero.
    fn with_page(&self, ordinal: usize, check: impl FnOnce(&[u8]) -> bool) -> Result<()> {
        if self.page(ordinal)?.is_none_or(|page| check(&page)) {
            return Ok(());
        }
        let offset = self.pages.offset_of(self.listed_data(ordinal).number);
        Err(Corruption::new(self.pages.path(), offset, "the end of a page is not zero").into())
    }

    fn verify_head(&self) -> Result<()> {
        let pages_max = self.pages.total_pages() as u64;
        let damaged = |index: usize, error: &CodecError| {
            let offset = self.pages.offset_of(self.head_pages[index].number());
            Error::from(Corruption::from_codec(self.pages.path(), offset, error))
        };
        let (head, list, mut next) =
            Head::decode(&self.head_pages[0], pages_max).map_err(|error| match error {
                FormatError::Damaged(error) => damaged(0, &error),
                FormatError::Unsupported(text) => Error::Unsupported(text),
            })?;
        let mut listed = list.len();
        let mut fits = head == self.head && self.is_listed(0, &list);
        for (index, page) in self.head_pages.iter().enumerate().skip(1) {
            fits &= next == page.number();
            let missing = self.listed_count() - listed;
            let (more, after) = decode_list_page(page, head.uid, index, missing)
                .map_err(|error| damaged(index, &error))?;
            fits &= self.is_listed(listed, &more);
            listed += more.len();
            next = after;
        }
        if fits && next == 0 {
            return Ok(());
        }
        Err(damaged(0, &CodecError { offset: 0, what: "the head is another than it was" }))
    }

    fn verify_metadata(&self, hash: &mut Xxh3) -> Result<()> {
        let mut metadata_bytes = self.head.metadata_bytes;
        for (ordinal, page) in self.metadata.iter().enumerate() {
            let place = METADATA_PLACE + ((ordinal as u64) << self.shift);
            let used = metadata_bytes.min(page.len() as u64);
            metadata_bytes -= used;
            let (used, unused) = page.split_at(used as usize);
            hash.update(used);
            if page_checksum(self.uid(), place, page) != self.listed(ordinal).checksum
                || unused.iter().any(|&byte| byte != 0)
            {
                let offset = self.pages.offset_of(page.number());
                let detail = format!("page {ordinal} of a row's metadata is not what was written");
                return Err(Corruption::new(self.pages.path(), offset, detail).into());
            }
        }
        Ok(())
    }

    /// Returns how many entries are there.
    fn verify_entries(&self, is_whole: bool) -> Result<u64> {
        let mut check = Check::default();
        let mut loaded = LoadedEntry::default();
        let mut index = 0;
        while index < self.len() {
            if let Err(gone) = self.load(index, &mut loaded)? {
                index = self.after_gone(gone);
                check.is_behind_gap = true;
                continue;
            }
            let entry = loaded.entry.entry(loaded.bytes());
            let damaged = |what| self.damaged_entry(index, &CodecError { offset: 0, what });
            check.entry(entry, loaded.entry.same_key).map_err(damaged)?;
            if !self.may_contain(filter_hash(entry.key)) {
                return Err(damaged("the filter denies a key of the row"));
            }
            let suffix = entry.key.strip_prefix(&*self.prefix);
            if suffix.map(hint_of) != Some(self.element(index).bytes.to_be_bytes()) {
                return Err(damaged("an element has other bytes than its entry's key"));
            }
            let page = (self.place(index).start >> self.shift) as usize;
            if entry.key < self.fences.of(page) || entry.key > self.fences.of(page + 1) {
                return Err(damaged("a key is not between its page's fences"));
            }
            index += 1;
        }
        let entry_count = check.found.entry_count;
        if is_whole && !check.fits_what_is_stored(self) {
            let what = "the properties are not those of the entries";
            return Err(self.damaged_metadata(what));
        }
        Ok(entry_count)
    }
}

/// What has been seen of a row so far.
#[derive(Default)]
struct Check {
    found: TableProperties,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
    /// Whether the entry before is gone.
    is_behind_gap: bool,
}

impl Check {
    fn entry(
        &mut self,
        entry: EntryRef<'_>,
        same_key: bool,
    ) -> std::result::Result<(), &'static str> {
        let is_first = self.found.entry_count == 0;
        let order = compare_internal(&self.last_key, self.last_seqno, entry.key, entry.seqno);
        if !is_first && order.is_ge() {
            return Err("entries out of order");
        }
        let is_new_key = is_first || self.last_key != entry.key;
        if same_key == is_new_key && !self.is_behind_gap {
            return Err("an entry is wrongly marked as having the same key as the one before");
        }
        if is_new_key {
            if is_first {
                self.found.smallest = entry.key.to_vec();
            }
            self.found.key_count += 1;
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.is_behind_gap = false;
        self.last_seqno = entry.seqno;
        self.found.count(entry);
        Ok(())
    }

    /// Whether the properties of the row are those of its entries and range tombstones.
    fn fits_what_is_stored(mut self, row: &RowReader) -> bool {
        let mut has_bounds = self.found.entry_count > 0;
        self.found.largest.clone_from(&self.last_key);
        for tombstone in row.range_tombstones().iter() {
            self.found.count_range_tombstone_bounds(tombstone.start, tombstone.end, has_bounds);
            self.found.count_seqno(tombstone.seqno);
            self.found.range_tombstone_count += 1;
            has_bounds = true;
        }
        let stored = row.properties();
        // What the entries do not say is taken as it stands.
        self.found.created = stored.created;
        self.found.block_count = row.fences.page_count() as u64;
        self.found.data_bytes = row.head.data_bytes;
        self.found == *stored
    }
}
