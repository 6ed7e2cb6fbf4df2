//! Walks over all pages of an index. The invariants and letters are those of `index.rs`.

use spanlock_sync::atomic::{Exclusive, Ordering};
use spanlock_sync::{epoch, injected_bug};

use crate::object::index::node::{BITS, Body, Mapping, Node};
use crate::object::index::{Index, Root};

impl Index {
    /// Calls `each` for every mapped page, in file order. No other thread has the index.
    pub(crate) fn for_each_mut(&mut self, each: &mut dyn FnMut(u32, Mapping)) {
        let root = Root(self.root.value()).node();
        // SAFETY: F-X4: the root is null or linked.
        if let Some(root) = unsafe { root.as_mut() } {
            walk_mut(root, 0, each);
        }
    }

    /// Calls `each` for every mapped page, in file order, with the mapping and the log page of its
    /// group. The caller need not hold any page. While `each` runs, no node is freed, so it should
    /// not take long.
    ///
    /// While other threads change the index, the result is only a hint. It includes every page that
    /// was mapped before the call and is not removed meanwhile, but the mapping may be outdated.
    /// The log page may be a later one than the mapping's.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(u32, Mapping, u32)) {
        let is_pinned = !injected_bug!(
            "index-walk-not-pinned",
            "a walk over the index does not pin its thread",
            killed_by = "file-core-index/hole-check"
        );
        let _pinned = is_pinned.then(|| self.epochs.pin());
        let root = self.root();
        if !root.0.is_null() {
            // SAFETY: F-X1: pinned until the end of the function.
            walk(unsafe { &*root.node() }, 0, each);
        }
    }
}

/// Calls `each` for every page that is mapped below `node`. The caller is pinned.
fn walk(node: &Node, base: u32, each: &mut dyn FnMut(u32, Mapping, u32)) {
    match &node.body {
        Body::Leaf(values) => {
            for (i, value) in values.iter().enumerate() {
                // Acquire [O←N]: the log page, or a later one.
                // equivalent(Relaxed): as N.
                if let Some(mapping) = Mapping::from_word(value.word.load(Ordering::Acquire)) {
                    // Relaxed: O.
                    let log_page = value.log_page.load(Ordering::Relaxed);
                    // 0 if the page is being removed.
                    if log_page != 0 {
                        each(base + i as u32, mapping, log_page);
                    }
                }
            }
        }
        Body::Inner(inner) => {
            for (i, child) in inner.0.iter().enumerate() {
                // Acquire [B←A]: the child's content.
                let child = child.load(Ordering::Acquire);
                if !child.is_null() {
                    let base = base + ((i as u32) << (node.level * BITS));
                    // SAFETY: F-X1: the caller is pinned.
                    walk(unsafe { &*child }, base, each);
                }
            }
        }
    }
}

/// Calls `each` for every page that is mapped below `node`, which is linked.
fn walk_mut(node: &mut Node, base: u32, each: &mut dyn FnMut(u32, Mapping)) {
    match &mut node.body {
        Body::Leaf(values) => {
            for (i, value) in (0..).zip(values) {
                if let Some(mapping) = Mapping::from_word(value.word.value()) {
                    each(base + i, mapping);
                }
            }
        }
        Body::Inner(inner) => {
            for (i, child) in (0..).zip(&mut inner.0) {
                // SAFETY: F-X4: the child is null or linked. It has only one parent, and the caller
                // has the only reference to that.
                if let Some(child) = unsafe { child.value().as_mut() } {
                    walk_mut(child, base + (i << (node.level * BITS)), each);
                }
            }
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        free(Root(self.root.value()).node());
    }
}

/// Frees `node` and its descendants. Called only by `Drop`, once for each node.
fn free(node: *mut Node) {
    if node.is_null() {
        return;
    }
    // SAFETY: the node came from `Box::into_raw`. The tree is being dropped, so no other reference
    // to the node exists. It is linked, so no removal frees it, and it has only one parent.
    let mut node = unsafe { Box::from_raw(node) };
    if let Body::Inner(inner) = &mut node.body {
        for child in &mut inner.0 {
            free(child.value());
        }
    }
    epoch::free(node);
}
