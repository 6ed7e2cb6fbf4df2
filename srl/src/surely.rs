//! Steps that are taken even if the one before them panics: what is held must go, whatever somebody else's waker does.

/// Calls `first`, and then `next`, even if `first` panics.
///
/// If both do the process ends, as with any panic that comes while another unwinds.
pub(crate) fn and_surely(first: impl FnOnce(), next: impl FnOnce()) {
    struct Next<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Next<F> {
        fn drop(&mut self) {
            if let Some(next) = self.0.take() {
                next();
            }
        }
    }
    let _next = Next(Some(next));
    first();
}

#[cfg(all(test, feature = "std", not(any(spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::and_surely;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_next_step_is_taken_after_a_panic_too() {
        let mut steps = 0;
        and_surely(|| (), || steps += 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            and_surely(|| panic!("the first step"), || steps += 1);
        }));
        assert!(panicked.is_err());
        assert_eq!(steps, 2);
    }
}
