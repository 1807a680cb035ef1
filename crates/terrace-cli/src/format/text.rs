use super::Record;

/// Appends `bytes` so that they stay on one line, in one field, and can be read back: printable
/// text stays as it is, everything else is escaped, the backslash too.
pub fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    put_text(out, bytes, true);
}

/// As [`put_escaped`] for people's eyes only: the backslash stays as it is.
pub fn put_shown(out: &mut Vec<u8>, bytes: &[u8]) {
    put_text(out, bytes, false);
}

fn put_text(out: &mut Vec<u8>, bytes: &[u8], backslash: bool) {
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' if backslash => out.extend_from_slice(b"\\\\"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                letter => {
                    let mut utf8 = [0; 4];
                    let utf8 = letter.encode_utf8(&mut utf8).as_bytes();
                    if is_hidden(letter) {
                        put_escaped_hex(out, utf8);
                    } else {
                        out.extend_from_slice(utf8);
                    }
                }
            }
        }
        put_escaped_hex(out, chunk.invalid());
    }
}

/// Whether a letter would not show, or would change how others show (such as the marks for text
/// from right to left).
fn is_hidden(letter: char) -> bool {
    let marks = ['\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    letter.is_control() || letter == '\u{feff}' || marks.iter().any(|range| range.contains(&letter))
}

fn put_escaped_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(b"\\x");
        put_hex(out, &[*byte]);
    }
}

/// Appends `bytes` as hexadecimal digits, two each.
pub fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
}

/// The inverse of [`put_hex`]; capitals are digits too.
///
/// Errors: other letters, or an odd number of them.
pub fn parse_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = || "these are no hexadecimal digits, two for each byte, such as 6b6579".to_owned();
    let pairs = text.chunks(2).map(|pair| match *pair {
        [high, low] => hex_pair(high, low).ok_or_else(wrong),
        _ => Err(wrong()),
    });
    pairs.collect()
}

/// The inverse of [`put_escaped`]; bytes that need no escape may stand as they are.
///
/// Errors: a backslash before something else than `t n r \ xHH`.
pub fn parse_escaped(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let (byte, used) = match tail {
            [b't', ..] => (b'\t', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', high, low, ..] => (hex_pair(*high, *low).ok_or_else(unknown_escape)?, 3),
            _ => return Err(unknown_escape()),
        };
        bytes.push(byte);
        rest = &tail[used..];
    }
    Ok(bytes)
}

fn unknown_escape() -> String {
    "a backslash stands before something else than t, n, r, a backslash, or x and two hexadecimal \
     digits; a backslash itself is written as two"
        .to_owned()
}

fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Appends an entry as a line of `tsv`, its end included.
pub fn put_entry_tsv(out: &mut Vec<u8>, record: &Record) {
    put_escaped(out, &record.key);
    out.push(b'\t');
    put_escaped(out, &record.value);
    if let Some(expiry_ms) = record.expiry_ms {
        out.extend_from_slice(format!("\t{expiry_ms}").as_bytes());
    }
    out.push(b'\n');
}

/// Reads a line of `tsv`, without its end.
///
/// Errors: it is none; the text says why.
pub(super) fn parse_entry_tsv(line: &[u8]) -> Result<Record, String> {
    let mut fields = line.split(|&byte| byte == b'\t');
    let key = parse_escaped(fields.next().unwrap_or_default())?;
    let value = fields.next().ok_or("there is no tab between a key and a value")?;
    let value = parse_escaped(value)?;
    let expiry_ms = match fields.next() {
        None => None,
        Some(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            Some(number.ok_or("the third field is no expiry in milliseconds")?)
        }
    };
    if fields.next().is_some() {
        return Err("there are more than three fields; a tab in a value is written as \\t".into());
    }
    Ok(Record { key, value, expiry_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        put_escaped(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escaped_text_is_readable_and_reads_back() {
        assert_eq!(escaped("Grüße, 世界".as_bytes()), "Grüße, 世界");
        assert_eq!(escaped(b"a\tb\nc\\d\r\x00\x1b\xff"), "a\\tb\\nc\\\\d\\r\\x00\\x1b\\xff");
        assert_eq!(escaped("\u{202e}".as_bytes()), "\\xe2\\x80\\xae");
        let every: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        assert_eq!(parse_escaped(escaped(&every).as_bytes()), Ok(every));
    }

    #[test]
    fn hexadecimal_digits_read_back() {
        let every: Vec<u8> = (0..=255).collect();
        let mut text = Vec::new();
        put_hex(&mut text, &every);
        assert_eq!(parse_hex(&text), Ok(every.clone()));
        assert_eq!(parse_hex(&text.to_ascii_uppercase()), Ok(every));
        for text in ["0", "0x01", "zz", "+1"] {
            assert!(parse_hex(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_escapes_are_refused() {
        for text in ["\\", "\\q", "\\x", "\\x1", "\\xzz"] {
            assert!(parse_escaped(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn lines_of_tsv_are_checked() {
        let record = Record { key: b"a".into(), value: b"1".into(), expiry_ms: Some(5) };
        assert_eq!(parse_entry_tsv(b"a\t1\t5"), Ok(record));
        for line in ["", "a", "a\t1\tx", "a\t1\t5\t6", "a\\q\t1"] {
            assert!(parse_entry_tsv(line.as_bytes()).is_err(), "{line}");
        }
    }
}
