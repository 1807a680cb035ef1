use std::sync::Arc;

use terrace_base::{KeyRange, TableUid};

use super::format::Head;
use super::reader::{RowLocation, RowReader};
use crate::l0::triangle::Pages;
use crate::table::format::FormatError;
use crate::{Error, Result};

/// A row of which nobody knows what is live, with all of it that is there.
pub struct SalvagedRow {
    /// Open, with those pages of data that fit. To it the others are gone.
    pub row: Arc<RowReader>,
    /// The pages of data that do not fit.
    pub unfit: Vec<UnfitPage>,
}

/// A page that a row lists, and that is not what the row wrote there: it was given back and is
/// another's, or it is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfitPage {
    /// Its number in the container.
    pub number: u32,
    /// The keys of all entries of which it held a byte.
    pub keys: KeyRange,
}

impl RowReader {
    /// The pages that are the first of a row, and whole, each with the row's identity: also of rows
    /// that nothing names any more. Looks at the beginning of every page that nobody has.
    ///
    /// `advance` is told of the bytes of each page. Errors: [`Error::Unsupported`] for a later
    /// format; what `advance` returns.
    pub fn find_heads(
        pages: &Arc<Pages>,
        advance: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Vec<(RowLocation, TableUid)>> {
        let mut found = Vec::new();
        for number in 1..=pages.total_pages() as u32 {
            advance(pages.page_bytes() as u64)?;
            let Ok(page) = pages.claim(number) else { continue };
            match Head::decode(&page, pages.total_pages() as u64) {
                Ok((head, ..)) => found.push((RowLocation(number), head.uid)),
                Err(FormatError::Damaged(_)) => {}
                Err(FormatError::Unsupported(text)) => {
                    let text = format!("{}: {text}", pages.path().display());
                    return Err(Error::Unsupported(text));
                }
            }
        }
        Ok(found)
    }

    /// As [`RowReader::open`], but every page of data whose checksum fits is taken to be the row's,
    /// and the others to be gone: the checksum covers the row's identity and the page's place, so
    /// no other row's page fits. Cost: reads the whole row.
    ///
    /// Errors: those of [`RowReader::open`]: head and metadata must be whole.
    pub fn salvage(pages: &Arc<Pages>, location: RowLocation) -> Result<SalvagedRow> {
        // So it takes no page of data yet.
        let row = RowReader::open(pages, location, None, &[KeyRange::all()])?;
        let mut unfit = Vec::new();
        for ordinal in 0..row.data.count() {
            let number = row.listed_data(ordinal).number;
            let page = pages.claim(number).and_then(|page| {
                row.check_page(ordinal, &page)?;
                Ok(page)
            });
            match page {
                Ok(page) => row.data.hold(ordinal, page),
                Err(Error::Corruption(_)) => {
                    let end = [row.fences.of(ordinal + 1), &[0]].concat();
                    let keys = KeyRange::new(row.low_of(ordinal), Some(end));
                    unfit.push(UnfitPage { number, keys });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(SalvagedRow { row, unfit })
    }

    /// The numbers of the pages that it has.
    pub fn page_numbers(&self) -> impl Iterator<Item = u32> {
        let own = self.head_pages.iter().chain(&self.metadata).map(|page| page.number());
        let data = self.data.held().map(|page| page.number());
        own.chain(data)
    }
}
