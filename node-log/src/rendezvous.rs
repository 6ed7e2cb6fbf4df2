//! One thread does for all who wait what each of them needs.

use crate::error::Error;

/// Threads that need the same thing done meet here. Each call of [`pass`](Rendezvous::pass) is
/// covered by a run that *began* after the call; one thread runs, and all that came before the run
/// began share its result.
pub(crate) struct Rendezvous {
    // Mutex + Condvar of spanlock_sync: the turn that runs, the turn that is done, and its result.
}

impl Rendezvous {
    pub(crate) fn new() -> Self {
        todo!()
    }

    /// Returns once a run that began after this call has ended, with that run's result. If `run`
    /// unwinds, the calls that it would have served run themselves.
    pub(crate) fn pass(&self, _run: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        todo!()
    }
}
