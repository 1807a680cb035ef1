//! The figures of a database, as JSON has them, in the form that plans are made from. Pure.

use serde_json::Value;
use terrace::{
    Dollars, PresentTier, PriceSheet, RequestCount, RequestCounts, StoreReading, TierReading,
    VolumePrices,
};

use crate::commands::stats::Figured;

/// What the figures say; 0 for what another version does not know.
pub(super) fn reading(figures: &Figured) -> TierReading {
    let of_levels = |name: &str| -> u64 {
        figures.list("/levels").iter().filter_map(|level| level[name].as_u64()).sum()
    };
    let mut reading = TierReading::default();
    reading.table_bytes = of_levels("bytes");
    reading.entry_count = of_levels("entry_count");
    reading.space_amplification = figures.ratio("/space_amplification");
    reading.value_file_bytes = figures.number("/value_log/live_bytes");
    reading.memtable_bytes = figures.number("/memtable_bytes");
    reading.cache_bytes = figures.number("/cache_limit_bytes");
    reading.write_count = figures.number("/write_count");
    reading.get_count = figures.number("/get_count");
    reading.scan_count = figures.number("/scan_count");
    reading.scanned_count = figures.number("/scanned_count");
    reading.store = figures.0.pointer("/cloud/url").and_then(Value::as_str).map(|_| store(figures));
    reading
}

fn store(figures: &Figured) -> StoreReading {
    let number = |pointer: &str| figures.0.pointer(pointer).and_then(Value::as_u64);
    let level = number("/cloud/first_level").and_then(|level| u8::try_from(level).ok());
    let mut layout = PresentTier::default();
    layout.first_far_level = level;
    layout.local_bytes = local_bytes_max(figures).unwrap_or(figures.number("/cloud/local_bytes"));
    layout.block_bytes = number("/cloud/near/data/bytes_max");
    layout.mirror_ms = number("/cloud/mirror_ms");
    layout.log_ms = number("/cloud/log_ms");
    layout.has_log_volume = figures.has("/cloud/volume");
    let mut store = StoreReading::default();
    store.layout = layout;
    store.stored_bytes = figures.number("/cloud/table_bytes");
    store.requests = requests(figures);
    store
}

/// How much of the local disk the database may take, if that is bounded and known.
pub(super) fn local_bytes_max(figures: &Figured) -> Option<u64> {
    figures.0.pointer("/cloud/local_bytes_max").and_then(Value::as_u64)
}

fn requests(figures: &Figured) -> RequestCounts {
    let of = |kind: &str| {
        let number = |name: &str| figures.number(&format!("/cloud/requests/{kind}/{name}"));
        RequestCount {
            requests: number("requests"),
            failures: number("failures"),
            bytes: number("bytes"),
        }
    };
    RequestCounts {
        put: of("put"),
        upload_part: of("upload_part"),
        get: of("get"),
        head: of("head"),
        delete: of("delete"),
        list: of("list"),
    }
}

/// What the store charges; `None` without a store.
pub(super) fn prices(figures: &Figured) -> Option<PriceSheet> {
    let sheet = figures.0.pointer("/cloud/prices")?;
    let name = sheet["name"].as_str()?;
    let word = |name: &str| sheet[name].as_str().unwrap_or_default().to_owned();
    let mut prices = PriceSheet::default();
    prices.name = name.to_owned();
    (prices.source, prices.date) = (word("source"), word("date"));
    prices.put_per_thousand = dollars(&sheet["put_per_thousand"]);
    prices.get_per_thousand = dollars(&sheet["get_per_thousand"]);
    prices.delete_per_thousand = dollars(&sheet["delete_per_thousand"]);
    prices.read_out_per_gb = dollars(&sheet["read_out_per_gb"]);
    prices.stored_per_gb_month = dollars(&sheet["stored_per_gb_month"]);
    prices.volume = sheet.get("volume").filter(|volume| volume.is_object()).map(volume);
    Some(prices)
}

fn volume(sheet: &Value) -> VolumePrices {
    let number = |name: &str| sheet[name].as_u64().unwrap_or(0);
    let mut volume = VolumePrices::default();
    (volume.iops, volume.iops_free) = (number("iops"), number("iops_free"));
    volume.per_iops_month = dollars(&sheet["per_iops_month"]);
    (volume.mb_per_s, volume.mb_per_s_free) = (number("mb_per_s"), number("mb_per_s_free"));
    volume.per_mb_per_s_month = dollars(&sheet["per_mb_per_s_month"]);
    volume
}

/// An amount that JSON has as a number.
fn dollars(amount: &Value) -> Dollars {
    // As many digits as an amount has.
    let text = amount.as_f64().map(|amount| format!("{amount:.12}"));
    text.and_then(|text| Dollars::parse(&text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Goal: what figures say comes over whole, and what they leave out stays open.

    use serde_json::json;

    use super::*;

    #[test]
    fn figures_become_a_reading() {
        let sheets = ["s3", "ebs-gp3"].map(|name| PriceSheet::named(name).expect("a sheet"));
        for sheet in sheets {
            let figures = json!({
                "write_count": 5, "get_count": 70, "scan_count": 2, "scanned_count": 80,
                "space_amplification": 1.5, "memtable_bytes": 9, "cache_limit_bytes": 1 << 20,
                "value_log": { "live_bytes": 77 },
                "levels": [
                    { "level": 0, "bytes": 100, "entry_count": 1 },
                    { "level": 6, "bytes": 200, "entry_count": 2 },
                ],
                "cloud": {
                    "url": "s3://bucket/db", "first_level": 6, "table_bytes": 200,
                    "local_bytes": 400, "local_bytes_max": 1000, "mirror_ms": 60_000,
                    "log_ms": null, "near": { "data": { "bytes_max": 300 } }, "volume": null,
                    "requests": { "get": { "requests": 8, "failures": 1, "bytes": 9 } },
                    "prices": sheet,
                },
            });
            let figures = Figured(figures);
            let read = reading(&figures);
            assert_eq!((read.table_bytes, read.entry_count, read.value_file_bytes), (300, 3, 77));
            assert_eq!((read.get_count, read.write_count, read.scanned_count), (70, 5, 80));
            let store = read.store.expect("a store");
            assert_eq!((store.stored_bytes, store.requests.get.requests), (200, 8));
            let layout = store.layout;
            assert_eq!((layout.first_far_level, layout.local_bytes), (Some(6), 1000));
            assert_eq!((layout.mirror_ms, layout.log_ms), (Some(60_000), None));
            assert_eq!((layout.block_bytes, layout.has_log_volume), (Some(300), false));
            assert_eq!(prices(&figures), Some(sheet));
        }
        let nothing = Figured(json!({ "cloud": null }));
        assert_eq!(reading(&nothing), TierReading::default());
        assert_eq!((prices(&nothing), local_bytes_max(&nothing)), (None, None));
    }
}
