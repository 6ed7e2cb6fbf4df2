//! `Spin`, the default way of waiting without std: a spinning waiter sees what happened before the
//! wake.
//!
//! For loom only: shuttle's exhaustive search never ends where a thread waits in a loop.

#![cfg(spanlock_loom)]

use crate::model::Model;
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::{Arc, Park, Spin, thread};

struct Shared(UnsafeCell<u32>);

// SAFETY: the models check that no access to the cell races with another.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

fn a_wake() {
    Spin::with(|place| {
        let shared = Arc::new(Shared(UnsafeCell::new(0)));
        let (other, waker) = (shared.clone(), place.waker().clone());
        let thread = thread::spawn(move || {
            // SAFETY: the waiter reads after the wake.
            other.0.with_mut(|value| unsafe { *value = 1 });
            waker.wake();
        });
        place.park();
        // SAFETY: the wake came after the write.
        assert_eq!(shared.0.with(|value| unsafe { *value }), 1);
        assert!(!place.try_park(), "the wake is consumed");
        thread.join().unwrap();
    });
}

#[test]
fn a_spinning_waiter_sees_what_preceded_the_wake() {
    let test = "spin::a_spinning_waiter_sees_what_preceded_the_wake";
    let model = Model::new(test, "sync/src/park.rs", a_wake);
    let sites = model.must_pass("").sites;
    let ordered = sites.iter().filter(|(_, ordering)| ordering != "Relaxed");
    let needed: Vec<_> = ordered.collect();
    assert_eq!(needed.len(), 2, "{sites:?}");
    for (site, _) in needed {
        model.must_fail(&format!("weaken:{site}=Relaxed"));
    }
}
