//! Who may use a directory, and what is created in it.

use terrace_base::KeyRange;

use crate::Error;
use crate::store::tests::*;

#[test]
fn two_ranges_share_one_process() -> Result<()> {
    simulate(2, |env| {
        let process = process(env)?;
        let one = Store::open(&process, Path::new("/one"), small())?;
        let two = Store::open(&process, Path::new("/two"), small())?;
        for round in 0..300 {
            put(&one, &format!("{round}"), "one")?;
            put(&two, &format!("{round}"), "two")?;
        }
        one.compact(&KeyRange::all())?;
        assert_eq!(get(&one, "77")?.as_deref(), Some("one"));
        assert_eq!(get(&two, "77")?.as_deref(), Some("two"));
        Ok(())
    })
}

#[test]
fn a_directory_has_one_writer_or_many_readers() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        let refused = open(env, &small()).expect_err("in use");
        assert!(matches!(refused, Error::Locked(_)), "{refused}");
        drop(store);
        let read_only = Options { read_only: true, ..small() };
        let one = open(env, &read_only)?;
        let two = open(env, &read_only)?;
        assert_eq!(get(&one, "a")?.as_deref(), Some("1"));
        assert_eq!(get(&two, "a")?.as_deref(), Some("1"));
        assert!(matches!(put(&one, "b", "2"), Err(Error::ReadOnly)));
        assert!(matches!(open(env, &small()), Err(Error::Locked(_))));
        Ok(())
    })
}

#[test]
fn nothing_is_created_where_nothing_should_be() -> Result<()> {
    simulate(5, |env| {
        for options in [
            Options { read_only: true, ..small() },
            Options { create_if_missing: false, ..small() },
        ] {
            assert!(matches!(open(env, &options), Err(Error::Invalid(_))));
        }
        Ok(())
    })
}
