//! The sheets that are built in. Plain data: each figure is that of the page that its sheet names.

use super::{Dollars, PriceSheet, VolumePrices};

/// When all of these figures held.
const DATE: &str = "2025-06";

/// Millionths of a dollar.
const fn millionths(millionths: u64) -> Dollars {
    Dollars::of_millionths(millionths)
}

impl PriceSheet {
    /// The names of the sheets that are built in.
    pub const NAMES: [&'static str; 6] = ["s3", "gcs", "azure", "ebs-gp3", "ebs-gp2", "none"];

    /// A sheet that is built in: prices of services in the United States, in dollars without tax,
    /// for a database in the same region as its store.
    ///
    /// `None`: no sheet has this name; [`PriceSheet::NAMES`] are all of them.
    #[must_use]
    pub fn named(name: &str) -> Option<PriceSheet> {
        let sheet = match name {
            "s3" => PriceSheet {
                source: "Amazon S3 pricing: S3 Standard, US East (N. Virginia)".to_string(),
                put_per_thousand: millionths(5000),
                get_per_thousand: millionths(400),
                stored_per_gb_month: millionths(23_000),
                ..PriceSheet::default()
            },
            "gcs" => PriceSheet {
                source: "Cloud Storage pricing: Standard storage, us-east1".to_string(),
                put_per_thousand: millionths(5000),
                get_per_thousand: millionths(400),
                stored_per_gb_month: millionths(20_000),
                ..PriceSheet::default()
            },
            "azure" => PriceSheet {
                source: "Azure Blob Storage pricing: block blobs, hot, LRS".to_string(),
                put_per_thousand: millionths(6500),
                get_per_thousand: millionths(500),
                stored_per_gb_month: millionths(18_000),
                ..PriceSheet::default()
            },
            "ebs-gp3" => PriceSheet {
                source: "Amazon EBS pricing: gp3 volumes, US East (N. Virginia)".to_string(),
                stored_per_gb_month: millionths(80_000),
                volume: Some(VolumePrices {
                    iops: 3000,
                    iops_free: 3000,
                    per_iops_month: millionths(5000),
                    mb_per_s: 125,
                    mb_per_s_free: 125,
                    per_mb_per_s_month: millionths(40_000),
                }),
                ..PriceSheet::default()
            },
            "ebs-gp2" => PriceSheet {
                source: "Amazon EBS pricing: gp2 volumes, US East (N. Virginia)".to_string(),
                stored_per_gb_month: millionths(100_000),
                ..PriceSheet::default()
            },
            "none" => {
                return Some(PriceSheet { name: name.to_string(), ..PriceSheet::default() });
            }
            _ => return None,
        };
        Some(PriceSheet { name: name.to_string(), date: DATE.to_string(), ..sheet })
    }

    /// The sheet of the service that a store's URL names by its scheme: `s3` for `s3://…`, `gcs`
    /// for `gs://…`, `azure` for `az://…`; `none` for `file:///…` and everything else.
    #[must_use]
    pub fn of_url(url: &str) -> PriceSheet {
        let name = match url.split_once("://") {
            Some(("s3", _)) => "s3",
            Some(("gs", _)) => "gcs",
            Some(("az", _)) => "azure",
            _ => "none",
        };
        PriceSheet::named(name).unwrap_or_default()
    }
}
