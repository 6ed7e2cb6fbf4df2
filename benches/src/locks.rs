//! Every lock that is measured: one line each, and nowhere else.
//!
//! All runs are compiled for each lock's own type, as in a program that has chosen one. So the list
//! is visited by something generic, not stored.
//!
//! Some locks take memory in proportion to what they cover, so to make one can fail. The file core's
//! factory cannot: a lock that cannot be made unwinds through it, from [`infallible`] to [`caught`].

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use spanlock::{RawRangeLock, RwCounter, RwDistributed};
use spanlock_interval::IntervalLock;
use spanlock_srl::SrlArray;

/// The lock that all others are compared with.
pub const BASELINE: &str = "rw-counter";

/// Visits every lock, in the order in which they are reported.
#[rustfmt::skip] // A lock is one line.
pub fn visit_all(visitor: &mut impl Visitor) {
    visitor.visit("rw-counter", "one reader-writer word for a whole file, NOVA's default", |_| Ok(RwCounter::new()));
    visitor.visit("rw-distributed", "the same, with a reader count for each core", |_| Ok(RwDistributed::new()));
    visitor.visit("srl-array", "a reader-writer word for each 4 KiB of a file", |capacity| SrlArray::new(capacity).map_err(NoLock::because));
    visitor.visit("interval-tree", "a tree of exact ranges under one mutex, first come, first served", |_| Ok(IntervalLock::new()));
}

/// Makes a lock for positions below a capacity in bytes.
pub type Make<L> = fn(u64) -> Result<L, NoLock>;

/// A lock could not be made: why.
#[derive(Debug)]
pub struct NoLock(String);

impl NoLock {
    fn because(why: impl fmt::Display) -> Self {
        NoLock(why.to_string())
    }
}

impl fmt::Display for NoLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the lock of a file cannot be made, {}; its capacity is the largest file size of the volume: \
             take a volume for smaller files, leave this lock out with --locks, or allow more memory",
            self.0
        )
    }
}

impl std::error::Error for NoLock {}

/// `make` for who cannot take an error: unwinds with it instead, without the message of a panic.
/// To be called inside [`caught`].
pub fn infallible<L>(make: Make<L>) -> impl Fn(u64) -> L + Send + Sync + 'static
where
    L: 'static,
{
    move |capacity| make(capacity).unwrap_or_else(|none| panic::resume_unwind(Box::new(none)))
}

/// Does `work`, which may make locks by a factory from [`infallible`].
///
/// # Errors
/// One could not be made. What `work` was about to change is as the unwinding left it.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, NoLock> {
    // Whoever gets the error closes the volume that it came from.
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic: Box<dyn Any + Send>| {
        match panic.downcast::<NoLock>() {
            Ok(none) => *none,
            Err(other) => panic::resume_unwind(other),
        }
    })
}

/// What is done for each lock.
pub trait Visitor {
    /// The lock `name`, what it is in a few words, and what makes one for a capacity in bytes.
    fn visit<L: RawRangeLock + 'static>(
        &mut self,
        name: &'static str,
        about: &'static str,
        make: Make<L>,
    );
}

/// Something to do once, with one lock.
pub trait Task {
    /// What comes of it.
    type Output;

    /// Does it, with the lock that `make` makes.
    fn run<L: RawRangeLock + 'static>(self, make: Make<L>) -> Self::Output;
}

/// The names of all locks, each with what it is.
pub fn all() -> Vec<(&'static str, &'static str)> {
    struct Names(Vec<(&'static str, &'static str)>);
    impl Visitor for Names {
        fn visit<L: RawRangeLock + 'static>(
            &mut self,
            name: &'static str,
            about: &'static str,
            _make: Make<L>,
        ) {
            self.0.push((name, about));
        }
    }
    let mut names = Names(Vec::new());
    visit_all(&mut names);
    names.0
}

/// Runs `task` with the lock `name`.
///
/// # Panics
/// If no lock has this name: names come from [`all`].
pub fn with<T: Task>(name: &str, task: T) -> T::Output {
    struct Select<'n, T: Task> {
        name: &'n str,
        task: Option<T>,
        output: Option<T::Output>,
    }
    impl<T: Task> Visitor for Select<'_, T> {
        fn visit<L: RawRangeLock + 'static>(
            &mut self,
            name: &'static str,
            _about: &'static str,
            make: Make<L>,
        ) {
            if name == self.name
                && let Some(task) = self.task.take()
            {
                self.output = Some(task.run(make));
            }
        }
    }
    let mut select = Select {
        name,
        task: Some(task),
        output: None,
    };
    visit_all(&mut select);
    select
        .output
        .unwrap_or_else(|| panic!("no lock is named {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_cannot_be_made_is_an_error() {
        // 4 bytes for each 4 KiB, of the whole address space: no machine has that.
        let make: Make<SrlArray> = |capacity| SrlArray::new(capacity).map_err(NoLock::because);
        let factory = infallible(make);
        let none = caught(|| factory(u64::MAX)).unwrap_err().to_string();
        assert!(
            none.contains("no memory") && none.contains("--locks"),
            "{none}"
        );
        assert_eq!(caught(|| factory(8192)).unwrap().memory_usage(), 8);
        let other = panic::catch_unwind(|| caught(|| panic::resume_unwind(Box::new(7))));
        assert!(other.is_err_and(|panic| panic.downcast_ref() == Some(&7)));
    }
}
