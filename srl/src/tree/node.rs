//! Nodes: slices of slots or of words, behind thin pointers.
//!
//! A slot points to the first slot of an inner node or to the first word of a leaf. The slot's
//! level tells which of the two it is, and how many elements the node has. So a node needs no
//! header.

use core::ptr::NonNull;

use spanlock_sync::atomic::{AtomicPtr, Ordering::*, Zeroed};

use crate::padded::{Padded, bytes_of};

/// The first slot or word of a node.
#[derive(Debug)]
pub(super) enum Node {}

/// A pointer to a node, null at first.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Slot(AtomicPtr<Node>);

// SAFETY: a `Slot` is an `AtomicPtr` (repr(transparent)). Zero bytes are the null pointer, and a
// `Slot` has no destructor.
unsafe impl Zeroed for Slot {
    fn zeroed() -> Self {
        Slot(AtomicPtr::new(core::ptr::null_mut()))
    }
}

impl Slot {
    /// Returns the node, or null.
    #[inline]
    pub(super) fn load(&self) -> *mut Node {
        // Acquire [O→N]: this thread sees the node's slots or words initialized.
        self.0.load(Acquire)
    }

    /// Links a node into an empty slot.
    ///
    /// # Errors
    /// The node that the slot already points to.
    fn link(&self, node: *mut Node) -> Result<(), *mut Node> {
        let null = core::ptr::null_mut();
        // Release [N→O]: publishes the node. Acquire on failure [O→N]: this thread uses the node
        // that another thread linked.
        let linked = self.0.compare_exchange(null, node, Release, Acquire);
        linked.map(drop)
    }

    /// Empties the slot. Only the thread that shrinks the tree calls this. Other threads only fill
    /// empty slots.
    pub(super) fn unlink(&self) {
        // Relaxed: a thread that finds the slot empty must see what was done under holds in the old
        // node. It does, because it checks the gate before it is granted. If the gate is closed,
        // the mutex of the gate's entries provides this order; if it has been opened, L and M do.
        self.0.store(core::ptr::null_mut(), Relaxed);
    }

    /// Creates and links a node of `len` slots or words; returns the node with `true`.
    ///
    /// If another thread has linked a node meanwhile, returns that node with `false`. Returns
    /// `None` if there is no memory.
    pub(super) fn make<T: Zeroed + 'static>(&self, len: usize) -> Option<(*mut Node, bool)> {
        let node = Padded::<T>::zeroed(len)?.into_raw().as_ptr().cast();
        match self.link(node) {
            Ok(()) => Some((node, true)),
            Err(other) => {
                // SAFETY: the node was created above with this length, and never linked.
                unsafe { free::<T>(node, len) };
                Some((other, false))
            }
        }
    }
}

/// Returns the slots or words of a node.
///
/// # Safety
/// The node was created with `len` elements of type `T`, and is not freed during `'a`.
#[inline]
pub(super) unsafe fn contents<'a, T>(node: *mut Node, len: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(node.cast(), len) }
}

/// Frees a node; returns its size in bytes.
///
/// # Safety
/// The node was created with `len` elements of type `T`, and no thread uses it any more.
pub(super) unsafe fn free<T: 'static>(node: *mut Node, len: usize) -> usize {
    // SAFETY: `make` got the pointer from a slice of this type and length, and the caller gives it
    // up.
    drop(unsafe { Padded::from_raw(NonNull::new_unchecked(node.cast::<T>()), len) });
    bytes_of::<T>(len)
}
