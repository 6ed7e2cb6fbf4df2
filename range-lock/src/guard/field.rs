//! [`LockField`]: how an owned hold reaches a lock that is a part of something shared.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use super::hold::{LockRef, sealed};
use crate::raw::RawRangeLock;

/// A share of the ownership of a `T`, and a lock that lies in it: a field of an inode, a disk, an
/// element of a table.
///
/// Owned holds and guards of such a lock take a `LockField` where those of a lock of its own take
/// an `Arc`. They can be stored, and released by another task:
///
/// ```
/// use std::sync::Arc;
/// use spanlock_range_lock::{Exclusive, Hold, LockField, RangeLockExt, RwCounter};
///
/// struct Inode {
///     number: u64,
///     pages: RwCounter,
/// }
///
/// type PageHold = Hold<LockField<Inode, RwCounter>, Exclusive>;
///
/// let inode = Arc::new(Inode { number: 7, pages: RwCounter::new() });
/// let pages = LockField::new(inode.clone(), |inode| &inode.pages);
/// let hold: PageHold = Hold::lock(pages, 0..4096)?;
/// assert!(inode.pages.try_read(..).is_err());
/// std::thread::spawn(move || drop(hold)).join().unwrap();
/// assert!(inode.pages.try_read(..).is_ok());
/// # assert_eq!(inode.number, 7);
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
///
/// A guard of a [`RangeLock`](crate::RangeLock) needs a `T` that is `Send` and `Sync`, because the
/// guard may be the last to own it, in any thread:
///
/// ```compile_fail,E0277
/// use std::rc::Rc;
/// use std::sync::Arc;
/// use spanlock_range_lock::{Exclusive, LockField, RangeGuard, RangeLock, RwCounter};
///
/// struct Disk {
///     data: RangeLock<u8, RwCounter>,
///     name: Rc<str>,
/// }
///
/// fn hold(disk: Arc<Disk>) {
///     let data = LockField::new(disk, |disk| &disk.data);
///     let guard = RangeGuard::<_, u8, Exclusive>::lock(data, 0..4);
/// }
/// ```
pub struct LockField<T: ?Sized, L: ?Sized> {
    owner: Arc<T>,
    /// A reference that `project` made from `&'a T`, for any `'a`. So it is valid for as long as
    /// `owner` keeps the `T` alive, in place and shared.
    part: NonNull<L>,
}

// SAFETY: an `Arc<T>` and a `&L`.
unsafe impl<T: ?Sized + Send + Sync, L: ?Sized + Sync> Send for LockField<T, L> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync, L: ?Sized + Sync> Sync for LockField<T, L> {}

impl<T: ?Sized, L: ?Sized> LockField<T, L> {
    /// Returns the lock to which `project` leads. Calls it once.
    pub fn new(owner: Arc<T>, project: impl FnOnce(&T) -> &L) -> Self {
        let part = NonNull::from(project(&owner));
        LockField { owner, part }
    }

    /// Returns what the lock lies in.
    pub fn owner(&self) -> &Arc<T> {
        &self.owner
    }
}

impl<T: ?Sized, L: ?Sized> Clone for LockField<T, L> {
    fn clone(&self) -> Self {
        LockField {
            owner: self.owner.clone(),
            part: self.part,
        }
    }
}

impl<T: ?Sized, L: ?Sized> Deref for LockField<T, L> {
    type Target = L;
    #[inline]
    fn deref(&self) -> &L {
        // SAFETY: see `part`.
        unsafe { self.part.as_ref() }
    }
}

impl<T: ?Sized, L: ?Sized + fmt::Debug> fmt::Debug for LockField<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockField").field(&&**self).finish()
    }
}

impl<T: ?Sized, L: RawRangeLock + ?Sized> sealed::Sealed for LockField<T, L> {}
impl<T: ?Sized, L: RawRangeLock + ?Sized> LockRef for LockField<T, L> {
    type Lock = L;
    #[inline]
    fn raw(&self) -> &L {
        self
    }
}
