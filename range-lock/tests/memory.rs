//! Where a `RangeLock` has its elements, and guards of parts of them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use spanlock_range_lock::{
    Access, Foreign, LockId, OwnedRangeWriteGuard, RangeError, RangeLock, RangeLockExt,
    RawRangeLock, RwCounter, Span, Token, TryLockError,
};

/// Counts how often it is dropped.
struct Counted<'a>(&'a AtomicU32);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A lock of two positions.
struct Two(RwCounter);

// SAFETY: every call goes to the inner lock.
unsafe impl RawRangeLock for Two {
    fn capacity(&self) -> u64 {
        2
    }
    fn id(&self) -> Option<&LockId> {
        self.0.id()
    }
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        self.0.lock(span, access)
    }
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        self.0.try_lock(span, access)
    }
    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock(span, access, token) }
    }
}

const PAST: RangeError = RangeError::PastCapacity {
    start: 0,
    end: 3,
    capacity: 2,
};

#[test]
fn vectors_boxes_and_arrays_are_owned_and_not_copied() {
    let vector = vec![1, 2, 3];
    let address = vector.as_ptr();
    let lock = RangeLock::<_, RwCounter>::from(vector);
    assert_eq!(lock.read(..).unwrap().as_ptr(), address);
    let boxed = lock.into_inner();
    let lock = RangeLock::<_, RwCounter>::from(boxed);
    assert_eq!(lock.read(..).unwrap().as_ptr(), address);
    assert_eq!(
        RangeLock::<_, RwCounter>::from([7; 2]).into_inner()[..],
        [7, 7]
    );
}

#[test]
fn borrowed_elements_stay_where_they_are() {
    let mut plane = [0; 6];
    let address = plane.as_ptr();
    let lock = RangeLock::borrowed(&mut plane, RwCounter::new()).unwrap();
    assert_eq!(lock.read(..).unwrap().as_ptr(), address);
    thread::scope(|scope| {
        for i in 0..6_usize {
            let lock = &lock;
            scope.spawn(move || *lock.write_at(i).unwrap() = i);
        }
    });
    let slice = lock.into_inner();
    slice[0] = 9;
    assert_eq!(plane, [9, 1, 2, 3, 4, 5]);
    let refused = RangeLock::borrowed(&mut plane[..3], Two(RwCounter::new()));
    assert_eq!(refused.err(), Some(PAST));
}

#[test]
fn borrowed_elements_are_not_dropped() {
    let drops = AtomicU32::new(0);
    let mut elements = [Counted(&drops), Counted(&drops)];
    drop(RangeLock::borrowed(&mut elements, RwCounter::new()).unwrap());
    assert_eq!(drops.load(Relaxed), 0);
}

/// The owner is dropped once: with the lock, with the last owned guard, or if the lock is too
/// small. The elements are not.
#[test]
fn the_owner_of_foreign_memory_is_dropped_once() {
    let (owners, elements) = (&AtomicU32::new(0), &AtomicU32::new(0));
    let memory = Box::leak(Box::new([const { None::<Counted<'_>> }; 3]));
    memory[0] = Some(Counted(elements));
    let data = NonNull::from(&mut memory[..]);
    // SAFETY: leaked, and only one lock exists at a time.
    let lock = || unsafe { RangeLock::from_raw(data, Counted(owners), RwCounter::new()) };

    drop(lock().unwrap());
    assert_eq!(owners.load(Relaxed), 1);

    let Foreign(owner) = lock().unwrap().into_inner();
    assert_eq!(owners.load(Relaxed), 1);
    drop(owner);
    assert_eq!(owners.load(Relaxed), 2);

    let shared = Arc::new(lock().unwrap());
    let guard = OwnedRangeWriteGuard::lock(shared, 0..1).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            assert_eq!(owners.load(Relaxed), 2);
            drop(guard);
            assert_eq!(owners.load(Relaxed), 3);
        });
    });
    assert_eq!(elements.load(Relaxed), 0);
    // SAFETY: leaked above, and no lock exists any more.
    drop(unsafe { Box::from_raw(data.as_ptr()) });
    assert_eq!(elements.load(Relaxed), 1);
}

#[test]
fn a_lock_that_is_too_small_drops_the_owner() {
    let owners = AtomicU32::new(0);
    let mut memory = [0; 3];
    let data = NonNull::from(&mut memory[..]);
    // SAFETY: `memory` outlives the call, which returns no lock.
    let refused =
        unsafe { RangeLock::from_raw(data, Counted(&owners), Two(RwCounter::new())) }.err();
    assert_eq!(refused, Some(PAST));
    assert_eq!(owners.load(Relaxed), 1);
}

#[test]
fn a_mapped_guard_holds_the_range_of_its_origin() {
    let lock = RangeLock::with_lock(vec![1_u8, 2, 3, 4], RwCounter::new()).unwrap();
    let mut pair = lock
        .write(1..3)
        .unwrap()
        .map(|part| part.first_chunk_mut::<2>().expect("two"));
    assert_eq!(pair.span().map(Span::range), Some(1..3));
    *pair = [7, 8];
    assert_eq!(format!("{pair:?}"), "[7, 8]");
    assert!(lock.try_read_at(0).is_err());
    thread::scope(|scope| scope.spawn(move || pair[0] = 6).join().unwrap());
    let last = lock.read(..).unwrap().map(|all| all.last().expect("four"));
    assert_eq!(*last, 4);
    assert_eq!(*lock.try_read_at(1).unwrap(), 6);
    assert_eq!(lock.try_write_at(1).err(), Some(TryLockError::WouldBlock));
    drop(last);
    *lock.try_write_at(1_u32).unwrap() = 5;
    assert_eq!(lock.into_inner()[..], [1, 5, 8, 4]);
}

#[test]
fn an_index_past_the_elements_is_an_error() {
    let lock = RangeLock::with_lock([1, 2], RwCounter::new()).unwrap();
    let past = RangeError::PastCapacity {
        start: 2,
        end: 3,
        capacity: 2,
    };
    assert_eq!(lock.read_at(2).err(), Some(past));
    let negative = RangeError::Negative { at: -1 };
    assert_eq!(lock.write_at(-1).err(), Some(negative));
}

#[test]
fn a_closure_that_panics_in_map_releases_the_range() {
    let lock = RangeLock::with_lock(vec![0; 4], RwCounter::new()).unwrap();
    // `RangeLock` and the locks are unwind safe: no `AssertUnwindSafe` here.
    let caught = catch_unwind(|| {
        let guard = lock.write(..).unwrap();
        drop(guard.map(|_| -> &mut i32 { panic!("no element") }));
    });
    assert!(caught.is_err());
    drop(lock.try_write(..).unwrap());
    let raw = RwCounter::new();
    let caught = catch_unwind(|| {
        let _hold = raw.write(..).unwrap();
        panic!("while the range is held");
    });
    assert!(caught.is_err());
    drop(raw.try_write(..).unwrap());
}

#[test]
fn elements_that_are_not_sync_can_be_mapped_in_their_thread() {
    let lock = RangeLock::with_lock(vec![Cell::new(1)], RwCounter::new()).unwrap();
    let one = lock.write_at(0).unwrap();
    one.set(2);
    drop(one);
    let number = catch_unwind(AssertUnwindSafe(|| lock.read_at(0).unwrap().get()));
    assert_eq!(number.unwrap(), 2);
}
