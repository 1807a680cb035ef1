//! Checking an open range.

use crate::Result;
use crate::check::{
    CheckDepth, CheckProgress, CheckReport, check_pointers, check_table, check_value_files,
};
use crate::store::{Inner, Store};

impl Store {
    /// Reads every table of the current version from front to back: checksums, order, filters,
    /// properties, and that each file is the one that the manifest describes; every value file, and
    /// every pointer of a table to a value. The manifest and
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
        let of_values: u64 = version.values().iter().map(|file| file.meta().bytes).sum();
        let of_tables: u64 = version.tables().map(|table| table.meta().bytes).sum();
        let total = of_tables + of_values;
        let mut report = CheckReport { repaired: version.repaired(), ..CheckReport::default() };
        for table in version.tables().filter(|table| version.needs(table)) {
            self.check_open()?;
            check_table(&self.context, table.meta(), CheckDepth::Full, &mut report)?;
            progress(report.table_bytes, total);
        }
        let mut done = report.table_bytes;
        let mut advance = |bytes| {
            done += bytes;
            progress(done, total);
        };
        let (context, depth) = (&self.context, CheckDepth::Full);
        let unusable = check_value_files(context, &version, depth, &mut report, &mut advance)?;
        check_pointers(&self.dir, &version, &unusable, &mut report, &mut || self.check_open())?;
        // What was closed meanwhile may have lost files.
        self.check_open()?;
        Ok(report)
    }
}
