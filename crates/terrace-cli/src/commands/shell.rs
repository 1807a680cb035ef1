//! Lines of data commands, one after the other, on one open database.

use std::cell::RefCell;
use std::rc::Rc;

use clap::Parser as _;
use terrace::OwnedRange;

use crate::args::{ShellArgs, ShellCommand, ShellLine, UseArgs, shell_words};
use crate::commands::{Session, run_on};
use crate::data::{Walk, Wanted};
use crate::failure::{Failure, Outcome};
use crate::format::{parse_escaped, put_escaped, quote_word, split_words};
use crate::prompt::{Line, Prompt};
use crate::terminal;

/// How many keys are offered in place of the beginning of one.
const COMPLETED_KEYS: u64 = 50;

/// The commands whose words are keys.
const KEY_COMMANDS: &[&str] = &["get", "put", "delete"];

pub(super) fn shell(args: &ShellArgs, mut session: Session) -> Outcome {
    session.is_shell = true;
    let stop = session.stop()?;
    // Now, so that a wrong place is said before anything is typed.
    session.data()?;
    let session = Rc::new(RefCell::new(session));
    let shared = Rc::clone(&session);
    let mut prompt = Prompt::new(Box::new(move |line| complete(line, &mut shared.borrow_mut())))?;
    if prompt.is_person() {
        terminal::note("`help` lists the commands, `exit` or Ctrl-D ends");
    }
    let mut outcome = Ok(());
    loop {
        if prompt.is_person() {
            stop.clear();
        } else if stop.is_set() {
            outcome = Err(Failure::Interrupted("stopped".to_owned()));
            break;
        }
        let name = session.borrow().target.args.keyspace().map(|name| format!(":{name}"));
        let done = match prompt.line(&format!("terrace{}> ", name.unwrap_or_default()))? {
            Line::End => break,
            Line::Cancelled => continue,
            Line::Text(line) => run_line(&line, &mut session.borrow_mut()),
        };
        match done {
            Ok(Next::Line) => {}
            Ok(Next::End) => break,
            Err(Failure::ReaderGone) => break,
            Err(failure) => {
                session.borrow_mut().recover(&failure);
                if !prompt.is_person() && !args.keep_going {
                    outcome = Err(failure);
                    break;
                }
                terminal::complain(&failure);
                if !prompt.is_person() && outcome.is_ok() {
                    // It was said already.
                    outcome = Err(failure.silent());
                }
            }
        }
    }
    let kept = prompt.finish();
    let closed = session.borrow_mut().close();
    outcome.and(closed).and(kept)
}

enum Next {
    Line,
    End,
}

fn run_line(line: &str, session: &mut Session) -> Outcome<Next> {
    if line.trim_start().starts_with('#') {
        return Ok(Next::Line);
    }
    let words = split_words(line).map_err(Failure::Usage)?;
    if words.is_empty() {
        return Ok(Next::Line);
    }
    let parsed = match ShellLine::try_parse_from(words) {
        Ok(parsed) => parsed,
        Err(error) if !error.use_stderr() => {
            // Help, which was asked for.
            super::maintain::print(error.render().to_string().trim_end())?;
            return Ok(Next::Line);
        }
        Err(error) => {
            let text = error.render().to_string();
            let text = text.trim().strip_prefix("error: ").unwrap_or(text.trim()).to_owned();
            return Err(Failure::Usage(text));
        }
    };
    match parsed.command {
        ShellCommand::Exit => return Ok(Next::End),
        ShellCommand::Use(args) => go_on_in(&args, session)?,
        ShellCommand::Data(command) => run_on(command, session)?,
    }
    Ok(Next::Line)
}

fn go_on_in(args: &UseArgs, session: &mut Session) -> Outcome {
    session.data()?.use_keyspace(&args.name, args.make)?;
    let is_default = args.name == "default";
    session.target.args.set_keyspace((!is_default).then(|| args.name.clone()));
    Ok(())
}

/// What may stand in place of the last word of `line`: where that begins, and what fits.
fn complete(line: &str, session: &mut Session) -> (usize, Vec<String>) {
    let start = line.rfind([' ', '\t']).map_or(0, |blank| blank + 1);
    let (before, word) = line.split_at(start);
    // Within quotes nothing is offered.
    let Ok(words) = split_words(before) else { return (start, Vec::new()) };
    let offered = match words.first().map(String::as_str) {
        None => shell_words(None),
        Some("help") => shell_words(None),
        Some(command) if word.starts_with("--") => shell_words(Some(command)),
        Some("use") => keyspaces(session),
        Some("keyspaces") if words.len() == 1 => vec!["drop".to_owned()],
        Some("keyspaces") => keyspaces(session),
        Some("explain") if words.len() == 1 => vec!["get".to_owned(), "scan".to_owned()],
        Some("explain") => keys(word, session),
        Some(command) if KEY_COMMANDS.contains(&command) => keys(word, session),
        Some(_) => Vec::new(),
    };
    let fits = offered.into_iter().filter(|offer| offer.starts_with(word) && offer != word);
    (start, fits.collect())
}

fn keyspaces(session: &mut Session) -> Vec<String> {
    // Whoever presses the tabulator wants no complaints.
    let names = session.data().and_then(|data| data.keyspaces()).unwrap_or_default();
    names.iter().map(|(name, _)| quote_word(name)).collect()
}

/// Keys that begin with what a word stands for, as words.
fn keys(word: &str, session: &mut Session) -> Vec<String> {
    let Ok(prefix) = parse_escaped(word.as_bytes()) else { return Vec::new() };
    let range = OwnedRange::prefix(&prefix);
    let walk = Walk { range, reverse: false, limit: COMPLETED_KEYS, wanted: Wanted::Keys };
    let mut keys = Vec::new();
    let walked = session.data().and_then(|data| {
        data.walk(&walk, &mut |record| {
            let mut key = Vec::new();
            put_escaped(&mut key, &record.key);
            keys.push(quote_word(&String::from_utf8_lossy(&key)));
            Ok(())
        })
    });
    if let Err(failure) = walked {
        session.recover(&failure);
    }
    keys
}
