//! Cells, on which the explorer detects races.

use core::cell;
use core::panic::Location;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use spanlock_explorer::{Plain, at, fail};

use crate::execution::require;

/// A cell. Two accesses, one of which writes, fail the model unless one happens before the other,
/// and the first has ended when the second begins.
#[derive(Debug)]
pub struct UnsafeCell<T: ?Sized> {
    state: Arc<State>,
    value: cell::UnsafeCell<T>,
}

#[derive(Debug)]
struct State {
    memory: Plain,
    /// How many reads have begun and not ended, or [`WRITTEN`].
    open: AtomicUsize,
}

/// Stands in [`State::open`] while a write has begun and not ended.
const WRITTEN: usize = usize::MAX;

impl State {
    /// Begins an access.
    #[track_caller]
    fn begin(&self, is_write: bool) {
        self.touch(is_write);
        // Relaxed, all: one thread of the system runs all threads of a model.
        let open = self.open.load(Relaxed);
        if open == WRITTEN || is_write && open > 0 {
            fail("an access to a cell begins while another one has not ended");
        }
        self.open
            .store(if is_write { WRITTEN } else { open + 1 }, Relaxed);
    }

    /// Ends an access.
    #[track_caller]
    fn end(&self, is_write: bool) {
        let open = if is_write {
            0
        } else {
            self.open.load(Relaxed) - 1
        };
        self.open.store(open, Relaxed);
        // The access lasted until now. A panic is what fails, and not what it leaves.
        if !std::thread::panicking() {
            self.touch(is_write);
        }
    }

    #[track_caller]
    fn touch(&self, is_write: bool) {
        match is_write {
            true => self.memory.write(),
            false => self.memory.read(),
        }
    }
}

/// An access that has begun. It ends by the drop. It may outlive its cell, as a pointer may.
#[derive(Debug)]
struct Access {
    state: Arc<State>,
    is_write: bool,
    since: &'static Location<'static>,
}

impl Access {
    #[track_caller]
    fn begin(state: &Arc<State>, is_write: bool) -> Access {
        state.begin(is_write);
        Access {
            state: state.clone(),
            is_write,
            since: Location::caller(),
        }
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        at(self.since, || self.state.end(self.is_write));
    }
}

impl<T> UnsafeCell<T> {
    /// Returns a cell around the value.
    #[track_caller]
    pub fn new(value: T) -> UnsafeCell<T> {
        require("cell::UnsafeCell::new");
        let state = State {
            memory: Plain::new(),
            open: AtomicUsize::new(0),
        };
        UnsafeCell {
            state: Arc::new(state),
            value: cell::UnsafeCell::new(value),
        }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `f` with a pointer to read through. It must not be used after the call.
    #[track_caller]
    pub fn with<F, R>(&self, f: F) -> R
    where
        F: FnOnce(*const T) -> R,
    {
        let _access = Access::begin(&self.state, false);
        f(self.value.get())
    }

    /// Calls `f` with a pointer to read and write through. It must not be used after the call.
    #[track_caller]
    pub fn with_mut<F, R>(&self, f: F) -> R
    where
        F: FnOnce(*mut T) -> R,
    {
        let _access = Access::begin(&self.state, true);
        f(self.value.get())
    }

    /// Begins to read.
    #[track_caller]
    pub fn get(&self) -> ConstPtr<T> {
        let pointer = self.value.get();
        ConstPtr(Access::begin(&self.state, false), pointer)
    }

    /// Begins to write.
    #[track_caller]
    pub fn get_mut(&self) -> MutPtr<T> {
        let pointer = self.value.get();
        MutPtr(Access::begin(&self.state, true), pointer)
    }
}

/// A pointer to the value of a cell. The access lasts until the drop of this.
#[derive(Debug)]
pub struct ConstPtr<T: ?Sized>(#[allow(dead_code)] Access, *const T);

/// A pointer to the value of a cell. The access lasts until the drop of this.
#[derive(Debug)]
pub struct MutPtr<T: ?Sized>(#[allow(dead_code)] Access, *mut T);

impl<T: ?Sized> ConstPtr<T> {
    /// Returns the value.
    ///
    /// # Safety
    /// The cell exists, and nothing writes to it while the reference exists.
    pub unsafe fn deref(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &*self.1 }
    }

    /// Calls `f` with the pointer.
    pub fn with<F, R>(&self, f: F) -> R
    where
        F: FnOnce(*const T) -> R,
    {
        f(self.1)
    }
}

impl<T: ?Sized> MutPtr<T> {
    /// Returns the value.
    ///
    /// # Safety
    /// The cell exists, and nothing else accesses it while the reference exists.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn deref(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.1 }
    }

    /// Calls `f` with the pointer.
    pub fn with<F, R>(&self, f: F) -> R
    where
        F: FnOnce(*mut T) -> R,
    {
        f(self.1)
    }
}

impl<T: Default> Default for UnsafeCell<T> {
    #[track_caller]
    fn default() -> UnsafeCell<T> {
        UnsafeCell::new(T::default())
    }
}

impl<T> From<T> for UnsafeCell<T> {
    #[track_caller]
    fn from(value: T) -> UnsafeCell<T> {
        UnsafeCell::new(value)
    }
}

/// A cell whose value is moved in and out, as std's.
#[derive(Debug, Default)]
pub struct Cell<T>(UnsafeCell<T>);

impl<T> Cell<T> {
    /// Returns a cell around the value.
    #[track_caller]
    pub fn new(value: T) -> Cell<T> {
        Cell(UnsafeCell::new(value))
    }

    /// Replaces the value.
    #[track_caller]
    pub fn set(&self, value: T) {
        drop(self.replace(value));
    }

    /// Swaps the values of two cells.
    #[track_caller]
    pub fn swap(&self, other: &Cell<T>) {
        if core::ptr::eq(self, other) {
            return;
        }
        self.0.with_mut(|mine| {
            // SAFETY: the pointers are valid, and distinct. No other access has begun.
            other
                .0
                .with_mut(|its| unsafe { core::ptr::swap(mine, its) });
        });
    }

    /// Replaces the value, and returns the old one.
    #[track_caller]
    pub fn replace(&self, value: T) -> T {
        // SAFETY: the pointer is valid, and no other access has begun.
        self.0
            .with_mut(|it| unsafe { core::mem::replace(&mut *it, value) })
    }

    /// Returns a copy of the value.
    #[track_caller]
    pub fn get(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: the pointer is valid, and no write has begun.
        self.0.with(|it| unsafe { *it })
    }

    /// Returns the value, and leaves the default.
    #[track_caller]
    pub fn take(&self) -> T
    where
        T: Default,
    {
        self.replace(T::default())
    }

    /// Returns the value.
    #[track_caller]
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: Copy> Clone for Cell<T> {
    #[track_caller]
    fn clone(&self) -> Cell<T> {
        Cell::new(self.get())
    }
}

impl<T> From<T> for Cell<T> {
    #[track_caller]
    fn from(value: T) -> Cell<T> {
        Cell::new(value)
    }
}

impl<T: PartialEq + Copy> PartialEq for Cell<T> {
    fn eq(&self, other: &Cell<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq + Copy> Eq for Cell<T> {}

impl<T: PartialOrd + Copy> PartialOrd for Cell<T> {
    fn partial_cmp(&self, other: &Cell<T>) -> Option<core::cmp::Ordering> {
        self.get().partial_cmp(&other.get())
    }
}

impl<T: Ord + Copy> Ord for Cell<T> {
    fn cmp(&self, other: &Cell<T>) -> core::cmp::Ordering {
        self.get().cmp(&other.get())
    }
}
