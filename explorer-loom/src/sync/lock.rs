//! The part that the mutex and the reader-writer lock share: the word, the value and its poison.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::panic::Location;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LockResult, PoisonError};
use std::thread::panicking;

use crate::execution::{Kept, kept, require};

/// The state of a lock that nobody holds.
pub(super) const UNLOCKED: u64 = 0;

pub(super) struct Lock<T: ?Sized> {
    pub(super) word: Kept,
    /// Whether a thread has panicked while it had locked. Only a thread that has locked uses it.
    poisoned: AtomicBool,
    pub(super) value: UnsafeCell<T>,
}

impl<T> Lock<T> {
    #[track_caller]
    pub(super) fn new(what: &str, value: T) -> Lock<T> {
        require(what);
        Lock {
            word: kept(UNLOCKED),
            poisoned: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub(super) fn into_inner(self) -> LockResult<T> {
        result(self.poisoned.into_inner(), self.value.into_inner())
    }
}

impl<T: ?Sized> Lock<T> {
    pub(super) fn get_mut(&mut self) -> LockResult<&mut T> {
        result(*self.poisoned.get_mut(), self.value.get_mut())
    }

    /// Returns the guard of a thread that has locked.
    #[track_caller]
    pub(super) fn locked<G>(&self, guard: impl FnOnce(Held) -> G) -> LockResult<G> {
        let held = Held {
            since: Location::caller(),
            panicked: panicking(),
            _stays: PhantomData,
        };
        // Relaxed, also in `poison`: the lock orders the accesses.
        result(self.poisoned.load(Relaxed), guard(held))
    }

    /// Poisons the lock if the thread has begun to panic since it has locked. The explorer runs no
    /// other thread while one unwinds, and fails if it would have to.
    pub(super) fn poison(&self, held: &Held) {
        if !held.panicked && panicking() {
            self.poisoned.store(true, Relaxed);
        }
    }
}

fn result<G>(is_poisoned: bool, value: G) -> LockResult<G> {
    match is_poisoned {
        false => Ok(value),
        true => Err(PoisonError::new(value)),
    }
}

/// The part of a guard that its drop needs. Not `Send`: a guard stays with its thread.
pub(super) struct Held {
    /// Where the thread has locked.
    pub(super) since: &'static Location<'static>,
    panicked: bool,
    _stays: PhantomData<*const ()>,
}

/// Declares a lock, without its methods that lock.
macro_rules! lock {
    ($(#[$doc:meta])* $lock:ident<T $(: $sized:ident)?>, $sync:path) => {
        $(#[$doc])*
        pub struct $lock<T $(: ?$sized)?>(Lock<T>);

        // SAFETY: the value moves with the lock.
        unsafe impl<T: $(?$sized +)? Send> Send for $lock<T> {}
        // SAFETY: only threads that have locked access the value.
        unsafe impl<T: $(?$sized +)? Send + $sync> Sync for $lock<T> {}

        impl<T> $lock<T> {
            /// Returns a lock around the value.
            ///
            /// # Panics
            /// Outside a model.
            #[track_caller]
            pub fn new(value: T) -> $lock<T> {
                $lock(Lock::new(concat!("sync::", stringify!($lock), "::new"), value))
            }

            /// Returns the value.
            ///
            /// # Errors
            /// The lock is poisoned.
            pub fn into_inner(self) -> LockResult<T> {
                self.0.into_inner()
            }
        }

        impl<T $(: ?$sized)?> $lock<T> {
            /// Returns the value: `&mut` proves that no other thread has access.
            ///
            /// # Errors
            /// The lock is poisoned.
            pub fn get_mut(&mut self) -> LockResult<&mut T> {
                self.0.get_mut()
            }
        }

        impl<T: Default> Default for $lock<T> {
            #[track_caller]
            fn default() -> $lock<T> {
                $lock::new(T::default())
            }
        }

        impl<T> From<T> for $lock<T> {
            #[track_caller]
            fn from(value: T) -> $lock<T> {
                $lock::new(value)
            }
        }

        impl<T $(: ?$sized)?> fmt::Debug for $lock<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($lock)).finish_non_exhaustive()
            }
        }
    };
}

/// Declares the guard of a lock.
macro_rules! guard {
    ($name:ident<T $(: $sized:ident)?>, $lock:ident, $unlock:expr) => {
        /// Access to the value of a lock, until this is dropped.
        #[must_use = "the lock is unlocked at once otherwise"]
        pub struct $name<'a, T $(: ?$sized)?> {
            lock: &'a $lock<T>,
            held: Held,
        }

        // SAFETY: a reference to the guard is one to the value.
        unsafe impl<T: $(?$sized +)? Sync> Sync for $name<'_, T> {}

        impl<T $(: ?$sized)?> Drop for $name<'_, T> {
            fn drop(&mut self) {
                let unlock: fn(&Lock<T>, &Held) = $unlock;
                at(self.held.since, || unlock(&self.lock.0, &self.held));
            }
        }

        impl<T $(: ?$sized)?> Deref for $name<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                // SAFETY: this thread has locked, for reading at least.
                unsafe { &*self.lock.0.value.get() }
            }
        }

        impl<T: $(?$sized +)? fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
    // The guard of a thread that has the value alone.
    (mut $name:ident<T $(: $sized:ident)?>, $lock:ident) => {
        guard!($name<T $(: $sized)?>, $lock, |lock, held| {
            lock.poison(held);
            lock.word.store(UNLOCKED, Release);
        });

        impl<T $(: ?$sized)?> DerefMut for $name<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: this thread has locked for writing, and `&mut self` proves that this is
                // the only access through the guard.
                unsafe { &mut *self.lock.0.value.get() }
            }
        }
    };
}

pub(super) use {guard, lock};
