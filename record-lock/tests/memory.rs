//! What a table does without memory: a call fails, and leaves everything as it was.
//!
//! The test repeats a history on new tables. The first time, its first allocation fails; then its
//! second; and so on, until none does.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

use spanlock_record_lock::{Error, Hold, Mode, Owner, RecordLock, Request};

/// The system's allocator. After a number of allocations, it fails once for the calling thread.
struct Limited;

thread_local! {
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns whether this allocation must fail.
fn fails() -> bool {
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

/// Performs one call, in which one allocation may fail; returns whether one did. Then the call must
/// have changed nothing, and succeeds now.
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
    [table.holds(), table.waiting()]
}

/// Begins a request that must wait.
fn begin(owner: &Owner) -> Result<Request, Error> {
    let mut request = owner.lock(0..1, Mode::Write);
    match Pin::new(&mut request).poll(&mut Context::from_waker(Waker::noop())) {
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
            let mut context = Context::from_waker(Waker::noop());
            assert_eq!(
                Pin::new(&mut request).poll(&mut context),
                Poll::Ready(Ok(()))
            );
            perform(&table, left, || two.unlock(..));
        }
        if left.is_some() {
            break;
        }
        (at, failures) = (at + 1, failures + 1);
    }
    assert!(failures > 8, "{failures}");
}
