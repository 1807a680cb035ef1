use std::io::{self, BufRead};

use clap::ValueEnum;
use terrace::limits;

use super::deb822::Paragraph;
use super::jsonl::{parse_entry_json, parse_object_json};
use super::lines::Lines;
use super::template::KeyTemplate;
use super::text::parse_entry_tsv;
use super::{Record, jsonl, text};

/// A text format of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A JSON object a line
    Jsonl,
    /// Key, tab, value a line
    Tsv,
    /// Paragraphs of fields, as Debian's package index (import only)
    Deb822,
}

/// The key of a paragraph unless another template is given: what makes a package unique.
const DEB822_KEY: &str = "{Package}={Version}/{Architecture}";

impl Format {
    /// Appends an entry in this format.
    pub fn put(self, out: &mut Vec<u8>, record: &Record) {
        match self {
            Format::Jsonl => jsonl::put_entry_json(out, record),
            Format::Tsv | Format::Deb822 => text::put_entry_tsv(out, record),
        }
    }
}

/// Why the next entry cannot be had.
#[derive(Debug)]
pub enum ReadError {
    /// The stream failed.
    Io(io::Error),
    /// This line (the first is 1) is damaged.
    Line(u64, String),
}

/// The entries of a stream in one of the formats.
pub struct EntryReader<R> {
    lines: Lines<R>,
    format: Format,
    template: Option<KeyTemplate>,
}

impl<R: BufRead> EntryReader<R> {
    /// Errors: this format has no use for a template.
    pub fn new(
        lines: Lines<R>,
        format: Format,
        template: Option<KeyTemplate>,
    ) -> Result<EntryReader<R>, String> {
        let template = match (format, template) {
            (Format::Tsv, Some(_)) => {
                return Err("--key-field has no meaning for tsv: the first field is the key".into());
            }
            (Format::Deb822, None) => Some(KeyTemplate::parse(DEB822_KEY)?),
            (_, template) => template,
        };
        Ok(EntryReader { lines, format, template })
    }

    /// How many lines are behind the entries read so far.
    pub fn lines_read(&self) -> u64 {
        self.lines.number()
    }

    /// The next entry; `None` at the end of the stream. Blank lines between entries do not count.
    #[expect(clippy::should_implement_trait, reason = "the error comes first, for `?`")]
    pub fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let record = self.next_unchecked()?;
        let bounds = record.as_ref().map(|record| {
            [
                ("key", record.key.len(), limits::KEY_BYTES_MAX),
                ("value", record.value.len(), limits::VALUE_BYTES_MAX),
            ]
        });
        for (what, bytes, most) in bounds.into_iter().flatten() {
            if bytes > most {
                let text = format!("the {what} has {bytes} bytes; at most {most} can be stored");
                return Err(ReadError::Line(self.lines.number(), text));
            }
        }
        Ok(record)
    }

    fn next_unchecked(&mut self) -> Result<Option<Record>, ReadError> {
        if self.format == Format::Deb822 {
            return self.next_paragraph();
        }
        loop {
            let number = self.lines.number() + 1;
            let Some(line) = self.lines.next().map_err(ReadError::Io)? else { return Ok(None) };
            // In tsv a lone tab is the entry of the empty key.
            if line.is_empty() || self.format == Format::Jsonl && line.trim_ascii().is_empty() {
                continue;
            }
            let parsed = match (self.format, &self.template) {
                (Format::Jsonl, Some(template)) => parse_object_json(line, template),
                (Format::Jsonl, None) => parse_entry_json(line),
                _ => parse_entry_tsv(line),
            };
            return parsed.map(Some).map_err(|text| ReadError::Line(number, text));
        }
    }

    fn next_paragraph(&mut self) -> Result<Option<Record>, ReadError> {
        let mut paragraph = Paragraph::default();
        let mut first_line = 0;
        loop {
            let number = self.lines.number() + 1;
            match self.lines.next().map_err(ReadError::Io)? {
                Some(line) if !line.trim_ascii().is_empty() => {
                    if paragraph.is_empty() {
                        first_line = number;
                    }
                    paragraph.add(line).map_err(|text| ReadError::Line(number, text))?;
                }
                _ if !paragraph.is_empty() => break,
                Some(_) => {}
                None => return Ok(None),
            }
        }
        let key = self.template.as_ref().map_or(Ok(String::new()), |template| {
            template.fill(|name| paragraph.get(name).map(str::to_owned))
        });
        let key = key.map_err(|text| ReadError::Line(first_line, text))?.into_bytes();
        Ok(Some(Record { key, value: paragraph.to_json(), expiry_ms: None }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: Format, template: Option<&str>, text: &[u8]) -> Vec<Result<Record, String>> {
        let template = template.map(|template| KeyTemplate::parse(template).unwrap());
        let mut reader = EntryReader::new(Lines::new(text), format, template).unwrap();
        let mut all = Vec::new();
        loop {
            match reader.next() {
                Ok(Some(record)) => all.push(Ok(record)),
                Ok(None) => return all,
                Err(ReadError::Line(number, text)) => all.push(Err(format!("{number}: {text}"))),
                Err(ReadError::Io(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn what_is_exported_is_imported_byte_for_byte() {
        let empty = Record { key: Vec::new(), value: Vec::new(), expiry_ms: None };
        let mut records = vec![empty];
        for byte in 0..=255_u8 {
            let key = vec![byte; usize::from(byte % 3)];
            let value = [&[byte][..], "ü\t\n\r\\".as_bytes(), &[byte, 0xff]].concat();
            records.push(Record { key, value, expiry_ms: (byte % 2 == 0).then_some(77) });
        }
        for format in [Format::Jsonl, Format::Tsv] {
            let mut text = Vec::new();
            records.iter().for_each(|record| format.put(&mut text, record));
            let back: Vec<Record> =
                read(format, None, &text).into_iter().map(Result::unwrap).collect();
            assert_eq!(back, records);
        }
    }

    #[test]
    fn damaged_lines_are_named_by_number() {
        let all = read(Format::Tsv, None, b"a\t1\n\nb\nc\t3\r\n");
        assert_eq!(all[0].as_ref().unwrap().key, b"a");
        assert!(all[1].as_ref().unwrap_err().starts_with("3: there is no tab"));
        assert_eq!(all[2].as_ref().unwrap().value, b"3");
    }

    #[test]
    fn paragraphs_have_unique_keys_by_default() {
        let text = b"\nPackage: a\nVersion: 1\nArchitecture: all\n\n\nPackage: b\nVersion: 2\n";
        let all = read(Format::Deb822, None, text);
        assert_eq!(all[0].as_ref().unwrap().key, b"a=1/all");
        assert!(all[1].as_ref().unwrap_err().starts_with("7: there is no field \"Architecture\""));
        let all = read(Format::Deb822, Some("Package"), text);
        assert_eq!(all[1].as_ref().unwrap().key, b"b");
    }
}
