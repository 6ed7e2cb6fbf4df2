//! The checker of this build: runs the executions of a row, or one execution, under it.

#![cfg_attr(
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)),
    allow(dead_code)
)]

#[cfg(spanlock_explorer)]
mod explorer;
#[cfg(spanlock_loom)]
mod loom;
#[cfg(spanlock_shuttle)]
mod shuttle;

#[cfg(spanlock_explorer)]
use self::explorer::once;
#[cfg(spanlock_loom)]
use self::loom::once;
#[cfg(spanlock_shuttle)]
use self::shuttle::once;

#[cfg(spanlock_explorer)]
pub(crate) use self::explorer::{first, search};
#[cfg(spanlock_loom)]
pub(crate) use self::loom::{first, search};
#[cfg(spanlock_shuttle)]
pub(crate) use self::shuttle::{Asking, drawn, first, search, under};

#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
use std::{sync::Mutex, thread};

/// Runs a function outside the search, where it can use code that uses the facade: under a checker,
/// in an execution of its own on another system thread.
pub fn apart(run: Box<dyn FnOnce() + Send>) {
    #[cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]
    return run();
    #[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
    {
        let run = Mutex::new(Some(run));
        let execution = move || {
            if let Some(run) = crate::trace::lock(&run).take() {
                run();
            }
        };
        let system_thread = thread::spawn(|| once(execution));
        if let Err(panic) = system_thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Runs random programs, under shuttle only.
#[cfg(not(spanlock_shuttle))]
pub(crate) fn drawn<S, R>(_: &crate::execution::Search, _: &S, _: &R, _: u64) {
    crate::execution::refuse("random programs run under shuttle");
}
