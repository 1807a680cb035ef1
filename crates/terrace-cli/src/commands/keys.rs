use crate::args::{DeleteArgs, GetArgs, PutArgs, ValueOutput};
use crate::clock;
use crate::commands::with_data;
use crate::data::{Access, Data};
use crate::failure::{Failure, Outcome};
use crate::format::{Record, put_entry_json, put_escaped, put_shown};
use crate::terminal::{self, Output};

/// A key in a message.
fn shown(key: &[u8]) -> String {
    let mut out = Vec::new();
    put_escaped(&mut out, key);
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn get(args: GetArgs) -> Outcome {
    let key = args.keys.bytes(&args.key)?;
    let value = with_data(&args.data, Access::Read, |data| data.get(&key))?;
    let Some(value) = value else {
        return Err(Failure::Negative(format!("there is no key {}", shown(&key))));
    };
    let by_reader = if Output::is_terminal() { ValueOutput::Text } else { ValueOutput::Raw };
    let mut bytes = Vec::new();
    match args.output.unwrap_or(by_reader) {
        ValueOutput::Raw => bytes = value,
        ValueOutput::Text => {
            put_shown(&mut bytes, &value);
            bytes.push(b'\n');
        }
        ValueOutput::Json => {
            put_entry_json(&mut bytes, &Record { key, value, expiry_ms: None });
        }
    }
    let mut output = Output::new();
    output.write(&bytes)?;
    output.finish()
}

pub(super) fn put(args: PutArgs) -> Outcome {
    let key = args.keys.bytes(&args.key)?;
    let value = if args.value.as_encoded_bytes() == b"-" {
        terminal::read_input()?
    } else {
        args.keys.bytes(&args.value)?
    };
    let expiry_ms = match args.ttl.map(|ttl| u64::try_from(ttl.as_millis())) {
        None => None,
        Some(ttl_ms) => {
            let at = ttl_ms.ok().and_then(|ms| clock::wall_now().0.checked_add(ms));
            let in_bounds = at.filter(|&at| i64::try_from(at).is_ok());
            Some(in_bounds.ok_or_else(|| Failure::Usage("--ttl is too long".to_owned()))?)
        }
    };
    if !args.if_absent && args.if_equal.is_none() {
        let record = Record { key, value, expiry_ms };
        return with_data(&args.data, Access::Create, |data| data.put(&[record]));
    }
    let expected = args.if_equal.as_ref().map(|text| args.keys.bytes(text)).transpose()?;
    let put = |data: &mut dyn Data| data.put_if(&key, expected.as_deref(), &value);
    match with_data(&args.data, Access::Create, put)? {
        true => Ok(()),
        false => {
            let what = if args.if_absent { "is there" } else { "holds something else, or nothing" };
            Err(Failure::Negative(format!("{} {what}; nothing was written", shown(&key))))
        }
    }
}

pub(super) fn delete(args: DeleteArgs) -> Outcome {
    let keys: Vec<Vec<u8>> =
        args.key.iter().map(|key| args.keys.bytes(key)).collect::<Outcome<_>>()?;
    let deleted = with_data(&args.data, Access::Write, |data| data.delete(&keys))?;
    let mut output = Output::new();
    output.line(deleted)?;
    output.finish()?;
    if deleted == 0 {
        return Err(Failure::Negative("none of the keys was there".to_owned()));
    }
    Ok(())
}
