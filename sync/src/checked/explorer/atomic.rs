//! Atomics of the explorer.

use core::marker::PhantomData;

use spanlock_explorer::{Atomic, Bits, Op, Update};

use super::freed::Kept;
use crate::atomic::Ordering;

pub(crate) use spanlock_explorer::fence;

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
        let update = Update::masked(op, operand.bits(), V::MASK);
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
