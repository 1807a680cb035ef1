//! A merge operator of the program's own: it keeps the three best scores of each game.
//!
//! ```text
//! chess: 31 12 9
//! refused: the merge operator of the keyspace refuses … "chess" (it is not four bytes); …
//! ```

use std::error::Error;

use terrace::{Db, ErrorKind, KeyspaceOptions, MergeFailure, MergeOperator};

/// Values and operands are scores of four bytes each, one behind the other.
#[derive(Debug)]
struct Best;

const KEPT: usize = 3;

impl MergeOperator for Best {
    /// The database keeps this name: it stays what it is, and so does what the operator means.
    fn name(&self) -> &str {
        "best-3"
    }

    /// Asked at the write, so that nothing is kept that could not be read.
    fn check(&self, _key: &[u8], operand: &[u8]) -> Result<(), MergeFailure> {
        if operand.len() == 4 { Ok(()) } else { Err(MergeFailure::new("it is not four bytes")) }
    }

    /// What the operands, the oldest first, make of the value under them.
    fn full(
        &self,
        _key: &[u8],
        value: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure> {
        let all = value.into_iter().chain(operands.iter().copied());
        let mut scores: Vec<[u8; 4]> =
            all.flat_map(|bytes| bytes.as_chunks::<4>().0).copied().collect();
        scores.sort_by_key(|&score| std::cmp::Reverse(u32::from_be_bytes(score)));
        scores.truncate(KEPT);
        Ok(scores.concat())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("games").into());
    // Every open brings the operator along; a keyspace is given it once.
    let db = Db::options().merge_operator(Best).open(dir)?;
    let scores = db.keyspace_with("scores", KeyspaceOptions::new().merge_operator("best-3"))?;

    scores.delete("chess")?;
    for score in [7u32, 31, 9, 12] {
        scores.merge("chess", score.to_be_bytes())?;
    }
    let best = scores.get("chess")?.map(terrace::Value::into_vec).unwrap_or_default();
    let best = best.as_chunks::<4>().0.iter().map(|&score| u32::from_be_bytes(score).to_string());
    println!("chess: {}", best.collect::<Vec<_>>().join(" "));

    match scores.merge("chess", "a lot") {
        Err(error) if error.kind() == ErrorKind::Invalid => println!("refused: {error}"),
        other => other?,
    }
    Ok(())
}
