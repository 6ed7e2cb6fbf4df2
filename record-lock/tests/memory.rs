//! What a table does without memory: a call fails, and leaves everything as it was.
//!
//! The first test repeats a history on new tables. The first time, its first allocation fails; then
//! its second; and so on, until none does.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use spanlock_record_lock::{Error, Hold, Mode, Owner, RecordLock, Request};

/// The system's allocator. After a number of allocations, it fails once for the calling thread. It
/// may also fail always.
struct Limited;

thread_local! {
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    static NOTHING: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function without memory.
fn without_memory<T>(f: impl FnOnce() -> T) -> T {
    NOTHING.set(true);
    let result = f();
    NOTHING.set(false);
    result
}

/// Returns whether this allocation must fail.
fn fails() -> bool {
    if NOTHING.get() {
        return true;
    }
    LEFT.with(|left| {
        let now = left.get();
        left.set(now.and_then(|now| now.checked_sub(1)));
        now == Some(0)
    })
}

// SAFETY: every call is forwarded to the system's allocator, or returns null.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Performs one call, in which one allocation may fail. If the call fails, it must have changed
/// nothing, and succeeds now.
fn perform<T>(
    table: &RecordLock,
    left: &mut Option<usize>,
    mut call: impl FnMut() -> Result<T, Error>,
) -> T {
    let before = state(table);
    LEFT.set(*left);
    let result = call();
    let failed = left.is_some() && LEFT.get().is_none();
    *left = LEFT.replace(None);
    match result {
        Ok(value) => value,
        Err(error) => {
            assert!(failed && error == Error::Memory, "{error}");
            assert_eq!(state(table), before);
            call().expect("there is memory")
        }
    }
}

fn state(table: &RecordLock) -> [Vec<Hold>; 2] {
    [table.holds(..), table.waiting()].map(|all| all.expect("there is memory"))
}

fn poll(request: &mut Request, waker: &Waker) -> Poll<Result<(), Error>> {
    Pin::new(request).poll(&mut Context::from_waker(waker))
}

/// Begins a request that must wait.
fn begin(owner: &Owner) -> Result<Request, Error> {
    let mut request = owner.lock(0..1, Mode::Write);
    match poll(&mut request, Waker::noop()) {
        Poll::Ready(result) => result.map(|()| request),
        Poll::Pending => Ok(request),
    }
}

#[test]
fn a_call_that_has_no_memory_changes_nothing() {
    let (mut at, mut failures) = (0, 0);
    loop {
        let table = RecordLock::new();
        let left = &mut Some(at);
        let owners = [1, 2, 3].map(|id| perform(&table, left, || table.owner(id)));
        let [one, two, three] = &owners;
        for byte in (0..40).step_by(2) {
            perform(&table, left, || one.try_lock(byte..byte + 1, Mode::Write));
        }
        perform(&table, left, || one.try_lock(0..100, Mode::Read));
        for byte in (1..99).step_by(2) {
            perform(&table, left, || one.unlock(byte..byte + 1));
        }
        let waits = [two, three].map(|owner| perform(&table, left, || begin(owner)));
        for mut request in waits {
            perform(&table, left, || one.unlock(0..1));
            assert_eq!(poll(&mut request, Waker::noop()), Poll::Ready(Ok(())));
            perform(&table, left, || two.unlock(..));
        }
        if left.is_some() {
            break;
        }
        (at, failures) = (at + 1, failures + 1);
    }
    assert!(failures > 8, "{failures}");
}

#[test]
fn a_lock_makes_do_with_the_room_it_needs() {
    let table = RecordLock::new();
    let owner = table.owner(1).expect("is new");
    let mut failures = 0;
    for byte in (0..200).step_by(2) {
        LEFT.set(Some(0));
        let locked = owner.try_lock(byte..byte + 1, Mode::Read);
        failures += u32::from(LEFT.replace(None).is_none());
        assert_eq!(locked, Ok(()), "there is memory for the second try");
    }
    assert!(failures > 0);
}

struct Calls {
    owner: Owner,
    wakes: AtomicUsize,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let test = self.owner.test(0..1, Mode::Write);
        test.expect("needs no memory");
        self.wakes.fetch_add(1, SeqCst);
    }
}

/// A waker that uses the table when it is dropped.
struct Drops(Arc<Calls>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.clone().wake();
    }
}

/// A table with an owner whose wakers use it. A waker that is woken under the mutex hangs the test.
fn watched() -> (RecordLock, Arc<Calls>) {
    let table = RecordLock::new();
    let owner = table.owner(1000).expect("is new");
    let wakes = AtomicUsize::new(0);
    (table, Arc::new(Calls { owner, wakes }))
}

#[test]
fn a_release_wakes_and_ends_all_without_memory() {
    let (table, calls) = watched();
    let waker = Waker::from(calls.clone());
    let [one, other] = [1, 2].map(|id| table.owner(id).expect("is new"));
    one.try_lock(0..1, Mode::Write).expect("is free");
    other.try_lock(1..2, Mode::Write).expect("is free");
    let owners: Vec<_> = (100..150)
        .map(|id| table.owner(id).expect("is new"))
        .collect();
    let begin = |owner: &Owner, byte: u64| {
        let mut request = owner.lock(byte..byte + 1, Mode::Read);
        assert!(poll(&mut request, &waker).is_pending());
        request
    };
    let mut freed: Vec<_> = owners.iter().map(|owner| begin(owner, 0)).collect();
    let mut ended: Vec<_> = (0..50).map(|_| begin(&one, 1)).collect();
    without_memory(|| one.release());
    assert_eq!(calls.wakes.load(SeqCst), 100);
    assert!((ended.iter_mut()).all(|it| poll(it, &waker) == Poll::Ready(Err(Error::Released))));
    assert!((freed.iter_mut()).all(|it| poll(it, &waker) == Poll::Ready(Ok(()))));
}

#[test]
fn a_woken_request_that_has_no_memory_wakes_the_next() {
    let mut failures = 0;
    for others in 0..20 {
        let (table, calls) = watched();
        let [one, two, three, four] = [1, 2, 3, 4].map(|id| table.owner(id).expect("is new"));
        one.try_lock(0..100, Mode::Write).expect("is free");
        // A split makes room for one hold only, and a grant needs it for two.
        for at in 0..others {
            one.unlock(2 * at + 1..2 * at + 2).expect("memory");
        }
        let [mut first, mut next] = [&two, &three].map(|owner| owner.lock(0..1, Mode::Write));
        assert!(poll(&mut first, Waker::noop()).is_pending());
        assert!(poll(&mut next, &Waker::from(calls.clone())).is_pending());
        let mut last = four.lock(0..1, Mode::Write);
        let drops = Waker::from(Arc::new(Drops(calls.clone())));
        assert!(poll(&mut last, &drops).is_pending());
        drop(drops);
        one.unlock(0..1).expect("no split");
        assert_eq!(calls.wakes.load(SeqCst), 0);
        let no_memory = Poll::Ready(Err(Error::Memory));
        if without_memory(|| poll(&mut first, Waker::noop())) == no_memory {
            assert_eq!(calls.wakes.load(SeqCst), 1);
            // The last one was not woken. Its waker is dropped, and not under the mutex.
            assert_eq!(without_memory(|| poll(&mut last, Waker::noop())), no_memory);
            assert_eq!(calls.wakes.load(SeqCst), 2);
            assert_eq!(poll(&mut next, Waker::noop()), Poll::Ready(Ok(())));
            failures += 1;
        }
    }
    assert!(failures > 0);
}

#[test]
fn a_deadlock_is_found_without_memory() {
    let table = RecordLock::new();
    let [one, two] = [1, 2].map(|id| table.owner(id).expect("is new"));
    one.try_lock(0..1, Mode::Write).expect("is free");
    two.try_lock(1..2, Mode::Write).expect("is free");
    let _waits = begin(&two).expect("there is memory");
    let mut closes = one.lock(1..2, Mode::Read);
    let error = without_memory(|| poll(&mut closes, Waker::noop()));
    assert!(
        matches!(error, Poll::Ready(Err(Error::Deadlock(hold))) if hold.owner == 2),
        "{error:?}"
    );
}

#[test]
fn a_snapshot_that_has_no_memory_is_an_error() {
    let table = RecordLock::new();
    let [one, two] = [1, 2].map(|id| table.owner(id).expect("is new"));
    one.try_lock(0..1, Mode::Write).expect("is free");
    let _waits = begin(&two).expect("there is memory");
    let [holds, waiting] = without_memory(|| [table.holds(..), table.waiting()]);
    assert_eq!((holds, waiting), (Err(Error::Memory), Err(Error::Memory)));
    assert_eq!(
        format!("{table:?}"),
        "RecordLock { holds: 1, owners: 2, requests: 1 }"
    );
}
