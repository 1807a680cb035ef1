//! The largest things that can be written.

use terrace_base::limits;

use crate::store::GetOptions;
use crate::store::tests::*;

#[test]
fn the_largest_key_and_value_fit_and_larger_ones_do_not() -> Result<()> {
    simulate(9, |env| {
        let store = open(env, &Options::default())?;
        let key = vec![b'k'; limits::KEY_BYTES_MAX];
        let value = vec![b'v'; limits::VALUE_BYTES_MAX];
        let mut batch = WriteBatch::new();
        batch.put(&key, &value)?;
        assert!(batch.put(b"k", &vec![0; value.len() + 1]).is_err());
        store.write(&batch, &WriteOptions::default())?;
        store.flush()?;
        let item = store.get(&key, &GetOptions::default())?;
        assert!(item.is_some_and(|item| item.value == value));
        Ok(())
    })
}
