use std::sync::Arc;
use std::time::Duration;

use terrace_base::{LogPosition, WallTime};
use terrace_env::{JobClass, Mutex, PlantedBug, is_planted};

use crate::cloud::{CloudLog, KeptNumbers, LogPiece, LogWork};
use crate::store::Inner;
use crate::store::cloud::{LogOnVolume, OutlivingLog};
use crate::store::health::Work;
use crate::version::LogEdit;
use crate::wal::{LogMark, LogStore, ReadOn};
use crate::{Error, Result};

/// How many objects of the log may be on their way at once: as many as one that takes several
/// intervals does not hold up.
pub const LOG_WRITERS: usize = 4;

/// An object is full at so many bytes.
pub const LOG_OBJECT_BYTES: u64 = 4 << 20;

/// What the store has not got yet may be this part of the log's bytes before it is given up.
const UNREAD_DIVISOR: u64 = 4;

/// What nobody waits for goes to the store at the latest so long after it was written.
pub const LOG_PATIENCE: Duration = Duration::from_secs(1);

/// Reads the local log for the one in the store: one caller at a time.
#[derive(Debug, Default)]
pub(in crate::store) struct Shipping {
    mark: Option<LogMark>,
    chain: u64,
    /// When the last object was begun.
    begun: Option<Duration>,
    /// The same by the wall's clock, as the object says it.
    gathered: WallTime,
}

impl Inner {
    /// The log that outlives the machine, if the range has one.
    pub(in crate::store) fn outliving_log(&self) -> Option<&OutlivingLog> {
        self.cloud.as_ref()?.outliving_log()
    }

    /// The log on a volume that outlives the machine, if the range has one there.
    fn log_on_volume(&self) -> Option<&LogOnVolume> {
        self.outliving_log()?.on_volume()
    }

    /// The log in the store, if the range has one there.
    fn log_in_store(&self) -> Option<&CloudLog> {
        self.outliving_log()?.in_store()
    }

    /// From now on the log goes to the store too.
    pub(in crate::store) fn start_shipping(
        self: &Arc<Self>,
        log_store: &Arc<dyn LogStore>,
    ) -> Result<()> {
        if self.log_in_store().is_none() {
            return Ok(());
        }
        let turn: Arc<Mutex<Shipping>> = Arc::new(self.env.waits().mutex(Shipping::default()));
        for _ in 0..LOG_WRITERS {
            let (turn, log_store) = (Arc::clone(&turn), Arc::clone(log_store));
            let run = self.standing_job(move |inner| inner.ship_log(log_store.as_ref(), &turn));
            self.env.spawn(JobClass::Log, "log-to-store", run)?;
        }
        Ok(())
    }

    /// Brings the log to the store until the range closes.
    fn ship_log(&self, log_store: &dyn LogStore, turn: &Mutex<Shipping>) {
        let Some(log) = self.log_in_store() else { return };
        while let Some((piece, mut number)) = self.next_piece(log_store, log, turn) {
            while !self.has_ended() {
                match self.retry_after(Work::StoreLog, log.store(&piece, &mut number)) {
                    None => break,
                    Some(delay) => self.wait_for(delay),
                }
            }
            if is_planted(PlantedBug::LogCollectedEarly) {
                self.retry_after(Work::StoreLog, log.collect(KeptNumbers::NONE));
            }
        }
    }

    /// Waits for records that are to go to the store, and reads them; `None` at the end.
    ///
    /// Order: the number of an object is taken in the turn in which its records were read, so that
    /// the next one reads behind them.
    fn next_piece(
        &self,
        log_store: &dyn LogStore,
        log: &CloudLog,
        turn: &Mutex<Shipping>,
    ) -> Option<(LogPiece, u64)> {
        let mut shipping = turn.lock();
        loop {
            let work = self.await_work(log, &shipping)?;
            shipping.begun = Some(self.env.now());
            match self.read_piece(log_store, log, &mut shipping, work) {
                Ok(Some(piece)) => {
                    if let Some(number) = log.number_for(&piece) {
                        return Some((piece, number));
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    let delay = self.retry_after(Work::StoreLog, Err(error))?;
                    self.wait_for(delay);
                }
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.is_closing() || self.is_poisoned()
    }

    fn wait_for(&self, period: Duration) {
        let ticket = self.changed.ticket();
        self.wait_period(ticket, period);
    }

    /// Waits until there are records, and it is time for an object; `None` at the end.
    fn await_work(&self, log: &CloudLog, shipping: &Shipping) -> Option<LogWork> {
        let since = self.env.now();
        loop {
            let ticket = log.changed().ticket();
            if self.has_ended() {
                return None;
            }
            let now = self.env.now();
            let work = log.to_read(self.sequencer.finished().1);
            let is_awaited = log.is_awaited();
            let next = shipping.begun.map_or(now, |begun| begun + log.interval());
            let wait = match work {
                Some(work) if work.end.0 - work.from.0 >= LOG_OBJECT_BYTES => return Some(work),
                Some(work) if is_awaited || now.saturating_sub(since) >= LOG_PATIENCE => {
                    if next <= now {
                        return Some(work);
                    }
                    next - now
                }
                _ => LOG_PATIENCE,
            };
            log.changed().wait_timeout(ticket, wait);
        }
    }

    /// Reads records of the local log; nothing if none can be read now.
    fn read_piece(
        &self,
        log_store: &dyn LogStore,
        log: &CloudLog,
        shipping: &mut Shipping,
        work: LogWork,
    ) -> Result<Option<LogPiece>> {
        if std::mem::replace(&mut shipping.chain, work.chain) != work.chain {
            shipping.mark = None;
        }
        // The wall's clock may go back; what objects say must not.
        shipping.gathered = shipping.gathered.max(self.env.wall_time());
        let mut piece = LogPiece::new(work.chain, work.from, shipping.gathered);
        let mut is_lost = false;
        let facts = self.versions.current().log_facts();
        let read = log_store.read_on(&facts, shipping.mark, LOG_OBJECT_BYTES, &mut |record| {
            if record.position == piece.end() && record.position < work.end {
                piece.push(record.header, record.body());
            } else if record.position >= work.from && record.position > piece.end() {
                is_lost |= piece.end() < work.end;
            }
            Ok(())
        });
        let mark = match read {
            Ok(ReadOn::To { mark, .. }) => mark,
            Ok(ReadOn::Rewritten) => None,
            // The files are renamed while they are read, or the version was older than they are.
            Err(Error::Corruption(_) | Error::Outdated(_)) => None,
            Err(error) => return Err(error),
        };
        // What was read behind the end of this work is read again.
        let is_exact = mark.is_some_and(|mark| mark.position == piece.end());
        shipping.mark = mark.filter(|_| is_exact);
        is_lost |= facts.start.position > work.from;
        if is_lost && piece.bytes() == 0 {
            // A flush has released them: the next moment holds them.
            log.give_up(work.chain);
            self.schedule_feeding();
            return Ok(None);
        }
        Ok((piece.bytes() > 0).then_some(piece))
    }

    /// Where the records begin that a flush keeps in the log for whoever takes the range over.
    ///
    /// On a volume these are all that the newest moment in the feed does not have, also if the log
    /// goes on elsewhere since this open. Otherwise it is what the store is to get yet, unless that
    /// is much of the log because the store is slow or away: then a moment has to make up for it.
    pub(in crate::store) fn kept_for_taker(&self) -> LogPosition {
        if let Some(log) = self.log_on_volume() {
            return log.kept_from();
        }
        let of_before = self.cloud.as_ref().map(|tier| tier.log_before_is_kept_from());
        let unread = self.log_in_store().and_then(CloudLog::unread_from);
        let end = self.sequencer.finished().1;
        let is_much = |from: &LogPosition| {
            end.0.saturating_sub(from.0) > self.options.log_bytes_max / UNREAD_DIVISOR
        };
        let unread = unread.filter(|from| !is_much(from));
        let kept = unread.into_iter().chain(of_before).min().unwrap_or(LogPosition(u64::MAX));
        // What was given up is gone, even if the store has got on since.
        kept.max(self.versions.current().log_start().position)
    }

    /// Waits until all that had happened when the log ended at `end`, which is finished and durable
    /// here, outlives this machine.
    ///
    /// Errors: `Unknown` if the range is closed or poisoned before.
    pub(in crate::store) fn await_outliving(&self, end: LogPosition) -> Result<()> {
        let log = self.require_outliving_log()?;
        let _awaiting = log.in_store().map(CloudLog::await_more);
        loop {
            let ticket = log.changed().ticket();
            if log.is_safe_through(end) {
                return Ok(());
            }
            if self.is_poisoned() {
                return Err(Error::Unknown(self.poison_reason()));
            }
            if self.is_closing() {
                let text = "the database was closed before this write was known to outlive the \
                            machine; it is in the local log, and readers may have seen it";
                return Err(Error::Unknown(text.to_string()));
            }
            if log.wants_moment() {
                self.schedule_feeding();
            }
            log.changed().wait_timeout(ticket, LOG_PATIENCE);
        }
    }

    /// The log that outlives the machine, without which the class `durable` cannot be asked for.
    ///
    /// Errors: `Invalid`, which says what is missing.
    pub(in crate::store) fn require_outliving_log(&self) -> Result<&OutlivingLog> {
        self.outliving_log().ok_or_else(|| Error::invalid(NO_SUCH_LOG))
    }

    /// Whether the log lies on a volume, and is kept there for a moment in the object store: no
    /// flush makes it shorter.
    pub(in crate::store) fn log_awaits_moment(&self) -> bool {
        let start = || self.versions.current().log_start().position;
        self.log_on_volume().is_some_and(|log| start() >= log.kept_from())
    }

    /// Whether the log on a volume is so long that the next moment should come before its time.
    fn is_volume_filling(&self) -> bool {
        let end = self.sequencer.finished().1;
        // What a moment frees.
        let kept_bytes = |log: &LogOnVolume| end.0.saturating_sub(log.kept_from().0);
        self.log_on_volume().is_some_and(|log| kept_bytes(log) > self.options.log_bytes_max / 2)
    }

    /// Whether the next moment is due before its time: durable writes wait for one, or the log on a
    /// volume is long.
    pub(in crate::store) fn awaits_moment(&self) -> bool {
        self.outliving_log().is_some_and(OutlivingLog::wants_moment) || self.is_volume_filling()
    }

    /// A moment in the feed has what the log on the volume was kept for: it goes, if that frees a
    /// segment.
    pub(super) fn release_volume(&self) -> Result<()> {
        let turn = self.turns.flush.lock();
        let log = self.log()?;
        let from = self.oldest_position(&[]).min(self.kept_for_taker()).min(log.durable());
        // Where the log was rotated for the moment, nothing below has to be read again.
        self.begin_log_at(from)?;
        let (start, now) = (log.start_at(from), self.versions.current().log_start());
        if start.position <= now.position || start.segment == now.segment {
            return Ok(());
        }
        let edit = LogEdit { start: Some(start), ..LogEdit::default() };
        let installed = self.versions.install(edit.into(), None, |version| {
            self.change_view(false, |view| (view.dranges.clone(), Arc::clone(version)));
        });
        self.poison_if_sync_failed(installed)?;
        drop(turn);
        log.release(start.position)?;
        self.update_ruling();
        self.changed.notify();
        Ok(())
    }
}

const NO_SUCH_LOG: &str = "the class \"durable\" needs a log that outlives the machine: in an object \
                           store (the option `cloud.log`, `--cloud-log`), or on a volume \
                           (`log_volume`, `--log-volume`) beside a mirror in an object store; without \
                           it, `sync` is the strongest class";
