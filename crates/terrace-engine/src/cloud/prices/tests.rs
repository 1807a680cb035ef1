//! Goal: what people see of prices is what the sheet says times what was counted, and a wrong sheet
//! is refused with its line. Method: drawings, and the figures of one bill by hand.

use super::*;
use crate::cloud::{RequestCount, RequestCounts, RequestKind};
use crate::tests::specimens::assert_as_drawn;

fn dollars(text: &str) -> Dollars {
    Dollars::parse(text).unwrap()
}

/// One sheet in lines, nothing left out.
fn shown(sheet: &PriceSheet) -> String {
    let PriceSheet { name, source, date, .. } = sheet;
    let mut text = format!("{name:?}, {source:?}, {date:?}\n");
    for (what, price) in [
        ("put   ", sheet.put_per_thousand),
        ("get   ", sheet.get_per_thousand),
        ("delete", sheet.delete_per_thousand),
        ("out   ", sheet.read_out_per_gb),
        ("stored", sheet.stored_per_gb_month),
    ] {
        text += &format!("{what} {}\n", price.decimal());
    }
    if let Some(volume) = sheet.volume {
        let VolumePrices { iops, iops_free, mb_per_s, mb_per_s_free, .. } = volume;
        let (per_iops, per_mb_per_s) =
            (volume.per_iops_month.decimal(), volume.per_mb_per_s_month.decimal());
        text += &format!("volume {iops} of {iops_free} iops at {per_iops}\n");
        text += &format!("volume {mb_per_s} of {mb_per_s_free} MB/s at {per_mb_per_s}\n");
    }
    text + &format!("month of 10 GB {}\n", sheet.month(10 << 30))
}

/// The requests that a line such as `get=3 list=2/1 down=1048576` says; after the slash, how many
/// of them failed.
fn counts(line: &str) -> RequestCounts {
    let mut counts = RequestCounts::default();
    for word in line.split_whitespace() {
        let (kind, number) = word.split_once('=').unwrap();
        let (requests, failures) = number.split_once('/').unwrap_or((number, "0"));
        let (requests, failures) = (requests.parse().unwrap(), failures.parse().unwrap());
        let count = RequestCount { requests, failures, bytes: 0 };
        match kind {
            "put" => counts.put = count,
            "upload_part" => counts.upload_part = count,
            "get" => counts.get = count,
            "head" => counts.head = count,
            "delete" => counts.delete = count,
            "list" => counts.list = count,
            "up" => counts.put.bytes = requests,
            "down" => counts.get.bytes = requests,
            other => panic!("{other} is no kind of requests"),
        }
    }
    counts
}

#[test]
fn sheets_are_read_and_shown_as_drawn() {
    assert_as_drawn("cloud/prices/testdata/sheets.txt", |text| match PriceSheet::parse(text) {
        Ok(sheet) => shown(&sheet),
        Err(error) => format!("refused: {error}\n"),
    });
}

#[test]
fn requests_cost_what_is_drawn() {
    assert_as_drawn("cloud/prices/testdata/bills.txt", |text| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let bills = lines.map(|line| {
            let (name, asked) = line.split_once(':').unwrap();
            let sheet = PriceSheet::named(name).unwrap();
            let cost = CloudCost::new(counts(asked), &sheet);
            format!("{cost}\n")
        });
        bills.collect()
    });
}

#[test]
fn a_bill_has_each_part_and_counts_what_failed() {
    let sheet = PriceSheet { read_out_per_gb: dollars("0.09"), ..PriceSheet::named("s3").unwrap() };
    let asked =
        "put=1000/400 upload_part=500 list=500 get=2000/1999 head=3000 delete=9 down=536870912";
    let bill = sheet.bill(&counts(asked));
    assert_eq!(bill.put_dollars, dollars("0.01"));
    assert_eq!(bill.get_dollars, dollars("0.002"));
    assert_eq!(bill.delete_dollars, Dollars::ZERO);
    assert_eq!(bill.read_out_dollars, dollars("0.045"));
    assert_eq!(bill.total_dollars, dollars("0.057"));
    assert_eq!(bill.to_string(), "$0.057 (estimate, prices s3 of 2025-06)");
}

/// A kind that is left out would be free.
#[test]
fn every_kind_of_request_is_billed() {
    let prices = PriceSheet {
        put_per_thousand: dollars("1"),
        get_per_thousand: dollars("1"),
        delete_per_thousand: dollars("1"),
        ..PriceSheet::default()
    };
    for kind in RequestKind::ALL {
        let bill = prices.bill(&counts(&format!("{}=1000", kind.name())));
        assert_eq!(bill.total_dollars, dollars("1"), "{kind:?}");
    }
}

#[test]
fn the_scheme_of_a_url_says_which_sheet_holds() {
    for (url, name) in [
        ("s3://bucket/prefix", "s3"),
        ("gs://bucket", "gcs"),
        ("az://container", "azure"),
        ("file:///store", "none"),
        ("", "none"),
    ] {
        let sheet = PriceSheet::of_url(url);
        assert_eq!(sheet, PriceSheet::named(name).unwrap(), "{url}");
        assert_eq!(sheet.is_free(), name == "none", "{url}");
    }
    for name in PriceSheet::NAMES {
        let sheet = PriceSheet::named(name).unwrap();
        assert_eq!(sheet.name, name);
        assert_eq!(sheet.source.is_empty() || sheet.date.is_empty(), name == "none", "{name}");
    }
    assert_eq!(PriceSheet::named("s4"), None);
}

#[test]
fn a_volume_costs_what_is_provisioned_above_what_is_free() {
    let sheet =
        PriceSheet::parse("[prices]\nbase = 'ebs-gp3'\niops = 4000\nmb_per_s = 100").unwrap();
    assert_eq!(sheet.volume.unwrap().month(), dollars("5"));
    assert_eq!(sheet.month(100 << 30), dollars("13"));
    assert!(!sheet.is_free());
    let free = PriceSheet::parse("[prices]\niops = 4000").unwrap();
    assert!(free.is_free(), "operations without a price");
}

/// Any prefix of a sheet is a sheet or refused, and so is one with a byte changed.
#[test]
fn no_text_makes_it_panic() {
    let text =
        "[prices]\nbase = \"s3\" # é\nname = 'a#b'\niops=1\nget_per_thousand = 0.000000000001\n";
    for (end, _) in text.char_indices() {
        let _either = PriceSheet::parse(&text[..end]);
        for put in ["\"", "'", "#", "=", "[", "\n", "9", "\u{0}"] {
            let changed = format!("{}{put}{}", &text[..end], &text[end..]);
            if let Err(error) = PriceSheet::parse(&changed) {
                assert!(error.to_string().contains("prices"), "{error}");
            }
        }
    }
    assert_eq!(PriceSheet::parse(text).unwrap().name, "a#b");
}
