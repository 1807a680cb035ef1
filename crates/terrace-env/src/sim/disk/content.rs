use std::sync::Arc;

/// A page is the unit that clones of a disk share.
pub(super) const PAGE_BYTES: usize = 4096;
/// Pages in a chunk. Chunks make the list that is copied at a file's first write after a clone
/// short.
const CHUNK_PAGES: usize = 64;

type Page = [u8; PAGE_BYTES];
type Chunk = [Option<Arc<Page>>; CHUNK_PAGES];

/// The bytes of a file, copied on write.
///
/// ```text
///   chunks ─► [ chunk, –, chunk ]      256 KiB each
///                │
///                └─► [ page, page, –, … ]      4 KiB each; – reads as zeros
/// ```
///
/// Invariant: bytes of a page beyond the size are zero, so that growing shows zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    bytes: u64,
    chunks: Vec<Option<Arc<Chunk>>>,
}

impl Content {
    /// The size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `buffer` from `offset`, or less at the end; returns how many bytes.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let available = self.bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < available {
            let (page, within) = page_of(offset + done as u64);
            let count = (PAGE_BYTES - within).min(available - done);
            let target = &mut buffer[done..done + count];
            match self.page(page) {
                Some(page) => target.copy_from_slice(&page[within..within + count]),
                None => target.fill(0),
            }
            done += count;
        }
        available
    }

    /// Writes `bytes` at `offset`, and grows the file if it ends before their end.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes = self.bytes.max(offset + bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let (page, within) = page_of(offset + done as u64);
            let count = (PAGE_BYTES - within).min(bytes.len() - done);
            self.page_mut(page)[within..within + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
    }

    /// Cuts the file, or grows it by zeros.
    pub fn set_bytes(&mut self, bytes: u64) {
        let (first_cut, within) = page_of(bytes);
        for page in first_cut..self.chunks.len() * CHUNK_PAGES {
            if page == first_cut && within > 0 {
                if self.page(page).is_some() {
                    self.page_mut(page)[within..].fill(0);
                }
            } else {
                self.forget(page);
            }
        }
        self.bytes = bytes;
    }

    /// The numbers of the units of `unit_bytes` (a divisor of the page size) in which `self` and
    /// `old` differ, in order.
    pub fn units_unlike(&self, old: &Content, unit_bytes: usize) -> Vec<u64> {
        assert!(PAGE_BYTES.is_multiple_of(unit_bytes), "a unit lies within a page");
        let mut units = Vec::new();
        for chunk in 0..self.chunks.len().max(old.chunks.len()) {
            if is_shared(self.chunk(chunk), old.chunk(chunk)) {
                continue;
            }
            for page in chunk * CHUNK_PAGES..(chunk + 1) * CHUNK_PAGES {
                let (new_page, old_page) = (self.page(page), old.page(page));
                if is_shared(new_page, old_page) {
                    continue;
                }
                let (new_page, old_page) = (bytes_of(new_page), bytes_of(old_page));
                for start in (0..PAGE_BYTES).step_by(unit_bytes) {
                    let unit = start..start + unit_bytes;
                    if new_page[unit.clone()] != old_page[unit] {
                        units.push(((page * PAGE_BYTES + start) / unit_bytes) as u64);
                    }
                }
            }
        }
        units
    }

    /// Takes over one unit of `other`, without changing the size.
    pub fn copy_unit(&mut self, other: &Content, unit: u64, unit_bytes: usize) {
        let start = unit * unit_bytes as u64;
        let end = (start + unit_bytes as u64).min(self.bytes);
        if start < end {
            let (page, within) = page_of(start);
            let count = (end - start) as usize;
            let source = &bytes_of(other.page(page))[within..within + count];
            self.page_mut(page)[within..within + count].copy_from_slice(source);
        }
    }

    /// Takes over the size of `other`, and its pages that hold some of the `bytes` at `offset`.
    pub fn take_over(&mut self, other: &Content, offset: u64, bytes: u64) {
        self.set_bytes(other.bytes);
        let end = (offset + bytes).div_ceil(PAGE_BYTES as u64);
        for page in offset / PAGE_BYTES as u64..end {
            self.copy_unit(other, page, PAGE_BYTES);
        }
    }

    fn chunk(&self, chunk: usize) -> Option<&Arc<Chunk>> {
        self.chunks.get(chunk)?.as_ref()
    }

    fn page(&self, page: usize) -> Option<&Arc<Page>> {
        self.chunk(page / CHUNK_PAGES)?[page % CHUNK_PAGES].as_ref()
    }

    fn page_mut(&mut self, page: usize) -> &mut Page {
        let chunk = page / CHUNK_PAGES;
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        let chunk =
            self.chunks[chunk].get_or_insert_with(|| Arc::new([const { None }; CHUNK_PAGES]));
        let page = &mut Arc::make_mut(chunk)[page % CHUNK_PAGES];
        Arc::make_mut(page.get_or_insert_with(|| Arc::new(ZEROS)))
    }

    fn forget(&mut self, page: usize) {
        if self.page(page).is_some()
            && let Some(chunk) = &mut self.chunks[page / CHUNK_PAGES]
        {
            Arc::make_mut(chunk)[page % CHUNK_PAGES] = None;
        }
    }
}

static ZEROS: Page = [0; PAGE_BYTES];

fn bytes_of(page: Option<&Arc<Page>>) -> &Page {
    page.map_or(&ZEROS, |page| page)
}

fn is_shared<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// The page at `offset`, and where in it.
fn page_of(offset: u64) -> (usize, usize) {
    let offset = usize::try_from(offset).expect("a simulated file fits the address space");
    (offset / PAGE_BYTES, offset % PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(content: &Content) -> Vec<u8> {
        let mut bytes = vec![9; content.bytes() as usize + 1];
        let count = content.read(0, &mut bytes);
        bytes.truncate(count);
        bytes
    }

    #[test]
    fn writes_across_pages_and_chunks_read_back() {
        let mut content = Content::default();
        let offset = (CHUNK_PAGES * PAGE_BYTES) as u64 - 5;
        content.write(offset, b"0123456789");
        assert_eq!(content.bytes(), offset + 10);
        let mut buffer = [0; 12];
        assert_eq!(content.read(offset - 1, &mut buffer), 11);
        assert_eq!(&buffer[..11], b"\x000123456789");
        assert_eq!(content.read(offset + 10, &mut buffer), 0);
        assert_eq!(content.read(u64::MAX, &mut buffer), 0);
    }

    #[test]
    fn what_was_cut_reads_as_zeros_when_the_file_grows_again() {
        let mut content = Content::default();
        content.write(0, &[7; 3 * PAGE_BYTES]);
        content.set_bytes(PAGE_BYTES as u64 + 3);
        content.set_bytes(3 * PAGE_BYTES as u64);
        let bytes = all(&content);
        assert!(bytes[..PAGE_BYTES + 3].iter().all(|&byte| byte == 7));
        assert!(bytes[PAGE_BYTES + 3..].iter().all(|&byte| byte == 0));
        content.set_bytes(0);
        assert!(all(&content).is_empty());
    }

    #[test]
    fn a_clone_shares_all_but_the_pages_written_later() {
        let mut content = Content::default();
        content.write(0, &[1; 2 * PAGE_BYTES]);
        let old = content.clone();
        content.write(PAGE_BYTES as u64 + 600, b"x");
        assert_eq!(all(&old), [1; 2 * PAGE_BYTES]);
        assert!(is_shared(content.page(0), old.page(0)));
        assert_eq!(content.units_unlike(&old, 512), [9]);
        assert_eq!(content.units_unlike(&old, 4096), [1]);
        let mut merged = old.clone();
        merged.copy_unit(&content, 9, 512);
        assert!(merged.units_unlike(&content, 512).is_empty());
    }
}
