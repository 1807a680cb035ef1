//! Pages of the container: given out, and taken back when nobody holds them any more.

use std::fmt;
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Corruption, PreambleError};
use terrace_env::{Latch, Pmem, PmemMedium, PmemSpan, SharedEnv};

use super::header::{HEADER_BYTES, Header, PAGE_BYTES_MIN};
use crate::{Error, Result};

/// The pages of one container: a file of persistent memory, or one that stands in for it.
///
/// Which pages are free is known in memory only: after an open all are, until the rows that a
/// version names have [claimed](Pages::claim) theirs. So whatever an interrupted flush wrote is
/// free again without a trace.
///
/// Page 0 is the container's header, and is never given out. Any number of threads may take, claim
/// and give back at once; a short latch orders them.
pub struct Pages {
    pmem: Pmem,
    path: PathBuf,
    page_bytes: usize,
    database: u128,
    free: Latch<FreePages>,
    /// Keeps the header from being claimed.
    _header: PmemSpan,
}

impl Pages {
    /// Makes a container of `bytes` in pages of `page_bytes` (a power of two, 4 KiB to 1 MiB),
    /// which belongs to `database`. It is durable when this returns, but for its name.
    ///
    /// Errors: [`Error::Invalid`] for sizes that cannot be; the environment's, also if the file
    /// exists.
    pub fn create(
        env: &SharedEnv,
        path: &Path,
        bytes: u64,
        page_bytes: u64,
        database: u128,
    ) -> Result<Arc<Pages>> {
        check_sizes(&Header { database, page_bytes, bytes })?;
        Pages::format(env.fs().create_pmem(path, bytes)?, path, page_bytes, database)
    }

    /// Opens a container. All pages are free then.
    ///
    /// Errors: [`Error::Corruption`] if the header is damaged or another database's, or if the file
    /// has a size that no container has; [`Error::Unsupported`] for a later format; the
    /// environment's.
    pub fn open(env: &SharedEnv, path: &Path, database: u128) -> Result<Arc<Pages>> {
        Pages::mount(open_area(env, path)?, path, database)
    }

    /// As [`Pages::open`], whichever database it belongs to.
    pub fn open_any(env: &SharedEnv, path: &Path) -> Result<Arc<Pages>> {
        Pages::mount_any(open_area(env, path)?, path)
    }

    /// As [`Pages::create`], on a region of which nothing is claimed: all of it. `path` is what
    /// errors call it.
    pub fn format(pmem: Pmem, path: &Path, page_bytes: u64, database: u128) -> Result<Arc<Pages>> {
        let header = Header { database, page_bytes, bytes: pmem.bytes() };
        check_sizes(&header)?;
        let mut first = claim_header(&pmem, page_bytes);
        first.store(0, &header.encode());
        first.flush(0, HEADER_BYTES);
        pmem.fence()?;
        Ok(Pages::new(pmem, path, header, first))
    }

    /// As [`Pages::open`], on a region of which nothing is claimed.
    pub fn mount(pmem: Pmem, path: &Path, database: u128) -> Result<Arc<Pages>> {
        let pages = Pages::mount_any(pmem, path)?;
        if pages.database != database {
            let found = pages.database;
            let detail = format!("this is database {found:032x}, expected was {database:032x}");
            return Err(Corruption::new(path, 16, detail).into());
        }
        Ok(pages)
    }

    fn mount_any(pmem: Pmem, path: &Path) -> Result<Arc<Pages>> {
        let bytes = pmem.bytes();
        let first = claim_header(&pmem, PAGE_BYTES_MIN);
        let header = Header::decode(&first, bytes).map_err(|error| match error {
            PreambleError::Codec(error) => Corruption::from_codec(path, 0, &error).into(),
            PreambleError::Unsupported => {
                Error::Unsupported(format!("{}: {error}", path.display()))
            }
        })?;
        check_sizes(&header)?;
        drop(first);
        let first = claim_header(&pmem, header.page_bytes);
        Ok(Pages::new(pmem, path, header, first))
    }

    fn new(pmem: Pmem, path: &Path, header: Header, first: PmemSpan) -> Arc<Pages> {
        Arc::new(Pages {
            pmem,
            path: path.to_path_buf(),
            // At most a megabyte, and at most 2^32 pages.
            page_bytes: header.page_bytes as usize,
            database: header.database,
            free: Latch::new(FreePages::all_of((header.bytes / header.page_bytes) as u32)),
            _header: first,
        })
    }

    /// Takes `count` pages, those with low numbers first; `None`, and nothing taken, if fewer are
    /// free. What they hold is what was last written there.
    #[must_use]
    pub fn take(self: &Arc<Self>, count: usize) -> Option<Vec<Page>> {
        let numbers = self.free.lock().take(count)?;
        Some(numbers.into_iter().map(|number| self.page(number)).collect())
    }

    /// Takes the page with this number, which a row names.
    ///
    /// Errors: [`Error::Corruption`] if there is no such page, or it is taken already: two rows
    /// name it.
    pub fn claim(self: &Arc<Self>, number: u32) -> Result<Page> {
        let is_taken = self.free.lock().remove(number);
        if !is_taken {
            let detail = format!("page {number} is named by a row, but is another's or not there");
            return Err(Corruption::new(&self.path, self.offset_of(number), detail).into());
        }
        Ok(self.page(number))
    }

    /// A page that was taken off the free ones.
    fn page(self: &Arc<Self>, number: u32) -> Page {
        let span = self.pmem.claim(self.offset_of(number), self.page_bytes as u64);
        let span = span.expect("a page that was free is nobody's");
        Page { span, on_drop: PageReturn { pages: Arc::clone(self), number } }
    }

    /// Makes durable what this thread flushed of its pages. Errors: [`Error::Poisoned`]; the pages
    /// are in doubt then, and it must not be tried again.
    pub fn fence(&self) -> Result<()> {
        Ok(self.pmem.fence()?)
    }

    /// How many pages can be taken.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.free.lock().count
    }

    /// How many pages there are but for the header.
    #[must_use]
    pub fn total_pages(&self) -> usize {
        (self.pmem.bytes() / self.page_bytes as u64) as usize - 1
    }

    /// The size of a page: a power of two.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// What the pages lie on.
    #[must_use]
    pub fn medium(&self) -> PmemMedium {
        self.pmem.medium()
    }

    /// The database that the container belongs to.
    #[must_use]
    pub fn database(&self) -> u128 {
        self.database
    }

    /// The container's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a page lies in the file.
    #[must_use]
    pub fn offset_of(&self, number: u32) -> u64 {
        u64::from(number) * self.page_bytes as u64
    }
}

fn open_area(env: &SharedEnv, path: &Path) -> Result<Pmem> {
    env.fs().open_pmem(path).map_err(|error| match error.source.kind() {
        ErrorKind::InvalidData => {
            let detail = format!("this is no whole container: {}", error.source);
            Corruption::new(path, 0, detail).into()
        }
        _ => error.into(),
    })
}

/// Errors: [`Error::Invalid`] for a container that cannot be.
fn check_sizes(header: &Header) -> Result<()> {
    let Header { page_bytes, bytes, .. } = *header;
    let can_be = Header::is_page_size(page_bytes)
        && bytes.is_multiple_of(page_bytes)
        && (2..=u64::from(u32::MAX)).contains(&(bytes / page_bytes));
    if can_be {
        return Ok(());
    }
    Err(Error::invalid(format!("L0 cannot have {bytes} bytes in pages of {page_bytes}")))
}

fn claim_header(pmem: &Pmem, bytes: u64) -> PmemSpan {
    pmem.claim(0, bytes).expect("nothing of a mapping that was just made is claimed")
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("path", &self.path)
            .field("page_bytes", &self.page_bytes)
            .field("free", &self.free_pages())
            .field("total", &self.total_pages())
            .finish_non_exhaustive()
    }
}

/// One page, alone in one hand: written before it is shared, never after. When the last holder
/// drops it, it is free again.
pub struct Page {
    // Order: fields go in the order of their declaration, so that the claim is given back before
    // the page counts as free.
    span: PmemSpan,
    on_drop: PageReturn,
}

impl Page {
    /// Its number: at least 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.on_drop.number
    }

    /// Writes `bytes` from `at` on, and starts writing them back; they are durable after the
    /// [fence](Pages::fence) of the same thread.
    pub fn store(&mut self, at: usize, bytes: &[u8]) {
        self.span.store(at, bytes);
        self.span.flush(at, bytes.len());
    }
}

impl Deref for Page {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.span
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.on_drop.number)
    }
}

/// Gives a page back.
struct PageReturn {
    pages: Arc<Pages>,
    number: u32,
}

impl Drop for PageReturn {
    fn drop(&mut self) {
        self.pages.free.lock().add(self.number);
    }
}

/// A bit a page: set if it is free.
#[derive(Debug)]
struct FreePages {
    words: Vec<u64>,
    count: usize,
    /// No word below has a free page.
    from: usize,
}

impl FreePages {
    /// All pages but the first of `total`.
    fn all_of(total: u32) -> FreePages {
        let mut words = vec![u64::MAX; (total as usize).div_ceil(64)];
        words[0] &= !1;
        if let Some(last) = words.last_mut()
            && !total.is_multiple_of(64)
        {
            *last &= (1 << (total % 64)) - 1;
        }
        FreePages { words, count: total as usize - 1, from: 0 }
    }

    fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        if count > self.count {
            return None;
        }
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let word = &mut self.words[self.from];
            if *word == 0 {
                self.from += 1;
                continue;
            }
            taken.push((self.from * 64) as u32 + word.trailing_zeros());
            *word &= *word - 1;
        }
        self.count -= count;
        Some(taken)
    }

    /// Takes one page off; `false` if it is not free.
    fn remove(&mut self, number: u32) -> bool {
        let (index, bit) = (number as usize / 64, 1 << (number % 64));
        match self.words.get_mut(index) {
            Some(word) if *word & bit != 0 => {
                *word &= !bit;
                self.count -= 1;
                true
            }
            _ => false,
        }
    }

    fn add(&mut self, number: u32) {
        let (index, bit) = (number as usize / 64, 1 << (number % 64));
        assert!(self.words[index] & bit == 0, "a page is given back once");
        self.words[index] |= bit;
        self.count += 1;
        self.from = self.from.min(index);
    }
}

#[cfg(test)]
mod tests {
    use terrace_env::{PmemRecorder, RealEnv};

    use super::*;

    fn numbers(pages: &[Page]) -> Vec<u32> {
        pages.iter().map(Page::number).collect()
    }

    fn container(pages: u64) -> Arc<Pages> {
        let pmem = PmemRecorder::new(pages * 4096).pmem();
        Pages::format(pmem, Path::new("l0"), 4096, 5).unwrap()
    }

    #[test]
    fn pages_are_given_out_from_the_front_and_come_back_when_dropped() {
        for total in [2, 63, 64, 65, 200] {
            let pages = container(total);
            assert_eq!(pages.total_pages() as u64, total - 1);
            let mut all = pages.take(total as usize - 1).unwrap();
            assert_eq!(numbers(&all), (1..total as u32).collect::<Vec<_>>());
            assert_eq!(pages.free_pages(), 0);
            assert!(pages.take(1).is_none() && pages.take(0).is_some());
            let kept = all.pop().unwrap();
            drop(all);
            assert_eq!(pages.free_pages() as u64, total - 2);
            assert!(pages.take(total as usize - 1).is_none(), "all or nothing");
            assert_eq!(pages.free_pages() as u64, total - 2);
            let shared = Arc::new(kept);
            let other = Arc::clone(&shared);
            drop(shared);
            assert_eq!(pages.free_pages() as u64, total - 2, "somebody holds it");
            drop(other);
            assert_eq!(pages.free_pages() as u64, total - 1);
        }
    }

    #[test]
    fn a_page_is_claimed_once_and_the_header_never() {
        let pages = container(70);
        let claimed = pages.claim(66).unwrap();
        for number in [66, 0, 70, u32::MAX] {
            assert!(pages.claim(number).unwrap_err().is_corruption(), "{number}");
        }
        let others = pages.take(68).unwrap();
        assert!(!numbers(&others).contains(&66));
        drop(claimed);
        assert_eq!(numbers(&pages.take(1).unwrap()), [66]);
    }

    #[test]
    fn a_container_is_opened_by_its_own_database_only() {
        let env: SharedEnv = RealEnv::new();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l0.rows");
        let pages = Pages::create(&env, &path, 64 * 8192, 8192, 77).unwrap();
        let mut page = pages.take(1).unwrap().remove(0);
        page.store(8000, b"what was stored");
        let number = page.number();
        pages.fence().unwrap();
        assert!(Pages::create(&env, &path, 64 * 8192, 8192, 77).is_err(), "it exists");
        drop((page, pages));
        assert!(Pages::open(&env, &path, 78).unwrap_err().is_corruption());
        let pages = Pages::open(&env, &path, 77).unwrap();
        assert_eq!((pages.page_bytes(), pages.total_pages()), (8192, 63));
        assert_eq!(pages.free_pages(), 63);
        assert_eq!(pages.claim(number).unwrap()[8000..][..15], *b"what was stored");
        for (bytes, page_bytes) in
            [(0, 4096), (4096, 4096), (40960, 5000), (40961, 4096), (1 << 22, 1 << 21)]
        {
            let refused = Pages::create(&env, &dir.path().join("no"), bytes, page_bytes, 1);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{bytes} in {page_bytes}");
        }
    }
}
