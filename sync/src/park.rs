//! Ways of waiting, which locks take as a type parameter.
//!
//! Not reached by models: `tests/checked_spin.rs` explores [`Spin`] by itself.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;

use crate::atomic::{AtomicBool, Ordering::*};
use crate::hint;

/// A way of waiting: a place where the calling thread sleeps until a waker wakes it. Locks take it
/// as a type parameter, which is [`DefaultPark`] by default.
///
/// Without std, implement it with the means of the kernel or runtime: a task that is descheduled,
/// `wfe`, `hlt`.
///
/// ```
/// use std::cell::OnceCell;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::*};
/// use std::task::{Wake, Waker};
/// use spanlock_sync::Park;
///
/// /// Yields the core until the flag is up.
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
    /// The place may hold a wake from an earlier use: the first sleep may end at once, as any sleep
    /// may.
    fn with<R>(f: impl FnOnce(&Self) -> R) -> R;

    /// Returns the waker of the thread that sleeps here. One wake that comes before the sleep is
    /// kept.
    fn waker(&self) -> &Waker;

    /// Sleeps until woken. May end spuriously: recheck the condition.
    fn park(&self);

    /// Consumes a wake if one has come, and returns whether it did. Never sleeps; spinning code
    /// calls it.
    fn try_park(&self) -> bool;
}

/// How threads wait by default: they sleep in a [`Parker`](crate::Parker).
#[cfg(feature = "std")]
pub type DefaultPark = crate::Parker;
/// How threads wait by default: they [`Spin`], because there is no std.
#[cfg(not(feature = "std"))]
pub type DefaultPark = Spin;

/// Waits without sleeping: checks a flag until it is set, with a [`pause`](crate::hint::pause)
/// between two checks.
///
/// It needs nothing of a system, so it is the [`DefaultPark`] without std. It burns the core,
/// perhaps the very one that the holder needs; on a single core without preemption it waits for
/// ever. A kernel uses a [`Park`] of its own instead. Each wait allocates a flag, because a
/// [`Waker`] may outlive the wait.
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
        // Release: the woken thread sees what was done before; pairs with the Acquire in
        // `try_park`. A swap, not a store: it continues the release sequence of an earlier wake,
        // whose waker's actions the thread must see, too.
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
        // Relaxed: a check before the cache line is requested exclusively. Acquire: pairs with the
        // Release in `wake_by_ref`.
        self.woken.0.load(Relaxed) && self.woken.0.swap(false, Acquire)
    }
}
