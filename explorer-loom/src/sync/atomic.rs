//! Atomics.

use core::fmt;
use core::marker::PhantomData;

use spanlock_explorer::{Bits, Op, Update, fault};

use crate::execution::{Kept, kept, require};

#[doc(no_inline)]
pub use core::sync::atomic::Ordering;

pub use crate::thread::yield_now as spin_loop_hint;
pub use spanlock_explorer::fence;

/// Returns the failure ordering that belongs to an ordering of a read-modify-write.
fn as_failure(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    }
}

/// The atomics of std, with loom's additions. Invariant in `V`, as those are.
pub struct Atomic<V>(Kept, PhantomData<fn(V) -> V>);

impl<V: Bits> Atomic<V> {
    /// Returns an atomic with this value.
    ///
    /// # Panics
    /// Outside a model.
    #[track_caller]
    pub fn new(value: V) -> Self {
        require("sync::atomic::Atomic::new");
        Atomic(kept(value.bits()), PhantomData)
    }

    /// Calls `f` with the value, which no other thread may access meanwhile.
    #[track_caller]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut V) -> R) -> R {
        let old = self.0.exclusive();
        let mut value = V::from_bits(old);
        let result = f(&mut value);
        if value.bits() != old {
            // Relaxed: no other thread has access, until something orders it after this.
            self.store(value, Ordering::Relaxed);
        }
        result
    }

    /// Loads without synchronization. A write of another thread that may happen at the same time
    /// fails the model.
    ///
    /// # Safety
    /// The model checks what the caller must promise elsewhere.
    #[track_caller]
    pub unsafe fn unsync_load(&self) -> V {
        V::from_bits(self.0.unsynchronized())
    }

    /// Returns the value.
    #[track_caller]
    pub fn into_inner(self) -> V {
        V::from_bits(self.0.exclusive())
    }

    /// Loads the value.
    #[track_caller]
    pub fn load(&self, order: Ordering) -> V {
        V::from_bits(self.0.load(order))
    }

    /// Stores a value.
    #[track_caller]
    pub fn store(&self, value: V, order: Ordering) {
        self.0.store(value.bits(), order);
    }

    /// Stores a value, and returns the old one.
    #[track_caller]
    pub fn swap(&self, value: V, order: Ordering) -> V {
        self.update(Op::Swap, value, order)
    }

    /// Stores `new` if the value is `current`, and returns the old one.
    #[track_caller]
    pub fn compare_and_swap(&self, current: V, new: V, order: Ordering) -> V {
        let result = self.compare_exchange(current, new, order, as_failure(order));
        result.unwrap_or_else(|old| old)
    }

    /// Stores `new` if the value is `current`, and returns the old one.
    ///
    /// # Errors
    /// The value, if it is another one.
    #[track_caller]
    pub fn compare_exchange(
        &self,
        current: V,
        new: V,
        success: Ordering,
        failure: Ordering,
    ) -> Result<V, V> {
        let result = (self.0).compare_exchange(current.bits(), new.bits(), success, failure);
        result.map(V::from_bits).map_err(V::from_bits)
    }

    /// Same as [`compare_exchange`](Self::compare_exchange), but may also fail if the value is
    /// `current`.
    ///
    /// # Errors
    /// The value.
    #[track_caller]
    pub fn compare_exchange_weak(
        &self,
        current: V,
        new: V,
        success: Ordering,
        failure: Ordering,
    ) -> Result<V, V> {
        match fault(2) {
            0 => self.compare_exchange(current, new, success, failure),
            _ => Err(self.load(failure)),
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
    ) -> Result<V, V>
    where
        F: FnMut(V) -> Option<V>,
    {
        let mut value = self.load(fetch_order);
        while let Some(new) = f(value) {
            match self.compare_exchange(value, new, set_order, fetch_order) {
                Ok(old) => return Ok(old),
                Err(other) => value = other,
            }
        }
        Err(value)
    }

    #[track_caller]
    fn update(&self, op: Op, operand: V, order: Ordering) -> V {
        let update = Update::masked(op, operand.bits(), V::MASK);
        V::from_bits(self.0.update(update, order))
    }
}

impl<V> fmt::Debug for Atomic<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Atomic").field(&self.0).finish()
    }
}

impl<V: Bits> From<V> for Atomic<V> {
    #[track_caller]
    fn from(value: V) -> Self {
        Atomic::new(value)
    }
}

macro_rules! updates {
    ($($name:ident $value:ty: $($method:ident $op:expr),*;)*) => { $(
        /// The atomic of std of this name, with loom's additions.
        pub type $name = Atomic<$value>;

        impl Atomic<$value> {
            $(
                #[doc = concat!("Changes the value as std's `", stringify!($method), "` does, and \
                                 returns the old one.")]
                #[track_caller]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    self.update($op, value, order)
                }
            )*
        }

        impl Default for Atomic<$value> {
            #[track_caller]
            fn default() -> Self {
                Atomic::new(<$value>::default())
            }
        }
    )* };
}

macro_rules! integers {
    ($($name:ident $value:ty,)*) => {
        updates!($(
            $name $value:
            fetch_add Op::Add, fetch_sub Op::Sub, fetch_and Op::And, fetch_nand Op::Nand,
            fetch_or Op::Or, fetch_xor Op::Xor,
            fetch_max if <$value>::IS_SIGNED { Op::SignedMax } else { Op::Max },
            fetch_min if <$value>::IS_SIGNED { Op::SignedMin } else { Op::Min };
        )*);
    };
}

integers!(AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize,);
integers!(AtomicI8 i8, AtomicI16 i16, AtomicI32 i32, AtomicI64 i64, AtomicIsize isize,);
updates!(
    AtomicBool bool:
    fetch_and Op::And, fetch_nand Op::Nand, fetch_or Op::Or, fetch_xor Op::Xor;
);

/// The atomic of std of this name, with loom's additions.
pub type AtomicPtr<T> = Atomic<*mut T>;

impl<T> Default for Atomic<*mut T> {
    #[track_caller]
    fn default() -> Self {
        Atomic::new(core::ptr::null_mut())
    }
}
