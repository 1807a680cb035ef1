//! Checking an open range.

use crate::Result;
use crate::check::{CheckDepth, CheckProgress, CheckReport, check_table};
use crate::store::{Inner, Store};

impl Store {
    /// Reads every table of the current version from front to back: checksums, order, filters,
    /// properties, and that each file is the one that the manifest describes. The manifest and
    /// the log were read and judged when the range was opened; damage there refuses the open. What
    /// is on the disk of a range that nobody has open is checked by
    /// [`check_dir`](crate::check::check_dir).
    ///
    /// `progress` is called after each table. Errors: those that are no damage, such as a failing
    /// disk; damage is in the report.
    pub fn check(&self, progress: CheckProgress<'_>) -> Result<CheckReport> {
        self.inner.check(progress)
    }
}

impl Inner {
    fn check(&self, progress: CheckProgress<'_>) -> Result<CheckReport> {
        self.check_open()?;
        let version = self.versions.current();
        let total = version.tables().map(|table| table.meta().bytes).sum();
        let mut report = CheckReport { repaired: version.repaired(), ..CheckReport::default() };
        for table in version.tables().filter(|table| version.needs(table)) {
            self.check_open()?;
            check_table(&self.context, table.meta(), CheckDepth::Full, &mut report)?;
            progress(report.table_bytes, total);
        }
        // What was closed meanwhile may have lost files.
        self.check_open()?;
        Ok(report)
    }
}
