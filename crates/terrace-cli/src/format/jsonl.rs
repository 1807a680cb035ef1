use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Record;
use super::template::KeyTemplate;

/// Bytes as JSON: a string if they are UTF-8, else an object with their base64.
#[derive(Serialize)]
#[serde(untagged)]
enum Bytes<'a> {
    Text(&'a str),
    Base64 { base64: String },
}

impl Bytes<'_> {
    fn new(bytes: &[u8]) -> Bytes<'_> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text),
            Err(_) => Bytes::Base64 { base64: STANDARD.encode(bytes) },
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    key: Bytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Bytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_ms: Option<u64>,
}

fn put_line(out: &mut Vec<u8>, line: &Line<'_>) {
    serde_json::to_writer(&mut *out, line).expect("writing text to memory does not fail");
    out.push(b'\n');
}

/// Appends an entry as a line of `jsonl`, its end included.
pub fn put_entry_json(out: &mut Vec<u8>, record: &Record) {
    let (key, value) = (Bytes::new(&record.key), Some(Bytes::new(&record.value)));
    put_line(out, &Line { key, value, expiry_ms: record.expiry_ms });
}

/// Appends a key alone as a line of `jsonl`.
pub fn put_key_json(out: &mut Vec<u8>, key: &[u8]) {
    put_line(out, &Line { key: Bytes::new(key), value: None, expiry_ms: None });
}

fn parse_object(line: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("the line is no JSON object".to_owned()),
        Err(error) => Err(format!("the line is no JSON: {error}")),
    }
}

fn parse_bytes(name: &str, value: Option<Value>) -> Result<Vec<u8>, String> {
    let wrong = || format!("the field \"{name}\" is neither a string nor {{\"base64\": \"...\"}}");
    match value {
        Some(Value::String(text)) => Ok(text.into_bytes()),
        Some(Value::Object(fields)) if fields.len() == 1 => {
            let text = fields.get("base64").and_then(Value::as_str).ok_or_else(wrong)?;
            STANDARD.decode(text).map_err(|error| format!("the field \"{name}\": {error}"))
        }
        Some(_) => Err(wrong()),
        None => Err(format!("there is no field \"{name}\"")),
    }
}

/// Reads a line of `jsonl`, without its end.
///
/// Errors: it is none; the text says why.
pub(super) fn parse_entry_json(line: &[u8]) -> Result<Record, String> {
    let mut fields = parse_object(line)?;
    let key = parse_bytes("key", fields.remove("key"))?;
    let value = parse_bytes("value", fields.remove("value"))?;
    let expiry_ms = match fields.remove("expiry_ms") {
        None | Some(Value::Null) => None,
        Some(number) => Some(number.as_u64().ok_or("the field \"expiry_ms\" is no number")?),
    };
    if let Some(name) = fields.keys().next() {
        return Err(format!(
            "the field \"{name}\" is neither key, value nor expiry_ms; to import objects of your \
             own, say with --key-field which field is the key"
        ));
    }
    Ok(Record { key, value, expiry_ms })
}

/// Reads a line that is any object: its key comes of `template`, and the line is the value.
pub(super) fn parse_object_json(line: &[u8], template: &KeyTemplate) -> Result<Record, String> {
    let fields = parse_object(line)?;
    let key = template.fill(|name| match fields.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })?;
    Ok(Record { key: key.into_bytes(), value: line.trim_ascii().to_vec(), expiry_ms: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_base64() {
        let record =
            Record { key: b"k\xff".into(), value: "ü\n\0".as_bytes().into(), expiry_ms: Some(7) };
        let mut line = Vec::new();
        put_entry_json(&mut line, &record);
        let text = "{\"key\":{\"base64\":\"a/8=\"},\"value\":\"ü\\n\\u0000\",\"expiry_ms\":7}\n";
        assert_eq!(String::from_utf8(line).unwrap(), text);
        assert_eq!(parse_entry_json(text.as_bytes()), Ok(record));
    }

    #[test]
    fn lines_that_are_no_entries_are_refused() {
        for line in [
            "",
            "[]",
            "{",
            "{\"key\":\"a\"}",
            "{\"value\":\"a\"}",
            "{\"key\":1,\"value\":\"\"}",
            "{\"key\":{\"base64\":\"!\"},\"value\":\"\"}",
            "{\"key\":{\"base64\":\"\",\"x\":1},\"value\":\"\"}",
            "{\"key\":\"a\",\"value\":\"b\",\"expiry_ms\":-1}",
            "{\"key\":\"a\",\"value\":\"b\",\"color\":1}",
        ] {
            assert!(parse_entry_json(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn objects_get_their_key_from_a_template() {
        let template = KeyTemplate::parse("user:{id}").unwrap();
        let record = parse_object_json(b" {\"id\": 7, \"name\": \"x\"} ", &template).unwrap();
        assert_eq!(record.key, b"user:7");
        assert_eq!(record.value, b"{\"id\": 7, \"name\": \"x\"}");
        assert!(parse_object_json(b"{\"name\": \"x\"}", &template).is_err());
    }
}
