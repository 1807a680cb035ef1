//! A durable queue: what is pushed survives, and several workers share it with no job done by two.
//!
//! ```text
//! 100 jobs waiting
//! 2 workers took 100 jobs, and none twice
//! 0 jobs waiting
//! ```

#![allow(clippy::disallowed_methods, reason = "the workers are threads of the program")]

use std::error::Error;
use std::thread;

use terrace::{Db, Keyspace, Result};

#[derive(Clone)]
struct Queue {
    jobs: Keyspace,
    numbers: Keyspace,
}

impl Queue {
    fn open(db: &Db) -> Result<Queue> {
        Ok(Queue { jobs: db.keyspace("jobs")?, numbers: db.keyspace("numbers")? })
    }

    /// Adds a job behind all others. A crash in between leaves out a number, which harms nobody.
    fn push(&self, job: &str) -> Result<()> {
        let number = self.numbers.update("last", |last| {
            let last = last.and_then(|last| last.try_into().ok()).map_or(0, u64::from_be_bytes);
            Some((last + 1).to_be_bytes().to_vec())
        })?;
        match number {
            Some(number) => self.jobs.put(number, job),
            None => unreachable!("the update puts a number"),
        }
    }

    /// Takes the first job, unless another worker was faster: then the next one.
    fn pop(&self) -> Result<Option<String>> {
        for row in self.jobs.iter() {
            let (number, job) = row?;
            if self.jobs.compare_and_swap(number, Some(&job), None)?.is_swapped() {
                return Ok(Some(String::from_utf8_lossy(&job).into_owned()));
            }
        }
        Ok(None)
    }

    fn len(&self) -> usize {
        self.jobs.iter().keys().count()
    }
}

/// Takes jobs until there are no more.
fn work(queue: Queue) -> Result<Vec<String>> {
    let mut done = Vec::new();
    while let Some(job) = queue.pop()? {
        done.push(job);
    }
    Ok(done)
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("queue").into());
    let db = Db::open(dir)?;
    let queue = Queue::open(&db)?;
    queue.jobs.clear()?;
    for number in 0..100 {
        queue.push(&format!("job {number}"))?;
    }
    println!("{} jobs waiting", queue.len());

    let workers = [queue.clone(), queue.clone()].map(|queue| thread::spawn(move || work(queue)));
    let mut done = Vec::new();
    for worker in workers {
        done.extend(worker.join().map_err(|_| "a worker panicked")??);
    }
    let count = done.len();
    done.sort();
    done.dedup();
    let twice = if done.len() == count { "none twice" } else { "some twice" };
    println!("2 workers took {count} jobs, and {twice}");
    println!("{} jobs waiting", queue.len());
    Ok(())
}
