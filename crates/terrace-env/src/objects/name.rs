use std::fmt;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// The name of an object below its store's prefix: parts of letters, digits, `.`, `_` and `-`,
/// joined by `/`; no part is empty or begins with a dot. So it is a path that leads nowhere else,
/// and the same in every store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// The name, unless it is none.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Option<ObjectName> {
        let name = name.into();
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        let is_part =
            |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_plain);
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('/').all(is_part);
        is_name.then_some(ObjectName(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for name in ["feed/1", "table/3-00ff-a_b.c", "a"] {
            assert_eq!(ObjectName::new(name).unwrap().as_str(), name);
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in
            ["", "/a", "a/", "a//b", "..", "a/../b", "a/.b", "a b", "a\\b", "ü", "a\n", &long]
        {
            assert_eq!(ObjectName::new(name), None, "{name}");
        }
    }
}
