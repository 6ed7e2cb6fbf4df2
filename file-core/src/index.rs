//! The index of a file: maps each file page to the data page that holds it.
//!
//! # The problem
//! NOVA finds data pages through a radix tree in memory, rebuilt from the log. Under a range lock,
//! writers of disjoint ranges change one file's index at the same time, so the index must be
//! lock-free.
//!
//! # Properties
//! - A radix tree of 64-way nodes. It grows at the root, only as high as the largest page needs; a
//!   file of up to 256 KiB has one node.
//! - Lookups take no lock and write nothing. Inserts never block. Nodes are allocated on first use
//!   and freed with the tree.
//! - A value is a word, the data page and the checksum of its content, and the log page that has
//!   the group. The log counts by it what is needed of each of its pages.
//!
//! ```text
//!   root ──► Inner (level 1) ──► Leaf: 64 × │ checksum │ page │ log page │
//!                 │                              63..32   31..0
//!                 └────────────► Leaf
//! ```
//!
//! # Invariants
//! - **X1** A node that is reachable from the root stays reachable and allocated until the tree is
//!   dropped through `&mut`. (The old root becomes child 0 of the new one.)
//! - **X2** A node's `level` and kind never change. A child's level is one less than its parent's.
//! - **X3** A value is written only by a thread that holds its file page exclusively, or by
//!   recovery. But a cleaning of the log may change a value's log page at any time.
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries |
//! |---|---|---|---|
//! | A | CAS in [`Index::publish_root`], [`Inner::child_or_insert`], Release | B | a new node |
//! | B | loads of root and children, and the CAS's failure, Acquire | A | |
//!
//! | C | [`Index::replace`]: store of the word, Release | D | the log page, which is stored before |
//! | D | [`Index::for_each`]: load of the word, Acquire | C | |
//! | L | [`Index::relocate`]: CAS of the log page, Release | M | the new log page's state |
//! | M | [`Index::replace`]: swap of the log page, Acquire | L | |
//!
//! X3 orders every other access to a value. A reader holds the range lock shared, so the last
//! writer's store happens-before its load. A cleaning looks only at pages whose groups are all in
//! settled log pages (letters F and G of `log_page.rs`), so their writers' stores happen-before its
//! loads. It may also see what later writers store. C and D let it recognize that: it never takes a
//! later writer's page for an earlier one's.
//!
//! # Not guaranteed
//! The value of a page is meaningless to a thread that does not hold that page, except as a hint.

use core::ptr;

use spanlock_sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

const BITS: u32 = 6;
const FANOUT: usize = 1 << BITS;

/// The location of a file page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The data page; never 0.
    pub(crate) page: u32,
    /// The CRC32C of its content; 0 in volumes without data checksums.
    pub(crate) checksum: u32,
}

impl Mapping {
    fn to_word(self) -> u64 {
        self.page as u64 | (self.checksum as u64) << 32
    }

    fn from_word(word: u64) -> Option<Mapping> {
        let page = word as u32;
        (page != 0).then_some(Mapping {
            page,
            checksum: (word >> 32) as u32,
        })
    }
}

/// What the index says of a file page.
struct Value {
    /// The mapping; 0 for a hole.
    word: AtomicU64,
    /// The log page that has the mapping's group; 0 for a hole.
    log_page: AtomicU32,
}

impl Value {
    fn hole() -> Self {
        Value {
            word: AtomicU64::new(0),
            log_page: AtomicU32::new(0),
        }
    }
}

enum Body {
    Leaf([Value; FANOUT]),
    Inner(Inner),
}

struct Inner([AtomicPtr<Node>; FANOUT]);

struct Node {
    /// The height of the node; 0 for leaves.
    level: u32,
    body: Body,
}

impl Node {
    fn new(level: u32) -> Box<Node> {
        let body = if level == 0 {
            Body::Leaf(core::array::from_fn(|_| Value::hole()))
        } else {
            Body::Inner(Inner(core::array::from_fn(|_| {
                AtomicPtr::new(ptr::null_mut())
            })))
        };
        Box::new(Node { level, body })
    }

    /// Returns the slot of `page` in this node.
    #[inline]
    fn slot(&self, page: u32) -> usize {
        (page >> (self.level * BITS)) as usize % FANOUT
    }

    /// Returns whether this node, as the root, covers `page`.
    #[inline]
    fn covers(&self, page: u32) -> bool {
        level_for(page) <= self.level
    }
}

/// Returns the level that a root needs to cover `page`.
#[inline]
fn level_for(page: u32) -> u32 {
    (32 - (page | 1).leading_zeros()).div_ceil(BITS) - 1
}

impl Inner {
    /// Returns the child at `slot`, creating it if there is none.
    fn child_or_insert(&self, slot: usize, level: u32) -> *mut Node {
        // Acquire [B←A]: the child's content.
        let child = self.0[slot].load(Ordering::Acquire);
        if !child.is_null() {
            return child;
        }
        let new = Box::into_raw(Node::new(level));
        // Release [A→B]: publishes the empty node. Acquire [B←A] on failure: the winner's node.
        match self.0[slot].compare_exchange(
            ptr::null_mut(),
            new,
            Ordering::Release,
            Ordering::Acquire,
        ) {
            Ok(_) => new,
            Err(winner) => {
                // SAFETY: `new` came from `Box::into_raw` and was not published, so this thread
                // owns it.
                drop(unsafe { Box::from_raw(new) });
                winner
            }
        }
    }
}

/// The index of one file.
pub(crate) struct Index {
    root: AtomicPtr<Node>,
}

impl Index {
    pub(crate) fn new() -> Self {
        Index {
            root: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the value of file page `page`, or `None` if there is no node for it.
    #[inline]
    fn value(&self, page: u32) -> Option<&Value> {
        // Acquire [B←A]: the root's content.
        let root = self.root.load(Ordering::Acquire);
        if root.is_null() {
            return None;
        }
        // SAFETY: X1.
        let mut node = unsafe { &*root };
        if !node.covers(page) {
            return None;
        }
        loop {
            match &node.body {
                Body::Leaf(values) => return Some(&values[node.slot(page)]),
                Body::Inner(inner) => {
                    // Acquire [B←A]: the child's content.
                    let child = inner.0[node.slot(page)].load(Ordering::Acquire);
                    if child.is_null() {
                        return None;
                    }
                    // SAFETY: X1.
                    node = unsafe { &*child };
                }
            }
        }
    }

    /// Returns the location of file page `page`, or `None` for a hole.
    #[inline]
    pub(crate) fn get(&self, page: u32) -> Option<Mapping> {
        // Relaxed: X3, the range lock orders this after the last store.
        Mapping::from_word(self.value(page)?.word.load(Ordering::Relaxed))
    }

    /// Maps `page` of the file by a group in `log_page`, and returns its previous mapping and that
    /// mapping's log page. The caller holds the page exclusively (X3).
    #[inline]
    pub(crate) fn replace(
        &self,
        page: u32,
        mapping: Mapping,
        log_page: u32,
    ) -> Option<(Mapping, u32)> {
        debug_assert!(mapping.page != 0 && log_page != 0);
        let mut node = self.root_covering(page);
        loop {
            match &node.body {
                Body::Leaf(values) => {
                    let value = &values[node.slot(page)];
                    // Acquire [M←L]: the state of the page that a cleaning has stored here.
                    let old_log_page = value.log_page.swap(log_page, Ordering::Acquire);
                    // Relaxed: X3, only this thread stores the word meanwhile.
                    let old = value.word.load(Ordering::Relaxed);
                    // Release [C→D]: the log page.
                    value.word.store(mapping.to_word(), Ordering::Release);
                    return Mapping::from_word(old).map(|old| (old, old_log_page));
                }
                Body::Inner(inner) => {
                    let child = inner.child_or_insert(node.slot(page), node.level - 1);
                    // SAFETY: X1.
                    node = unsafe { &*child };
                }
            }
        }
    }

    /// Unmaps the pages from `first` to before `end`. Calls `each` with every page that was mapped,
    /// its mapping, and that mapping's log page. The caller holds the pages exclusively (X3).
    pub(crate) fn remove(&self, first: u64, end: u64, each: &mut dyn FnMut(u32, Mapping, u32)) {
        // Acquire [B←A]: the root's content.
        let root = self.root.load(Ordering::Acquire);
        if !root.is_null() && first < end {
            // SAFETY: X1.
            unmap(unsafe { &*root }, 0, (first, end), each);
        }
    }

    /// Says that the group of `page`'s mapping is now in `new`, if it is in one of the log pages
    /// `old`. Returns that page.
    pub(crate) fn relocate(&self, page: u32, old: impl Fn(u32) -> bool, new: u32) -> Option<u32> {
        let log_page = &self.value(page)?.log_page;
        // Relaxed: the exchange checks it.
        let from = log_page.load(Ordering::Relaxed);
        if !old(from) {
            return None;
        }
        // Release [L→M]: the state of `new`. Relaxed on failure: a writer has replaced the mapping.
        log_page
            .compare_exchange(from, new, Ordering::Release, Ordering::Relaxed)
            .ok()
    }

    /// Returns a root that covers `page`, growing the tree if needed.
    fn root_covering(&self, page: u32) -> &Node {
        // Acquire [B←A]: the root's content.
        let mut root = self.root.load(Ordering::Acquire);
        loop {
            let new = if root.is_null() {
                Node::new(level_for(page))
            } else {
                // SAFETY: X1.
                let node = unsafe { &*root };
                if node.covers(page) {
                    return node;
                }
                let parent = Node::new(node.level + 1);
                if let Body::Inner(inner) = &parent.body {
                    // Relaxed: not published yet; A publishes it.
                    inner.0[0].store(root, Ordering::Relaxed);
                }
                parent
            };
            root = self.publish_root(root, new);
        }
    }

    /// Makes `new` the root if the root is still `old`. Returns the current root.
    fn publish_root(&self, old: *mut Node, new: Box<Node>) -> *mut Node {
        let new = Box::into_raw(new);
        // Release [A→B]: publishes the new root with its child. Acquire [B←A] on failure: the
        // winner's root.
        match self
            .root
            .compare_exchange(old, new, Ordering::Release, Ordering::Acquire)
        {
            Ok(_) => new,
            Err(winner) => {
                // SAFETY: `new` came from `Box::into_raw` and was not published, so this thread
                // owns it. Dropping a node does not drop its children.
                drop(unsafe { Box::from_raw(new) });
                winner
            }
        }
    }

    /// Calls `each` for every mapped page, in file order, with the mapping and the log page of its
    /// group.
    ///
    /// While other threads change the index, the result is only a hint. It includes every page that
    /// was mapped before the call, but the mapping may be outdated. The log page may be a later one
    /// than the mapping's, but not an earlier one.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(u32, Mapping, u32)) {
        // Acquire [B←A]: the root's content.
        let root = self.root.load(Ordering::Acquire);
        if !root.is_null() {
            // SAFETY: X1.
            walk(unsafe { &*root }, 0, each);
        }
    }
}

fn walk(node: &Node, base: u32, each: &mut dyn FnMut(u32, Mapping, u32)) {
    match &node.body {
        Body::Leaf(values) => {
            for (i, value) in values.iter().enumerate() {
                // Acquire [D←C]: the log page.
                if let Some(mapping) = Mapping::from_word(value.word.load(Ordering::Acquire)) {
                    // Relaxed: read after the word.
                    let log_page = value.log_page.load(Ordering::Relaxed);
                    each(base + i as u32, mapping, log_page);
                }
            }
        }
        Body::Inner(inner) => {
            for (i, child) in inner.0.iter().enumerate() {
                // Acquire [B←A]: the child's content.
                let child = child.load(Ordering::Acquire);
                if !child.is_null() {
                    let base = base + ((i as u32) << (node.level * BITS));
                    // SAFETY: X1.
                    walk(unsafe { &*child }, base, each);
                }
            }
        }
    }
}

/// Unmaps the pages from `first` to before `end` that `node` covers, which begins at page `base`.
fn unmap(
    node: &Node,
    base: u64,
    (first, end): (u64, u64),
    each: &mut dyn FnMut(u32, Mapping, u32),
) {
    let span = 1_u64 << (node.level * BITS);
    let from = (first.saturating_sub(base) / span).min(FANOUT as u64) as usize;
    let to = (end.saturating_sub(base).div_ceil(span)).min(FANOUT as u64) as usize;
    for slot in from..to {
        let base = base + slot as u64 * span;
        match &node.body {
            Body::Leaf(values) => {
                let value = &values[slot];
                // Relaxed: X3, only this thread stores the word meanwhile.
                let word = value.word.load(Ordering::Relaxed);
                if let Some(mapping) = Mapping::from_word(word) {
                    // Acquire [M←L]: the state of the page that a cleaning has stored here.
                    let log_page = value.log_page.swap(0, Ordering::Acquire);
                    // Release [C→D]: the log page.
                    value.word.store(0, Ordering::Release);
                    each(base as u32, mapping, log_page);
                }
            }
            Body::Inner(inner) => {
                // Acquire [B←A]: the child's content.
                let child = inner.0[slot].load(Ordering::Acquire);
                if !child.is_null() {
                    // SAFETY: X1.
                    unmap(unsafe { &*child }, base, (first, end), each);
                }
            }
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // Relaxed: `&mut self` comes after every other use.
        free(self.root.load(Ordering::Relaxed));
    }
}

/// Frees `node` and its descendants. Called only by `Drop`, once for each node.
fn free(node: *mut Node) {
    if node.is_null() {
        return;
    }
    // SAFETY: the node came from `Box::into_raw`. The tree is being dropped, so no other reference
    // to the node exists, and it has only one parent.
    let node = unsafe { Box::from_raw(node) };
    if let Body::Inner(inner) = &node.body {
        for child in &inner.0 {
            // Relaxed: as in `drop`.
            free(child.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(page: u32) -> Mapping {
        Mapping {
            page,
            checksum: !page,
        }
    }

    #[test]
    fn the_root_level_follows_from_the_largest_page() {
        for (page, level) in [
            (0, 0),
            (63, 0),
            (64, 1),
            (4095, 1),
            (4096, 2),
            (1 << 30, 5),
            (u32::MAX, 5),
        ] {
            assert_eq!(level_for(page), level, "{page}");
        }
    }

    #[test]
    fn mappings_are_found_and_replaced() {
        let index = Index::new();
        assert_eq!(index.get(0), None);
        let pages = [5, 0, 63, 64, 4095, 4096, 70_000, u32::MAX, 1 << 24];
        for (i, &page) in pages.iter().enumerate() {
            assert_eq!(index.replace(page, at(i as u32 + 1), 7), None);
            for (j, &other) in pages.iter().enumerate() {
                let wanted = (j <= i).then(|| at(j as u32 + 1));
                assert_eq!(index.get(other), wanted, "{other} after {page}");
            }
        }
        assert_eq!(index.replace(64, at(99), 8), Some((at(4), 7)));
        assert_eq!(index.relocate(64, |page| page == 7, 9), None);
        assert_eq!(index.relocate(63, |page| page == 7, 9), Some(7));
        assert_eq!(index.replace(63, at(3), 8), Some((at(3), 9)));
        let mut sorted = pages;
        sorted.sort_unstable();
        let mut walked = Vec::new();
        index.for_each(&mut |page, _, _| walked.push(page));
        assert_eq!(walked, sorted);
    }

    #[test]
    fn a_range_is_removed_and_nothing_else() {
        let pages = [0, 5, 63, 64, 4095, 4096, 70_000, 1 << 24, u32::MAX];
        let bounds = [0, 1, 5, 6, 64, 65, 4096, 70_000, 70_001, 1 << 24, 1 << 32];
        for &first in &bounds {
            for &end in &bounds {
                let index = Index::new();
                for &page in &pages {
                    index.replace(page, at(page | 1), 7);
                }
                let mut removed = Vec::new();
                index.remove(first, end, &mut |page, mapping, log_page| {
                    assert_eq!((mapping, log_page), (at(page | 1), 7));
                    removed.push(page);
                });
                let is_inside = |page: &u32| (first..end).contains(&u64::from(*page));
                let inside: Vec<u32> = pages.into_iter().filter(is_inside).collect();
                assert_eq!(removed, inside, "{first}..{end}");
                for page in &pages {
                    assert_eq!(index.get(*page).is_none(), is_inside(page));
                }
            }
        }
    }

    #[test]
    fn several_threads_grow_one_tree() {
        let index = Index::new();
        std::thread::scope(|scope| {
            for t in 0..4_u32 {
                let index = &index;
                scope.spawn(move || {
                    for i in 0..2000_u32 {
                        let page = (i * 4 + t).wrapping_mul(2_654_435_761) >> (i % 27);
                        // Pages of different threads could coincide, so each thread gets its own
                        // residue.
                        let page = (page & !3) | t;
                        index.replace(page, at(page | 1), 1);
                        assert_eq!(index.get(page), Some(at(page | 1)));
                    }
                });
            }
        });
    }
}
