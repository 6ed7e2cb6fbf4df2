//! A sleeping task, and the [`Waker`] that wakes it.
//!
//! A waker may outlive the sleep, so it keeps a reference to the task, and nothing else. The wakes
//! that come before the sleep are counted in a table outside the tasks, in the entry of the task's
//! address. So waiting allocates nothing. Two tasks may share an entry. Then each wake of one may
//! end one sleep of the other, spuriously.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the litmus test |
//! |---|---|---|---|---|
//! | W | the count of a wake | Release | X | `parker-wake` |
//! | X | the load of the count | Acquire | W | `parker-wake` |
//! | Y | `spanlock_task_wake`, before it looks for a sleeper | full | Z | `parker-sleep` |
//! | Z | `spanlock_task_sleep`, before it checks the count | full | Y | `parker-sleep` |
//!
//! No wake is lost: the waker counts, then wakes the task. The task first declares that it sleeps,
//! then checks the count. Of the two, at least one sees what the other wrote (Y, Z).

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU32, Ordering::*};
use core::task::{RawWaker, RawWakerVTable, Waker};

use crate::Park;
use crate::world::kernel::{self, Task};

/// The number of entries.
const ENTRIES: usize = 256;

/// A count that shares its cache line with no other.
#[repr(align(64))]
struct Wakes(AtomicU32);

static WAKES: [Wakes; ENTRIES] = [const { Wakes(AtomicU32::new(0)) }; ENTRIES];

/// Returns the entry of a task.
fn wakes(task: *const ()) -> &'static AtomicU32 {
    // Fibonacci hashing, as in the table of waiters.
    let hash = (task.addr() as u64 >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &WAKES[(hash >> 56) as usize].0
}

/// A place where the calling task sleeps.
#[derive(Debug)]
pub struct Parker {
    /// The count when this place last looked.
    seen: Cell<u32>,
    /// Without a reference of its own: the task uses the place, so it is alive.
    waker: ManuallyDrop<Waker>,
}

/// How a sleep may end without a wake.
#[derive(Clone, Copy)]
enum How {
    Uninterruptible = 0,
    /// By a fatal signal.
    Killable = 1,
    /// After a millisecond.
    Briefly = 2,
}

impl Park for Parker {
    fn with<R>(f: impl FnOnce(&Parker) -> R) -> R {
        let task = kernel::task().cast_const().cast::<()>();
        let waker = RawWaker::new(task, &VTABLE);
        f(&Parker {
            // Acquire [X→W].
            seen: Cell::new(wakes(task).load(Acquire)),
            // SAFETY: the functions of the table keep the contract of a waker, for a task.
            waker: ManuallyDrop::new(unsafe { Waker::from_raw(waker) }),
        })
    }

    #[inline]
    fn waker(&self) -> &Waker {
        &self.waker
    }

    fn park(&self) {
        self.sleep(How::Uninterruptible);
    }

    fn try_park(&self) -> bool {
        // Acquire [X→W].
        let now = wakes(self.waker.data()).load(Acquire);
        self.seen.replace(now) != now
    }

    fn park_briefly(&self) {
        self.try_park();
        self.sleep(How::Briefly);
    }
}

impl Parker {
    /// Sleeps until woken, or until the task gets a fatal signal. Returns false if it has got one.
    #[must_use = "a task with a fatal signal does not sleep"]
    pub fn park_killable(&self) -> bool {
        self.sleep(How::Killable)
    }

    fn sleep(&self, how: How) -> bool {
        let count = wakes(self.waker.data());
        // Full [Z→Y]: between the task's new state and its look at the count.
        let killed = kernel::task_sleep(count, self.seen.get(), how as core::ffi::c_int);
        self.try_park();
        killed == 0
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, put);

fn task(data: *const ()) -> Task {
    data.cast_mut().cast()
}

/// # Safety
/// For all four functions: `data` is a task to which the caller has a reference. `wake` and `put`
/// give the reference up.
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the caller's promise.
    unsafe { kernel::task_get(task(data)) };
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the caller's promise.
    unsafe {
        wake_by_ref(data);
        put(data);
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // Release [W→X]: the woken task sees what happened before the wake.
    wakes(data).fetch_add(1, Release);
    // Full [Y→Z]: between the count and the look at the task's state.
    // SAFETY: the caller's promise.
    unsafe { kernel::task_wake(task(data)) };
}

unsafe fn put(data: *const ()) {
    // SAFETY: the caller's promise.
    unsafe { kernel::task_put(task(data)) };
}
