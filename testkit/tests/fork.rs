//! A process forks while its threads use locks. The child has one thread: the one that forked.

#![cfg(all(
    target_os = "linux",
    not(any(miri, spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use spanlock_range_lock::RangeLockExt;
use spanlock_srl::{Shape, SrlArray, SrlTree, SrlTreePacked};
use spanlock_sync::rcu::Rcu;
use spanlock_testkit::system::{beside_threads, in_child};

/// Runs `f` while another thread is in a read-side critical section.
fn beside_a_reader<R>(f: impl FnOnce() -> R) -> R {
    let rcu = Rcu::new();
    let (entered, has_entered) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let rcu = &rcu;
        scope.spawn(move || {
            let guard = rcu.enter();
            entered.send(()).unwrap();
            // Ends when `leave` is dropped.
            let _ = may_leave.recv();
            drop(guard);
        });
        has_entered.recv().unwrap();
        let result = f();
        drop(leave);
        result
    })
}

#[test]
fn the_child_does_not_wait_for_critical_sections_of_other_threads() {
    let rcu = Rcu::new();
    assert!(beside_a_reader(|| in_child(|| rcu.synchronize())));
}

#[test]
fn the_child_shrinks_trees() {
    let lock = SrlTree::with_shape(1 << 10, &Shape::new(1, &[1; 10]).unwrap()).unwrap();
    let packed = SrlTreePacked::with_shape(1 << 10, &Shape::new(1, &[6, 4]).unwrap()).unwrap();
    drop((lock.write(0..8).unwrap(), packed.write(0..8).unwrap()));
    let shrinks = || lock.shrink() > 0 && packed.shrink() > 0;
    assert!(beside_a_reader(|| in_child(shrinks)));
    assert!(shrinks(), "the parent shrinks its own trees");
}

/// The thread that forks may itself be in a critical section. The child's thread is in it, too.
#[test]
fn the_child_is_in_the_section_of_its_own_thread() {
    let rcu = Rcu::new();
    let guard = rcu.enter();
    assert!(in_child(|| {
        let waits = AtomicBool::new(true);
        let waiter = || {
            assert!(rcu.synchronize());
            waits.store(false, SeqCst);
        };
        beside_threads(1, waiter, || {
            for _ in 0..1000 {
                thread::yield_now();
            }
            let waited = waits.load(SeqCst);
            drop(guard);
            waited
        })
    }));
}

/// Threads register with the RCU while the process forks.
#[test]
fn a_fork_does_not_leave_the_registry_locked() {
    let (rcu, done) = (Rcu::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                thread::scope(|scope| {
                    (0..4).for_each(|_| drop(scope.spawn(|| drop(rcu.enter()))));
                });
            }
        });
        let all_right = (0..50).all(|_| {
            in_child(|| {
                // A new thread registers.
                beside_threads(1, || drop(rcu.enter()), || ());
                rcu.synchronize()
            })
        });
        done.store(true, SeqCst);
        assert!(all_right);
    });
}

/// The thread that forks has a request behind that of another thread, which was woken. In the
/// child, the request becomes the head, although nobody wakes it.
#[test]
fn the_childs_own_request_blocks_nobody() {
    let lock = SrlArray::with_segment_size(64, 1).unwrap();
    let hold = lock.write(0..1).unwrap();
    let poll = |request: &mut Pin<Box<_>>| {
        let context = &mut Context::from_waker(Waker::noop());
        Future::poll(Pin::as_mut(request), context).is_ready()
    };
    let mut other = Box::pin(lock.write_async(0..1));
    thread::scope(|scope| {
        let is_ready = scope.spawn(|| poll(&mut other)).join();
        assert!(!is_ready.expect("polls"));
    });
    let mut mine = Box::pin(lock.write_async(0..1));
    assert!(!poll(&mut mine));
    drop(hold);
    assert!(in_child(|| {
        let is_free = || lock.try_write(0..1).is_ok();
        // As many as may overtake a waiter, for as long as they may, and more.
        (0..100).all(|_| is_free()) && {
            thread::sleep(Duration::from_millis(2));
            (0..100).all(|_| is_free()) && poll(&mut mine)
        }
    }));
    assert!(poll(&mut other));
}

/// Threads wait for a lock while the process forks: their nodes are on stacks that the child uses
/// for other threads.
#[test]
fn the_child_does_not_meet_waiters_of_other_threads() {
    let lock = SrlArray::with_segment_size(64, 1).unwrap();
    let mut hold = Some(lock.write(0..8).unwrap());
    thread::scope(|scope| {
        for i in 0..16 {
            let lock = &lock;
            scope.spawn(move || match i % 2 {
                0 => drop(lock.write(i / 2..8).unwrap()),
                _ => drop(lock.read(i / 2..8).unwrap()),
            });
        }
        // Time to fall asleep.
        thread::sleep(Duration::from_millis(20));
        let goes_on = || {
            // More stacks than there were threads.
            let fill = || _ = std::hint::black_box([0xA5_u8; 1 << 16]);
            beside_threads(32, fill, || ());
            hold = None;
            // As many as may overtake a waiter, and more.
            (0..100).all(|_| lock.try_write(0..64).is_ok())
        };
        assert!(in_child(goes_on));
        hold = None;
    });
    assert!(lock.try_write(0..64).is_ok());
}
