use std::fmt;

use crate::asynchronous::Rows;
use crate::asynchronous::waiting::{Waiting, at_once, turn};
use crate::view::{Key, KeyRange, Prefix, Value, View};
use crate::{Error, ReadOptions, Result};

/// A keyspace to read, as a [`View`] is, without keeping the task's thread waiting. A cheap handle,
/// which tasks may share and clone.
///
/// Errors of all reads: those of a [`View`]; `Cancelled` if the runtime is shutting down.
#[derive(Clone)]
pub struct AsyncView {
    view: View,
    /// The same, for reads on the task's thread.
    quick: View,
    waiting: Waiting,
}

impl AsyncView {
    pub(super) fn new(view: View, waiting: &Waiting) -> AsyncView {
        let quick = view.with(view.options().no_wait());
        AsyncView { view, quick, waiting: waiting.clone() }
    }

    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// The view itself: its calls wait where they have to, and keep the thread that they are called
    /// on. For threads that may.
    #[must_use]
    pub fn blocking(&self) -> &View {
        &self.view
    }

    /// The same view, read in another way. That it may not wait is not for this kind of view.
    #[must_use]
    pub fn with(&self, options: ReadOptions) -> AsyncView {
        AsyncView::new(self.view.with(options.may_wait()), &self.waiting)
    }

    /// Takes `work` to a thread that may wait; what it answered.
    pub async fn run<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        work: impl FnOnce(&View) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let view = self.view.clone();
        self.waiting.run(move || work(&view)).await
    }

    /// The value of `key`; `None` if there is none.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        turn().await;
        let key = key.as_ref();
        if let Some(answer) = at_once(self.quick.get(key)) {
            return answer;
        }
        let key = Key::from(key);
        self.run(move |view| view.get(&key)).await
    }

    /// The values of `keys`, in their order, all as they were at one moment.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        turn().await;
        if let Some(answer) = at_once(self.quick.get_many(keys)) {
            return answer;
        }
        let keys: Vec<Key> = keys.iter().map(|key| Key::from(key.as_ref())).collect();
        self.run(move |view| view.get_many(&keys)).await
    }

    /// Whether there is `key`.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        turn().await;
        let key = key.as_ref();
        if let Some(answer) = at_once(self.quick.contains_key(key)) {
            return answer;
        }
        let key = Key::from(key);
        self.run(move |view| view.contains_key(&key)).await
    }

    /// The first key with its value; `None` if there is none.
    pub async fn first(&self) -> Result<Option<(Key, Value)>> {
        turn().await;
        if let Some(answer) = at_once(self.quick.first()) {
            return answer;
        }
        self.run(View::first).await
    }

    /// The last key with its value; `None` if there is none.
    pub async fn last(&self) -> Result<Option<(Key, Value)>> {
        turn().await;
        if let Some(answer) = at_once(self.quick.last()) {
            return answer;
        }
        self.run(View::last).await
    }

    /// All keys and values.
    #[must_use]
    pub fn iter(&self) -> Rows {
        self.range(..)
    }

    /// The keys and values of an interval, as they are when the first of them is asked for.
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Rows {
        let range = self.view.space().number.stored_range(&range);
        Rows::new([self.quick.clone(), self.view.clone()], range, &self.waiting)
    }

    /// The keys that begin with `prefix`, and their values.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Rows {
        self.range(Prefix(prefix))
    }
}

impl fmt::Debug for AsyncView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Async{:?}", self.view)
    }
}
