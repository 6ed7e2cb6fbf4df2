//! Atomics.

use core::fmt;
use core::marker::PhantomData;

use spanlock_explorer::{Op, Update, fault};

use crate::execution::{Kept, kept, require};

#[doc(no_inline)]
pub use core::sync::atomic::Ordering;

pub use spanlock_explorer::fence;

/// A round of a loop that waits for another thread: same as
/// [`yield_now`](crate::thread::yield_now).
#[track_caller]
pub fn spin_loop_hint() {
    crate::thread::yield_now();
}

/// A value that a location of 64 bits can hold.
trait Bits: Copy {
    /// The bits that values of the type use.
    const MASK: u64;

    fn bits(self) -> u64;

    fn from_bits(bits: u64) -> Self;
}

macro_rules! bits {
    ($($value:ty as $unsigned:ty)*) => {
        $(
            impl Bits for $value {
                const MASK: u64 = <$unsigned>::MAX as u64;

                fn bits(self) -> u64 {
                    self as $unsigned as u64
                }

                fn from_bits(bits: u64) -> Self {
                    bits as $value
                }
            }
        )*
    };
}

bits!(u8 as u8 u16 as u16 u32 as u32 u64 as u64 usize as usize);
bits!(i8 as u8 i16 as u16 i32 as u32 i64 as u64 isize as usize);

impl Bits for bool {
    const MASK: u64 = 1;

    fn bits(self) -> u64 {
        u64::from(self)
    }

    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
}

impl<T> Bits for *mut T {
    const MASK: u64 = u64::MAX;

    fn bits(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn from_bits(bits: u64) -> Self {
        core::ptr::with_exposed_provenance_mut(bits as usize)
    }
}

/// Returns the failure ordering that belongs to an ordering of a read-modify-write.
fn as_failure(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    }
}

/// What all atomics are made of.
struct Word<V>(Kept, PhantomData<fn() -> V>);

impl<V: Bits> Word<V> {
    #[track_caller]
    fn new(what: &str, value: V) -> Self {
        require(what);
        Word(kept(value.bits()), PhantomData)
    }

    #[track_caller]
    fn with_mut<R>(&mut self, f: impl FnOnce(&mut V) -> R) -> R {
        let old = self.0.exclusive();
        let mut value = V::from_bits(old);
        let result = f(&mut value);
        if value.bits() != old {
            // Relaxed: no other thread has access, until something orders it after this.
            self.0.store(value.bits(), Ordering::Relaxed);
        }
        result
    }

    #[track_caller]
    fn update(&self, op: Op, operand: V, order: Ordering) -> V {
        let update = Update::masked(op, operand.bits(), V::MASK);
        V::from_bits(self.0.update(update, order))
    }

    #[track_caller]
    fn exchange(&self, old: V, new: V, success: Ordering, failure: Ordering) -> Result<V, V> {
        let result = (self.0).compare_exchange(old.bits(), new.bits(), success, failure);
        result.map(V::from_bits).map_err(V::from_bits)
    }

    #[track_caller]
    fn load(&self, order: Ordering) -> V {
        V::from_bits(self.0.load(order))
    }
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[doc = concat!("The atomic of std of this name, with loom's additions.")]
        pub struct $name $(<$t>)? (Word<$value>);

        impl $(<$t>)? $name $(<$t>)? {
            /// Returns an atomic with this value.
            ///
            /// # Panics
            /// Outside a model.
            #[track_caller]
            pub fn new(value: $value) -> Self {
                $name(Word::new(concat!("sync::atomic::", stringify!($name), "::new"), value))
            }

            /// Calls `f` with the value, which no other thread may access meanwhile.
            #[track_caller]
            pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut $value) -> R) -> R {
                self.0.with_mut(f)
            }

            /// Loads without synchronization. A write of another thread that may happen at the same
            /// time fails the model.
            ///
            /// # Safety
            /// The model checks what the caller must promise elsewhere.
            #[track_caller]
            pub unsafe fn unsync_load(&self) -> $value {
                <$value>::from_bits(self.0.0.unsynchronized())
            }

            /// Returns the value.
            #[track_caller]
            pub fn into_inner(self) -> $value {
                <$value>::from_bits(self.0.0.exclusive())
            }

            /// Loads the value.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Stores a value.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.0.store(value.bits(), order);
            }

            /// Stores a value, and returns the old one.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.update(Op::Swap, value, order)
            }

            /// Stores `new` if the value is `current`, and returns the old one.
            #[track_caller]
            pub fn compare_and_swap(&self, current: $value, new: $value, order: Ordering) -> $value {
                let result = self.0.exchange(current, new, order, as_failure(order));
                result.unwrap_or_else(|old| old)
            }

            /// Stores `new` if the value is `current`, and returns the old one.
            ///
            /// # Errors
            /// The value, if it is another one.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.exchange(current, new, success, failure)
            }

            /// Same as [`compare_exchange`](Self::compare_exchange), but may also fail if the value
            /// is `current`.
            ///
            /// # Errors
            /// The value.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                match fault(2) {
                    0 => self.0.exchange(current, new, success, failure),
                    _ => Err(self.0.load(failure)),
                }
            }

            /// Replaces the value by what `f` makes of it, until `f` returns `None`.
            ///
            /// # Errors
            /// The value for which `f` returned `None`.
            #[track_caller]
            pub fn fetch_update<F>(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                mut f: F,
            ) -> Result<$value, $value>
            where
                F: FnMut($value) -> Option<$value>,
            {
                let mut value = self.load(fetch_order);
                while let Some(new) = f(value) {
                    match self.0.exchange(value, new, set_order, fetch_order) {
                        Ok(old) => return Ok(old),
                        Err(other) => value = other,
                    }
                }
                Err(value)
            }
        }

        impl $(<$t>)? fmt::Debug for $name $(<$t>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.0).finish()
            }
        }

        impl $(<$t>)? From<$value> for $name $(<$t>)? {
            #[track_caller]
            fn from(value: $value) -> Self {
                $name::new(value)
            }
        }
    };
}

macro_rules! updates {
    ($name:ident, $value:ty, $($method:ident $op:ident)*) => {
        impl $name {
            $(
                #[doc = concat!("Changes the value as std's `", stringify!($method), "` does, and \
                                 returns the old one.")]
                #[track_caller]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    self.0.update(Op::$op, value, order)
                }
            )*
        }

        impl Default for $name {
            #[track_caller]
            fn default() -> Self {
                $name::new(<$value>::default())
            }
        }
    };
}

macro_rules! integers {
    ($max:ident $min:ident: $($name:ident $value:ty,)*) => {
        $(
            atomic!($name, $value);
            updates!(
                $name, $value,
                fetch_add Add fetch_sub Sub fetch_and And fetch_nand Nand fetch_or Or fetch_xor Xor
                fetch_max $max fetch_min $min
            );
        )*
    };
}

integers!(Max Min: AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize,);
integers!(
    SignedMax SignedMin:
    AtomicI8 i8, AtomicI16 i16, AtomicI32 i32, AtomicI64 i64, AtomicIsize isize,
);

atomic!(AtomicBool, bool);
updates!(AtomicBool, bool, fetch_and And fetch_nand Nand fetch_or Or fetch_xor Xor);

atomic!(AtomicPtr<T>, *mut T);

impl<T> Default for AtomicPtr<T> {
    #[track_caller]
    fn default() -> Self {
        AtomicPtr::new(core::ptr::null_mut())
    }
}
