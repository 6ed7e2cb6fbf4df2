//! A parker for the explorer: a flag. A sleep is an event that blocks until the flag is set.

use std::sync::Arc;
use std::task::{Wake, Waker};

use spanlock_explorer::{Atomic, Op, Update};

use crate::atomic::Ordering::{AcqRel, Relaxed};
use crate::world::explorer::freed::Kept;
use crate::world::operations::{Access, note};

const ASLEEP: u64 = 0;
const WOKEN: u64 = 1;

#[derive(Debug)]
pub(crate) struct Flag(Kept<Atomic>);

pub(crate) type Inner = Arc<Flag>;

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: a wake also publishes what happened before earlier wakes, as the shipped parker's
        // does.
        self.0.update(Update::new(Op::Swap, WOKEN), AcqRel);
        note(Access::Write);
    }
}

pub(crate) fn pair() -> (Inner, Waker) {
    let flag = Arc::new(Flag(Kept::new(Atomic::new(ASLEEP))));
    (flag.clone(), flag.into())
}

#[track_caller]
pub(crate) fn try_park(parker: &Inner) -> bool {
    let result = parker.0.compare_exchange(WOKEN, ASLEEP, AcqRel, Relaxed);
    result.is_ok()
}

#[track_caller]
pub(super) fn park(parker: &Inner) {
    parker.0.exchange_when(WOKEN, ASLEEP, AcqRel);
}
