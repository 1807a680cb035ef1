//! What people write: options, sizes, times, templates, and files to import.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use terrace::{Compression, Durability};
use terrace_cli::format::{
    EntryReader, Format, KeyTemplate, Lines, ReadError, Record, parse_escaped, parse_hex,
    put_escaped, put_hex, quote_word, split_words,
};
use terrace_cli::{check_words, parse_size, parse_time};

use super::Target;
use crate::notes::{note, note_result, note_size};

/// Options and command lines. The first byte chooses which parser gets the rest.
pub const OPTIONS: Target = Target {
    name: "options",
    about: "command lines, lines of the shell, sizes, times, durability classes, key templates, \
            escapes, digits",
    run: options,
    seeds: option_seeds,
    words: &[
        b"--data",
        b"--connect",
        b"--from",
        b"--to",
        b"--prefix",
        b"--escaped",
        b"--ttl",
        b"scan",
        b"import",
        b"--format",
        b"jsonl",
        b"interval:",
        b"sync",
        b"KiB",
        b"ms",
        b"{",
        b"}}",
        b"\\x",
        b"--cache-bytes",
        b"--durability",
        b"--key-field",
        b"\0",
        b"=",
    ],
    executions: 60_000,
    bytes_max: 512,
    // A command line is described to clap anew for each look at it.
    memory_fixed_bytes: 4 << 20,
    ..Target::DEFAULT
};

/// Files to import. The first byte chooses the format.
pub const IMPORT: Target = Target {
    name: "import",
    about: "files to import: jsonl, tsv, deb822",
    run: import,
    seeds: import_seeds,
    words: &[
        b"{\"key\":\"",
        b"\"value\":\"",
        b"\"expiry_ms\":",
        b"{\"base64\":\"",
        b"\"}\n",
        b"\t",
        b"\\x00",
        b"\\\\",
        b"\n ",
        b": ",
        b"\n\n",
        b"Package: ",
        b"Version: ",
        b"\\u0000",
        b"\xc3\xa9",
        b"1e999",
        b"[[[[[[[[",
    ],
    executions: 500_000,
    memory_fixed_bytes: 64 << 10,
    memory_per_byte: 256,
    ..Target::DEFAULT
};

fn options(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let text = String::from_utf8_lossy(rest);
    match choice % 9 {
        0 => {
            let words = std::iter::once(&b"terrace"[..]).chain(rest.split(|&byte| byte == 0));
            let words = words.map(|word| OsString::from_vec(word.to_vec()));
            let outcome = check_words(words);
            note_result("command line", &outcome);
        }
        1 => {
            let size = parse_size(&text);
            note(if size.is_ok() { "size" } else { "no size" });
            if let Ok(size) = size {
                assert_eq!(parse_size(&size.to_string()), Ok(size), "a size is what it prints as");
            }
        }
        2 => {
            let time = parse_time(&text);
            note(if time.is_ok() { "time" } else { "no time" });
            if let Ok(time) = time {
                let again = parse_time(&format!("{}ms", time.as_millis()));
                assert_eq!(again, Ok(time), "a time is what it prints as");
            }
        }
        3 => {
            let durability = text.parse::<Durability>();
            note(if durability.is_ok() { "durability" } else { "no durability" });
            if let Ok(durability) = durability {
                let again = durability.to_string().parse::<Durability>();
                assert_eq!(again.ok(), Some(durability), "a class is what it prints as");
            }
        }
        4 => {
            let compression = text.parse::<Compression>();
            note(if compression.is_ok() { "compression" } else { "no compression" });
            if let Ok(compression) = compression {
                assert_eq!(compression.to_string(), text);
            }
        }
        5 => {
            let template = KeyTemplate::parse(&text);
            note_result("template", &template);
            if let Ok(template) = template {
                let filled = template.fill(|name| (!name.is_empty()).then(|| name.to_uppercase()));
                note(if filled.is_ok() { "filled" } else { "not filled" });
            }
        }
        6 => {
            let parsed = parse_escaped(rest);
            note_result("escapes", &parsed);
            let bytes = parsed.as_deref().unwrap_or(rest);
            let mut escaped = Vec::new();
            put_escaped(&mut escaped, bytes);
            assert!(std::str::from_utf8(&escaped).is_ok(), "what is shown is text");
            assert_eq!(parse_escaped(&escaped).as_deref(), Ok(bytes), "escapes stand for bytes");
        }
        7 => words(&text),
        _ => {
            let parsed = parse_hex(rest);
            note_result("digits", &parsed);
            let bytes = parsed.as_deref().unwrap_or(rest);
            let mut digits = Vec::new();
            put_hex(&mut digits, bytes);
            assert_eq!(parse_hex(&digits).as_deref(), Ok(bytes), "digits stand for bytes");
            if parsed.is_ok() {
                assert!(digits.eq_ignore_ascii_case(rest), "bytes have one form in digits");
            }
        }
    }
}

/// Lines of the shell: what a line is split into is quoted again, and any text can be a word.
fn words(line: &str) {
    let split = split_words(line);
    note_result("words", &split);
    if let Ok(words) = &split {
        note_size("words", words.len());
        let quoted: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
        let again = split_words(&quoted.join(" "));
        assert_eq!(again.as_ref(), Ok(words), "words are split as they were quoted");
    }
    assert_eq!(split_words(&quote_word(line)), Ok(vec![line.to_owned()]), "any text is a word");
}

fn reader(choice: u8, bytes: &[u8]) -> Option<EntryReader<&[u8]>> {
    let lines = Lines::new(bytes);
    let template = || KeyTemplate::parse("{Package}/{id}").ok();
    let reader = match choice % 5 {
        0 => EntryReader::new(lines, Format::Jsonl, None),
        1 => EntryReader::new(lines, Format::Jsonl, template()),
        2 => EntryReader::new(lines, Format::Tsv, None),
        3 => EntryReader::new(lines, Format::Deb822, None),
        _ => EntryReader::new(lines, Format::Deb822, template()),
    };
    reader.ok()
}

fn import(data: &[u8]) {
    let &[choice, ref file @ ..] = data else { return };
    let Some(mut entries) = reader(choice, file) else { return };
    let mut count = 0;
    loop {
        match entries.next() {
            Ok(None) => break,
            Ok(Some(record)) => {
                count += 1;
                check_round_trip(&record);
            }
            Err(ReadError::Io(error)) => return note(&format!("stream: {error}")),
            Err(ReadError::Line(number, text)) => {
                let lines = file.split(|&byte| byte == b'\n').count() as u64;
                assert!((1..=lines).contains(&number), "line {number} of {lines}");
                assert!(entries.lines_read() >= number, "a damaged line was read");
                return note(&text);
            }
        }
    }
    note_size("entries", count);
}

/// What was read is written in both formats that can be written, and reads back.
fn check_round_trip(record: &Record) {
    for (choice, format) in [(0, Format::Jsonl), (2, Format::Tsv)] {
        let mut line = Vec::new();
        format.put(&mut line, record);
        let read = reader(choice, &line).expect("no template").next();
        let read = read.expect("what was written can be read");
        assert_eq!(read.as_ref(), Some(record), "an entry is what it was written as");
    }
}

fn option_seeds() -> Vec<Vec<u8>> {
    let seeds: [(u8, &[u8]); 18] = [
        (0, b"scan\0--data\0d\0--from\0a\0--escaped\0--output\0json"),
        (0, b"put\0--connect\x00127.0.0.1:1\0--ttl\x005m\0key\0-value"),
        (0, b"serve\0--data\0d\0--durability\0interval:50\0--cache-bytes\x0064M\0--max-clients\x005"),
        (0, b"import\0--data\0d\0--format\0jsonl\0--key-field\0{a}={b}\0-"),
        (0, b"bench\0a\0--data\0d\0--distribution\0latest\0--compression\0zstd"),
        (1, b"64KiB"),
        (1, b"18446744073709551615"),
        (2, b"500ms"),
        (2, b"18446744073709551d"),
        (3, b"interval:250"),
        (4, b"lz4"),
        (5, b"{Package}={Version}/{{x}}"),
        (6, b"a\\x00\\n\\\\b"),
        (6, b"\xff\xfe\xc3\xa9\xe2\x80\xae"),
        (7, b"put 'a b' \"it's\" e'f 'g \\x00 \t#"),
        (7, b"get 'a"),
        (8, b"6b6579FF00"),
        (8, b"6b657"),
    ];
    seeds.iter().map(|(choice, text)| [&[*choice], *text].concat()).collect()
}

fn import_seeds() -> Vec<Vec<u8>> {
    let records = [
        Record { key: b"plain".to_vec(), value: b"value".to_vec(), expiry_ms: None },
        Record {
            key: vec![0, 9, 10, 13, 92, 255],
            value: vec![],
            expiry_ms: Some(4_102_444_800_000),
        },
        Record { key: "ü\u{202e}".into(), value: vec![0xc3; 30], expiry_ms: Some(u64::MAX) },
    ];
    let mut seeds = Vec::new();
    for (choice, format) in [(0, Format::Jsonl), (2, Format::Tsv)] {
        let mut file = vec![choice];
        records.iter().for_each(|record| format.put(&mut file, record));
        seeds.push(file);
    }
    seeds.push(b"\x01{\"Package\": \"a\", \"id\": 7, \"more\": [1.5, null, {}]}\r\n\n{}".to_vec());
    let index = b"Package: zlib1g\nVersion: 1:1.2\nArchitecture: amd64\nDescription: a\n b\n .\n\n";
    seeds.push([&[3], &index[..], b"# note\nPackage: b\nid: 7\n\t more\n"].concat());
    seeds.push([&[4], &b"Package: b\nid: 7\n\n\n\nPackage: c\n"[..]].concat());
    seeds
}
