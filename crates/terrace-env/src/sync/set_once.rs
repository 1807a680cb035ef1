use std::sync::OnceLock;

/// A place for a value that is put there once and then stays.
///
/// Reading it is one load. Nothing here waits for another thread's computation: of two threads that
/// put a value at the same time one comes first, and the other's is dropped. A clone is a place of
/// its own.
#[derive(Clone, Debug)]
pub struct SetOnce<T>(OnceLock<T>);

impl<T> SetOnce<T> {
    /// An empty place.
    #[must_use]
    pub const fn new() -> SetOnce<T> {
        SetOnce(OnceLock::new())
    }

    /// What is there, if anything.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Puts `value` there unless something is; what is there then.
    pub fn get_or_set(&self, value: T) -> &T {
        self.0.get_or_init(|| value)
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> SetOnce<T> {
        SetOnce::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays() {
        let place = SetOnce::default();
        assert_eq!(place.get(), None);
        assert_eq!(place.get_or_set(1), &1);
        assert_eq!(place.get_or_set(2), &1);
        assert_eq!(place.get(), Some(&1));
    }
}
