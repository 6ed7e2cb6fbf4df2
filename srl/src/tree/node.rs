//! Nodes: slices of slots or of words behind thin pointers.
//!
//! A slot points to the first slot of an inner node or to the first word of a leaf. Which it is, and of how many, its level says: so a
//! node is nothing but its slots or words.

use alloc::alloc::{Layout, handle_alloc_error};
use alloc::boxed::Box;

use spanlock_sync::atomic::{AtomicPtr, Ordering::*, Zeroed, free_slice, zeroed_slice};

/// The first slot or word of a node.
#[derive(Debug)]
pub(super) enum Node {}

/// A place for a pointer to a node; null at first.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Slot(AtomicPtr<Node>);

// SAFETY: a `Slot` is an `AtomicPtr` (repr(transparent)): zero bytes are the null pointer, and it has no destructor.
unsafe impl Zeroed for Slot {
    fn zeroed() -> Self {
        Slot(AtomicPtr::new(core::ptr::null_mut()))
    }
}

impl Slot {
    /// The node, or null.
    #[inline]
    pub(super) fn load(&self) -> *mut Node {
        // Acquire [O→N]: the node's slots or words are seen as they were made.
        self.0.load(Acquire)
    }

    /// Links a node into an empty slot.
    ///
    /// # Errors
    /// The node that is there already.
    fn link(&self, node: *mut Node) -> Result<(), *mut Node> {
        let null = core::ptr::null_mut();
        // Release [N→O]: publishes the node. Acquire on failure [O→N]: the node of another.
        let linked = self.0.compare_exchange(null, node, Release, Acquire);
        linked.map(drop)
    }

    /// Empties the slot. Only who shrinks does, alone: others change empty slots only.
    pub(super) fn unlink(&self) {
        // Relaxed: what was done under holds in the node is seen by whoever finds it gone, because he looks at the gate after that: it is closed, and then
        // the entries' mutex orders, or has been opened since (L, M).
        self.0.store(core::ptr::null_mut(), Relaxed);
    }

    /// Makes a node of `len` slots or words for the slot; or finds the one that another thread has made meanwhile. Says whether it made it.
    pub(super) fn make<T: Zeroed + 'static>(&self, len: usize) -> (*mut Node, bool) {
        let node = Box::into_raw(allocate::<T>(len)).cast();
        match self.link(node) {
            Ok(()) => (node, true),
            Err(other) => {
                // SAFETY: made above with that length, and never linked.
                unsafe { free::<T>(node, len) };
                (other, false)
            }
        }
    }
}

/// `len` slots or words, all zero. Aborts as `Box` does if there is no memory.
fn allocate<T: Zeroed>(len: usize) -> Box<[T]> {
    zeroed_slice(len).unwrap_or_else(|| match Layout::array::<T>(len) {
        Ok(layout) => handle_alloc_error(layout),
        Err(error) => unreachable!("a node of {len}: {error}"),
    })
}

/// The slots or words of a node.
///
/// # Safety
/// The node was made of `len` of these, and is not freed during `'a`.
#[inline]
pub(super) unsafe fn contents<'a, T>(node: *mut Node, len: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(node.cast(), len) }
}

/// Frees a node: how many bytes.
///
/// # Safety
/// The node was made of `len` of these, and nobody uses it any more.
pub(super) unsafe fn free<T: 'static>(node: *mut Node, len: usize) -> usize {
    let contents = core::ptr::slice_from_raw_parts_mut(node.cast::<T>(), len);
    // SAFETY: `make` took the box apart, and the caller gives it up.
    let contents = unsafe { Box::from_raw(contents) };
    let bytes = size_of_val(&*contents);
    free_slice(contents);
    bytes
}
