//! A guard whose closure runs only if a call into foreign code panics.

/// Runs a closure when dropped, unless it was [disarmed](OnUnwind::disarm).
///
/// A caller arms it before it calls foreign code (a storage, a user's closure), and disarms it
/// after the call has returned. The closure therefore runs only if the call unwinds.
#[must_use = "a guard that is dropped at once runs its closure"]
pub(crate) struct OnUnwind<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnUnwind<F> {
    /// Arms the guard.
    pub(crate) fn run(closure: F) -> Self {
        OnUnwind(Some(closure))
    }

    /// Drops the closure without running it.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        if let Some(closure) = self.0.take() {
            closure();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::OnUnwind;

    #[test]
    fn the_closure_runs_only_if_the_call_panics() {
        let runs = Cell::new(0);
        let call = |foreign: fn()| {
            let guard = OnUnwind::run(|| runs.set(runs.get() + 1));
            foreign();
            guard.disarm();
        };
        call(|| ());
        assert_eq!(runs.get(), 0);
        catch_unwind(AssertUnwindSafe(|| call(|| panic!("expected")))).unwrap_err();
        assert_eq!(runs.get(), 1);
    }
}
