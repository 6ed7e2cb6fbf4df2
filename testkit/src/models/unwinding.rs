//! Foreign code that panics: the waker of a waiting request, or the [`Park`] of a blocking call.
//!
//! The code under test then unwinds. The checkers explore its steps while it does, as they explore
//! any others. The foreign code unwinds without a message, because the harness takes every message
//! for a failure.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};

use spanlock_range_lock::Access::{self, Read, Write};
use spanlock_range_lock::{RangeLock, RangeLockExt, RawRangeLock};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::{Park, Parker, thread};
use spanlock_verify::{Program, note_as, perform};

use super::data::Data;
use super::{Capabilities, Primitive};
use crate::Driven;
use crate::owner::{Asked, span};

/// A property, and the code that checks it.
struct Model {
    property: &'static str,
    claim: &'static str,
    /// Returns whether a lock has the capabilities that the code needs.
    has: fn(&Capabilities) -> bool,
    /// As in [`super::lock`].
    granular: bool,
    /// The operations of each thread, the main thread first.
    performs: [&'static [&'static str]; 2],
    run: fn(Driven),
}

/// A waker unwinds. The main thread holds a range for which a request with such a waker waits.
const WAKERS: &[Model] = &[
    Model {
        property: "release-unwinds",
        claim: "a release wakes every waiter that it unblocked, even if the waker of the first \
                panics",
        has: |it| it.wait,
        granular: false,
        performs: [&["release"], &["acquire-shared", "release"]],
        run: release,
    },
    Model {
        property: "downgrade-unwinds",
        claim: "a downgrade during which a waker panics releases the hold",
        has: |it| it.wait && it.downgrade,
        granular: false,
        performs: [&["downgrade", "cancel"], &["acquire-exclusive", "release"]],
        run: downgrade,
    },
    Model {
        property: "shrink-unwinds",
        claim: "a guard still holds its elements after a shrink during which a waker panics",
        has: |it| it.wait && it.split,
        granular: true,
        performs: [
            &["shrink", "release", "cancel"],
            &["acquire-exclusive", "release"],
        ],
        run: |lock| cut(&lock, &Cut::ToUpper),
    },
    Model {
        property: "split-unwinds",
        claim: "a guard still holds its elements after a split during which a waker panics",
        has: |it| it.wait && it.split,
        granular: true,
        performs: [
            &["split", "release", "cancel"],
            &["acquire-exclusive", "release"],
        ],
        run: |lock| cut(&lock, &Cut::ToLower),
    },
];

/// A sleep unwinds, and with it the blocking call that has to wait.
const SLEEPS: &[Model] = &[
    Model {
        property: "sleep-unwinds",
        claim: "a blocking call whose sleep panics leaves neither a hold nor a waiter",
        has: |_| true,
        granular: false,
        performs: [&["acquire-exclusive", "release"]; 2],
        run: |lock| {
            attempts(lock, [|it| it.write(0..2), |it| it.write(1..2)]);
        },
    },
    Model {
        property: "sleep-unwinds-read",
        claim: "a blocking reader whose sleep panics leaves neither a hold nor a waiter",
        has: |_| true,
        granular: false,
        performs: [
            &["acquire-exclusive", "release"],
            &["acquire-shared", "release"],
        ],
        run: |lock| {
            attempts(lock, [|it| it.write(0..2), |it| it.read(1..2)]);
        },
    },
    Model {
        property: "sleep-unwinds-batch",
        claim: "a batch whose sleep panics leaves neither holds nor waiters",
        has: |it| it.batch,
        granular: true,
        performs: [&["acquire-exclusive", "release"], &["batch", "release"]],
        run: |lock| {
            attempts(lock, [|it| it.write(1..2), Shared::batch]);
        },
    },
    Model {
        property: "sleep-unwinds-upgrade",
        claim: "an upgrade whose sleep panics releases the hold",
        has: |it| it.upgrade_wait,
        granular: false,
        performs: [
            &["acquire-shared", "release"],
            &["acquire-upgradable", "upgrade", "release"],
        ],
        run: |lock| {
            attempts(lock, [|it| it.read(1..2), Shared::upgrade]);
        },
    },
];

/// Returns a program for each property that applies to a lock.
pub fn programs(primitive: &Arc<Primitive>) -> Vec<Program> {
    let of = |models: &'static [Model], make: fn() -> Driven| {
        let applies = |model: &&Model| {
            (model.has)(&primitive.capabilities) && (primitive.granular || !model.granular)
        };
        let program = move |model: &'static Model| {
            Program::new(model.property, model.claim)
                .performs(model.performs.map(|operations| operations.iter().copied()))
                .unwinds()
                .run(move || (model.run)(make()))
        };
        models.iter().filter(applies).map(program)
    };
    let sleeps = (primitive.unwinding).into_iter();
    let sleeps = sleeps.flat_map(|make| of(SLEEPS, make));
    of(WAKERS, primitive.make).chain(sleeps).collect()
}

/// What foreign code panics with.
struct OnPurpose;

fn panic_on_purpose() -> ! {
    resume_unwind(Box::new(OnPurpose))
}

/// Returns `None` if foreign code panics in `f`.
fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<OnPurpose>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// A waker that panics when it is called.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic_on_purpose()
    }
}

/// A way to wait: each sleep panics.
#[derive(Debug)]
pub struct Sleepless(Waker);

impl Park for Sleepless {
    fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
        Parker::with(|parker| f(&Sleepless(parker.waker().clone())))
    }

    fn waker(&self) -> &Waker {
        &self.0
    }

    fn park(&self) {
        panic_on_purpose()
    }

    fn try_park(&self) -> bool {
        false
    }
}

/// Returns a request that waits, with a waker that panics.
fn waiting(lock: &Driven, range: Range<u64>, access: Access) -> Asked<'_> {
    let mut request = Asked::new(lock, span(range), access);
    let polled = request.poll_with(&Waker::from(Arc::new(Panics)));
    assert!(polled.expect("in range").is_none(), "granted at once");
    request
}

fn assert_free(lock: &dyn RawRangeLock) {
    let all = lock.try_write(0..4);
    assert!(all.is_ok(), "a hold or a waiter was left behind");
}

fn release(lock: Driven) {
    let hold = lock.raw.write(0..1).expect("in range");
    let request = waiting(&lock, 0..1, Read);
    let other = {
        let lock = lock.clone();
        thread::spawn(move || {
            let hold = lock.raw.read(0..1).expect("in range");
            perform("acquire-shared");
            let released = caught(|| drop(hold));
            perform("release");
            released.is_some()
        })
    };
    let released = caught(|| drop(hold));
    perform("release");
    // The request blocks no reader, although nobody polls it.
    let other = other.join().expect("is granted");
    assert_eq!(released.is_none(), other, "the waker was not called once");
    request.cancel();
    assert_free(&*lock.raw);
}

fn downgrade(lock: Driven) {
    let downgrading = lock.downgrade.clone();
    let downgrading = downgrading.expect("a lock with this capability");
    let hold = downgrading.write(0..1).expect("in range");
    let request = waiting(&lock, 0..1, Read);
    let other = {
        let lock = lock.clone();
        thread::spawn(move || {
            let hold = lock.raw.write(0..1).expect("in range");
            perform("acquire-exclusive");
            drop(hold);
            perform("release");
        })
    };
    let downgraded = caught(|| hold.downgrade());
    perform("downgrade");
    assert!(downgraded.is_none(), "the request was not woken");
    request.cancel();
    perform("cancel");
    other.join().expect("is granted");
    assert_free(&*lock.raw);
}

/// An element. It is written under an exclusive guard only, and loom checks that this suffices.
struct Element(UnsafeCell<u32>);

// SAFETY: loom checks that no two threads access it at once.
unsafe impl Sync for Element {}
// SAFETY: a cell that contains a plain number.
unsafe impl Send for Element {}

impl Element {
    fn new() -> Self {
        Element(UnsafeCell::new(0))
    }

    fn add_one(&self) -> u32 {
        // SAFETY: the caller has an exclusive guard of the element.
        self.0.with_mut(|value| unsafe {
            *value += 1;
            *value
        })
    }
}

/// How a guard of two elements is cut.
enum Cut {
    /// Shrinks to the upper element.
    ToUpper,
    /// Splits off the upper element, and releases it.
    ToLower,
}

/// The main thread cuts its guard so that one element is left. The other thread locks this element.
fn cut(lock: &Driven, how: &Cut) {
    let splitting = lock.split.clone();
    let splitting = splitting.expect("a lock with this capability");
    let elements: Vec<_> = (0..4).map(|_| Element::new()).collect();
    let elements = RangeLock::with_lock(elements, splitting).expect("covered");
    let elements = Arc::new(elements);
    let mut guard = elements.write(0..2).expect("in range");
    let (kept, given_up) = match how {
        Cut::ToUpper => (1..2, 0..1),
        Cut::ToLower => (0..1, 1..2),
    };
    let request = waiting(lock, given_up, Write);
    let other = {
        let elements = elements.clone();
        thread::spawn(move || {
            let guard = elements.write(kept).expect("in range");
            perform("acquire-exclusive");
            note_as(1, guard[0].add_one().to_string());
            drop(guard);
            perform("release");
        })
    };
    let (done, performed) = match how {
        Cut::ToUpper => (caught(|| _ = guard.shrink(1..2)), "shrink"),
        // If the split itself wakes nobody, the release of the upper part does.
        Cut::ToLower => (caught(|| drop(guard.split_off(1))), "split"),
    };
    perform(performed);
    assert!(done.is_none(), "the request was not woken");
    assert_eq!(guard.len(), 1);
    note_as(0, guard[0].add_one().to_string());
    drop(guard);
    perform("release");
    request.cancel();
    perform("cancel");
    other.join().expect("is granted");
    assert_free(&*lock.raw);
}

/// A lock whose waiters do not sleep, and the data that it protects.
struct Shared {
    lock: Driven,
    data: Data,
}

/// What a thread does. Returns how much it added to the data, or `None` if its call unwound.
type Attempt = fn(&Shared) -> Option<u32>;

/// Runs each attempt in a thread of its own.
fn attempts(lock: Driven, [first, second]: [Attempt; 2]) {
    let data = Data::new();
    let shared = Arc::new(Shared { lock, data });
    let attempt = |me, shared: &Shared, attempt: Attempt| {
        let added = attempt(shared);
        note_as(
            me,
            if added.is_some() {
                "granted"
            } else {
                "unwound"
            },
        );
        added.unwrap_or(0)
    };
    let other = {
        let shared = shared.clone();
        thread::spawn(move || attempt(1, &shared, second))
    };
    let added = attempt(0, &shared, first) + other.join().expect("a thread panicked");
    assert_eq!(shared.data.sum(&(0..4)), added, "a write was lost");
    assert_free(&*shared.lock.raw);
}

impl Shared {
    fn write(&self, range: Range<u64>) -> Option<u32> {
        let hold = caught(|| self.lock.raw.write(range.clone()).expect("in range"))?;
        perform("acquire-exclusive");
        self.data.add_one(&range);
        drop(hold);
        perform("release");
        Some((range.end - range.start) as u32)
    }

    fn read(&self, range: Range<u64>) -> Option<u32> {
        let hold = caught(|| self.lock.raw.read(range.clone()).expect("in range"))?;
        perform("acquire-shared");
        self.data.sum(&range);
        drop(hold);
        perform("release");
        Some(0)
    }

    fn batch(&self) -> Option<u32> {
        let lock = self.lock.batch.as_ref();
        let lock = lock.expect("a lock with this capability");
        let ranges = [0..1, 1..2];
        let batch = ranges.clone().map(|range| (range, Write));
        let holds = caught(|| lock.lock_all(batch).expect("in range"))?;
        perform("batch");
        ranges.iter().for_each(|range| self.data.add_one(range));
        drop(holds);
        perform("release");
        Some(2)
    }

    fn upgrade(&self) -> Option<u32> {
        let lock = self.lock.upgrade_wait.as_ref();
        let lock = lock.expect("a lock with this capability");
        // Another reader does not block it.
        let hold = lock.upgradable_read(0..2).expect("in range");
        perform("acquire-upgradable");
        let hold = caught(|| hold.upgrade());
        perform("upgrade");
        let hold = hold?;
        assert_eq!(hold.span(), Some(span(0..2)));
        self.data.add_one(&(0..2));
        drop(hold);
        perform("release");
        Some(2)
    }
}
