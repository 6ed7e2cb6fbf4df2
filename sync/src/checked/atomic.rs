//! The checker's atomics as newtypes that know their call sites.
//!
//! They change what an operation does in only two ways:
//!
//! - The configuration may weaken the ordering of one call site.
//! - A weak compare-exchange fails if the fault plan says so, or, without a plan, the explorer.
//!
//! In addition, they record each operation: its site ([`crate::check::sites`]), and its step if the
//! configuration asks for a trace. A use of freed memory fails the model.

use core::panic::Location;

use crate::atomic::{Exclusive, Ordering, Zeroed};
use crate::check::{self, Fault, Op};

use super::freed::{self, Place};
use super::operations::Access::{Read, Write};

#[cfg(spanlock_explorer)]
use super::explorer::atomic as inner;
#[cfg(spanlock_loom)]
use loom::sync::atomic as inner;
#[cfg(spanlock_shuttle)]
use shuttle::sync::atomic as inner;

/// Returns the failure ordering of a compare-exchange without its Release part, which a load cannot
/// have.
fn as_load(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    }
}

macro_rules! common {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        /// The checker's atomic; the methods are std's.
        #[derive(Debug)]
        pub struct $name $(<$t>)? (inner::$name $(<$t>)?, Place);

        #[allow(missing_docs)]
        impl $(<$t>)? $name $(<$t>)? {
            #[track_caller]
            pub fn new(value: $value) -> Self {
                $name(inner::$name::new(value), Place::new())
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                let order = check::ordering(Location::caller(), Op::Store, order);
                self.0.store(value, order);
                self.1.used(Write);
            }

            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                let order = check::ordering(Location::caller(), Op::Rmw, order);
                let old = self.0.swap(value, order);
                self.1.used(Write);
                old
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let success = check::ordering(Location::caller(), Op::Rmw, success);
                let failure = check::ordering(Location::caller(), Op::Failure, failure);
                self.exchange(current, new, success, as_load(failure))
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let success = check::ordering(Location::caller(), Op::Rmw, success);
                let failure = check::ordering(Location::caller(), Op::Failure, failure);
                if check::fault(Fault::WeakCas) {
                    let found = self.0.load(as_load(failure));
                    self.1.used(Read);
                    return Err(found);
                }
                self.exchange(current, new, success, as_load(failure))
            }

            #[track_caller]
            fn exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let result = self.0.compare_exchange(current, new, success, failure);
                self.1.used(if result.is_ok() { Write } else { Read });
                result
            }
        }
    };
}

macro_rules! exclusive {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        impl $(<$t>)? Exclusive for $name $(<$t>)? {
            type Value = $value;

            #[track_caller]
            fn value(&mut self) -> $value {
                freed::assert_kept(self);
                #[cfg(spanlock_explorer)]
                return self.0.exclusive();
                #[cfg(spanlock_loom)]
                return self.0.with_mut(|value| *value);
                #[cfg(spanlock_shuttle)]
                *self.0.get_mut()
            }
        }
    };
}

macro_rules! rmw {
    ($($method:ident)*, $value:ty) => {
        $(
            #[track_caller]
            pub fn $method(&self, value: $value, order: Ordering) -> $value {
                let order = check::ordering(Location::caller(), Op::Rmw, order);
                let old = self.0.$method(value, order);
                self.1.used(Write);
                old
            }
        )*
    };
}

macro_rules! integer {
    ($name:ident, $value:ty) => {
        common!($name, $value);
        exclusive!($name, $value);

        #[allow(missing_docs)]
        impl $name {
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                let order = check::ordering(Location::caller(), Op::Load, order);
                let value = self.0.load(order);
                self.1.used(Read);
                value
            }

            rmw!(fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min, $value);
        }
    };
}

integer!(AtomicU32, u32);
integer!(AtomicU64, u64);
integer!(AtomicUsize, usize);
common!(AtomicBool, bool);
common!(AtomicPtr<T>, *mut T);
exclusive!(AtomicPtr<T>, *mut T);

#[allow(missing_docs)]
impl AtomicBool {
    #[track_caller]
    pub fn load(&self, order: Ordering) -> bool {
        let order = check::ordering(Location::caller(), Op::Load, order);
        let value = self.0.load(order);
        self.1.used(Read);
        value
    }

    rmw!(fetch_and fetch_or fetch_xor, bool);
}

#[allow(missing_docs)]
impl<T> AtomicPtr<T> {
    #[track_caller]
    pub fn load(&self, order: Ordering) -> *mut T {
        let order = check::ordering(Location::caller(), Op::Load, order);
        let value = self.0.load(order);
        self.1.used(Read);
        value
    }
}

/// The checker's [`core::sync::atomic::fence`].
#[track_caller]
pub fn fence(order: Ordering) {
    if let Some(order) = check::fence_ordering(Location::caller(), order) {
        inner::fence(order);
    }
}

/// Constructs each value, because a checker's atomics cannot be made from zeroed memory.
pub(crate) fn zeroed_slice<T: Zeroed>(len: usize) -> Option<Box<[T]>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).ok()?;
    values.extend((0..len).map(|_| T::zeroed()));
    let values: Box<[T]> = values.into();
    freed::made(&values);
    Some(values)
}

pub(crate) fn free_slice<T: 'static>(slice: Box<[T]>) {
    freed::free(slice);
}
