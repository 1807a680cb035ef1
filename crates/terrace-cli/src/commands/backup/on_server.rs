//! Backups that a running server makes, on its side.

use std::time::{Duration, SystemTime};

use super::{Made, damaged, listed};
use crate::args::{BackupChoiceArgs, BackupCreateArgs, BackupPlaceArgs};
use crate::commands::Target;
use crate::failure::Outcome;
use crate::terminal::Output;

pub(super) fn create(args: &BackupCreateArgs, target: &Target) -> Outcome {
    let [rate, keep] = [args.rate, args.keep.map(u64::from)].map(|said| said.map(decimal));
    let mut request: Vec<&[u8]> = vec![b"BACKUP", b"CREATE", b"IN", args.place.series()];
    request.extend(args.full.then_some(&b"FULL"[..]));
    request.extend(args.link.then_some(&b"LINK"[..]));
    for (word, said) in [(&b"RATE"[..], &rate), (b"KEEP", &keep)] {
        if let Some(number) = said {
            request.extend([word, number.as_bytes()]);
        }
    }
    let made = target.operate(|server, watch| server.operate(&request, watch))?;
    let made = Made {
        number: made.number("number"),
        bytes: made.number("bytes"),
        copied_bytes: made.number("copied_bytes"),
        shared_tables: made.number("shared_tables"),
        deleted: keep.is_some().then(|| made.number("deleted")),
    };
    made.note();
    Ok(())
}

fn decimal(number: u64) -> String {
    number.to_string()
}

pub(super) fn list(args: &BackupPlaceArgs, target: &Target) -> Outcome {
    let mut output = Output::new();
    for [number, created_s, bytes, seqno] in target.server()?.backups(args.series())? {
        let created_at = SystemTime::UNIX_EPOCH + Duration::from_secs(created_s);
        output.line(listed(number, created_at, bytes, seqno))?;
    }
    output.finish()
}

pub(super) fn verify(args: &BackupChoiceArgs, target: &Target) -> Outcome {
    let (number, series) = (args.number.to_string(), args.place.series());
    let request: [&[u8]; 5] = [b"BACKUP", b"VERIFY", number.as_bytes(), b"IN", series];
    let report = target.operate(|server, watch| server.operate(&request, watch))?;
    let mut output = Output::new();
    output.line(report.text("report"))?;
    output.finish()?;
    if report.number("clean") == 1 { Ok(()) } else { Err(damaged(args.number)) }
}

pub(super) fn delete(args: &BackupChoiceArgs, target: &Target) -> Outcome {
    let (number, series) = (args.number.to_string(), args.place.series());
    let request: [&[u8]; 5] = [b"BACKUP", b"DELETE", number.as_bytes(), b"IN", series];
    target.operate(|server, watch| server.operate_for_ok(&request, watch))
}
