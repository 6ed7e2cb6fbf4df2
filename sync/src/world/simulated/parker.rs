//! Sleeping at a word, as the crate `parking` does over a futex.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use core::cell::{Cell, UnsafeCell};

use spanlock_cores::{MAX_CORES, sleep, wake};

use super::{PerCore, Place};
use crate::atomic::{AtomicU32, Ordering::SeqCst};
use crate::{Parker, Wakeup, thread, time};

const EMPTY: u32 = 0;
const ASLEEP: u32 = 1;
const WOKEN: u32 = 2;

/// The state of a parker.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Word(AtomicU32);

pub(crate) type Inner = Arc<Word>;

impl Word {
    fn address(&self) -> usize {
        core::ptr::from_ref(&self.0).addr()
    }
}

impl Wake for Word {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SeqCst, here and below: as in `parking`.
        if self.0.swap(WOKEN, SeqCst) == ASLEEP {
            wake(self.address(), 1);
        }
    }
}

/// The parker of a core, and whether the core is using it.
struct Current {
    parker: Option<Parker>,
    busy: Cell<bool>,
}

static CURRENT: PerCore<Current> = PerCore(
    [const {
        Place(UnsafeCell::new(Current {
            parker: None,
            busy: Cell::new(false),
        }))
    }; MAX_CORES],
);

pub(crate) fn pair() -> (Inner, Waker) {
    let word = Arc::new(Word(AtomicU32::new(EMPTY)));
    (word.clone(), word.into())
}

pub(crate) fn with<R>(f: impl FnOnce(&Parker) -> R) -> R {
    let current = CURRENT.mine();
    // SAFETY: only the calling core uses its parker, and fills the place before it borrows from it.
    let (parker, busy) = unsafe {
        if (*current).parker.is_none() {
            (*current).parker = Some(Parker::new());
        }
        ((*current).parker.as_ref(), &(*current).busy)
    };
    let Some(parker) = parker.filter(|_| !busy.replace(true)) else {
        return f(&Parker::new());
    };
    let result = f(parker);
    busy.set(false);
    result
}

pub(crate) fn try_park(parker: &Inner) -> bool {
    (parker.0)
        .compare_exchange(WOKEN, EMPTY, SeqCst, SeqCst)
        .is_ok()
}

pub(crate) fn park(parker: &Inner, deadline: Option<Instant>) -> Wakeup {
    if try_park(parker) {
        return Wakeup::Woken;
    }
    thread::yield_now();
    let word = &parker.0;
    if word.compare_exchange(EMPTY, ASLEEP, SeqCst, SeqCst).is_ok() {
        let now = spanlock_cores::now();
        let left = deadline.map(|deadline| deadline - spanlock_cores::instant());
        let until = left.map(|left| now + left.as_nanos() as u64);
        sleep(parker.address(), until, || word.load(SeqCst) == ASLEEP);
    }
    match word.swap(EMPTY, SeqCst) {
        WOKEN => Wakeup::Woken,
        _ => Wakeup::TimedOut,
    }
}

/// How long a thread that may be overlooked sleeps at a time.
const BRIEFLY: core::time::Duration = core::time::Duration::from_millis(1);

pub(crate) fn park_briefly(parker: &Inner) {
    try_park(parker);
    park(parker, time::now().map(|now| now + BRIEFLY));
}

pub(crate) fn has_passed(deadline: Instant) -> bool {
    time::now().is_none_or(|now| deadline <= now)
}
