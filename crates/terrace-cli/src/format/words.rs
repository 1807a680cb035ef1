/// The words of a line, as shells split them: by blanks, but not between quotes. Between `'` and
/// `'` or `"` and `"` everything stands for itself; so does a backslash everywhere, which keys have
/// a meaning of their own for. Parts without a blank between them are one word.
///
/// Errors: a quote that is not closed.
pub fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_within = false;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, ' ' | '\t' | '\n' | '\r') => {
                is_within = false;
                continue;
            }
            _ => {
                if !is_within {
                    words.push(String::new());
                    is_within = true;
                }
                match letter {
                    '\'' | '"' if quote.is_none() => quote = Some(letter),
                    letter => words.last_mut().expect("a word was begun").push(letter),
                }
            }
        }
    }
    match quote {
        None => Ok(words),
        Some(open) => Err(format!("a {open} is not closed")),
    }
}

/// The inverse of [`split_words`] for one word.
#[must_use]
pub fn quote_word(word: &str) -> String {
    let is_plain = |letter: char| !letter.is_whitespace() && !matches!(letter, '\'' | '"' | '#');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains('\'') {
        return format!("'{word}'");
    }
    // Each ' stands between " and ".
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_shells_do() {
        let split = |line: &str| split_words(line).unwrap();
        assert_eq!(split("get  a\tb"), ["get", "a", "b"]);
        assert_eq!(split("put 'a b' \"c'd\" e'f 'g"), ["put", "a b", "c'd", "ef g"]);
        assert_eq!(split(r"get tab\tkey '\x00'"), ["get", r"tab\tkey", r"\x00"]);
        assert_eq!(split("'' \"\""), ["", ""]);
        assert_eq!(split("  "), Vec::<String>::new());
        assert!(split_words("get 'a").is_err() && split_words("\"").is_err());
    }

    #[test]
    fn quoted_words_are_split_as_they_were() {
        for word in ["", "plain", "a b", "it's", "\"", "'", "a'b\"c d", "# x", "\\t", "ü\u{a0}"] {
            assert_eq!(split_words(&quote_word(word)), Ok(vec![word.to_owned()]), "{word}");
        }
    }
}
