//! A parker for the explorer: a flag. A sleep is an event that blocks until the flag is set.

use std::sync::Arc;
use std::task::{Wake, Waker};

use spanlock_explorer::{Atomic, Op, Update};

use crate::atomic::Ordering::{AcqRel, Relaxed};
use crate::footprint::Object;
use crate::world::explorer::freed::Kept;

const ASLEEP: u64 = 0;
const WOKEN: u64 = 1;

#[derive(Debug)]
pub(crate) struct Flag(Kept<Atomic>, Object);

pub(crate) type Inner = Arc<Flag>;

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: a wake also publishes what happened before earlier wakes, as the shipped parker's
        // does.
        self.0.update(Update::new(Op::Swap, WOKEN), AcqRel);
        self.1.touch_value(true, true);
    }
}

pub(crate) fn pair() -> (Inner, Waker) {
    let flag = Arc::new(Flag(Kept::new(Atomic::new(ASLEEP)), Object::new()));
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
