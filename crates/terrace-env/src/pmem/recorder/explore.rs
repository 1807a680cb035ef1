use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_base::hash_bytes;

use super::choices::{cuts, line_choices};
use super::lines::{Line, Lines};
use super::{Event, LINE_BYTES, PmemRecording, filled, lines_of};
use crate::pmem::{Memory, Pmem, PmemMedium, PmemSide};
use crate::{EnvResult, SeededRng};

const WORD_BYTES: usize = 8;

/// Number of states that are remembered, so that none of them is judged twice.
const REMEMBERED_MAX: usize = 4 << 20;

/// What survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PmemDomain {
    /// What was flushed and fenced; of the rest anything.
    Adr,
    /// The caches too: every store, in order.
    Eadr,
}

/// How a recording is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmemExploration {
    /// What survives.
    pub domain: PmemDomain,
    /// Chooses the states where not all are tried.
    pub seed: u64,
}

/// A state in which a crash can leave an area.
#[derive(Debug)]
pub struct PmemCrash<'a> {
    /// The area as the next start finds it. It may be stored to (a recovery does): the next state
    /// is not touched by it. Claims must have been given back when the judge returns.
    pub pmem: &'a Pmem,
    /// The last mark before the crash.
    pub mark: Option<u64>,
    /// How many events (stores, flushes, fences, marks) came before it.
    pub events: usize,
}

/// What an exploration went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmemReport {
    /// Moments of a crash.
    pub points: u64,
    /// States that were judged, each once for each mark.
    pub states: u64,
    /// Most lines at once that no fence had made durable.
    pub unfenced_lines_max: usize,
}

/// A state that the judge calls wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmemViolation {
    /// How it was found.
    pub exploration: PmemExploration,
    /// The last mark before the crash.
    pub mark: Option<u64>,
    /// How many events came before the crash.
    pub events: usize,
    /// What came last and what of the open lines is left, in words.
    pub state: String,
    /// What the judge said.
    pub message: String,
}

impl fmt::Display for PmemViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PmemViolation { exploration, mark, events, state, message } = self;
        let PmemExploration { domain, seed } = exploration;
        write!(
            f,
            "{message} (after {events} events, mark {mark:?}, {domain:?}, seed {seed}: {state})"
        )
    }
}

impl std::error::Error for PmemViolation {}

impl PmemRecording {
    /// Shows `judge` every state in which a crash before a store or a fence, or at the end, can
    /// leave the area; as many of them as the module says. The judge says what is wrong with a
    /// state, if anything is.
    ///
    /// Errors: the first state that is wrong. Panics if the judge keeps a claim. Cost: the judge's
    /// for each state, and little more.
    pub fn explore(
        &self,
        exploration: PmemExploration,
        judge: impl FnMut(&PmemCrash<'_>) -> Result<(), String>,
    ) -> Result<PmemReport, PmemViolation> {
        let mut explorer = Explorer {
            exploration,
            events: &self.events,
            image: Image::new(&self.initial),
            base_hash: 0,
            random: SeededRng::stream(exploration.seed, 6),
            judged: HashSet::new(),
            mark: None,
            at: 0,
            report: PmemReport::default(),
            judge,
        };
        match exploration.domain {
            PmemDomain::Adr => explorer.explore_lines()?,
            PmemDomain::Eadr => explorer.explore_stores()?,
        }
        Ok(explorer.report)
    }
}

struct Explorer<'a, J> {
    exploration: PmemExploration,
    events: &'a [Event],
    /// What is durable at the point that is explored.
    image: Image,
    /// Of what is durable: the combined hashes of its lines, less those of the beginning.
    base_hash: u64,
    random: SeededRng,
    /// Hashes of the states, marks included.
    judged: HashSet<u64>,
    mark: Option<u64>,
    /// How many events came before the point.
    at: usize,
    report: PmemReport,
    judge: J,
}

/// Hashes of lines are combined by exclusive or, so that one is replaced without the others.
fn hash_of(line: usize, content: &Line) -> u64 {
    hash_bytes(line as u64, content)
}

/// An open line at a point, with the hashes of its contents.
struct Open {
    line: usize,
    contents: Vec<(Line, u64)>,
}

impl Open {
    /// What a crash changes if it leaves this content: nothing if that is the durable one.
    fn left(&self, content: usize) -> Option<(usize, Line)> {
        (content > 0).then(|| (self.line, self.contents[content].0))
    }

    fn newest(&self) -> usize {
        self.contents.len() - 1
    }
}

impl<J: FnMut(&PmemCrash<'_>) -> Result<(), String>> Explorer<'_, J> {
    /// ADR: lines are durable one by one.
    fn explore_lines(&mut self) -> Result<(), PmemViolation> {
        let mut lines = Lines::new(self.image.durable.clone());
        let events = self.events;
        for (at, event) in events.iter().enumerate() {
            self.at = at;
            match event {
                Event::Mark(mark) => self.mark = Some(*mark),
                Event::Flush { thread, line, count } => {
                    lines.flush(*thread, *line, *count);
                }
                Event::Store { offset, bytes } => {
                    self.judge_lines(&lines)?;
                    lines.store(*offset, bytes);
                }
                Event::Fence { thread } => {
                    self.judge_lines(&lines)?;
                    for (line, before, after) in lines.fence(*thread) {
                        self.base_hash ^= hash_of(line, &before) ^ hash_of(line, &after);
                        self.image.set_durable(line, &after);
                    }
                }
            }
        }
        self.at = events.len();
        self.judge_lines(&lines)
    }

    fn judge_lines(&mut self, lines: &Lines) -> Result<(), PmemViolation> {
        let report = &mut self.report;
        report.points += 1;
        report.unfenced_lines_max = report.unfenced_lines_max.max(lines.open_count());
        let mut open: Vec<_> = lines.open().filter(|(_, open)| open.count() > 1).collect();
        open.sort_by_key(|(line, open)| (open.stored(), *line));
        let open: Vec<Open> = open
            .into_iter()
            .map(|(line, open)| {
                let contents = open.contents().map(|content| (*content, hash_of(line, content)));
                Open { line, contents: contents.collect() }
            })
            .collect();
        self.judge_choices(&open)?;
        self.judge_torn_lines(&open)
    }

    /// Whole lines, as the policy says.
    fn judge_choices(&mut self, open: &[Open]) -> Result<(), PmemViolation> {
        let counts: Vec<usize> = open.iter().map(|open| open.contents.len()).collect();
        for choice in line_choices(&counts, &mut self.random) {
            let chosen = || open.iter().zip(&choice);
            let hash = chosen().fold(self.base_hash, |hash, (open, &content)| {
                hash ^ open.contents[0].1 ^ open.contents[content].1
            });
            let left = || chosen().filter_map(|(open, &content)| open.left(content)).collect();
            self.judge(hash, left, |f| {
                chosen().for_each(|(open, content)| {
                    f.push_str(&format!(" line {} {content}/{}", open.line, open.newest()));
                });
            })?;
        }
        Ok(())
    }

    /// One line torn within a store, the others old and new.
    fn judge_torn_lines(&mut self, open: &[Open]) -> Result<(), PmemViolation> {
        for (index, torn) in open.iter().enumerate() {
            for store in 1..torn.contents.len() {
                let (before, after) = (&torn.contents[store - 1].0, &torn.contents[store].0);
                for content in torn_contents(before, after, &mut self.random) {
                    for others_are_new in [false, true] {
                        let others = || {
                            let others = open.iter().enumerate().filter(|&(at, _)| at != index);
                            others.filter(|_| others_are_new).map(|(_, open)| open)
                        };
                        let hash = others().fold(self.base_hash, |hash, open| {
                            hash ^ open.contents[0].1 ^ open.contents[open.newest()].1
                        });
                        let hash = hash ^ torn.contents[0].1 ^ hash_of(torn.line, &content);
                        let left = || {
                            let others = others().filter_map(|open| open.left(open.newest()));
                            others.chain([(torn.line, content)]).collect()
                        };
                        self.judge(hash, left, |f| {
                            let others = if others_are_new { "new" } else { "old" };
                            f.push_str(&format!(" line {} torn, others {others}", torn.line));
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// eADR: every store is durable when it is done, and by half before.
    fn explore_stores(&mut self) -> Result<(), PmemViolation> {
        let events = self.events;
        for (at, event) in events.iter().enumerate() {
            self.at = at;
            match event {
                Event::Mark(mark) => self.mark = Some(*mark),
                Event::Flush { .. } => {}
                Event::Fence { .. } => self.judge_durable()?,
                Event::Store { offset, bytes } => {
                    self.judge_durable()?;
                    self.judge_store(*offset, bytes)?;
                }
            }
        }
        self.at = events.len();
        self.judge_durable()
    }

    fn judge_durable(&mut self) -> Result<(), PmemViolation> {
        self.report.points += 1;
        self.judge(self.base_hash, Vec::new, |_| {})
    }

    /// The states within a store; it is durable then.
    fn judge_store(&mut self, offset: usize, bytes: &[u8]) -> Result<(), PmemViolation> {
        let (first, count) = lines_of(offset, bytes.len());
        let lines = first * LINE_BYTES..(first + count) * LINE_BYTES;
        let before = self.image.durable[lines.clone()].to_vec();
        let mut after = before.clone();
        after[offset - lines.start..][..bytes.len()].copy_from_slice(bytes);
        let words = words_unlike(&before, &after);
        for cut in cuts(words.len(), &mut self.random) {
            let torn = with_words(&before, &after, &words, &cut);
            let hash = self.base_hash ^ hash_between(first, &before, &torn);
            let left = || numbered(first, &torn).collect();
            self.judge(hash, left, |f| f.push_str(" torn store"))?;
        }
        self.base_hash ^= hash_between(first, &before, &after);
        numbered(first, &after).for_each(|(line, content)| self.image.set_durable(line, &content));
        Ok(())
    }

    /// Judges one state, unless it was. `left`: lines that differ from what is durable.
    fn judge(
        &mut self,
        hash: u64,
        left: impl Fn() -> Vec<(usize, Line)>,
        describe: impl Fn(&mut String),
    ) -> Result<(), PmemViolation> {
        let mark = self.mark.map_or(0, |mark| hash_bytes(1, &mark.to_le_bytes()));
        if self.judged.len() >= REMEMBERED_MAX {
            self.judged.clear();
        }
        if !self.judged.insert(hash ^ mark) {
            return Ok(());
        }
        self.report.states += 1;
        let (mark, events) = (self.mark, self.at);
        let judge = &mut self.judge;
        let judged = self.image.show(&left(), |pmem| judge(&PmemCrash { pmem, mark, events }));
        judged.map_err(|message| {
            let mut state = match self.at.checked_sub(1).map(|last| &self.events[last]) {
                Some(Event::Store { offset, bytes }) => {
                    format!("last a store of {} bytes at {offset};", bytes.len())
                }
                Some(last) => format!("last {last:?};"),
                None => String::new(),
            };
            describe(&mut state);
            PmemViolation { exploration: self.exploration, mark, events, state, message }
        })
    }
}

/// The words in which two contents of the same lines differ.
fn words_unlike(before: &[u8], after: &[u8]) -> Vec<usize> {
    let words = before.chunks(WORD_BYTES).zip(after.chunks(WORD_BYTES)).enumerate();
    words.filter(|(_, (before, after))| before != after).map(|(word, _)| word).collect()
}

/// `before` with some of the `words` of `after`: those that `cut` says.
fn with_words(before: &[u8], after: &[u8], words: &[usize], cut: &BTreeSet<usize>) -> Vec<u8> {
    let mut torn = before.to_vec();
    for &index in cut {
        let word = words[index] * WORD_BYTES..(words[index] + 1) * WORD_BYTES;
        torn[word.clone()].copy_from_slice(&after[word]);
    }
    torn
}

/// What a line can be in the middle of the store that makes `after` of `before`.
fn torn_contents(before: &Line, after: &Line, random: &mut SeededRng) -> Vec<Line> {
    let words = words_unlike(before, after);
    let torn = cuts(words.len(), random).into_iter();
    torn.map(|cut| {
        let torn = with_words(before, after, &words, &cut);
        torn.try_into().expect("a line stays one")
    })
    .collect()
}

/// Bytes that begin at the line `first`, by lines.
fn numbered(first: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, Line)> + '_ {
    let lines = bytes.chunks_exact(LINE_BYTES).enumerate();
    lines.map(move |(index, line)| (first + index, line.try_into().expect("chunks are exact")))
}

/// What the hash of the whole changes by if these lines do.
fn hash_between(first: usize, before: &[u8], after: &[u8]) -> u64 {
    let lines = numbered(first, before).chain(numbered(first, after));
    lines.fold(0, |hash, (line, content)| hash ^ hash_of(line, &content))
}

/// One area that shows every state in turn.
///
/// Invariant: between two states its memory is what is durable.
struct Image {
    durable: Vec<u8>,
    memory: Arc<Memory>,
    pmem: Pmem,
    touched: Arc<Touched>,
}

impl Image {
    fn new(content: &[u8]) -> Image {
        let memory = filled(content);
        let touched = Arc::new(Touched(Mutex::default()));
        let side: Arc<dyn PmemSide> = Arc::clone(&touched) as Arc<dyn PmemSide>;
        let pmem = Pmem::new(Arc::clone(&memory), side);
        Image { durable: content.to_vec(), memory, pmem, touched }
    }

    fn set_durable(&mut self, line: usize, content: &Line) {
        let start = line * LINE_BYTES;
        self.durable[start..start + LINE_BYTES].copy_from_slice(content);
        self.write(&[(line, *content)]);
    }

    /// Shows the area with these lines in place of what is durable.
    fn show<T>(&mut self, lines: &[(usize, Line)], show: impl FnOnce(&Pmem) -> T) -> T {
        self.write(lines);
        let shown = show(&self.pmem);
        let stored = std::mem::take(&mut *self.touched.0.lock());
        let touched: BTreeSet<usize> =
            stored.into_iter().chain(lines.iter().map(|(line, _)| *line)).collect();
        let durable: Vec<(usize, Line)> = touched
            .into_iter()
            .flat_map(|line| numbered(line, &self.durable[line * LINE_BYTES..][..LINE_BYTES]))
            .collect();
        self.write(&durable);
        shown
    }

    fn write(&self, lines: &[(usize, Line)]) {
        let mut pages = Memory::claim(&self.memory, 0, self.memory.bytes() as u64)
            .expect("the judge of a state gives its claims back");
        lines.iter().for_each(|(line, content)| pages.store(line * LINE_BYTES, content));
    }
}

/// The lines that a judge stored to.
struct Touched(Mutex<Vec<usize>>);

impl PmemSide for Touched {
    fn medium(&self) -> PmemMedium {
        PmemMedium::Simulated
    }

    fn stored(&self, offset: u64, bytes: &[u8]) {
        let (first, count) = lines_of(offset as usize, bytes.len());
        self.0.lock().extend(first..first + count);
    }

    fn flush(&self, _offset: u64, _lines: &[u8]) {}

    fn fence(&self) -> EnvResult<()> {
        Ok(())
    }
}

impl fmt::Debug for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("crashed")
    }
}
