//! What stands in the value log, how much of it is dead, and what was done about that.

use serde_json::Value;

use super::{Figured, line_of};
use crate::terminal::HumanCount;

/// What is said of a database whose values are all in its tables.
const NO_VALUES: &str = "no value stands apart: with --large-values large ones do\n";

/// The figures for programs, out of those of the whole database.
pub(super) fn as_json(figures: &Figured) -> Value {
    figures.0.pointer("/value_log").cloned().unwrap_or_default()
}

/// The figures for people.
pub(super) fn shown(figures: &Figured) -> String {
    let number = |name: &str| figures.number(&format!("/value_log/{name}"));
    let bytes = |name: &str| figures.bytes(&format!("/value_log/{name}"));
    let count = |name: &str| HumanCount(number(name)).to_string();
    if number("file_count") + number("removed_count") + number("written_bytes") == 0 {
        return NO_VALUES.to_owned();
    }
    let mut text = String::from("the value log\n");
    let files = format!(
        "{}, {} in all; {} of them as the log wrote them",
        count("file_count"),
        bytes("bytes"),
        count("in_log_count")
    );
    line_of(&mut text, "files", &files);
    line_of(&mut text, "segments", &count("segment_count"));
    let times = number("bytes") as f64 / number("live_bytes").max(1) as f64;
    let live = format!("{}; the files take {times:.2} times that", bytes("live_bytes"));
    line_of(&mut text, "named", &live);
    let hidden = format!("at most {} of that, by newer entries", bytes("hidden_bytes_max"));
    line_of(&mut text, "hidden", &hidden);
    let allowed = match figures.0.pointer("/value_log/dead_bytes_allowed") {
        Some(Value::Number(_)) => {
            format!("{}; with more, writers are slowed down", bytes("dead_bytes_allowed"))
        }
        _ => "any number of bytes: nothing is written anew".to_owned(),
    };
    line_of(&mut text, "may be dead", &allowed);
    text.push_str("since the open\n");
    line_of(&mut text, "written", &bytes("written_bytes"));
    line_of(&mut text, "written anew", &bytes("rewritten_bytes"));
    let gone = format!("{}, in {} files", bytes("removed_bytes"), count("removed_count"));
    line_of(&mut text, "given back", &gone);
    if number("in_place_bytes") > 0 {
        let medium = format!("{} of medium values", bytes("in_place_bytes"));
        line_of(&mut text, "into tables", &medium);
    }
    if number("asked_ahead") > 0 {
        let ahead = format!("{} values, by scans that waited", count("asked_ahead"));
        line_of(&mut text, "asked ahead", &ahead);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_log_says_what_it_holds_and_what_may_be_dead() {
        let figures = json!({ "value_log": {
            "file_count": 3, "in_log_count": 2, "segment_count": 5, "bytes": 12 << 20,
            "live_bytes": 10 << 20, "hidden_bytes_max": 1 << 20, "dead_bytes_allowed": 3 << 20,
            "written_bytes": 4 << 20, "rewritten_bytes": 2 << 20, "in_place_bytes": 0,
            "removed_count": 7, "removed_bytes": 6 << 20, "asked_ahead": 1200,
        } });
        let expected = "\
the value log
  files          3, 12.00 MiB in all; 2 of them as the log wrote them
  segments       5
  named          10.00 MiB; the files take 1.20 times that
  hidden         at most 1.00 MiB of that, by newer entries
  may be dead    3.00 MiB; with more, writers are slowed down
since the open
  written        4.00 MiB
  written anew   2.00 MiB
  given back     6.00 MiB, in 7 files
  asked ahead    1,200 values, by scans that waited
";
        assert_eq!(shown(&Figured(figures.clone())), expected);
        assert_eq!(as_json(&Figured(figures)).pointer("/segment_count"), Some(&json!(5)));
        assert_eq!(shown(&Figured(json!({ "value_log": { "file_count": 0 } }))), NO_VALUES);
    }
}
