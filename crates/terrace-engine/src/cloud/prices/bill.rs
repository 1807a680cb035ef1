use std::fmt;

use super::{Dollars, PriceSheet};
use crate::cloud::{RequestCounts, RequestKind};
use crate::explain::text::{bytes, count};

/// About what requests cost: an estimate. `Display` shows it to people, with the sheet that it was
/// made by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Bill {
    /// The name of the sheet of prices.
    pub prices: String,
    /// When its figures held.
    pub date: String,
    /// For requests that store or list.
    pub put_dollars: Dollars,
    /// For requests that read.
    pub get_dollars: Dollars,
    /// For deletes.
    pub delete_dollars: Dollars,
    /// For bytes that were read out of the store.
    pub read_out_dollars: Dollars,
    /// For all of it.
    pub total_dollars: Dollars,
}

impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (estimate, prices {}", self.total_dollars, self.prices)?;
        if !self.date.is_empty() {
            write!(f, " of {}", self.date)?;
        }
        f.write_str(")")
    }
}

/// What was asked of an object store, and about what that costs. `Display` shows it in a line,
/// without money if nothing costs any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CloudCost {
    /// The requests, failed and repeated ones included.
    pub requests: RequestCounts,
    /// About what they cost; `None` if nothing costs anything by the sheet.
    pub bill: Option<Bill>,
}

impl CloudCost {
    /// Of these requests, by these prices.
    #[must_use]
    pub fn new(requests: RequestCounts, prices: &PriceSheet) -> CloudCost {
        let bill = (!prices.is_free()).then(|| prices.bill(&requests));
        CloudCost { requests, bill }
    }
}

impl fmt::Display for CloudCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&count(self.requests.requests(), "request", "requests"))?;
        let asked = RequestKind::ALL.map(|kind| (kind, self.requests.of(kind)));
        let asked = asked.iter().filter(|(_, count)| count.requests > 0);
        for (index, (kind, count)) in asked.enumerate() {
            let separator = if index == 0 { ": " } else { ", " };
            write!(f, "{separator}{} {}", count.requests, kind.name().replace('_', " "))?;
            if count.failures > 0 {
                write!(f, " ({} failed)", count.failures)?;
            }
        }
        let (up, down) = (self.requests.bytes_up(), self.requests.bytes_down());
        if up > 0 {
            write!(f, "; {} up", bytes(up))?;
        }
        if down > 0 {
            write!(f, "; {} down", bytes(down))?;
        }
        match &self.bill {
            Some(bill) => write!(f, "; {bill}"),
            None => Ok(()),
        }
    }
}
