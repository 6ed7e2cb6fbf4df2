//! A blocking request passes a waiter that has been granted its range but has not run yet.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use spanlock_interval_lock::range_lock::words::MAX_PASSES;
use spanlock_interval_lock::{IntervalLock, RangeLockExt};
use spanlock_sync::{Park, Parker, thread};
use spanlock_testkit::models::data::Data;
use spanlock_verify::{Program, note_as, perform};

/// How many requests try to pass the waiter.
const ARRIVALS: u32 = MAX_PASSES + 1;

pub(crate) fn program() -> Program {
    Program::new(
        "passes",
        "at most 32 blocking requests (1 under a checker) pass a waiter that was woken, and they \
         exclude the waiter and each other",
    )
    .performs([
        vec!["poll", "release"],
        vec!["acquire-exclusive", "release"],
    ])
    .operations(1 + ARRIVALS as usize)
    .run(passes)
}

/// The main thread's request waits and is granted. Before the main thread polls the request again,
/// the other thread's requests arrive.
fn passes() {
    let shared = Arc::new((IntervalLock::new(), Data::new()));
    let (lock, data) = &*shared;
    Parker::with(|parker| {
        let context = &mut Context::from_waker(parker.waker());
        let hold = lock.write(0..1).expect("in range");
        let mut request = pin!(lock.write_async(0..1));
        assert!(request.as_mut().poll(context).is_pending());
        drop(hold);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || arrive(&shared.0, &shared.1))
        };
        let hold = loop {
            parker.park();
            if let Poll::Ready(hold) = request.as_mut().poll(context) {
                break hold.expect("in range");
            }
        };
        perform("poll");
        let passes = data.sum(&(0..1));
        assert!(passes <= MAX_PASSES, "the waiter was passed too often");
        note_as(0, format!("passed {passes} times"));
        data.add_one(&(0..1));
        drop(hold);
        perform("release");
        other.join().expect("is granted");
    });
    assert_eq!(data.sum(&(0..1)), 1 + ARRIVALS, "a write was lost");
    assert!(lock.is_empty());
}

fn arrive(lock: &IntervalLock, data: &Data) {
    for _ in 0..ARRIVALS {
        let hold = lock.write(0..1).expect("in range");
        perform("acquire-exclusive");
        data.add_one(&(0..1));
        drop(hold);
        perform("release");
    }
}
