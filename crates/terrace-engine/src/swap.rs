//! Shared values that are replaced as a whole: `arc_swap`'s, and in a build for models a lock
//! around a reference, of which the model knows every step.

#[cfg(not(terrace_loom))]
pub(crate) use arc_swap::{ArcSwap, Guard};

#[cfg(terrace_loom)]
pub(crate) use modeled::{ArcSwap, Guard};

#[cfg(terrace_loom)]
mod modeled {
    use std::ops::Deref;
    use std::sync::Arc;

    use terrace_env::Latch;

    /// What was there when it was loaded.
    pub(crate) struct Guard<T>(T);

    impl<T> Deref for Guard<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    /// As `arc_swap`'s.
    ///
    /// A model does not know the counts of the standard library's `Arc`, which order what its
    /// holders did before the last of them frees it. So who lets go of a value that was loaded here
    /// says so, by [`ArcSwap::let_go`].
    #[derive(Debug)]
    pub(crate) struct ArcSwap<T> {
        value: Latch<Arc<T>>,
        counts: Latch<()>,
    }

    impl<T> ArcSwap<T> {
        pub(crate) fn from_pointee(value: T) -> ArcSwap<T> {
            ArcSwap { value: Latch::new(Arc::new(value)), counts: Latch::new(()) }
        }

        pub(crate) fn load(&self) -> Guard<Arc<T>> {
            Guard(self.load_full())
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            Arc::clone(&self.value.lock())
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            let old = std::mem::replace(&mut *self.value.lock(), value);
            self.let_go(old);
        }

        /// Drops `value` in the order that its count would have.
        pub(crate) fn let_go(&self, value: Arc<T>) {
            let _turn = self.counts.lock();
            drop(value);
        }
    }
}
