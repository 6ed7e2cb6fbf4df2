//! The kernel's locks: one that spins with preemption off, and one whose holder may sleep.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU32;

use crate::world::kernel;

/// A lock around data, for short critical sections.
///
/// The holder is not preempted and must not sleep. A waiting task spins. An interrupt handler must
/// not lock it.
pub type Mutex<T> = Lock<T, Spinning>;

/// Access to the data of a [`Mutex`], which stays locked until this guard is dropped.
pub type MutexGuard<'a, T> = Guard<'a, T, Spinning>;

/// A lock around data, whose holder may sleep. A waiting task sleeps.
pub type BlockingMutex<T> = Lock<T, Blocking>;

/// How a [`Lock`] waits.
pub trait Kind {
    /// Locks the word, which is 0 while it is unlocked.
    fn lock(word: &AtomicU32);
    /// Unlocks the word.
    fn unlock(word: &AtomicU32);
}

/// The kernel's spin lock, with preemption off.
#[derive(Debug)]
pub struct Spinning;

impl Kind for Spinning {
    #[inline]
    fn lock(word: &AtomicU32) {
        kernel::spin_lock(word);
    }

    #[inline]
    fn unlock(word: &AtomicU32) {
        kernel::spin_unlock(word);
    }
}

/// Waits in the kernel's wait queues for variables.
#[derive(Debug)]
pub struct Blocking;

impl Kind for Blocking {
    fn lock(word: &AtomicU32) {
        kernel::sleep_lock(word);
    }

    fn unlock(word: &AtomicU32) {
        kernel::sleep_unlock(word);
    }
}

/// A lock around data. See [`Mutex`] and [`BlockingMutex`].
pub struct Lock<T, K: Kind> {
    word: AtomicU32,
    kind: PhantomData<K>,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock has access to the data.
unsafe impl<T: Send, K: Kind> Sync for Lock<T, K> {}

impl<T, K: Kind> Lock<T, K> {
    /// Returns a lock around `value`.
    pub const fn new(value: T) -> Self {
        Lock {
            word: AtomicU32::new(0),
            kind: PhantomData,
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the lock is unlocked, and locks it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T, K> {
        K::lock(&self.word);
        Guard {
            lock: self,
            not_send: PhantomData,
        }
    }

    /// Returns the data without locking: `&mut` proves that no other task has access.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default, K: Kind> Default for Lock<T, K> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, K: Kind> fmt::Debug for Lock<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

/// Access to the data of a [`Lock`], which stays locked until this guard is dropped.
#[must_use = "dropping the guard at once unlocks the lock"]
pub struct Guard<'a, T, K: Kind> {
    lock: &'a Lock<T, K>,
    /// Not `Send`: the task that locked it unlocks it.
    not_send: PhantomData<*const ()>,
}

// SAFETY: `&Guard` gives access to `&T` only.
unsafe impl<T: Sync, K: Kind> Sync for Guard<'_, T, K> {}

impl<T, K: Kind> Deref for Guard<'_, T, K> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, K: Kind> DerefMut for Guard<'_, T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and `&mut self` is the only access through this guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, K: Kind> Drop for Guard<'_, T, K> {
    #[inline]
    fn drop(&mut self) {
        K::unlock(&self.lock.word);
    }
}

impl<T: fmt::Debug, K: Kind> fmt::Debug for Guard<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
