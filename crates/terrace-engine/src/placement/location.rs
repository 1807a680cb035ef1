//! Where a table lies, as versions and the manifest name it.
//!
//! ```text
//!   location            form   medium
//!   <FileId>.table      file   the range's own directory
//!   <FileId>.values     file   the same: a value file, which the same store has
//!   l0/<FileId>.table   file   the rows' medium: <medium>/terrace-<database>.tables/<FileId>.table
//!   far/<object>        file   an object store, below the waterline; see `far/`
//!   row@<page>          page   the container of L0; the page's number in eight digits, base 16
//! ```
//! A location names no directory: where a medium is, the manifest says apart. Whoever asks what
//! lies there asks for its form, its medium, or what may be done with it, and does not look at the
//! bytes; the stores of tables have names of their own for what they hold, which are locations in
//! the range's directory here.

use std::fmt;

const ROWS_PREFIX: &[u8] = b"l0/";
const FAR_PREFIX: &[u8] = b"far/";
const PAGE_PREFIX: &[u8] = b"row@";

/// Where a table lies. Kept in version edits; other rooms compare and copy it, and ask it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TableLocation(Vec<u8>);

/// What a table is made of where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file of blocks, which a table store has.
    File,
    /// A row in the pages of a container, from the page with this number on.
    Page(u32),
}

/// Which of a range's media a table lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableMedium {
    /// The range's own directory, or the store that stands for it.
    Own,
    /// The medium of L0's rows.
    Rows,
    /// The container of L0.
    Container,
    /// An object store.
    Far,
}

impl TableLocation {
    /// The location with these bytes: what a store calls the place, or what a manifest says.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> TableLocation {
        TableLocation(bytes.into())
    }

    /// The location of a row that begins at this page.
    #[must_use]
    pub fn of_page(number: u32) -> TableLocation {
        TableLocation(format!("row@{number:08x}").into_bytes())
    }

    /// What the manifest keeps.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What the table is made of.
    #[must_use]
    pub fn form(&self) -> Form {
        self.page().map_or(Form::File, Form::Page)
    }

    /// Where the table lies.
    #[must_use]
    pub fn medium(&self) -> TableMedium {
        match self.form() {
            Form::Page(_) => TableMedium::Container,
            Form::File if self.0.starts_with(ROWS_PREFIX) => TableMedium::Rows,
            Form::File if self.0.starts_with(FAR_PREFIX) => TableMedium::Far,
            Form::File => TableMedium::Own,
        }
    }

    /// Whether the table may become one of a level as it is: what lies on a medium for L0 has no
    /// business below it.
    #[must_use]
    pub fn can_move_down(&self) -> bool {
        matches!(self.medium(), TableMedium::Own | TableMedium::Far)
    }

    /// Whether the table is an object in an object store.
    #[must_use]
    pub fn is_far(&self) -> bool {
        self.medium() == TableMedium::Far
    }

    fn page(&self) -> Option<u32> {
        let digits = str::from_utf8(self.0.strip_prefix(PAGE_PREFIX)?).ok()?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        // Only what is written in one way is a page.
        (TableLocation::of_page(number) == *self).then_some(number)
    }

    /// The location of what the store of the rows' medium has here.
    pub(super) fn on_rows_medium(&self) -> TableLocation {
        TableLocation([ROWS_PREFIX, &self.0].concat())
    }

    /// The location of what the far medium has here.
    pub(super) fn on_far_medium(&self) -> TableLocation {
        TableLocation([FAR_PREFIX, &self.0].concat())
    }

    /// What the far medium calls this place, if the table is there.
    pub(super) fn within_far_medium(&self) -> Option<TableLocation> {
        self.0.strip_prefix(FAR_PREFIX).map(TableLocation::new)
    }

    /// What the store of the rows' medium calls this place, if the table is there.
    pub(super) fn within_rows_medium(&self) -> Option<TableLocation> {
        self.0.strip_prefix(ROWS_PREFIX).map(TableLocation::new)
    }
}

impl fmt::Debug for TableLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_says_what_lies_there_and_where() {
        let asked = |bytes: &str| {
            let location = TableLocation::new(bytes);
            (location.form(), location.medium(), location.can_move_down())
        };
        let file = |medium, can_move_down| (Form::File, medium, can_move_down);
        assert_eq!(asked("000001-00000002.table"), file(TableMedium::Own, true));
        assert_eq!(asked("l0/000001-00000002.table"), file(TableMedium::Rows, false));
        assert_eq!(asked("far/000001-00000002"), file(TableMedium::Far, true));
        assert_eq!(asked("row@0000002a"), (Form::Page(42), TableMedium::Container, false));
        for foreign in ["", "row@", "row@2a", "row@0000002A", "row@+000002a", "row@0000002a0"] {
            assert_eq!(asked(foreign), file(TableMedium::Own, true), "{foreign}");
        }
        let inner = TableLocation::new("x");
        assert_eq!(inner.on_rows_medium().within_rows_medium(), Some(inner.clone()));
        assert_eq!(inner.within_rows_medium(), None);
    }
}
