//! `core`'s atomics, with their layout. Each access first waits for its turn and for its line.
//!
//! The operations are not generic, and not inlined: code that the compiler instruments calls them,
//! and would count their accesses twice if it contained them.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic as real;

pub use core::sync::atomic::Ordering;

use crate::line::Access::{self, Load, Rmw, Store};

macro_rules! atomic {
    ($($name:ident($real:ty): $value:ty, $($update:ident)*;)*) => { $(
        /// The atomic of this name of `core`, on simulated cores.
        #[repr(transparent)]
        pub struct $name($real);

        impl $name {
            /// Returns an atomic with this value.
            pub const fn new(value: $value) -> Self {
                $name(<$real>::new(value))
            }

            /// Returns the value, which only the caller can access.
            #[inline(never)]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// Loads the value.
            #[inline(never)]
            pub fn load(&self, order: Ordering) -> $value {
                self.reach(Load);
                self.0.load(order)
            }

            /// Stores a value.
            #[inline(never)]
            pub fn store(&self, value: $value, order: Ordering) {
                // On x86, a SeqCst store is an exchange.
                self.reach(if order == Ordering::SeqCst { Rmw } else { Store });
                self.0.store(value, order);
            }

            /// Stores the new value if the atomic has the current one.
            ///
            /// # Errors
            /// The value that it has instead.
            #[inline(never)]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.reach(Rmw);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Does what `compare_exchange` does; it never fails spuriously.
            ///
            /// # Errors
            /// As for `compare_exchange`.
            #[inline(never)]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            $(
                /// The read-modify-write of this name of `core`.
                #[inline(never)]
                pub fn $update(&self, value: $value, order: Ordering) -> $value {
                    self.reach(Rmw);
                    self.0.$update(value, order)
                }
            )*

            fn reach(&self, access: Access) {
                crate::run::reach(core::ptr::from_ref(self).addr(), size_of::<Self>(), access);
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )* };
}

atomic! {
    Pointer(real::AtomicPtr<()>): *mut (), swap;
    AtomicU32(real::AtomicU32): u32, swap fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min;
    AtomicU64(real::AtomicU64): u64, swap fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min;
    AtomicUsize(real::AtomicUsize): usize, swap fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min;
    AtomicBool(real::AtomicBool): bool, swap fetch_and fetch_or fetch_xor;
}

macro_rules! fetch_update {
    ($($name:ident: $value:ty,)*) => { $(
        impl Default for $name {
            fn default() -> Self {
                Self::new(Default::default())
            }
        }

        impl $name {
            /// Replaces the value by what `f` returns, unless that is `None`.
            ///
            /// # Errors
            /// The value for which `f` returned `None`.
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut known = self.load(failure);
                while let Some(new) = f(known) {
                    match self.compare_exchange(known, new, success, failure) {
                        Ok(old) => return Ok(old),
                        Err(now) => known = now,
                    }
                }
                Err(known)
            }
        }
    )* };
}

impl AtomicU64 {
    /// Returns the atomic in this memory.
    ///
    /// # Safety
    /// As for `core`'s function of this name.
    pub const unsafe fn from_ptr<'a>(pointer: *mut u64) -> &'a Self {
        // SAFETY: the layout is that of a `u64`; the caller's promise.
        unsafe { &*pointer.cast() }
    }
}

fetch_update!(AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize, AtomicBool: bool,);

/// The atomic of this name of `core`, on simulated cores.
#[repr(transparent)]
pub struct AtomicPtr<T>(Pointer, PhantomData<fn(T) -> T>);

impl<T> AtomicPtr<T> {
    /// Returns an atomic with this value.
    pub const fn new(value: *mut T) -> Self {
        AtomicPtr(Pointer::new(value.cast()), PhantomData)
    }

    /// Returns the value, which only the caller can access.
    pub fn get_mut(&mut self) -> &mut *mut T {
        // SAFETY: pointers to sized types have the same layout.
        unsafe { &mut *core::ptr::from_mut(self.0.get_mut()).cast() }
    }

    /// Loads the value.
    pub fn load(&self, order: Ordering) -> *mut T {
        self.0.load(order).cast()
    }

    /// Stores a value.
    pub fn store(&self, value: *mut T, order: Ordering) {
        self.0.store(value.cast(), order);
    }

    /// Replaces the value, and returns the one before.
    pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        self.0.swap(value.cast(), order).cast()
    }

    /// Stores the new value if the atomic has the current one.
    ///
    /// # Errors
    /// The value that it has instead.
    pub fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        let result = (self.0).compare_exchange(current.cast(), new.cast(), success, failure);
        result.map(<*mut ()>::cast).map_err(<*mut ()>::cast)
    }
}

impl<T> fmt::Debug for AtomicPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fence. Only one that is SeqCst costs the core anything: it waits for its stores.
#[inline(never)]
pub fn fence(order: Ordering) {
    real::fence(order);
    if order == Ordering::SeqCst {
        crate::run::drain();
    }
}
