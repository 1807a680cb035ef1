use super::{Bill, Dollars};
use crate::cloud::RequestCounts;

/// What prices of requests are for.
const REQUESTS: u64 = 1000;

/// What services call a gigabyte when they bill it.
pub(super) const GB: u64 = 1 << 30;

/// What a service charges for its object store, in dollars; for an estimate.
///
/// Sheets that are built in have a name ([`PriceSheet::NAMES`]); others are read from a text
/// ([`PriceSheet::parse`]). A gigabyte is 2³⁰ bytes here, as it is in the bills of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PriceSheet {
    /// What reports call it.
    pub name: String,
    /// The page that its figures come from, and what they are for.
    pub source: String,
    /// When they stood there, such as `2025-06`. Prices change.
    pub date: String,
    /// A thousand requests that store or list: put, upload part, list.
    pub put_per_thousand: Dollars,
    /// A thousand requests that read: get, head.
    pub get_per_thousand: Dollars,
    /// A thousand deletes.
    pub delete_per_thousand: Dollars,
    /// A gigabyte that is read out of the store. Built-in sheets have none for it: they are for a
    /// database in the same region as its store.
    pub read_out_per_gb: Dollars,
    /// A gigabyte that lies there for a month.
    pub stored_per_gb_month: Dollars,
    /// What a volume costs beside its bytes, if the store is a directory on one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub volume: Option<VolumePrices>,
}

/// What a volume costs a month beside its bytes: what was provisioned of it above what is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct VolumePrices {
    /// Operations a second that were provisioned.
    pub iops: u64,
    /// Operations a second that cost nothing more.
    pub iops_free: u64,
    /// Each of the others, a month.
    pub per_iops_month: Dollars,
    /// Megabytes a second that were provisioned.
    pub mb_per_s: u64,
    /// Megabytes a second that cost nothing more.
    pub mb_per_s_free: u64,
    /// Each of the others, a month.
    pub per_mb_per_s_month: Dollars,
}

impl PriceSheet {
    /// Whether nothing costs anything, so that there is nothing to say of it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let prices = [
            self.put_per_thousand,
            self.get_per_thousand,
            self.delete_per_thousand,
            self.read_out_per_gb,
            self.stored_per_gb_month,
            self.volume.map_or(Dollars::ZERO, |volume| volume.month()),
        ];
        prices.iter().all(|price| *price == Dollars::ZERO)
    }

    /// About what these requests cost, the failed ones included.
    #[must_use]
    pub fn bill(&self, counts: &RequestCounts) -> Bill {
        let put_dollars = self.put_per_thousand.each(counts.that_store(), REQUESTS);
        let get_dollars = self.get_per_thousand.each(counts.that_read(), REQUESTS);
        let delete_dollars = self.delete_per_thousand.each(counts.delete.requests, REQUESTS);
        let read_out_dollars = self.read_out_per_gb.each(counts.bytes_down(), GB);
        Bill {
            prices: self.name.clone(),
            date: self.date.clone(),
            put_dollars,
            get_dollars,
            delete_dollars,
            read_out_dollars,
            total_dollars: put_dollars + get_dollars + delete_dollars + read_out_dollars,
        }
    }

    /// About what it costs to keep so many bytes for a month.
    #[must_use]
    pub fn month(&self, bytes: u64) -> Dollars {
        let volume = self.volume.map_or(Dollars::ZERO, |volume| volume.month());
        self.stored_per_gb_month.each(bytes, GB) + volume
    }
}

impl VolumePrices {
    /// What is provisioned above what is free costs a month.
    #[must_use]
    pub fn month(&self) -> Dollars {
        let iops = self.iops.saturating_sub(self.iops_free);
        let mb_per_s = self.mb_per_s.saturating_sub(self.mb_per_s_free);
        self.per_iops_month.each(iops, 1) + self.per_mb_per_s_month.each(mb_per_s, 1)
    }
}
