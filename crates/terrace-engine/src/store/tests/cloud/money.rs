//! Goal: what figures and explanations say of money is what was asked of the store, by the sheet of
//! the options. Method: a range in a store with prices, one read at a time, beside the counters of
//! the store itself.

use terrace_base::KeyRange;

use super::{CloudOptions, fill, in_store};
use crate::cloud::{Dollars, PriceSheet, RequestCounts};
use crate::store::tests::*;

fn dollars(text: &str) -> Dollars {
    Dollars::parse(text).expect("a number")
}

/// Levels from 1 on lie in the store, at these prices.
fn priced(prices: Option<PriceSheet>) -> Options {
    let options = in_store(small(), 1);
    let cloud = options.cloud.map(|cloud| CloudOptions { prices, ..cloud });
    Options { cloud, ..options }
}

/// A range of 400 keys, all in the store, and nothing of them in memory.
fn stored(env: &SharedEnv, prices: Option<PriceSheet>) -> Result<Store> {
    let options = priced(prices);
    let store = open(env, &options)?;
    fill(&store, 0..2)?;
    store.compact(&KeyRange::all())?;
    store.close()?;
    let store = open(env, &options)?;
    store.settle();
    Ok(store)
}

fn counts(store: &Store) -> RequestCounts {
    store.stats().cloud.expect("it has a store").requests
}

#[test]
fn an_explained_read_says_what_it_asked_of_the_store() -> Result<()> {
    simulate(81, |env| {
        let store = stored(env, PriceSheet::named("s3"))?;
        let before = counts(&store);
        let explained = store.explain_get(b"0007")?;
        let cost = explained.cloud.clone().expect("the table is in the store");
        assert_eq!(cost.requests, counts(&store).since(&before));
        let gets = cost.requests.get.requests;
        assert!(gets > 0 && gets == cost.requests.requests(), "{explained}");
        let bill = cost.bill.clone().expect("s3 is not free");
        assert_eq!(bill.total_dollars, dollars("0.0004").each(gets, 1000));
        assert!(
            explained.to_string().contains(&format!("├─ object store: {cost}\n")),
            "{explained}"
        );
        let width = explained.to_string().lines().map(|line| line.chars().count()).max();
        assert!(width <= Some(100), "a line has {width:?} columns");
        // Its block is cached now.
        let again = store.explain_get(b"0007")?;
        assert_eq!(again.cloud, None, "{again}");
        let before = counts(&store);
        let scan = store.explain_scan(KeyRange::all(), u64::MAX, false)?;
        let cost = scan.cloud.clone().expect("most blocks are not cached");
        assert_eq!(cost.requests, counts(&store).since(&before));
        assert!(scan.to_string().contains(&format!("├─ object store: {cost}\n")), "{scan}");
        Ok(())
    })
}

#[test]
fn figures_have_a_bill_of_every_request() -> Result<()> {
    simulate(82, |env| {
        let sheet = PriceSheet {
            put_per_thousand: dollars("5"),
            get_per_thousand: dollars("3"),
            delete_per_thousand: dollars("2"),
            stored_per_gb_month: dollars("1024"),
            ..PriceSheet::named("s3").expect("built in")
        };
        let store = stored(env, Some(sheet.clone()))?;
        let cloud = store.stats().cloud.expect("it has a store");
        assert_eq!(cloud.bill, sheet.bill(&cloud.requests));
        assert!(cloud.bill.put_dollars > Dollars::ZERO && cloud.bill.get_dollars > Dollars::ZERO);
        assert_eq!(cloud.month_dollars, dollars("1024").each(cloud.table_bytes, 1 << 30));
        assert!(cloud.table_bytes > 0 && cloud.month_dollars > Dollars::ZERO);
        assert_eq!(cloud.prices, sheet);
        assert!(cloud.to_string().contains("(estimate, prices s3 of 2025-06)"), "{cloud}");
        Ok(())
    })
}

#[test]
fn a_directory_costs_nothing_unless_the_options_say_so() -> Result<()> {
    simulate(83, |env| {
        let store = stored(env, None)?;
        let explained = store.explain_get(b"0007")?;
        let cost = explained.cloud.clone().expect("the table is in the store");
        assert!(cost.bill.is_none() && !explained.to_string().contains('$'), "{explained}");
        let cloud = store.stats().cloud.expect("it has a store");
        assert!(cloud.prices.is_free() && !cloud.to_string().contains('$'), "{cloud}");
        assert!(cloud.requests.requests() > 0);
        store.close()?;
        // The manifest has the URL, and no prices.
        let store = open(env, &small())?;
        let cloud = store.stats().cloud.expect("it has a store");
        assert_eq!(cloud.prices, PriceSheet::of_url("file:///store"));
        Ok(())
    })
}
