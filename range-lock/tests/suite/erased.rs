//! Locks chosen at run time, or behind a pointer.

use std::sync::Arc;
use std::thread;

use spanlock_range_lock::{Access, RangeLock, RangeLockExt, RawRangeLock, RwCounter, Span};

use super::Kind;

/// Locks, tries, fails and unlocks through any pointer.
fn exercise<L: RawRangeLock + ?Sized>(lock: &L, capacity: u64) {
    assert_eq!(lock.capacity(), capacity);
    let reading = lock.read(0..2).unwrap();
    assert!(lock.try_read(1..2).is_ok());
    assert!(lock.try_write(1..2).is_err());
    drop(reading);
    let writing = lock.write(0..2).unwrap();
    assert!(lock.try_read(1..2).is_err());
    drop(writing);
    // Through the raw methods, with the token sent to another thread.
    let span = Span::new(0..2).unwrap().unwrap();
    let token = lock.lock(span, Access::Read).unwrap();
    thread::scope(|scope| {
        // SAFETY: acquired just now, with this access and token, and released once.
        scope.spawn(move || unsafe { lock.unlock(span, Access::Read, token) });
    });
    drop(lock.try_write(0..2).unwrap());
}

pub(crate) fn boxes_arcs_and_references_are_locks<L: RawRangeLock + 'static>(kind: &Kind<L>) {
    let capacity = kind.lock().capacity();
    exercise(&kind.lock(), capacity);
    exercise::<&L>(&&kind.lock(), capacity);
    exercise::<Box<L>>(&Box::new(kind.lock()), capacity);
    exercise::<Arc<L>>(&Arc::new(kind.lock()), capacity);
    exercise::<dyn RawRangeLock>(&kind.lock(), capacity);
    exercise::<&dyn RawRangeLock>(&(&kind.lock() as _), capacity);
    exercise::<Box<dyn RawRangeLock>>(&(Box::new(kind.lock()) as _), capacity);
    exercise::<Arc<dyn RawRangeLock>>(&(Arc::new(kind.lock()) as _), capacity);
    let nested: Box<Arc<dyn RawRangeLock>> = Box::new(Arc::new(kind.lock()));
    exercise(&nested, capacity);
}

pub(crate) fn a_dyn_lock_owns_elements<L: RawRangeLock + 'static>(kind: &Kind<L>) {
    let lock: Box<dyn RawRangeLock> = Box::new(kind.lock());
    let elements = RangeLock::with_lock(vec![1, 2, 3], lock).unwrap();
    elements.write(0..2).unwrap().fill(7);
    assert_eq!(elements.read(0..3).unwrap()[..], [7, 7, 3]);

    // One lock for two arrays of the same shape: a range held through one is held in the other as
    // well.
    let shared: Arc<dyn RawRangeLock> = Arc::new(kind.lock());
    let names = RangeLock::with_lock(vec!["a", "b"], shared.clone()).unwrap();
    let sizes = RangeLock::with_lock(vec![1_u64, 2], shared).unwrap();
    let guard = names.write(0..1).unwrap();
    assert!(sizes.try_read(0..1).is_err());
    drop(guard);
    assert!(sizes.try_read(0..1).is_ok());
}

pub(crate) fn different_locks_in_one_list<L: RawRangeLock + 'static>(kind: &Kind<L>) {
    let locks: Vec<Box<dyn RawRangeLock>> = vec![Box::new(kind.lock()), Box::new(RwCounter::new())];
    let holds: Vec<_> = locks.iter().map(|lock| lock.write(0..1).unwrap()).collect();
    assert!(locks.iter().all(|lock| lock.try_read(0..1).is_err()));
    drop(holds);
    assert!(locks.iter().all(|lock| lock.try_read(0..1).is_ok()));
}
