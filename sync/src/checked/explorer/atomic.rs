//! Atomics of the explorer.

use core::marker::PhantomData;

use spanlock_explorer::{Atomic, Op, Update};

use super::freed::Kept;
use crate::atomic::Ordering;

pub(crate) use spanlock_explorer::fence;

/// A value that a location of 64 bits can hold.
pub(crate) trait Bits: Copy {
    /// The bits that values of the type use.
    const MASK: u64;

    fn bits(self) -> u64;

    fn from_bits(bits: u64) -> Self;
}

macro_rules! bits {
    ($($value:ty)*) => {
        $(
            impl Bits for $value {
                const MASK: u64 = <$value>::MAX as u64;

                fn bits(self) -> u64 {
                    self as u64
                }

                fn from_bits(bits: u64) -> Self {
                    bits as $value
                }
            }
        )*
    };
}

bits!(u32 u64 usize);

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

pub(crate) type AtomicU32 = Word<u32>;
pub(crate) type AtomicU64 = Word<u64>;
pub(crate) type AtomicUsize = Word<usize>;
pub(crate) type AtomicBool = Word<bool>;
pub(crate) type AtomicPtr<T> = Word<*mut T>;

/// An atomic. The methods are std's.
#[derive(Debug)]
pub(crate) struct Word<V>(Kept<Atomic>, PhantomData<fn() -> V>);

impl<V: Bits> Word<V> {
    #[track_caller]
    pub(crate) fn new(value: V) -> Self {
        Word(Kept::new(Atomic::new(value.bits())), PhantomData)
    }

    /// Returns the value, which only the calling thread can access.
    #[track_caller]
    pub(crate) fn exclusive(&self) -> V {
        V::from_bits(self.0.exclusive())
    }

    #[track_caller]
    pub(crate) fn load(&self, order: Ordering) -> V {
        V::from_bits(self.0.load(order))
    }

    #[track_caller]
    pub(crate) fn store(&self, value: V, order: Ordering) {
        self.0.store(value.bits(), order);
    }

    #[track_caller]
    pub(crate) fn compare_exchange(
        &self,
        current: V,
        new: V,
        success: Ordering,
        failure: Ordering,
    ) -> Result<V, V> {
        let result = self
            .0
            .compare_exchange(current.bits(), new.bits(), success, failure);
        result.map(V::from_bits).map_err(V::from_bits)
    }

    #[track_caller]
    fn update(&self, op: Op, operand: V, order: Ordering) -> V {
        let update = Update {
            op,
            operand: operand.bits(),
            mask: V::MASK,
        };
        V::from_bits(self.0.update(update, order))
    }
}

macro_rules! updates {
    ($($method:ident $op:ident)*) => {
        impl<V: Bits> Word<V> {
            $(
                #[track_caller]
                pub(crate) fn $method(&self, value: V, order: Ordering) -> V {
                    self.update(Op::$op, value, order)
                }
            )*
        }
    };
}

updates! {
    swap Swap
    fetch_add Add
    fetch_sub Sub
    fetch_and And
    fetch_or Or
    fetch_xor Xor
    fetch_max Max
    fetch_min Min
}
