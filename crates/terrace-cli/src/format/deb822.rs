use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

/// A paragraph of `Field: value` lines. Lines that begin with a blank continue the value.
#[derive(Clone, Debug, Default)]
pub(super) struct Paragraph {
    fields: Vec<(String, String)>,
}

impl Paragraph {
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Adds a line, without its end. The line must not be blank.
    ///
    /// Errors: it does not belong into a paragraph.
    pub(super) fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let line = std::str::from_utf8(line).map_err(|_| "the line is no UTF-8".to_owned())?;
        if line.starts_with('#') {
            return Ok(());
        }
        if let Some(continued) = line.strip_prefix([' ', '\t']) {
            let (_, value) = self.fields.last_mut().ok_or("the line continues no field")?;
            value.push('\n');
            value.push_str(continued);
            return Ok(());
        }
        let (name, value) = line.split_once(':').ok_or("there is no colon after a field's name")?;
        if name.is_empty() || name.contains([' ', '\t']) {
            return Err(format!("\"{name}\" is no name of a field"));
        }
        if self.get(name).is_some() {
            return Err(format!("the field \"{name}\" stands twice in the paragraph"));
        }
        self.fields.push((name.to_owned(), value.trim().to_owned()));
        Ok(())
    }

    /// The value of a field; upper and lower case are the same.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// The paragraph as a JSON object, its fields in their order.
    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("writing text to memory does not fail")
    }
}

impl Serialize for Paragraph {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_keeps_the_order_and_the_lines_of_its_fields() {
        let mut paragraph = Paragraph::default();
        for line in ["Package: zlib1g", "# no field", "Description: a", " b", " .", "\tc", "A:"] {
            paragraph.add(line.as_bytes()).unwrap();
        }
        let json = String::from_utf8(paragraph.to_json()).unwrap();
        assert_eq!(json, "{\"Package\":\"zlib1g\",\"Description\":\"a\\nb\\n.\\nc\",\"A\":\"\"}");
        assert_eq!(paragraph.get("package"), Some("zlib1g"));
    }

    #[test]
    fn lines_that_are_no_fields_are_refused() {
        for line in [&b" x"[..], b"no colon", b": x", b"a b: x", b"\xff: x"] {
            assert!(Paragraph::default().add(line).is_err(), "{}", line.escape_ascii());
        }
        let mut paragraph = Paragraph::default();
        paragraph.add(b"A: 1").unwrap();
        assert!(paragraph.add(b"a: 2").is_err());
    }
}
