//! Removing pages from an index, and the nodes that this empties. The invariants are those of
//! `index.rs`.

use core::ops::Range;
use core::ptr;

use spanlock_sync::atomic::{AtomicPtr, Ordering};
use spanlock_sync::epoch::Collector;
use spanlock_sync::injected_bug;

use crate::object::index::node::{BITS, Body, FANOUT, Mapping, Node};

/// A removal of file pages, by a thread that holds them exclusively.
pub(super) struct Removal<'a> {
    pub(super) epochs: &'a Collector,
    pub(super) first: u64,
    pub(super) end: u64,
    /// Whether a node was unlinked.
    pub(super) unlinked: bool,
    pub(super) each: &'a mut dyn FnMut(u32, Mapping, u32),
}

impl Removal<'_> {
    /// Removes the pages from a node whose span begins at `base` and has at least one of them.
    pub(super) fn clear(&mut self, node: &Node, base: u64) {
        let width = 1 << (node.level * BITS);
        let from = self.first.saturating_sub(base) / width;
        let to = (self.end - base).div_ceil(width).min(FANOUT as u64);
        for slot in from..to {
            let at = base + slot * width;
            match &node.body {
                Body::Leaf(values) => {
                    if let Some((mapping, log_page)) = values[slot as usize].take() {
                        (self.each)(at as u32, mapping, log_page);
                    }
                }
                Body::Inner(inner) => self.clear_child(&inner.0[slot as usize], at..at + width),
            }
        }
    }

    /// Removes the pages from the child in `slot`. Removes the child, too, if they include all of
    /// its span.
    fn clear_child(&mut self, slot: &AtomicPtr<Node>, span: Range<u64>) {
        // Acquire [B←A]: the child's content.
        let child = slot.load(Ordering::Acquire);
        if child.is_null() {
            return;
        }
        // SAFETY: F-X1: the caller of `Index::remove` holds some of the span.
        self.clear(unsafe { &*child }, span.start);
        if span.start < self.first || span.end > self.end {
            return;
        }
        let frees_early = injected_bug!(
            "index-node-freed-linked",
            "a removal defers the free of a node before it has unlinked the node",
            killed_by = "file-core-index/hole-check"
        );
        if frees_early {
            // SAFETY: none, because F-X4 does not hold yet. Only a checker runs this: it keeps the
            // memory, and reports its use.
            unsafe { self.epochs.pin().defer_free(child) };
        }
        // Relaxed: see "Orderings" in `index.rs`.
        slot.store(ptr::null_mut(), Ordering::Relaxed);
        self.unlinked = true;
        if frees_early {
            return;
        }
        // Each node has a pin of its own. So in a large removal, epochs advance and nodes are freed
        // meanwhile, a few at a time.
        let guard = self.epochs.pin();
        // SAFETY: the node came from `Box::into_raw`. F-X4: it is unlinked, so a thread that is
        // pinned later cannot find it, and no other thread holds a page of its span. This thread,
        // which has just unlinked it, is the only one to free it.
        unsafe { guard.defer_free(child) };
    }
}
