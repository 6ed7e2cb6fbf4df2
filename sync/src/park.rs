//! Ways of waiting: what locks take as a type parameter.

use core::task::Waker;

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub use self::spin::Spin;

/// A way of waiting: a place where the calling thread sleeps until a waker wakes it. Locks take it as a type
/// parameter, [`DefaultPark`] unless said otherwise.
///
/// Where there is no std, implement it by what the kernel or runtime has: a task that is descheduled, `wfe`, `hlt`.
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
///         self.0.store(true, Release);
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
    /// It may hold a wake from an earlier use: the first sleep can end at once, as any sleep can.
    fn with<R>(f: impl FnOnce(&Self) -> R) -> R;

    /// Wakes the thread that sleeps here, or that will: a wake that comes before the sleep is kept (once).
    fn waker(&self) -> &Waker;

    /// Sleeps until woken. May end without a wake: look again.
    fn park(&self);

    /// Takes a wake that has come, and never sleeps: whether there was one. What spins calls this.
    fn try_park(&self) -> bool;
}

/// How threads wait unless said otherwise: they sleep in a [`Parker`](crate::Parker).
#[cfg(feature = "std")]
pub type DefaultPark = crate::Parker;
/// How threads wait unless said otherwise: they [`Spin`], for there is no std.
#[cfg(not(feature = "std"))]
pub type DefaultPark = Spin;

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
mod spin {
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::task::Waker;

    use crate::Park;
    use crate::atomic::{AtomicBool, Ordering::*};

    /// Waits without sleeping: looks at a flag, with [`core::hint::spin_loop`] between, until it is up.
    ///
    /// The way of waiting that needs nothing of a system, hence [`DefaultPark`](crate::DefaultPark) where there is no std. It burns the
    /// core, perhaps the very one that the holder needs, and on a single core without preemption it waits for ever: so a kernel
    /// puts a [`Park`] of its own in its place. Each wait allocates the flag, since a [`Waker`] may outlive it.
    #[derive(Debug)]
    pub struct Spin {
        woken: Arc<Flag>,
        waker: Waker,
    }

    #[derive(Debug, Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            // Release: what was done before the wake is seen by who was woken; pairs with the Acquire in `try_park`.
            self.0.store(true, Release);
        }
    }

    impl Park for Spin {
        fn with<R>(f: impl FnOnce(&Spin) -> R) -> R {
            let woken = Arc::new(Flag::default());
            let waker = woken.clone().into();
            f(&Spin { woken, waker })
        }

        fn waker(&self) -> &Waker {
            &self.waker
        }

        fn park(&self) {
            while !self.try_park() {
                core::hint::spin_loop();
            }
        }

        fn try_park(&self) -> bool {
            // Relaxed: a look before the line is asked for exclusively. Acquire: pairs with the Release in `wake_by_ref`.
            self.woken.0.load(Relaxed) && self.woken.0.swap(false, Acquire)
        }
    }
}
