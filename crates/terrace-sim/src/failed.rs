use std::fmt;

use terrace_env::FaultPlan;

use crate::oracle::Violation;
use crate::run::Case;

/// A case that showed a violation, with all that shows it again.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The case.
    pub case: Case,
    /// The calls that failed in it.
    pub faults: FaultPlan,
    /// What it showed.
    pub violation: Violation,
}

impl Failed {
    /// A case without failing calls.
    #[must_use]
    pub fn new(case: &Case, violation: Violation) -> Failed {
        Failed { case: case.clone(), faults: FaultPlan::default(), violation }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.violation)?;
        for fault in &self.faults.faults {
            writeln!(f, "# with {fault:?}")?;
        }
        write!(f, "{}", self.case)
    }
}

impl std::error::Error for Failed {}
