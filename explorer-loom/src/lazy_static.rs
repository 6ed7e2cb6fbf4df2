//! Lazy statics, as those of the crate `lazy_static`.

use core::fmt;
use core::marker::PhantomData;

use spanlock_explorer::{Condition, Ordering::Acquire, Ordering::Release};

use crate::execution::{self, begin_again, known};

pub use crate::thread::{AccessError, panicking, yield_now};

const INITIALIZING: u64 = 1;
const INITIALIZED: u64 = 2;

/// A static that the first thread initializes which uses it.
pub struct Lazy<T> {
    #[doc(hidden)]
    pub init: fn() -> T,
    #[doc(hidden)]
    pub _p: PhantomData<fn(T)>,
}

impl<T: 'static> Lazy<T> {
    /// Returns the value. It lives until the end of the execution.
    #[track_caller]
    pub fn get(&'static self) -> &'static T {
        let key = core::ptr::from_ref(self).addr();
        let find = |it: &mut execution::Execution| it.lazies.get(&key).map(|it| it.state.clone());
        let Some(state) = execution::with("lazy_static::Lazy::get", find) else {
            known(|known| known.lazies.push(key));
            begin_again();
        };
        match state.compare_exchange(0, INITIALIZING, Acquire, Acquire) {
            Ok(_) => {
                let value = Some(Box::new((self.init)()) as _);
                execution::try_with(|it| {
                    if let Some(lazy) = it.lazies.get_mut(&key) {
                        lazy.value = value;
                    }
                });
                // Release: publishes the value to the Acquires of this function.
                state.store(INITIALIZED, Release);
            }
            Err(INITIALIZING) => {
                state.wait_until(Condition::equals(INITIALIZED), Acquire);
            }
            Err(_) => {}
        }
        let value = execution::try_with(|it| {
            let value = it.lazies.get(&key)?.value.as_ref()?;
            value.downcast_ref::<T>().map(core::ptr::from_ref)
        });
        let value = value.flatten().expect("the execution has not dropped it");
        // SAFETY: the value lives in a box until the end of the execution. Like loom, this trusts
        // that no reference outlives the execution.
        unsafe { &*value }
    }
}

impl<T: 'static> fmt::Debug for Lazy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Lazy { .. }")
    }
}
