use std::sync::Arc;

use super::PinObjects;
use crate::cloud::format::{Collected, Fate, Holds, PinObject};
use crate::cloud::{CloudFeed, CloudNames, CloudStore, FedState};
use crate::{Error, Result};

/// A reader's pin: no table is deleted that the reader needs, as long as the pin is renewed. One
/// caller at a time.
///
/// Dropped without [`ReaderPin::release`] it is as that of a reader whose machine is gone: the
/// owner drops it some time after the last renewal.
#[derive(Debug)]
pub struct ReaderPin {
    objects: PinObjects,
    number: u64,
    pin: PinObject,
}

/// Takes a pin, reads the feed, and narrows the pin to what was read. `None`, and no pin, if there
/// is no database. `nonce` is drawn by the caller for this pin.
///
/// Cost: a list, two or three requests for the pin, and two readings of the feed.
/// Errors: those of reading the feed, and of [`ReaderPin::renew`].
pub fn pin_and_read(
    store: &Arc<CloudStore>,
    names: CloudNames,
    nonce: u128,
) -> Result<Option<(ReaderPin, FedState)>> {
    let Some(before) = CloudFeed::read(store, names)? else { return Ok(None) };
    let mut first = before.mark.collected().pins;
    loop {
        let mut pin = ReaderPin::take(store, names, nonce, first)?;
        let state = CloudFeed::read(store, names).inspect_err(|_| pin.give_up())?;
        let Some(state) = state else {
            pin.release()?;
            return Ok(None);
        };
        if pin.counts(state.mark.collected()) {
            pin.narrow(state.mark.number())?;
            return Ok(Some((pin, state)));
        }
        // Collection has passed the number by meanwhile.
        first = state.mark.collected().pins;
    }
}

impl ReaderPin {
    /// Takes the first number that is free from `first` on, which some reading of the feed had as
    /// its first pin. The pin holds all that is there; the feed is to be read after this.
    pub fn take(
        store: &Arc<CloudStore>,
        names: CloudNames,
        nonce: u128,
        first: u64,
    ) -> Result<ReaderPin> {
        let objects = PinObjects { store: Arc::clone(store), names };
        let pin = PinObject { nonce, counter: 1, holds: Holds::Everything };
        let number = objects.take(first, &pin)?;
        Ok(ReaderPin { objects, number, pin })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it counts for an owner who has come so far.
    #[must_use]
    pub fn counts(&self, collected: Collected) -> bool {
        self.number >= collected.pins
    }

    /// From now on it holds what versions of the feed name from this number on, up to which its
    /// reader has read. Never goes back.
    ///
    /// Errors: as of [`ReaderPin::renew`].
    pub fn narrow(&mut self, number: u64) -> Result<()> {
        let number = match self.pin.holds {
            Holds::From(before) => before.max(number),
            _ => number,
        };
        self.pin.holds = Holds::From(number);
        self.renew()
    }

    /// Says that the reader is still there.
    ///
    /// Errors: [`Error::Outdated`] if the owner has dropped the pin, because it had stood still for
    /// too long: from then on tables may go that the reader needs. The environment's.
    pub fn renew(&mut self) -> Result<()> {
        self.pin.counter += 1;
        self.objects.put(self.number, &self.pin)?;
        match self.objects.fate(self.number)? {
            None => Ok(()),
            Some(Fate::Dropped | Fate::Sealed) => Err(Error::Outdated(format!(
                "the owner of the database {:032x} in {} has dropped the pin of this reader, which \
                 had not been renewed for a long time; open it again, and catch up more often",
                self.objects.names.database(),
                self.objects.store.url()
            ))),
        }
    }

    /// From now on it holds nothing.
    ///
    /// Errors: the environment's; then the owner drops it some time later.
    pub fn release(&mut self) -> Result<()> {
        self.pin.counter += 1;
        self.pin.holds = Holds::Nothing;
        self.objects.put(self.number, &self.pin)
    }

    /// As [`ReaderPin::release`], after an error that counts more than one of this.
    fn give_up(&mut self) {
        if let Err(error) = self.release() {
            let pin = self.number;
            crate::program_log::debug!(pin, %error, "a reader's pin was not released");
        }
    }
}
