//! The keys and values of an interval as a stream.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::future::BoxFuture;
use terrace_base::KeyRange as OwnedRange;

use crate::Result;
use crate::asynchronous::waiting::{Waiting, at_once, ended, start};
use crate::view::{Iter, Key, Value, View};

/// How many rows are tried to be read on the task's thread: a short interval that is in memory
/// needs no other one.
const AT_ONCE_MAX: usize = 32;

/// The most rows, and about the most bytes, that are read ahead.
const BATCH_ROWS_MAX: usize = 1024;
const BATCH_BYTES: usize = 256 << 10;

/// The rows of the first batch; each one after it has twice as many.
const FIRST_BATCH_ROWS: usize = 64;

type Row = Result<(Key, Value)>;

/// The keys and values of an interval, all as they were when the first was asked for, in their
/// order: a stream. Made by [`AsyncView::range`](crate::asynchronous::AsyncView::range) and its
/// like.
///
/// A short interval that is in memory is read at once. Of others batches are read on threads that
/// may wait, one ahead of what was taken, and never more: no more than two batches of some 256 KiB
/// (or of one value, if that is longer) are held, however slowly they are taken. It may be dropped
/// at any time; the batch that is being read is read to its end then, and thrown away. While it
/// lives, versions that it may still show are kept.
///
/// An error is the last item, unless it is of one key alone (`Merge`, `Unsupported`).
pub struct Rows {
    state: State,
    waiting: Waiting,
    ready: VecDeque<Row>,
    ready_bytes: usize,
    batch_rows: usize,
}

enum State {
    /// Nothing was read: the view for this thread, the one for others, and what to read.
    Begin {
        quick: View,
        view: View,
        range: OwnedRange,
        reverse: bool,
    },
    /// A batch is being read.
    Reading(BoxFuture<'static, Result<Batch>>),
    /// There is more, of which nothing is read yet.
    More(Source),
    End,
}

/// Rows that were read, and where there are more, if there are.
struct Batch {
    rows: VecDeque<Row>,
    more: Option<Source>,
}

/// Rows in a direction.
struct Source {
    iter: Iter,
    reverse: bool,
}

impl Source {
    fn new(view: &View, range: OwnedRange, reverse: bool) -> Source {
        Source { iter: Iter::new(view.cursor_over(range)), reverse }
    }

    fn next(&mut self) -> Option<Row> {
        if self.reverse { self.iter.next_back() } else { self.iter.next() }
    }

    /// Reads a batch, waiting where it has to.
    fn read(mut self, rows_max: usize) -> Batch {
        let (mut rows, mut bytes) = (VecDeque::new(), 0);
        while rows.len() < rows_max && bytes < BATCH_BYTES {
            let Some(row) = self.next() else { return Batch { rows, more: None } };
            bytes += bytes_of(&row);
            rows.push_back(row);
        }
        Batch { rows, more: Some(self) }
    }

    /// All rows, if there are few and none of them has to be waited for. Otherwise it is as if it
    /// had not been tried.
    fn read_at_once(mut self) -> Option<VecDeque<Row>> {
        let mut rows = VecDeque::new();
        while let Some(row) = self.next() {
            match at_once(row) {
                Some(row) if rows.len() < AT_ONCE_MAX => rows.push_back(row),
                _ => {
                    self.iter.discard_tally();
                    return None;
                }
            }
        }
        Some(rows)
    }
}

fn bytes_of(row: &Row) -> usize {
    row.as_ref().map_or(0, |(key, value)| key.len() + value.len())
}

impl Rows {
    /// The views are the one for this thread, and the one for threads that may wait.
    pub(super) fn new(views: [View; 2], range: OwnedRange, waiting: &Waiting) -> Rows {
        let [quick, view] = views;
        Rows {
            state: State::Begin { quick, view, range, reverse: false },
            waiting: waiting.clone(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            batch_rows: FIRST_BATCH_ROWS,
        }
    }

    /// The same rows from the last to the first.
    ///
    /// # Panics
    /// If a row was asked for already.
    #[must_use]
    pub fn rev(mut self) -> Rows {
        let State::Begin { reverse, .. } = &mut self.state else {
            panic!("a stream that has begun goes on in its direction");
        };
        *reverse = !*reverse;
        self
    }

    /// The next row; `None` after the last one. If the future is dropped, no row is lost.
    pub async fn next(&mut self) -> Option<Row> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Goes on to read, if nothing is being read and little is left.
    fn read_ahead(&mut self) {
        if self.ready.len() > self.batch_rows / 2 || self.ready_bytes > BATCH_BYTES / 2 {
            return;
        }
        self.state = match mem::replace(&mut self.state, State::End) {
            State::Begin { quick, view, range, reverse } => {
                match Source::new(&quick, range.clone(), reverse).read_at_once() {
                    Some(rows) => {
                        self.hold(rows);
                        State::End
                    }
                    None => self.reading(move || Source::new(&view, range, reverse)),
                }
            }
            State::More(source) => self.reading(move || source),
            state => state,
        };
    }

    fn reading(&mut self, source: impl FnOnce() -> Source + Send + 'static) -> State {
        let (waiting, rows_max) = (self.waiting.clone(), self.batch_rows);
        self.batch_rows = (2 * self.batch_rows).min(BATCH_ROWS_MAX);
        State::Reading(Box::pin(async move {
            let permit = waiting.permit().await;
            ended(start(permit, move || source().read(rows_max)).await)
        }))
    }

    /// Takes a batch that was read.
    fn take(&mut self, read: Result<Batch>) {
        self.state = State::End;
        match read {
            Ok(batch) => {
                self.hold(batch.rows);
                if let Some(source) = batch.more {
                    self.state = State::More(source);
                }
            }
            Err(error) => self.ready.push_back(Err(error)),
        }
    }

    fn hold(&mut self, rows: VecDeque<Row>) {
        self.ready_bytes += rows.iter().map(bytes_of).sum::<usize>();
        self.ready.extend(rows);
    }
}

impl Stream for Rows {
    type Item = Row;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Row>> {
        let rows = self.get_mut();
        loop {
            rows.read_ahead();
            if let State::Reading(reading) = &mut rows.state {
                match reading.as_mut().poll(cx) {
                    Poll::Ready(read) => {
                        rows.take(read);
                        continue;
                    }
                    Poll::Pending if rows.ready.is_empty() => return Poll::Pending,
                    Poll::Pending => {}
                }
            }
            // A task that always finds rows ready lets others go on at times.
            let turn = ready!(tokio::task::coop::poll_proceed(cx));
            turn.made_progress();
            let row = rows.ready.pop_front();
            rows.ready_bytes -= row.as_ref().map_or(0, bytes_of);
            return Poll::Ready(row);
        }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Begin { .. } => "not begun",
            State::Reading(_) => "reading",
            State::More(_) => "more to read",
            State::End => "read to the end",
        };
        write!(f, "Rows({state}, {} ready)", self.ready.len())
    }
}
