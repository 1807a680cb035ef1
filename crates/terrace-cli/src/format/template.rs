/// How a key is made of an entry's fields: `{Package}={Version}`. A name without braces stands for
/// that field alone; `{{` and `}}` stand for braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(String),
}

impl KeyTemplate {
    /// Errors: braces that do not match, or no field at all.
    pub fn parse(text: &str) -> Result<KeyTemplate, String> {
        if !text.contains(['{', '}']) && !text.is_empty() {
            return Ok(KeyTemplate { parts: vec![Part::Field(text.to_owned())] });
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '{' | '}' if letters.next_if_eq(&letter).is_some() => literal.push(letter),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match letters.next() {
                            Some('}') => break,
                            Some(letter) => name.push(letter),
                            None => return Err("a { has no }; write {{ for a brace".to_owned()),
                        }
                    }
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                    parts.push(Part::Field(name));
                }
                '}' => return Err("a } has no {; write }} for a brace".to_owned()),
                letter => literal.push(letter),
            }
        }
        parts.push(Part::Text(literal));
        if !parts.iter().any(|part| matches!(part, Part::Field(_))) {
            return Err("it names no field, so all keys would be the same".to_owned());
        }
        Ok(KeyTemplate { parts })
    }

    /// The key of the entry in which `field` looks up fields.
    ///
    /// Errors: a field that is not there.
    pub fn fill(&self, field: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let mut key = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => key.push_str(text),
                Part::Field(name) => {
                    let value = field(name);
                    let missing =
                        || format!("there is no field \"{name}\" to make the key of (--key-field)");
                    key.push_str(&value.ok_or_else(missing)?);
                }
            }
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str) -> Result<String, String> {
        KeyTemplate::parse(template)?.fill(|name| (name != "none").then(|| format!("<{name}>")))
    }

    #[test]
    fn templates_are_filled_with_fields() {
        assert_eq!(fill("Package"), Ok("<Package>".to_owned()));
        assert_eq!(fill("{a}={b}/x"), Ok("<a>=<b>/x".to_owned()));
        assert_eq!(fill("{{{a}}}"), Ok("{<a>}".to_owned()));
        for wrong in ["", "{a", "a}", "{{}}", "{none}"] {
            assert!(fill(wrong).is_err(), "{wrong}");
        }
    }
}
