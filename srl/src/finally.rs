//! Steps that run even if the step before them panics.
//!
//! Waking a waiter runs a waker that somebody else wrote, and it may panic. Whatever a request
//! holds must be released all the same.

/// Calls `first`, then `last`; calls `last` even if `first` panics.
///
/// If both panic, the process aborts, as it does for any panic during unwinding.
pub(crate) fn finally(first: impl FnOnce(), last: impl FnOnce()) {
    struct Last<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Last<F> {
        fn drop(&mut self) {
            if let Some(last) = self.0.take() {
                last();
            }
        }
    }
    let _last = Last(Some(last));
    first();
}

#[cfg(all(test, feature = "std", not(any(spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::finally;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_last_step_runs_after_a_panic_too() {
        let mut steps = 0;
        finally(|| (), || steps += 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            finally(|| panic!("the first step"), || steps += 1);
        }));
        assert!(panicked.is_err());
        assert_eq!(steps, 2);
    }
}
