//! Lines typed by a person, with history and completion, or out of a pipe.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::failure::{Failure, Outcome};
use crate::terminal;

/// Where the lines so far are kept, unless this variable names another file, or none.
const HISTORY_VARIABLE: &str = "TERRACE_HISTORY";
const HISTORY_NAME: &str = ".terrace_history";
const HISTORY_LINES: usize = 10_000;

/// What may stand in place of the word before a position: where that begins, and what fits.
pub(crate) type Complete = Box<dyn Fn(&str) -> (usize, Vec<String>)>;

/// What came of asking for a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// Ctrl-C: the line is given up.
    Cancelled,
    End,
}

/// Where lines come from.
pub(crate) enum Prompt {
    Person { editor: Box<Editor<Completions, FileHistory>>, history: Option<PathBuf> },
    Pipe(BufReader<Box<dyn Read>>),
}

impl Prompt {
    /// Errors: the terminal cannot be used.
    pub(crate) fn new(complete: Complete) -> Outcome<Prompt> {
        if !terminal::has_person() {
            return Ok(Prompt::Pipe(BufReader::new(terminal::input())));
        }
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .auto_add_history(true)
            .max_history_size(HISTORY_LINES)
            .map_err(|error| failed(&error))?
            .build();
        let mut editor = Box::new(Editor::with_config(config).map_err(|error| failed(&error))?);
        editor.set_helper(Some(Completions(complete)));
        let history = history_file();
        if let Some(path) = &history {
            // The first time there is none.
            let _ = editor.load_history(path);
        }
        Ok(Prompt::Person { editor, history })
    }

    /// Whether a person types.
    pub(crate) fn is_person(&self) -> bool {
        matches!(self, Prompt::Person { .. })
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self, prompt: &str) -> Outcome<Line> {
        match self {
            Prompt::Person { editor, .. } => match editor.readline(prompt) {
                Ok(line) => Ok(Line::Text(line)),
                Err(ReadlineError::Interrupted) => Ok(Line::Cancelled),
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(error) => Err(failed(&error)),
            },
            Prompt::Pipe(input) => {
                let mut line = String::new();
                match input.read_line(&mut line) {
                    Ok(0) => Ok(Line::End),
                    Ok(_) => Ok(Line::Text(line)),
                    Err(error) => {
                        Err(Failure::Failed(format!("standard input cannot be read: {error}")))
                    }
                }
            }
        }
    }

    /// Keeps the lines for the next time.
    pub(crate) fn finish(&mut self) -> Outcome {
        let Prompt::Person { editor, history: Some(path) } = self else { return Ok(()) };
        editor.append_history(path).map_err(|error| not_kept(path, &error))
    }
}

fn not_kept(path: &Path, error: &ReadlineError) -> Failure {
    Failure::Failed(format!(
        "the history cannot be kept in {} ({error}); set {HISTORY_VARIABLE} to another file, or \
         to nothing",
        path.display()
    ))
}

fn failed(error: &ReadlineError) -> Failure {
    Failure::Failed(format!("the terminal cannot be used: {error}"))
}

fn history_file() -> Option<PathBuf> {
    match terminal::environment(HISTORY_VARIABLE) {
        Some(path) => (!path.is_empty()).then(|| PathBuf::from(path)),
        None => terminal::environment("HOME").map(|home| Path::new(&home).join(HISTORY_NAME)),
    }
}

/// Asks for completions on the tabulator key.
pub(crate) struct Completions(Complete);

impl Completer for Completions {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(line.get(..position).map_or((0, Vec::new()), &self.0))
    }
}

impl Hinter for Completions {
    type Hint = String;
}
impl Highlighter for Completions {}
impl Validator for Completions {}
impl Helper for Completions {}
