use std::collections::VecDeque;
use std::time::Duration;

/// Ends are remembered for so long. Who asks later hears that it was over.
const REMEMBERED: Duration = Duration::from_secs(60);

const NANOS_PER_S: u128 = 1_000_000_000;

/// A line whose bandwidth all transfers share equally; pure. One byte is counted as 10⁹ parts, so
/// that a rate of bytes in a second is one of parts in a nanosecond.
#[derive(Debug)]
pub(super) struct Line {
    /// `None` if nothing takes time.
    bytes_per_s: Option<u64>,
    /// Until when everything below is told.
    now: Duration,
    /// The parts that a transfer would have had that was there from the beginning.
    passed: u128,
    transfers: Vec<Transfer>,
    /// What is over, the oldest first.
    ended: VecDeque<(TransferId, Duration)>,
    next: u64,
}

/// Names a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransferId(u64);

#[derive(Clone, Copy, Debug)]
struct Transfer {
    id: TransferId,
    /// It is over when so many parts have passed.
    until: u128,
}

impl Line {
    pub fn new(bytes_per_s: Option<u64>) -> Line {
        Line {
            bytes_per_s,
            now: Duration::ZERO,
            passed: 0,
            transfers: Vec::new(),
            ended: VecDeque::new(),
            next: 0,
        }
    }

    /// Begins a transfer.
    pub fn begin(&mut self, bytes: u64, now: Duration) -> TransferId {
        self.advance(now);
        let id = TransferId(self.next);
        self.next += 1;
        let until = self.passed + u128::from(bytes) * NANOS_PER_S;
        self.transfers.push(Transfer { id, until });
        id
    }

    /// When a transfer ends, or ended, if no other one begins.
    pub fn end_of(&mut self, id: TransferId, now: Duration) -> Duration {
        self.advance(now);
        let Some(own) = self.transfers.iter().find(|transfer| transfer.id == id) else {
            let ended = self.ended.iter().rev().find(|(ended, _)| *ended == id);
            return ended.map_or(Duration::ZERO, |(_, at)| *at);
        };
        let Some(rate) = self.bytes_per_s else { return self.now };
        // Each of the others takes as much of the line as this one, until it is over itself.
        let parts = |until: u128| until.min(own.until).saturating_sub(self.passed);
        let all: u128 = self.transfers.iter().map(|transfer| parts(transfer.until)).sum();
        self.now + nanos(all.div_ceil(u128::from(rate)))
    }

    /// Lets the time pass until `now`.
    fn advance(&mut self, now: Duration) {
        while let Some(first) = self.transfers.iter().map(|transfer| transfer.until).min() {
            let count = self.transfers.len() as u128;
            let left = first.saturating_sub(self.passed) * count;
            let rate = self.bytes_per_s.map(u128::from);
            let end = self.now + rate.map_or(Duration::ZERO, |rate| nanos(left.div_ceil(rate)));
            if end > now {
                let passing = now.saturating_sub(self.now).as_nanos();
                self.passed += passing * rate.unwrap_or(0) / count;
                break;
            }
            (self.now, self.passed) = (end, first);
            let ended = &mut self.ended;
            self.transfers.retain(|transfer| {
                let goes_on = transfer.until > first;
                if !goes_on {
                    ended.push_back((transfer.id, end));
                }
                goes_on
            });
        }
        self.now = self.now.max(now);
        while self.ended.front().is_some_and(|(_, at)| *at + REMEMBERED < self.now) {
            self.ended.pop_front();
        }
    }
}

fn nanos(count: u128) -> Duration {
    Duration::from_nanos(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn transfers_share_the_line_equally() {
        let mut line = Line::new(Some(1_000_000));
        let long = line.begin(10_000, Duration::ZERO);
        assert_eq!(line.end_of(long, Duration::ZERO), 10 * MS);
        let short = line.begin(1000, 2 * MS);
        // 1,000 bytes of each of them, and then the 7,000 that are left of the long one.
        assert_eq!(line.end_of(short, 2 * MS), 4 * MS);
        assert_eq!(line.end_of(long, 2 * MS), 11 * MS);
        assert_eq!(line.end_of(long, 5 * MS), 11 * MS);
        let third = line.begin(6000, 5 * MS);
        assert_eq!((line.end_of(third, 5 * MS), line.end_of(long, 5 * MS)), (17 * MS, 17 * MS));
        assert_eq!(line.end_of(short, 20 * MS), 4 * MS, "what is over stays where it ended");
        assert_eq!(line.end_of(third, 20 * MS), 17 * MS);
        let late = line.begin(1000, 20 * MS);
        assert_eq!(line.end_of(late, 20 * MS), 21 * MS);
    }

    #[test]
    fn ends_are_forgotten_when_nobody_waits_any_more() {
        let mut line = Line::new(Some(1_000_000));
        let one = line.begin(1000, Duration::ZERO);
        let later = REMEMBERED + 3 * MS;
        assert_eq!(line.end_of(one, later), Duration::ZERO);
        assert!(line.ended.is_empty() && line.transfers.is_empty());
    }

    #[test]
    fn no_bytes_and_no_bandwidth_take_no_time() {
        let mut line = Line::new(Some(1000));
        let nothing = line.begin(0, 5 * MS);
        assert_eq!(line.end_of(nothing, 5 * MS), 5 * MS);
        let mut line = Line::new(None);
        let much = line.begin(u64::MAX, 5 * MS);
        assert_eq!(line.end_of(much, 5 * MS), 5 * MS);
    }

    #[test]
    fn no_more_passes_than_the_line_takes() {
        const RATE: u64 = 7_777_777;
        let seed = 3_u64;
        println!("seed {seed}");
        let mut random = seed;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let (mut line, mut now, mut all) = (Line::new(Some(RATE)), Duration::ZERO, 0);
        let mut begun = Vec::new();
        for _ in 0..2000 {
            now += Duration::from_nanos(draw(2_000_000));
            let bytes = draw(20_000);
            all += bytes;
            begun.push((line.begin(bytes, now), now, bytes));
        }
        let last = begun.iter().map(|(id, ..)| line.end_of(*id, now)).max().unwrap();
        let end_least = Duration::from_secs_f64(all as f64 / RATE as f64);
        assert!(last >= end_least, "{last:?} and {end_least:?}");
        for (id, began, bytes) in begun {
            let least = Duration::from_secs_f64(bytes as f64 / RATE as f64);
            let took = line.end_of(id, now).checked_sub(began).unwrap();
            assert!(took + Duration::from_micros(1) >= least, "{took:?} and {least:?}");
        }
    }
}
