//! Functions that a program registers by `pthread_atfork`, and that use locks or take long. Nothing
//! else may run in the process of these tests, because the functions run at every fork.

#![cfg(all(
    target_os = "linux",
    not(any(miri, spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]

use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;
use std::time::Duration;

use spanlock_range_lock::{RangeLockExt, WriteHold};
use spanlock_srl::SrlTree;
use spanlock_sync::rcu::Rcu;
use spanlock_testkit::system::{beside_threads, in_child};

/// The lock that nobody may hold while the process forks.
static LOCK: LazyLock<SrlTree> =
    LazyLock::new(|| SrlTree::with_segment_size(64, 1).expect("a small lock"));

thread_local! {
    static HOLD: RefCell<Option<WriteHold<'static, SrlTree>>> = const { RefCell::new(None) };
}

extern "C" fn before() {
    HOLD.set(Some(LOCK.write(0..8).expect("a valid range")));
    // Long enough for other threads to use the library for the first time.
    thread::sleep(Duration::from_millis(3));
}

extern "C" fn after() {
    drop(HOLD.take());
}

/// Forks many times, each time in a process of its own, while other threads wait for the lock and
/// enter critical sections for the first time. In the child, a new thread does the same.
#[test]
fn functions_at_forks_use_locks() {
    // SAFETY: the functions may be called at any fork.
    let error = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    assert_eq!(error, 0);
    for _ in 0..40 {
        assert!(in_child(|| {
            let done = AtomicBool::new(false);
            let use_locks = || {
                drop(Rcu::new().enter());
                drop(LOCK.write(0..1).expect("a valid range"));
            };
            let others = || {
                while !done.load(SeqCst) {
                    use_locks();
                }
            };
            beside_threads(3, others, || {
                let right = in_child(|| {
                    beside_threads(1, use_locks, || ());
                    LOCK.try_write(0..64).is_ok()
                });
                done.store(true, SeqCst);
                right
            })
        }));
    }
}
