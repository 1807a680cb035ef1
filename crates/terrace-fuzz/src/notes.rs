//! How far an execution came, in the words of the target: errors by their text, successes by kind.

use std::cell::RefCell;
use std::collections::BTreeSet;

/// Texts that are the same in their first letters, this number of them, are the same outcome.
const LETTERS_MAX: usize = 48;

thread_local! {
    static OUTCOMES: RefCell<Option<BTreeSet<u64>>> = const { RefCell::new(None) };
}

/// Begins to collect the outcomes that this thread notes.
pub fn begin() {
    OUTCOMES.with(|outcomes| *outcomes.borrow_mut() = Some(BTreeSet::new()));
}

/// Ends collecting; returns the hashes of the outcomes noted since [`begin`].
pub fn end() -> BTreeSet<u64> {
    OUTCOMES.with(|outcomes| outcomes.borrow_mut().take().unwrap_or_default())
}

/// Notes an outcome: its first words, up to anything quoted. Numbers do not make it another one.
pub fn note(text: &str) {
    OUTCOMES.with(|outcomes| {
        if let Some(outcomes) = &mut *outcomes.borrow_mut() {
            let said = text.split(['"', '\'', '`']).next().unwrap_or_default();
            let letters = said.bytes().filter(u8::is_ascii_alphabetic).take(LETTERS_MAX);
            outcomes.insert(terrace_base::hash_bytes(0, &letters.collect::<Vec<u8>>()));
        }
    });
}

/// Takes over outcomes that another thread noted.
pub fn note_all(noted: BTreeSet<u64>) {
    OUTCOMES.with(|outcomes| {
        if let Some(outcomes) = &mut *outcomes.borrow_mut() {
            outcomes.extend(noted);
        }
    });
}

/// Notes whether something went well, and else how not; `what` says what it is.
pub fn note_result<T, E: std::fmt::Display>(what: &str, result: &Result<T, E>) {
    match result {
        Ok(_) => note(what),
        Err(error) => note(&format!("{what}: {error}")),
    }
}

/// Notes the magnitude of a number: one outcome for each power of two.
pub fn note_size(what: &str, size: usize) {
    OUTCOMES.with(|outcomes| {
        if let Some(outcomes) = &mut *outcomes.borrow_mut() {
            let magnitude = u64::from(usize::BITS - size.leading_zeros());
            outcomes.insert(terrace_base::hash_bytes(1 + magnitude, what.as_bytes()));
        }
    });
}
