use std::fmt;
use std::ops::Deref;

use terrace_base::KeyRange as OwnedRange;

use crate::asynchronous::AsyncView;
use crate::asynchronous::waiting::{Waiting, at_once, turn};
use crate::view::{Key, KeyRange, Value};
use crate::{Cas, Error, Keyspace, Result, Snapshot, WriteOptions};

/// A keyspace of an open database, as a [`Keyspace`] is, without keeping the task's thread waiting;
/// as an [`AsyncView`], which it dereferences to, it reads. A cheap handle, which tasks may share
/// and clone. Made by [`AsyncDb::keyspace`](crate::asynchronous::AsyncDb::keyspace).
///
/// Errors of all writes: those of a [`Keyspace`]; `Cancelled` if the runtime is shutting down:
/// nothing was written.
#[derive(Clone)]
pub struct AsyncKeyspace {
    now: AsyncView,
    keyspace: Keyspace,
}

impl Deref for AsyncKeyspace {
    type Target = AsyncView;

    fn deref(&self) -> &AsyncView {
        &self.now
    }
}

impl AsyncKeyspace {
    pub(super) fn new(keyspace: Keyspace, waiting: &Waiting) -> AsyncKeyspace {
        let now = AsyncView::new((*keyspace).clone(), waiting);
        AsyncKeyspace { now, keyspace }
    }

    /// The keyspace itself, whose calls keep the thread that they are called on.
    #[must_use]
    pub fn blocking(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The name, as it was when the handle was made.
    #[must_use]
    pub fn name(&self) -> &str {
        self.keyspace.name()
    }

    /// The keyspace as it was at the moment of a snapshot.
    #[must_use]
    pub fn at(&self, snapshot: &Snapshot) -> AsyncView {
        AsyncView::new(self.keyspace.at(snapshot), self.waiting())
    }

    /// Takes `work` to a thread that may wait; what it answered.
    pub async fn run<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        work: impl FnOnce(&Keyspace) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let keyspace = self.keyspace.clone();
        self.waiting().run(move || work(&keyspace)).await
    }

    /// Sets `key` to `value`.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_bytes(key.as_ref(), value.as_ref(), WriteOptions::new()).await
    }

    /// Sets `key` to `value`, for some time or in another class of durability.
    pub async fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.put_bytes(key.as_ref(), value.as_ref(), options.may_wait()).await
    }

    async fn put_bytes(&self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        turn().await;
        if let Some(answer) = at_once(self.keyspace.put_with(key, value, &options.no_wait())) {
            return answer;
        }
        let (key, value) = (Key::from(key), value.to_vec());
        self.run(move |keyspace| keyspace.put_with(key, value, &options)).await
    }

    /// Deletes `key`; it need not exist.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        turn().await;
        let key = key.as_ref();
        let quick = WriteOptions::new().no_wait();
        if let Some(answer) = at_once(self.keyspace.delete_with(key, &quick)) {
            return answer;
        }
        let key = Key::from(key);
        self.run(move |keyspace| keyspace.delete(key)).await
    }

    /// Deletes every key of an interval. Costs one entry, however many keys there are.
    pub async fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        let stored = self.keyspace.space().number.stored_range(&range);
        self.delete_stored(stored).await
    }

    async fn delete_stored(&self, stored: OwnedRange) -> Result<()> {
        turn().await;
        let quick = WriteOptions::new().no_wait();
        if let Some(answer) = at_once(self.keyspace.delete_stored_range(&stored, &quick)) {
            return answer;
        }
        self.run(move |keyspace| keyspace.delete_stored_range(&stored, &WriteOptions::new())).await
    }

    /// Deletes every key.
    pub async fn clear(&self) -> Result<()> {
        self.delete_range(..).await
    }

    /// Merges `operand` into `key` without reading it; see [`Keyspace::merge`].
    pub async fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        turn().await;
        let (key, operand) = (key.as_ref(), operand.as_ref());
        let quick = WriteOptions::new().no_wait();
        if let Some(answer) = at_once(self.keyspace.merge_with(key, operand, &quick)) {
            return answer;
        }
        let (key, operand) = (Key::from(key), operand.to_vec());
        self.run(move |keyspace| keyspace.merge(key, operand)).await
    }

    /// Sets `key` to `new` if it holds `expected`; see [`Keyspace::compare_and_swap`].
    pub async fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Cas> {
        turn().await;
        let key = key.as_ref();
        let quick = WriteOptions::new().no_wait();
        let tried = self.keyspace.compare_and_swap_with(key, expected, new, &quick);
        if let Some(answer) = at_once(tried) {
            return answer;
        }
        let key = Key::from(key);
        let [expected, new] = [expected, new].map(|value| value.map(<[u8]>::to_vec));
        self.run(move |keyspace| {
            keyspace.compare_and_swap(key, expected.as_deref(), new.as_deref())
        })
        .await
    }

    /// Replaces the value of `key` by what `change` makes of it, on a thread that may wait; see
    /// [`Keyspace::update`].
    pub async fn update<F>(&self, key: impl AsRef<[u8]>, change: F) -> Result<Option<Value>>
    where
        F: FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    {
        let key = Key::from(key.as_ref());
        self.run(move |keyspace| keyspace.update(key, change)).await
    }
}

impl fmt::Debug for AsyncKeyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Async{:?}", self.keyspace)
    }
}
