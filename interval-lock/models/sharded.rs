//! The interval tree with two shards, so that a request for two positions is wide.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use spanlock_interval_lock::{IntervalLock, RangeLockExt};
use spanlock_sync::{Park, Parker, thread};
use spanlock_testkit::models::data::Data;
use spanlock_testkit::models::unwinding::Sleepless;
use spanlock_testkit::{driven, models, primitive};
use spanlock_verify::{Program, Suite, note_as, perform};

/// Creates a lock in which positions 0 and 2 belong to one shard, and 1 and 3 to the other.
fn sharded() -> IntervalLock {
    IntervalLock::with_shards(2, 1)
}

pub(crate) fn suite() -> Suite {
    let lock = primitive!(
        "interval-tree-sharded", sharded();
        wait, downgrade, upgrade, upgrade_wait, split, batch
    );
    let sleepless = || driven!(sharded().with_parking::<Sleepless>(); batch, upgrade_wait);
    let lock = lock.granular().overtakes(0).unwinding(sleepless);
    models::range_lock(lock, [program()])
}

fn program() -> Program {
    Program::new(
        "wide-keeps-its-place",
        "a try does not overtake a wide request, even in a shard in which nothing blocks it",
    )
    .performs([
        vec!["poll", "release"],
        vec!["try", "acquire-shared", "release"],
    ])
    .operations(3)
    .run(keeps_its_place)
}

/// A reader of position 0 blocks a wide writer of positions 0 and 1. Meanwhile, the other thread
/// requests position 1, which nobody holds.
fn keeps_its_place() {
    let shared = Arc::new((sharded(), Data::new()));
    let (lock, data) = &*shared;
    Parker::with(|parker| {
        let context = &mut Context::from_waker(parker.waker());
        let reader = lock.read(0..1).expect("in range");
        let mut request = pin!(lock.write_async(0..2));
        assert!(request.as_mut().poll(context).is_pending());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || arrive(&shared.0, &shared.1))
        };
        drop(reader);
        let writer = loop {
            parker.park();
            if let Poll::Ready(writer) = request.as_mut().poll(context) {
                break writer.expect("in range");
            }
        };
        perform("poll");
        data.add_one(&(0..2));
        drop(writer);
        perform("release");
        other.join().expect("is granted");
    });
    assert!(lock.is_empty());
}

fn arrive(lock: &IntervalLock, data: &Data) {
    perform("try");
    match lock.try_read(1..2) {
        Ok(hold) => {
            assert_eq!(data.sum(&(1..2)), 1, "the try overtook the writer");
            drop(hold);
            perform("release");
        }
        Err(_) => note_as(1, "busy"),
    }
    // This may pass the writer, once.
    let hold = lock.read(1..2).expect("in range");
    perform("acquire-shared");
    note_as(1, format!("read {}", data.sum(&(1..2))));
    drop(hold);
    perform("release");
}
