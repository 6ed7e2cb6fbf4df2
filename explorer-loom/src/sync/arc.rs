//! References that are counted.

use core::borrow::Borrow;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::panic::Location;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc as Real;

use spanlock_explorer::Ordering::{Acquire, Release};
use spanlock_explorer::{Op, Update, at, fence};

use crate::execution::{self, Kept, begin_again, kept, known};

/// Counts the references to a value.
///
/// A clone is no event: its reference is dropped later, so each thread that finds that only one
/// reference is left comes after all clones. Only [`Arc::strong_count`] can tell when a clone takes
/// place. In a search in which it is called, clones are events.
#[derive(Debug)]
pub(crate) struct References {
    /// How many there are, without the clones that are no events. So it may be negative.
    count: Kept,
    /// The clones that are no events.
    clones: AtomicU64,
    /// The number among what must be freed.
    number: usize,
    made: &'static Location<'static>,
}

impl References {
    /// Returns how many there are if the count is this.
    fn with_clones(&self, count: u64) -> u64 {
        // Relaxed: one thread of the system runs all threads of a model.
        count.wrapping_add(self.clones.load(Relaxed))
    }

    #[track_caller]
    fn is_one(&self) -> bool {
        // Acquire: what other threads did with the value happens before the return.
        self.with_clones(self.count.load(Acquire)) == 1
    }

    #[track_caller]
    fn add_one(&self) {
        if known(|known| known.counts_clones) {
            // Relaxed, as in std: the clone that is there keeps the value.
            self.count.update(Update::new(Op::Add, 1), Relaxed);
        } else {
            // Relaxed: see `with_clones`.
            self.clones.fetch_add(1, Relaxed);
        }
    }

    /// Drops a reference. Returns whether it was the last one; then all earlier drops happen before
    /// the return.
    fn drop_one(&self) -> bool {
        // Release: pairs with the fence, and with the load above.
        let subtract = || self.count.update(Update::new(Op::Sub, 1), Release);
        let is_last = self.with_clones(at(self.made, subtract)) == 1;
        if is_last {
            at(self.made, || fence(Acquire));
        }
        is_last
    }
}

/// The [`Arc`](Real) of std, with loom's additions. A leak fails the model.
#[derive(Debug)]
pub struct Arc<T: ?Sized> {
    references: Real<References>,
    value: Real<T>,
}

impl<T> Arc<T> {
    /// Returns the first reference to the value.
    ///
    /// # Panics
    /// Outside a model.
    #[track_caller]
    pub fn new(value: T) -> Arc<T> {
        Arc::from_std(Real::new(value))
    }

    /// Returns the first reference to the value, which is pinned.
    #[track_caller]
    pub fn pin(value: T) -> Pin<Arc<T>> {
        // SAFETY: the value does not move, and no reference gives it away by `&mut`.
        unsafe { Pin::new_unchecked(Arc::new(value)) }
    }

    /// Returns the value if this is the only reference.
    ///
    /// # Errors
    /// The reference, if there are others.
    #[track_caller]
    pub fn try_unwrap(this: Arc<T>) -> Result<T, Arc<T>> {
        if !this.references.is_one() {
            return Err(this);
        }
        match Real::try_unwrap(this.into_parts()) {
            Ok(value) => Ok(value),
            Err(_) => unreachable!("this is the only reference"),
        }
    }
}

impl<T: ?Sized> Arc<T> {
    /// Returns the first reference to a value that a reference of std refers to. So `T` may be
    /// unsized.
    ///
    /// # Panics
    /// If there are other references, or outside a model.
    #[track_caller]
    pub fn from_std(mut value: Real<T>) -> Arc<T> {
        assert!(
            Real::get_mut(&mut value).is_some(),
            "the `Arc` for `loom::sync::Arc::from_std` is not the only reference"
        );
        let made = Location::caller();
        let references = execution::with("sync::Arc::new", |it| {
            let references = Real::new(References {
                count: kept(1),
                clones: AtomicU64::new(0),
                number: it.made("`Arc`", made),
                made,
            });
            let address = Real::as_ptr(&value).cast::<()>().addr();
            it.arcs.insert(address, references.clone());
            references
        });
        Arc { references, value }
    }

    /// Returns how many references there are, by a relaxed load as in std. The search begins again
    /// at the first call, with clones as events.
    #[track_caller]
    pub fn strong_count(this: &Self) -> usize {
        if !known(|known| core::mem::replace(&mut known.counts_clones, true)) {
            begin_again();
        }
        this.references.count.load(Relaxed) as usize
    }

    /// Makes another reference to the value behind a pointer.
    ///
    /// # Safety
    /// The pointer is of [`into_raw`](Self::into_raw), and there is a reference.
    #[track_caller]
    pub unsafe fn increment_strong_count(pointer: *const T) {
        // SAFETY: the caller's promise. The reference that the caller has is kept.
        let this = ManuallyDrop::new(unsafe { Arc::from_raw(pointer) });
        let _new = ManuallyDrop::new(Arc::clone(&this));
    }

    /// Drops a reference to the value behind a pointer.
    ///
    /// # Safety
    /// The pointer is of [`into_raw`](Self::into_raw), and the reference is not used any more.
    #[track_caller]
    pub unsafe fn decrement_strong_count(pointer: *const T) {
        // SAFETY: the caller's promise.
        drop(unsafe { Arc::from_raw(pointer) });
    }

    /// Returns the value if this is the only reference.
    #[track_caller]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        match this.references.is_one() {
            true => Real::get_mut(&mut this.value),
            false => None,
        }
    }

    /// Returns whether both refer to the same value.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        Real::ptr_eq(&this.value, &other.value)
    }

    /// Returns a pointer to the value. The reference remains, without an owner.
    pub fn into_raw(this: Self) -> *const T {
        let this = ManuallyDrop::new(this);
        // The value's own count keeps the reference.
        Self::as_ptr(&this)
    }

    /// Returns a pointer to the value.
    pub fn as_ptr(this: &Self) -> *const T {
        Real::as_ptr(&this.value)
    }

    /// Returns the reference of which [`into_raw`](Self::into_raw) returned the pointer.
    ///
    /// # Safety
    /// The pointer is of `into_raw`, and no other call has taken its reference.
    ///
    /// # Panics
    /// If the value is not one of this execution.
    #[track_caller]
    pub unsafe fn from_raw(pointer: *const T) -> Arc<T> {
        let address = pointer.cast::<()>().addr();
        let find = |it: &mut execution::Execution| it.arcs.get(&address).cloned();
        let references = execution::with("sync::Arc::from_raw", find);
        let references = references.expect("the pointer is of `into_raw`, in this execution");
        // SAFETY: the caller's promise.
        let value = unsafe { Real::from_raw(pointer) };
        Arc { references, value }
    }

    /// Drops the reference, but not the value.
    fn into_parts(self) -> Real<T> {
        let this = ManuallyDrop::new(self);
        this.release();
        // SAFETY: each field is read once, and `this` is not dropped.
        unsafe {
            drop(core::ptr::read(&this.references));
            core::ptr::read(&this.value)
        }
    }

    fn release(&self) {
        if self.references.drop_one() {
            let address = Real::as_ptr(&self.value).cast::<()>().addr();
            execution::try_with(|it| {
                it.arcs.remove(&address);
                it.live.remove(&self.references.number);
            });
        }
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    #[track_caller]
    fn clone(&self) -> Arc<T> {
        self.references.add_one();
        Arc {
            references: self.references.clone(),
            value: self.value.clone(),
        }
    }
}

impl<T: ?Sized> Drop for Arc<T> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<T: Default> Default for Arc<T> {
    #[track_caller]
    fn default() -> Arc<T> {
        Arc::new(T::default())
    }
}

impl<T> From<T> for Arc<T> {
    #[track_caller]
    fn from(value: T) -> Arc<T> {
        Arc::new(value)
    }
}

impl<T: ?Sized> AsRef<T> for Arc<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized> Borrow<T> for Arc<T> {
    fn borrow(&self) -> &T {
        self
    }
}
