use crate::args::{self, DeleteArgs, GetArgs, PutArgs, ValueOutput};
use crate::clock;
use crate::commands::Session;
use crate::commands::maintain::print;
use crate::commands::scan::Shape;
use crate::data::{Walk, Wanted};
use crate::failure::{Failure, Outcome};
use crate::format::{Record, put_escaped, put_hex, put_shown};
use crate::terminal::{self, Output};

/// How many of the keys that would be deleted are shown.
const SHOWN_KEYS: u64 = 10;

/// A key in a message.
fn shown(key: &[u8]) -> String {
    let mut out = Vec::new();
    put_escaped(&mut out, key);
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn get(args: GetArgs, session: &mut Session) -> Outcome {
    let keys: Vec<Vec<u8>> =
        args.key.iter().map(|key| args.keys.bytes(key)).collect::<Outcome<_>>()?;
    let is_json = args.output == Some(ValueOutput::Json);
    let kind = if is_json { args::Output::Json } else { args::Output::Text };
    let shape = Shape::new(kind, args.keys.hex)?;
    if keys.len() > 1 && args.output == Some(ValueOutput::Raw) {
        return Err(Failure::Usage(
            "nothing would show where a raw value ends; ask for one key, or say --output text or \
             json"
                .to_owned(),
        ));
    }
    let found = session.data()?.get(&keys, if is_json { Wanted::All } else { Wanted::Values })?;
    let mut bytes = Vec::new();
    for mut record in found.iter().flatten().cloned() {
        if is_json {
            shape.put_entry(&mut bytes, &record);
        } else if keys.len() > 1 {
            record.expiry_ms = None;
            shape.put_entry(&mut bytes, &record);
        } else {
            put_value(&mut bytes, &record, args.output, shape);
        }
    }
    let mut output = Output::new();
    output.write(&bytes)?;
    output.finish()?;
    let missing = keys.iter().zip(&found).filter(|(_, found)| found.is_none());
    let missing: Vec<String> = missing.map(|(key, _)| shown(key)).collect();
    match missing.as_slice() {
        [] => Ok(()),
        [key] => Err(Failure::Negative(format!("there is no key {key}"))),
        keys => Err(Failure::Negative(format!("there are no keys {}", keys.join(", ")))),
    }
}

/// Appends the value of a single key.
fn put_value(bytes: &mut Vec<u8>, record: &Record, output: Option<ValueOutput>, shape: Shape) {
    let by_reader = if Output::is_terminal() { ValueOutput::Text } else { ValueOutput::Raw };
    match (shape, output.unwrap_or(by_reader)) {
        (Shape::Hex, _) => put_hex(bytes, &record.value),
        (_, ValueOutput::Raw) => return bytes.extend_from_slice(&record.value),
        (_, _) => put_shown(bytes, &record.value),
    }
    bytes.push(b'\n');
}

pub(super) fn put(args: PutArgs, session: &mut Session) -> Outcome {
    let key = args.text.key(&args.key)?;
    let value = if args.value.as_encoded_bytes() == b"-" {
        session.check_input()?;
        terminal::read_input()?
    } else {
        args.text.value(&args.value)?
    };
    let expiry_ms = match args.ttl.map(|ttl| u64::try_from(ttl.as_millis())) {
        None => None,
        Some(ttl_ms) => {
            let at = ttl_ms.ok().and_then(|ms| clock::wall_now().0.checked_add(ms));
            let in_bounds = at.filter(|&at| i64::try_from(at).is_ok());
            Some(in_bounds.ok_or_else(|| Failure::Usage("--ttl is too long".to_owned()))?)
        }
    };
    let record = Record { key, value, expiry_ms };
    if !args.if_absent && args.if_equal.is_none() {
        return session.data()?.put(&[record]);
    }
    let expected = args.if_equal.as_ref().map(|text| args.text.value(text)).transpose()?;
    if session.data()?.put_if(&record, expected.as_deref())? {
        return Ok(());
    }
    let what = if args.if_absent { "is there" } else { "holds something else, or nothing" };
    Err(Failure::Negative(format!("{} {what}; nothing was written", shown(&record.key))))
}

pub(super) fn delete(args: DeleteArgs, session: &mut Session) -> Outcome {
    if args.all || args.range.is_said() {
        return delete_range(&args, session);
    }
    let keys: Vec<Vec<u8>> =
        args.key.iter().map(|key| args.range.keys.bytes(key)).collect::<Outcome<_>>()?;
    if args.dry_run {
        let mut there =
            session.data()?.get(&keys, Wanted::Keys)?.into_iter().flatten().collect::<Vec<_>>();
        there.dedup_by(|one, other| one.key == other.key);
        let count = there.len() as u64;
        there.truncate(SHOWN_KEYS as usize);
        return print_plan(count, &there);
    }
    let deleted = session.data()?.delete(&keys)?;
    print(deleted)?;
    if deleted == 0 {
        return Err(Failure::Negative("none of the keys was there".to_owned()));
    }
    Ok(())
}

/// Deletes the keys of an interval. They are not counted: that would take longer than to delete
/// them.
fn delete_range(args: &DeleteArgs, session: &mut Session) -> Outcome {
    let range = args.range.range()?;
    let stop = session.stop_if_caught();
    let data = session.data()?;
    if !args.dry_run {
        return data.delete_range(&range);
    }
    let count = data.count(&range, &stop)?;
    let mut first = Vec::new();
    let walk = Walk { range, reverse: false, limit: SHOWN_KEYS, wanted: Wanted::Keys };
    data.walk(&walk, &mut |record| {
        first.push(record.clone());
        Ok(())
    })?;
    print_plan(count, &first)
}

/// Says what would be deleted.
fn print_plan(count: u64, first: &[Record]) -> Outcome {
    let mut output = Output::new();
    output.line(format_args!("{count} keys would be deleted"))?;
    for record in first {
        output.line(format_args!("  {}", shown(&record.key)))?;
    }
    if count > first.len() as u64 {
        output.line("  ...")?;
    }
    output.finish()
}
