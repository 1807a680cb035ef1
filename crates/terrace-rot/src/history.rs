//! What was written, in its order: the oracle.

use std::collections::{BTreeMap, BTreeSet};

use terrace_engine::{Result, WriteBatch};

/// Keys and values as they are at one moment.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// One entry of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a key. No two puts of a history set the same value.
    Put(Vec<u8>, Vec<u8>),
    /// Deletes a key.
    Delete(Vec<u8>),
    /// Deletes the keys of an interval, its end not included.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Steps in the order in which they were acknowledged; each was one atomic batch.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The steps.
    pub steps: Vec<Vec<Op>>,
}

impl History {
    /// The batch of a step.
    pub fn batch(step: &[Op]) -> Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        for op in step {
            match op {
                Op::Put(key, value) => batch.put(key, value)?,
                Op::Delete(key) => batch.delete(key)?,
                Op::DeleteRange(start, end) => batch.delete_range(start, end)?,
            }
        }
        Ok(batch)
    }

    /// The content after each number of steps, from none to all. Cost: memory for each of them, so
    /// histories are short.
    #[must_use]
    pub fn contents(&self) -> Vec<Content> {
        let mut contents = vec![Content::new()];
        let mut content = Content::new();
        for step in &self.steps {
            apply(&mut content, step);
            contents.push(content.clone());
        }
        contents
    }

    /// The content after all steps.
    #[must_use]
    pub fn last(&self) -> Content {
        let mut content = Content::new();
        self.steps.iter().for_each(|step| apply(&mut content, step));
        content
    }

    /// Every key with every value that was ever written to it.
    #[must_use]
    pub fn written(&self) -> BTreeSet<(Vec<u8>, Vec<u8>)> {
        let ops = self.steps.iter().flatten();
        ops.filter_map(|op| match op {
            Op::Put(key, value) => Some((key.clone(), value.clone())),
            _ => None,
        })
        .collect()
    }

    /// How many steps lie wholly at or below a sequence number, if numbers begin at 1 and each
    /// entry takes one.
    #[must_use]
    pub fn steps_through(&self, seqno: u64) -> usize {
        let mut end = 0;
        let ends = self.steps.iter().map(|step| {
            end += step.len() as u64;
            end
        });
        ends.take_while(|end| *end <= seqno).count()
    }
}

fn apply(content: &mut Content, step: &[Op]) {
    for op in step {
        match op {
            Op::Put(key, value) => {
                content.insert(key.clone(), value.clone());
            }
            Op::Delete(key) => {
                content.remove(key);
            }
            Op::DeleteRange(start, end) => {
                content.retain(|key, _| key < start || key >= end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn a_history_knows_its_prefixes() {
        let history = History {
            steps: vec![
                vec![Op::Put(bytes("a"), bytes("1")), Op::Put(bytes("b"), bytes("2"))],
                vec![Op::Delete(bytes("a"))],
                vec![Op::Put(bytes("c"), bytes("3")), Op::DeleteRange(bytes("b"), bytes("c"))],
            ],
        };
        let sizes: Vec<usize> = history.contents().iter().map(Content::len).collect();
        assert_eq!(sizes, [0, 2, 1, 1]);
        assert_eq!(history.last().keys().collect::<Vec<_>>(), [&bytes("c")]);
        assert_eq!([1, 2, 3, 4, 5].map(|seqno| history.steps_through(seqno)), [0, 1, 2, 2, 3]);
    }
}
