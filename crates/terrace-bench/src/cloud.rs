//! What a run asked of an object store, and about what that costs.

use std::fmt;

use serde::ser::SerializeMap;
use terrace::{CloudCost, Dollars, PriceSheet, RequestCounts, RequestKind};

/// What a store has asked of its object store since it was opened, and what that charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudRequests {
    /// The requests.
    pub counts: RequestCounts,
    /// The prices.
    pub prices: PriceSheet,
}

impl CloudRequests {
    /// Those between an earlier account and this one.
    #[must_use]
    pub fn since(self, earlier: &CloudRequests) -> CloudRequests {
        CloudRequests { counts: self.counts.since(&earlier.counts), ..self }
    }

    /// These and those of another store, which has the same prices.
    #[must_use]
    pub(crate) fn and(self, other: &CloudRequests) -> CloudRequests {
        CloudRequests { counts: self.counts.and(&other.counts), ..self }
    }
}

/// The requests of a run, and the estimate of their price.
#[derive(Clone, Debug)]
pub(crate) struct CloudReport {
    cost: CloudCost,
    operations: u64,
}

impl CloudReport {
    /// `operations`: those of the run.
    pub fn new(requests: &CloudRequests, operations: u64) -> CloudReport {
        CloudReport { cost: CloudCost::new(requests.counts, &requests.prices), operations }
    }

    fn requests_per_million(&self) -> f64 {
        self.cost.requests.requests() as f64 * 1e6 / self.operations.max(1) as f64
    }

    fn dollars_per_million(&self) -> Option<Dollars> {
        let bill = self.cost.bill.as_ref()?;
        Some(bill.total_dollars.per_million(self.operations))
    }

    /// Flat, as the other figures of a report; money is null if nothing costs any.
    pub fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for kind in RequestKind::ALL {
            let count = self.cost.requests.of(kind).requests;
            map.serialize_entry(&format!("cloud_{}_requests", kind.name()), &count)?;
        }
        let bill = self.cost.bill.as_ref();
        map.serialize_entry("cloud_requests", &self.cost.requests.requests())?;
        map.serialize_entry("cloud_requests_per_million_ops", &self.requests_per_million())?;
        map.serialize_entry("cloud_prices", &bill.map(|bill| &bill.prices))?;
        map.serialize_entry("cloud_estimated_dollars", &bill.map(|bill| bill.total_dollars))?;
        map.serialize_entry("cloud_estimated_dollars_per_million_ops", &self.dollars_per_million())
    }
}

impl fmt::Display for CloudReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  object store        {}", self.cost)?;
        let requests = self.requests_per_million();
        write!(f, "    per million ops   {requests:>14.0} requests")?;
        match self.dollars_per_million() {
            Some(dollars) => writeln!(f, ", {dollars} (estimate)"),
            None => writeln!(f),
        }
    }
}
