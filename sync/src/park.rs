//! [`Park`]: how a thread waits for a lock.
//!
//! Not reached by models: those that `cargo verify` runs do not use [`Spin`]. The test
//! `tests/checked/spin.rs` explores it under loom instead.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;

use crate::atomic::{AtomicBool, Ordering::*};
use crate::hint;

/// A place where the calling thread sleeps until a [`Waker`] wakes it. A lock has a type parameter
/// `P: Park`, which decides how its threads wait; the default is [`DefaultPark`].
///
/// Without std, implement it with what the kernel or runtime offers: descheduling the task, `wfe`,
/// or `hlt`.
///
/// ```
/// use std::cell::OnceCell;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::*};
/// use std::task::{Wake, Waker};
/// use spanlock_sync::Park;
///
/// /// Yields the core until the flag is set.
/// struct Yield { woken: Arc<Flag>, waker: Waker }
///
/// #[derive(Default)]
/// struct Flag(AtomicBool);
///
/// impl Wake for Flag {
///     fn wake(self: Arc<Self>) {
///         self.0.swap(true, Release);
///     }
/// }
///
/// thread_local! { static MINE: OnceCell<Yield> = const { OnceCell::new() }; }
///
/// impl Park for Yield {
///     fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
///         MINE.with(|mine| f(mine.get_or_init(|| {
///             let woken = Arc::new(Flag::default());
///             Yield { waker: woken.clone().into(), woken }
///         })))
///     }
///     fn waker(&self) -> &Waker {
///         &self.waker
///     }
///     fn try_park(&self) -> bool {
///         self.woken.0.swap(false, Acquire)
///     }
///     fn park(&self) {
///         while !self.try_park() {
///             std::thread::yield_now();
///         }
///     }
/// }
///
/// Yield::with(|place| {
///     place.waker().wake_by_ref();
///     place.park(); // the wake was kept
///     assert!(!place.try_park());
/// });
/// ```
pub trait Park: Sized + 'static {
    /// Calls `f` with the calling thread's place.
    ///
    /// The place may still hold a wake from an earlier use, so the first sleep may end at once.
    /// (Any sleep may end spuriously.)
    ///
    /// A thread that is inside `f` may call this function again, because it runs foreign code that
    /// waits for another lock. The inner call should get a place of its own, as with `Parker`.
    /// If it gets the same one, it may consume a wake of the outer wait. Then the outer wait must
    /// find out by other means that it was woken (see
    /// [`Waiter::status`](crate::wait::Waiter::status)).
    fn with<R>(f: impl FnOnce(&Self) -> R) -> R;

    /// Returns the waker of the thread that sleeps here. If the waker is called before the sleep,
    /// one wake is kept.
    fn waker(&self) -> &Waker;

    /// Sleeps until woken. The sleep may also end spuriously, so the caller rechecks its condition.
    fn park(&self);

    /// Consumes the wake that was kept, and returns whether there was one. Never sleeps, so
    /// spinning code can call it.
    fn try_park(&self) -> bool;

    /// Consumes the wake that was kept, then sleeps until woken, but for a millisecond at most. For
    /// a thread that may be overlooked. This default does not sleep, but yields the core.
    fn park_briefly(&self) {
        self.try_park();
        #[cfg(feature = "std")]
        crate::thread::yield_now();
        #[cfg(not(feature = "std"))]
        hint::pause();
    }
}

/// How threads wait by default: they sleep in a [`Parker`](crate::Parker).
#[cfg(feature = "std")]
pub type DefaultPark = crate::Parker;
/// How threads wait by default: they [`Spin`], because there is no std.
#[cfg(not(any(feature = "std", spanlock_kernel)))]
pub type DefaultPark = Spin;
/// How threads wait by default: the kernel's tasks sleep in a [`Parker`](crate::Parker).
#[cfg(spanlock_kernel)]
pub type DefaultPark = crate::Parker;

/// Waits without sleeping: checks a flag until it is set, with a [`pause`](crate::hint::pause)
/// between two checks.
///
/// It needs no operating system, so it is the [`DefaultPark`] without std. It burns its core, even
/// if the lock's holder needs that core. On a single core without preemption, it waits for ever. So
/// a kernel implements a [`Park`] of its own. Each wait allocates a flag, because a [`Waker`] may
/// outlive the wait.
#[derive(Debug)]
pub struct Spin {
    woken: Arc<Flag>,
    waker: Waker,
}

#[derive(Debug)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with the Acquire in `try_park`, so the woken thread sees what happened
        // before the wake. A swap, because a store would end the release sequence of an earlier
        // wake. The thread must also see what happened before that wake.
        self.0.swap(true, Release);
    }
}

impl Park for Spin {
    fn with<R>(f: impl FnOnce(&Spin) -> R) -> R {
        let woken = Arc::new(Flag(AtomicBool::new(false)));
        let waker = woken.clone().into();
        f(&Spin { woken, waker })
    }

    fn waker(&self) -> &Waker {
        &self.waker
    }

    fn park(&self) {
        while !self.try_park() {
            hint::pause();
        }
    }

    fn try_park(&self) -> bool {
        // Relaxed: the load is only an optimization. While the flag is not set, it avoids a swap,
        // which would request exclusive access to the cache line for nothing. Acquire: pairs with
        // the Release in `wake_by_ref`.
        self.woken.0.load(Relaxed) && self.woken.0.swap(false, Acquire)
    }
}
