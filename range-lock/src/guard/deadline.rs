//! Deadlines: a thread polls a future whenever it wakes.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use std::time::Instant;

use spanlock_sync::hint::Backoff;
use spanlock_sync::{Park, Parker, Wakeup};

/// Polls until the future is ready, and sleeps in between. Returns `None` once `deadline` has
/// passed.
pub(super) fn block_on<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    Parker::with(|parker| {
        let mut context = Context::from_waker(parker.waker());
        let mut spin = Backoff::new();
        let mut wakeup = Wakeup::Woken;
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            if wakeup == Wakeup::TimedOut {
                return None;
            }
            wakeup = sleep(parker, &mut spin, deadline);
            // A future that may be overlooked wakes itself at each poll, so its thread never sleeps
            // until the deadline.
            if deadline.is_some_and(Parker::has_passed) {
                wakeup = Wakeup::TimedOut;
            }
        }
    })
}

/// Spins for as long as `spin` has rounds left, then sleeps.
fn sleep(parker: &Parker, spin: &mut Backoff, deadline: Option<Instant>) -> Wakeup {
    while spin.round() {
        if parker.try_park() {
            return Wakeup::Woken;
        }
    }
    parker.park_until(deadline)
}
