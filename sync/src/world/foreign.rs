//! A concurrent object of another crate.

/// A linearizable object of another crate: one whose operations take `&self`, and behave as if they
/// happened one after the other.
///
/// A checker does not see the object's atomics. So each operation takes place in a call of
/// [`read`](Self::read) or [`change`](Self::change), and the checker explores the orders of these
/// calls. Under the explorer, each change makes a new state, and a read finds one of the states
/// that the memory model permits: it sees every change that happens before it, and perhaps others.
///
/// As shipped, this is the object itself.
///
/// ```
/// use std::sync::Mutex;
/// use spanlock_sync::foreign::Foreign;
///
/// let list = Foreign::new(Mutex::new(vec![1]), |it| Mutex::new(it.lock().unwrap().clone()));
/// list.change(|it| it.lock().unwrap().push(2));
/// assert_eq!(list.read(|it| it.lock().unwrap().len()), 2);
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct Foreign<T>(T);

impl<T: 'static> Foreign<T> {
    /// Returns an object, and how to copy its state. Only the explorer copies it.
    pub const fn new(object: T, _copy: fn(&T) -> T) -> Self {
        Foreign(object)
    }

    /// Calls `f` for an operation that changes nothing.
    #[inline]
    pub fn read<'a, R>(&'a self, f: impl FnOnce(&'a T) -> R) -> R {
        f(&self.0)
    }

    /// Calls `f` for an operation that may change the object.
    #[inline]
    pub fn change<'a, R>(&'a self, f: impl FnOnce(&'a T) -> R) -> R {
        f(&self.0)
    }
}
