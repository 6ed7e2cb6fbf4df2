//! A weakened ordering, a dropped fence and a dropped wake each make a model fail.

use std::pin::pin;

use crate::model::Model;
use spanlock_sync::atomic::{AtomicU32, Ordering::*, fence};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::check::Weakening;
use spanlock_sync::wait::{Class, Spot, Status, WaitQueue, Waiter};
use spanlock_sync::{Arc, Park, Parker, thread};

struct Message {
    flag: AtomicU32,
    text: UnsafeCell<u32>,
}

// SAFETY: `text` is written before `flag` is set, and read only by a thread that saw it set.
unsafe impl Sync for Message {}
// SAFETY: it is two numbers.
unsafe impl Send for Message {}

fn message_passing() {
    let message = Arc::new(Message {
        flag: AtomicU32::new(0),
        text: UnsafeCell::new(0),
    });
    let sender = message.clone();
    let thread = thread::spawn(move || {
        // SAFETY: not yet published.
        sender.text.with_mut(|text| unsafe { *text = 7 });
        // Release [B→A].
        sender.flag.store(1, Release);
    });
    // Acquire [A→B].
    if message.flag.load(Acquire) == 1 {
        // SAFETY: published.
        assert_eq!(message.text.with(|text| unsafe { *text }), 7);
    }
    thread.join().unwrap();
}

/// Shuttle does not detect a weakened ordering: it treats every ordering as SeqCst.
#[test]
#[cfg(any(spanlock_explorer, spanlock_loom))]
fn a_weakened_ordering_fails() {
    let model = Model::new(
        "weakening::a_weakened_ordering_fails",
        file!(),
        message_passing,
    );
    let sound = model.must_pass("");
    assert!(sound.executions > 1);
    assert_eq!((sound.weakened, sound.injected), (0, 0));
    let orderings: Vec<_> = sound
        .sites
        .iter()
        .map(|(_, ordering)| &**ordering)
        .collect();
    assert_eq!(orderings, ["Release", "Acquire"]);
    for (site, _) in &sound.sites {
        model.must_fail(&format!("weaken:{site}=Relaxed"));
    }
}

#[test]
fn a_weakening_of_an_unreached_site_has_no_effect() {
    let model = Model::new(
        "weakening::a_weakening_of_an_unreached_site_has_no_effect",
        file!(),
        message_passing,
    );
    let (site, _) = &model.must_pass("").sites[0];
    for elsewhere in [
        "nowhere.rs:1:1:store=Relaxed".to_owned(),
        // The right place, but another operation.
        format!("{}rmw=Relaxed", site.trim_end_matches("store")),
    ] {
        assert_eq!(model.must_pass(&format!("weaken:{elsewhere}")).weakened, 0);
    }
    // This is no weaker than the ordering in the source: the site is reached, and nothing changes.
    assert!(model.must_pass(&format!("weaken:{site}=Release")).weakened > 0);
}

fn store_buffering() {
    let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let theirs = words.clone();
    let thread = thread::spawn(move || {
        theirs[0].store(1, Relaxed);
        fence(SeqCst);
        theirs[1].load(Relaxed)
    });
    words[1].store(1, Relaxed);
    fence(SeqCst);
    let mine = words[0].load(Relaxed);
    let other = thread.join().unwrap();
    assert!(
        mine == 1 || other == 1,
        "neither thread saw the store of the other"
    );
}

#[test]
#[cfg(any(spanlock_explorer, spanlock_loom))]
fn a_dropped_fence_fails() {
    let model = Model::new("weakening::a_dropped_fence_fails", file!(), store_buffering);
    let sound = model.must_pass("");
    let fences = || {
        sound
            .sites
            .iter()
            .filter(|(site, _)| site.ends_with(":fence"))
    };
    assert_eq!(fences().count(), 2);
    for (site, _) in fences() {
        for weaker in ["drop", "Relaxed", "AcqRel"] {
            model.must_fail(&format!("weaken:{site}={weaker}"));
        }
    }
}

#[test]
#[cfg(spanlock_shuttle)]
fn shuttle_does_not_detect_a_dropped_fence() {
    let model = Model::new(
        "weakening::shuttle_does_not_detect_a_dropped_fence",
        file!(),
        store_buffering,
    );
    let sound = model.must_pass("");
    for (site, _) in sound
        .sites
        .iter()
        .filter(|(site, _)| site.ends_with(":fence"))
    {
        let weakened = model.must_pass(&format!("weaken:{site}=drop"));
        assert!(weakened.weakened > 0);
    }
}

const HELD: u32 = 1;

/// The mutex of the crate's documentation.
struct Counter {
    word: AtomicU32,
    queue: WaitQueue,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is accessed only while the mutex is held.
unsafe impl Sync for Counter {}
// SAFETY: it is two numbers and a queue.
unsafe impl Send for Counter {}

impl Counter {
    fn add_one(&self) {
        self.lock();
        // SAFETY: the mutex is held.
        self.value.with_mut(|value| unsafe { *value += 1 });
        // Release [B→A, C].
        self.word.store(0, Release);
        if self.queue.is_asleep(self.spot().word) {
            self.queue.wake(self.spot());
        }
    }

    fn lock(&self) {
        // Acquire [A→B].
        if self
            .word
            .compare_exchange(0, HELD, Acquire, Relaxed)
            .is_ok()
        {
            return;
        }
        Parker::with(|parker| {
            let waker = || parker.waker().clone();
            let mut waiter = pin!(Waiter::new());
            // SAFETY: the waiter leaves below.
            let mut is_at_head = unsafe {
                (self.queue).join(waiter.as_mut(), self.spot(), Class::Exclusive, waker())
            };
            // Acquire [C→B].
            while !(is_at_head
                && self
                    .word
                    .compare_exchange(0, HELD, Acquire, Relaxed)
                    .is_ok())
            {
                is_at_head = if waiter.status() == Status::Asleep {
                    parker.park();
                    waiter.status() == Status::Woken
                } else {
                    self.queue.rearm(waiter.as_mut(), waker()).is_ok()
                };
            }
            self.queue.leave(waiter);
        });
    }

    fn spot(&self) -> Spot {
        Spot {
            word: &raw const self.word as usize,
            lane: 0,
        }
    }
}

fn two_count() {
    let counter = Arc::new(Counter {
        word: AtomicU32::new(0),
        queue: WaitQueue::new(),
        value: UnsafeCell::new(0),
    });
    let other = counter.clone();
    let thread = thread::spawn(move || other.add_one());
    counter.add_one();
    thread.join().unwrap();
    // SAFETY: the other thread has ended.
    assert_eq!(counter.value.with(|value| unsafe { *value }), 2);
    assert_eq!(counter.word.load(Relaxed), 0, "the word is still locked");
}

#[test]
fn a_dropped_wake_fails() {
    let model = Model::new("weakening::a_dropped_wake_fails", file!(), two_count);
    let sound = model.must_pass("");
    let wakes: Vec<_> = sound
        .sites
        .iter()
        .filter(|(site, _)| site.ends_with(":wake"))
        .collect();
    assert_eq!(wakes.len(), 1, "{:?}", sound.sites);
    for (site, _) in wakes {
        model.must_fail(&format!("weaken:{site}=drop"));
    }
}

#[test]
#[cfg(any(spanlock_explorer, spanlock_loom))]
fn every_ordering_of_the_documented_mutex_is_needed() {
    let model = Model::new(
        "weakening::every_ordering_of_the_documented_mutex_is_needed",
        file!(),
        two_count,
    );
    let sound = model.must_pass("");
    let ordered: Vec<_> = sound
        .sites
        .iter()
        .filter(|(_, o)| o == "Acquire" || o == "Release")
        .collect();
    assert_eq!(ordered.len(), 3, "{:?}", sound.sites);
    for (site, _) in ordered {
        model.must_fail(&format!("weaken:{site}=Relaxed"));
    }
}

/// A sleep may end spuriously, so a waiter rechecks the word.
#[test]
fn spurious_wakes_do_no_harm() {
    let model = Model::new("weakening::spurious_wakes_do_no_harm", file!(), two_count);
    // After a spurious wake, main may have to sleep again.
    let once = model.must_pass("spurious-wake@0.0");
    assert!(once.injected > 0, "no execution sleeps");
    // If no execution reached the second fault, both plans would inject equally many faults.
    let twice = model.must_pass("spurious-wake@0.0 spurious-wake@0.1");
    assert!(twice.injected > once.injected, "no execution has both");
}

#[test]
fn weakenings_are_parsed() {
    for right in [
        "range-lock/src/rw_word.rs:202:30:rmw=Relaxed",
        "a.rs:1:2:load=Relaxed",
        "a.rs:1:2:store=Relaxed",
        "a.rs:1:2:failure=Relaxed",
        "a.rs:1:2:fence=AcqRel",
        "a.rs:1:2:fence=drop",
        "a.rs:1:2:wake=drop",
        "C:\\a.rs:1:2:rmw=Acquire",
    ] {
        assert!(right.parse::<Weakening>().is_ok(), "{right}");
    }
    for wrong in [
        "",
        "a.rs:1:2:rmw",
        "a.rs:1:rmw=Relaxed",
        "a.rs:one:2:rmw=Relaxed",
        "a.rs:1:two:rmw=Relaxed",
        "a.rs:1:2:swap=Relaxed",
        "a.rs:1:2:rmw=SeqCst",
        "a.rs:1:2:rmw=drop",
        "a.rs:1:2:wake=Relaxed",
    ] {
        let error = wrong.parse::<Weakening>().unwrap_err();
        assert!(error.contains(&format!("`{wrong}`")), "{error}");
        assert!(error.contains("file:line:column:op"), "{error}");
    }
}
