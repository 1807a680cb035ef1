use super::decode::Span;

/// Splits an inline request into words, in place: each word's decoded bytes replace its quoted
/// ones, which are never fewer. The rules are those of Redis:
///
/// * blanks part words; quotes may begin anywhere in a word, but must end it;
/// * in double quotes `\xHH \n \r \t \b \a` stand for bytes and `\` before anything else for that;
/// * in single quotes only `\'` stands for something else.
///
/// `None`: the quotes are not balanced.
pub(super) fn split_words(line: &mut [u8], words: &mut Vec<Span>) -> Option<()> {
    let mut read = 0;
    loop {
        while read < line.len() && is_blank(line[read]) {
            read += 1;
        }
        if read == line.len() {
            return Some(());
        }
        let start = read;
        let mut write = read;
        while read < line.len() && !is_blank(line[read]) && line[read] != 0 {
            read = match line[read] {
                b'"' => double_quoted(line, read + 1, &mut write)?,
                b'\'' => single_quoted(line, read + 1, &mut write)?,
                byte => {
                    line[write] = byte;
                    write += 1;
                    read + 1
                }
            };
        }
        if read < line.len() && line[read] == 0 {
            read += 1;
        }
        let offset = |at: usize| u32::try_from(at).expect("an inline request is short");
        words.push(Span { start: offset(start), end: offset(write) });
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Decodes from after an opening quote; returns the position after the closing one.
fn double_quoted(line: &mut [u8], mut read: usize, write: &mut usize) -> Option<usize> {
    loop {
        let (byte, next) = match (*line.get(read)?, line.get(read + 1)) {
            (b'"', _) => return ends_word(line, read + 1),
            (b'\\', Some(b'x')) => match hex_pair(line, read + 2) {
                Some(byte) => (byte, read + 4),
                None => (b'x', read + 2),
            },
            (b'\\', Some(&escaped)) => (unescaped(escaped), read + 2),
            (byte, _) => (byte, read + 1),
        };
        line[*write] = byte;
        *write += 1;
        read = next;
    }
}

fn single_quoted(line: &mut [u8], mut read: usize, write: &mut usize) -> Option<usize> {
    loop {
        let (byte, next) = match (*line.get(read)?, line.get(read + 1)) {
            (b'\\', Some(b'\'')) => (b'\'', read + 2),
            (b'\'', _) => return ends_word(line, read + 1),
            (byte, _) => (byte, read + 1),
        };
        line[*write] = byte;
        *write += 1;
        read = next;
    }
}

fn ends_word(line: &[u8], after: usize) -> Option<usize> {
    line.get(after).is_none_or(|&byte| is_blank(byte)).then_some(after)
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_pair(line: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| line.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    u8::try_from(digit(at)? * 16 + digit(at + 1)?).ok()
}
