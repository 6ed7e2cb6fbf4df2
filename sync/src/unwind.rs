//! Steps that run even if the step before them panics.
//!
//! A waker is foreign code and may panic. Even then, the release of a lock must complete its other
//! steps: it releases other holds, and wakes other waiters. If a later step panics as well, the
//! process aborts, as for any panic during unwinding.

use crate::injected_bug;

/// Calls `f` for every item. If a call panics, the later items are still visited.
#[inline]
pub fn for_each_surely<I: Iterator>(items: I, f: impl FnMut(I::Item)) {
    struct Rest<I: Iterator, F: FnMut(I::Item)>(I, F);
    impl<I: Iterator, F: FnMut(I::Item)> Drop for Rest<I, F> {
        #[inline]
        fn drop(&mut self) {
            if injected_bug!(
                "rest-left-out",
                "after a waker has panicked, the other waiters are not woken",
                killed_by = "release-unwinds"
            ) {
                return;
            }
            for item in self.0.by_ref() {
                (self.1)(item);
            }
        }
    }
    let mut rest = Rest(items, f);
    // A `for` loop would move the iterator out of `Rest`.
    #[allow(clippy::while_let_on_iterator)]
    while let Some(item) = rest.0.next() {
        (rest.1)(item);
    }
}

/// Calls `first`, and then `next` even if `first` panics.
#[inline]
pub fn and_surely(first: impl FnOnce(), next: impl FnOnce()) {
    struct Next<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Next<F> {
        #[inline]
        fn drop(&mut self) {
            if let Some(next) = self.0.take() {
                next();
            }
        }
    }
    let _next = Next(Some(next));
    first();
}

#[cfg(all(
    test,
    feature = "std",
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{and_surely, for_each_surely};

    #[test]
    fn the_next_step_runs_after_a_panic_too() {
        let mut steps = 0;
        and_surely(|| (), || steps += 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            and_surely(|| panic!("the first step"), || steps += 1);
        }));
        assert!(panicked.is_err());
        assert_eq!(steps, 2);
    }

    #[test]
    fn the_items_after_a_panic_are_visited_too() {
        let mut visited = Vec::new();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            for_each_surely(0..4, |item| {
                visited.push(item);
                assert_ne!(item, 1);
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(visited, [0, 1, 2, 3]);
    }
}
