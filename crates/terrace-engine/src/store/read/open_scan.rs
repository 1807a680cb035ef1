use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::scan_cursor::ScanCursor;
use super::sources::{Selection, cursor_over};
use crate::Result;
use crate::store::view::View;
use crate::table::ReadMode;

/// What a scan has open: a view, and cursors over those of its sources that may hold keys of an
/// interval.
pub(in crate::store) struct OpenScan {
    pub view: Arc<View>,
    /// That of the view.
    pub removals: u64,
    pub cursor: ScanCursor,
    selection: Selection,
    mode: ReadMode,
}

impl OpenScan {
    /// Opens what a view has within `range`. Without `range_index` all memtables may hold keys of
    /// it.
    pub fn new(
        view: Arc<View>,
        range: &KeyRange,
        read_point: SeqNo,
        mode: ReadMode,
        range_index: bool,
    ) -> Result<OpenScan> {
        let selection = Selection::of(&view, range, range_index);
        let cursor = cursor_over(&selection, &view, range, read_point, mode)?;
        Ok(OpenScan { removals: view.removals, view, cursor, selection, mode })
    }

    /// Over nothing.
    pub fn nothing(view: Arc<View>) -> OpenScan {
        let cursor = ScanCursor::nothing();
        let (selection, mode) = (Selection::default(), ReadMode::BLOCK);
        OpenScan { removals: view.removals, view, cursor, selection, mode }
    }

    /// As a new one in the same view: what is open is used again if it is the same.
    pub fn go_on(
        &mut self,
        range: &KeyRange,
        read_point: SeqNo,
        mode: ReadMode,
        range_index: bool,
    ) -> Result<()> {
        let selection = Selection::of(&self.view, range, range_index);
        let fits = self.mode == mode && self.selection == selection;
        if fits && (is_planted(PlantedBug::SpareKeepsItsNumber) || self.cursor.renew(read_point)) {
            return Ok(());
        }
        self.cursor = cursor_over(&selection, &self.view, range, read_point, mode)?;
        (self.selection, self.mode) = (selection, mode);
        Ok(())
    }

    /// Lets go of blocks and places; whether the scan can be [gone on with](OpenScan::go_on).
    pub fn rest(&mut self, read_point: SeqNo) -> bool {
        // One that met the end of the range has let go of its sources.
        self.cursor.source_count() > 0 && self.cursor.renew(read_point)
    }

    /// One more cursor over the same.
    pub fn another_cursor(&self, range: &KeyRange, read_point: SeqNo) -> Result<ScanCursor> {
        cursor_over(&self.selection, &self.view, range, read_point, self.mode)
    }
}

/// What an iterator has open until it is dropped.
pub(in crate::store) struct HeldScan(Option<Box<OpenScan>>);

impl HeldScan {
    pub fn new(scan: Box<OpenScan>) -> HeldScan {
        HeldScan(Some(scan))
    }

    /// Takes it for good.
    pub fn take(&mut self) -> Option<Box<OpenScan>> {
        self.0.take()
    }
}

const GONE: &str = "an iterator has its scan until it is dropped";

impl Deref for HeldScan {
    type Target = OpenScan;

    #[inline]
    fn deref(&self) -> &OpenScan {
        self.0.as_ref().expect(GONE)
    }
}

impl DerefMut for HeldScan {
    #[inline]
    fn deref_mut(&mut self) -> &mut OpenScan {
        self.0.as_mut().expect(GONE)
    }
}
