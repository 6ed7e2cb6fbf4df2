//! Heavy barriers that the system refuses, as a seccomp filter does.

use std::ops::Range;
use std::sync::Mutex;

use super::locked;

/// For one thread: how many heavy barriers it has issued, and which of them are refused.
#[derive(Clone)]
struct Refused {
    issued: u32,
    calls: Range<u32>,
}

static THREADS: Mutex<Vec<Refused>> = Mutex::new(Vec::new());

/// Makes heavy barriers of the calling thread fail in this execution, as if the system refused
/// them. `calls` says which: 0 is the thread's next heavy barrier.
pub fn refuse_barriers(calls: Range<u32>) {
    of_this_thread(|refused| *refused = Refused { issued: 0, calls });
}

/// Counts a heavy barrier of the calling thread, and returns whether the system refuses it.
pub(crate) fn is_barrier_refused() -> bool {
    of_this_thread(|refused| {
        let nth = refused.issued;
        refused.issued += 1;
        refused.calls.contains(&nth)
    })
}

fn of_this_thread<R>(f: impl FnOnce(&mut Refused) -> R) -> R {
    let thread = crate::thread::index();
    let mut threads = locked(&THREADS);
    if threads.len() <= thread {
        let none = Refused {
            issued: 0,
            calls: 0..0,
        };
        super::outside(|| threads.resize(thread + 1, none));
    }
    f(&mut threads[thread])
}

pub(super) fn begin_execution() {
    locked(&THREADS).clear();
}
