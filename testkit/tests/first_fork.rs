//! The first fork of a process, while its threads use the locks for the first time. Nothing else
//! may run in the process of these tests, because it would use the locks before.

#![cfg(all(
    target_os = "linux",
    not(any(miri, spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]

use std::sync::Barrier;
use std::task::{Context, Waker};

use spanlock_range_lock::RangeLockExt;
use spanlock_srl::SrlArray;
use spanlock_sync::rcu::Rcu;
use spanlock_testkit::system::{beside_threads, in_child};

/// Forks while four threads do `first`, each in a process of its own so that it is the first time.
/// In the child, `first` must end when a new thread does it.
fn during_the_first_fork(first: impl Fn() + Sync) {
    for _ in 0..300 {
        assert!(in_child(|| {
            let start = Barrier::new(5);
            let others = || {
                start.wait();
                first();
            };
            beside_threads(4, others, || {
                start.wait();
                in_child(|| beside_threads(1, &first, || true))
            })
        }));
    }
}

#[test]
fn threads_register_during_the_first_fork() {
    during_the_first_fork(|| drop(Rcu::new().enter()));
}

/// Each thread waits for a lock, for as long as its request lives.
#[test]
fn threads_wait_during_the_first_fork() {
    // Prepares everything but the first wait, so that the wait and the fork begin together.
    let lock = SrlArray::with_segment_size(8, 1).expect("a small lock");
    let _hold = lock.write(0..1);
    during_the_first_fork(|| {
        let mut request = Box::pin(lock.write_async(0..1));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(Future::poll(request.as_mut(), context).is_pending());
    });
}
