use std::fmt;

use super::record::Event;

/// Something that a range must never do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The client and its operation that showed it, if it was one.
    pub at: Option<(usize, usize)>,
    /// What happened.
    pub text: String,
}

impl Violation {
    /// It showed in this event.
    #[must_use]
    pub fn at(event: &Event, text: impl Into<String>) -> Violation {
        Violation { at: Some((event.client, event.step)), text: text.into() }
    }

    /// It showed in a whole run.
    #[must_use]
    pub fn of_run(text: impl Into<String>) -> Violation {
        Violation { at: None, text: text.into() }
    }

    /// The same, said of something.
    #[must_use]
    pub fn within(self, context: &str) -> Violation {
        Violation { text: format!("{context}: {}", self.text), ..self }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((client, step)) = self.at {
            write!(f, "client {client}, operation {step}: ")?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for Violation {}
