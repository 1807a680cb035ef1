//! Patterns over keys, as `SCAN MATCH` and `CONFIG GET` take them.
//!
//! `*` stands for any bytes, `?` for one byte, `[abc]`, `[a-z]` and `[^x]` for one byte of (or not
//! of) a set, and `\` takes the next byte as it is.
//!
//! # Why not backtracking
//! Matchers that go back to the last `*` take time in the product of pattern and key (and the
//! naive recursive ones exponential time: CVE-2022-36021). Here all places in the pattern where a
//! match may stand are one bit set, moved once per byte of the key. So a byte of a key costs one
//! step per 64 places of the pattern, whatever the two are.
//!
//! ```text
//! pattern  a * b [0-9]        places   0 -a-> 1 -b-> 2 -[0-9]-> 3
//!                                             ^ place 1 may also stay, for "*"
//! ```

/// The longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// A compiled pattern.
#[derive(Debug)]
pub struct Glob {
    /// For each byte, the places that it moves on from; `words` words a byte.
    moves: Vec<u64>,
    /// The places that may also stay where they are.
    stays: Vec<u64>,
    words: usize,
    /// The place at which the pattern has matched.
    last: usize,
    prefix: Vec<u8>,
    matches_all: bool,
}

/// One step of a pattern.
enum Step {
    /// `*`
    Stay,
    /// One byte out of a set.
    Byte(Box<[bool; 256]>),
}

impl Glob {
    /// Compiles `pattern`; `None` if it is longer than [`PATTERN_BYTES_MAX`].
    #[must_use]
    pub fn new(pattern: &[u8]) -> Option<Glob> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return None;
        }
        let steps = parse(pattern);
        let places = 1 + steps.iter().filter(|step| matches!(step, Step::Byte(_))).count();
        let words = places.div_ceil(64);
        let mut moves = vec![0; 256 * words];
        let mut stays = vec![0; words];
        let mut place = 0;
        for step in &steps {
            match step {
                Step::Stay => stays[place / 64] |= 1 << (place % 64),
                Step::Byte(set) => {
                    for (byte, _) in set.iter().enumerate().filter(|(_, member)| **member) {
                        moves[byte * words + place / 64] |= 1 << (place % 64);
                    }
                    place += 1;
                }
            }
        }
        let matches_all = place == 0 && stays[0] != 0;
        Some(Glob {
            moves,
            stays,
            words,
            last: place,
            prefix: literal_prefix(pattern),
            matches_all,
        })
    }

    /// What every match begins with.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// How many steps a match of `text` costs, for callers with a budget of work.
    #[must_use]
    pub fn cost(&self, text: &[u8]) -> usize {
        if self.matches_all { 1 } else { (text.len() + 1) * self.words }
    }

    /// Whether the whole of `text` matches.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        if self.matches_all {
            return true;
        }
        if self.words == 1 {
            return self.matches_small(text);
        }
        let mut places = vec![0_u64; self.words];
        places[0] = 1;
        for &byte in text {
            let moves = &self.moves[usize::from(byte) * self.words..][..self.words];
            let mut carry = 0;
            for word in 0..self.words {
                let moved = places[word] & moves[word];
                let stayed = places[word] & self.stays[word];
                places[word] = (moved << 1) | carry | stayed;
                carry = moved >> 63;
            }
        }
        places[self.last / 64] >> (self.last % 64) & 1 == 1
    }

    fn matches_small(&self, text: &[u8]) -> bool {
        let stays = self.stays[0];
        let mut places = 1_u64;
        for &byte in text {
            places = ((places & self.moves[usize::from(byte)]) << 1) | (places & stays);
            if places == 0 {
                return false;
            }
        }
        places >> self.last & 1 == 1
    }
}

fn parse(mut pattern: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((&first, rest)) = pattern.split_first() {
        pattern = rest;
        steps.push(match first {
            b'*' => Step::Stay,
            b'?' => Step::Byte(Box::new([true; 256])),
            b'[' => Step::Byte(parse_set(&mut pattern)),
            b'\\' if !rest.is_empty() => {
                pattern = &rest[1..];
                single(rest[0])
            }
            byte => single(byte),
        });
    }
    steps
}

fn single(byte: u8) -> Step {
    let mut set = Box::new([false; 256]);
    set[usize::from(byte)] = true;
    Step::Byte(set)
}

/// A set from after its `[`. As in Redis, a set that is not closed ends with the pattern.
fn parse_set(pattern: &mut &[u8]) -> Box<[bool; 256]> {
    let mut set = Box::new([false; 256]);
    let negated = pattern.first() == Some(&b'^');
    if negated {
        *pattern = &pattern[1..];
    }
    loop {
        match **pattern {
            [] => break,
            [b']', ref rest @ ..] => {
                *pattern = rest;
                break;
            }
            [b'\\', byte, ref rest @ ..] => {
                set[usize::from(byte)] = true;
                *pattern = rest;
            }
            [a, b'-', b, ref rest @ ..] => {
                (a.min(b)..=a.max(b)).for_each(|byte| set[usize::from(byte)] = true);
                *pattern = rest;
            }
            [byte, ref rest @ ..] => {
                set[usize::from(byte)] = true;
                *pattern = rest;
            }
        }
    }
    if negated {
        set.iter_mut().for_each(|member| *member = !*member);
    }
    set
}

fn literal_prefix(pattern: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::new();
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'*' | b'?' | b'[' => break,
            b'\\' => prefix.push(*bytes.next().unwrap_or(&b'\\')),
            other => prefix.push(other),
        }
    }
    prefix
}

#[cfg(test)]
mod tests {
    //! Goal: the matcher agrees with the plain recursive definition. Method: a table, then all
    //! short patterns over a small alphabet against all short texts.

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.as_bytes()).unwrap().matches(text.as_bytes())
    }

    /// The definition, for patterns without sets.
    fn plain(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|skip| plain(rest, &text[skip..])),
            [b'?', rest @ ..] => !text.is_empty() && plain(rest, &text[1..]),
            [byte, rest @ ..] => text.first() == Some(byte) && plain(rest, &text[1..]),
        }
    }

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text) in [
            ("*", ""),
            ("h?llo", "hello"),
            ("h*o", "ho"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hbllo"),
            ("[z-a]", "m"),
            ("\\*", "*"),
            ("[\\]]", "]"),
            ("a\\", "a\\"),
            ("[ab", "b"),
            ("user:*:name", "user:12:name"),
            ("**a**", "bab"),
        ] {
            assert!(matches(pattern, text), "{pattern} should match {text}");
        }
        for (pattern, text) in
            [("h[^e]llo", "hello"), ("?", ""), ("a*b", "abc"), ("[]", "a"), ("\\*", "a"), ("", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} should not match {text}");
        }
    }

    #[test]
    fn the_matcher_agrees_with_the_definition() {
        let mut patterns = vec![Vec::new()];
        let mut at = 0;
        while patterns[at].len() < 5 {
            for &byte in b"ab?*" {
                let mut longer = patterns[at].clone();
                longer.push(byte);
                patterns.push(longer);
            }
            at += 1;
        }
        let texts: Vec<Vec<u8>> = (0..=6_u32)
            .flat_map(|len| (0..1_u32 << len).map(move |bits| (len, bits)))
            .map(|(len, bits)| (0..len).map(|at| b"ab"[(bits >> at & 1) as usize]).collect())
            .collect();
        for pattern in &patterns {
            let glob = Glob::new(pattern).unwrap();
            for text in &texts {
                assert_eq!(glob.matches(text), plain(pattern, text), "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn long_patterns_cross_word_edges() {
        for literals in [62, 63, 64, 65, 127, 128, 200, 1000] {
            let text = "x".repeat(literals);
            assert!(matches(&format!("{text}*b"), &format!("{text}aab")));
            assert!(matches(&format!("*{text}"), &format!("yy{text}")));
            assert!(!matches(&format!("*{text}"), &text[1..]));
            assert!(matches(&text, &text) && !matches(&text, &text[1..]));
        }
        assert!(Glob::new(&[b'a'; PATTERN_BYTES_MAX + 1]).is_none());
    }

    #[test]
    fn the_literal_prefix_is_what_every_match_begins_with() {
        let prefix = |pattern: &[u8]| Glob::new(pattern).unwrap().prefix().to_vec();
        assert_eq!(prefix(b"user:*"), b"user:");
        assert_eq!(prefix(b"a\\*b[c]"), b"a*b");
        assert_eq!(prefix(b"*"), b"");
    }

    #[test]
    fn work_is_linear_in_the_key() {
        let glob = Glob::new(&b"*a".repeat(512)).unwrap();
        assert!(glob.cost(&[b'a'; 65_536]) < 600_000);
        assert!(glob.matches(&[b'a'; 65_536]) && !glob.matches(&[b'b'; 65_536]));
    }
}
