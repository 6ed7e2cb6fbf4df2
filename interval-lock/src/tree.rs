//! An interval tree: a B-tree of spans, ordered by their starts. For each subtree, it stores the
//! span that covers the subtree.
//!
//! # Why a B-tree
//! A balanced tree can find all spans that overlap a given one if it orders spans by their starts
//! and knows the furthest end in each subtree. With thousands of spans, a descent of a binary tree
//! takes a dozen dependent loads, and as many branches that the processor cannot predict. A descent
//! of this B-tree visits four nodes and scans each sequentially.
//!
//! All spans are in the leaves. Every entry has a start, an end and a reference. The entry of a
//! leaf refers to a slot, the entry of an inner node to a child.
//!
//! ```text
//!                           ┌──────────────┬──────────────┐
//!                 inner     │ 0..40 ↦ B    │ 40..90 ↦ C   │
//!                           └──────┬───────┴──────┬───────┘
//!             ┌───────────┬────────┴─┐          ┌─┴─────────┬───────────┐
//!     leaf B  │ 0..10 ↦ 3 │ 5..40 ↦ 1│  leaf C  │ 40..50 ↦ 0│ 60..90 ↦ 2│
//!             └───────────┴──────────┘          └───────────┴───────────┘
//! ```
//!
//! Each span has a *slot* in a vector. The number of the slot is the *index* of the span. Spans
//! move between leaves, but keep their slots. A slot stores its leaf, and each node stores its
//! parent, so removing a span needs no search. A search keeps no stack, so the caller may change
//! values between two steps of a search. Nodes are in a vector too. So the tree needs no unsafe
//! code, and does not allocate once the vectors have reached their largest size.
//!
//! # Invariants
//! - **IL-T1** Spans are ordered by their starts. Of two spans with the same start, the one that
//!   was inserted later comes later.
//! - **IL-T2** All leaves have the same depth. Every node but the root has at least [`FEWEST`]
//!   entries, and an inner root at least two. So a tree of *n* spans has at most 1 + log₇ *n*
//!   levels and 1 + *n* / 6 nodes.
//! - **IL-T3** The end of an inner entry is the furthest end of all spans below it. The start of an
//!   inner entry is at or before the starts of those spans, and at or after the starts of all spans
//!   that come before them in the order.
//! - **IL-T4** Links are mutual: a slot stores the leaf that refers to it, and a node stores the
//!   parent that refers to it. The root's parent has no meaning.
//! - **IL-T5** Every slot is either in the tree or in the list of free slots. Every node is either
//!   in the tree or in the list of free nodes.
//! - **IL-T6** The tree has *room* for a number of spans: capacity for that many slots, and for all
//!   the nodes that these can need (IL-T2). So while there is room, an insertion allocates nothing.
//!
//! # Cost
//! An insertion takes one descent, O(log *n*). The same descent can show that no span overlaps the
//! new one. A removal needs no descent. Both update ancestors only as far up as entries change.
//! Finding all *k* overlaps of a span takes O(log *n* + *k*) steps if they are neighbours in the
//! order, which is the case if the stored spans are disjoint. In the worst case, each overlap takes
//! O(log *n*).

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::ops::Range;

use spanlock_range_lock::Span;
use spanlock_sync::injected_bug;

use node::{CAPACITY, Entry, NIL, Node, hull};

pub use node::Index;

mod node;

/// The least number of entries in a node that is not the root.
///
/// It is less than half of the capacity, so that a removal right after a split does not merge the
/// two nodes again.
const FEWEST: usize = 7;

/// A set of spans, each with a value of type `T`.
pub struct Tree<T> {
    /// Empty until there is room for a span, so a lock that was never used owns no memory.
    nodes: Vec<Node>,
    slots: Vec<Slot<T>>,
    root: Index,
    /// The first free node. Each free node names the next one as its parent.
    free_node: Index,
    /// The first free slot. Each free slot names the next one as its leaf.
    free_slot: Index,
    len: u32,
    /// See IL-T6.
    room: u32,
}

/// The part of a span's data that stays where it is when the span moves to another leaf.
struct Slot<T> {
    value: T,
    leaf: Index,
}

/// The place in a leaf where a new span belongs.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    leaf: Index,
    at: u8,
    /// If true, no span overlaps the new one. If false, there may or may not be an overlap.
    pub(crate) free: bool,
}

// Public for `spanlock-record-lock` only, which needs neither.
#[allow(clippy::len_without_is_empty, clippy::new_without_default)]
impl<T: Default> Tree<T> {
    /// Creates a tree without spans, which has allocated nothing.
    pub const fn new() -> Self {
        Tree {
            nodes: Vec::new(),
            slots: Vec::new(),
            root: 0,
            free_node: NIL,
            free_slot: NIL,
            len: 0,
            room: 0,
        }
    }

    /// Makes room for `spans` spans in all (IL-T6).
    ///
    /// # Errors
    /// If there is no memory, or `spans` is 2³² or more. The tree has not changed.
    pub fn try_reserve(&mut self, spans: usize) -> Result<(), TryReserveError> {
        if spans <= self.room() {
            return Ok(());
        }
        // An index has 32 bits. More spans than that exceed the capacity of any vector, too.
        let room = u32::try_from(spans);
        let most = room.map_or(usize::MAX, |_| 1 + spans / (FEWEST - 1));
        (self.nodes).try_reserve_exact(most.saturating_sub(self.nodes.len()))?;
        (self.slots).try_reserve_exact(spans.saturating_sub(self.slots.len()))?;
        self.room = room.unwrap_or(self.room);
        if self.nodes.is_empty() {
            self.root = self.allocate_node(0);
        }
        Ok(())
    }

    /// Returns the number of spans for which there is room (IL-T6).
    #[inline]
    pub fn room(&self) -> usize {
        self.room as usize
    }

    /// Returns the number of spans.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the size of the vectors in bytes, including unused capacity.
    pub(crate) fn memory_usage(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.slots.capacity() * size_of::<Slot<T>>()
    }

    /// Returns the span at `index`, which must be in the tree.
    pub(crate) fn span(&self, index: Index) -> Span {
        let (leaf, at) = self.place(index);
        self.node(leaf).entries()[at].span
    }

    /// Returns the value of the span at `index`, which must be in the tree.
    #[inline]
    pub fn value(&self, index: Index) -> &T {
        &self.slots[index as usize].value
    }

    /// Returns the value mutably; see [`value`](Self::value).
    #[inline]
    pub fn value_mut(&mut self, index: Index) -> &mut T {
        &mut self.slots[index as usize].value
    }

    /// Returns the index of the first span that overlaps `span`.
    pub fn first_overlap(&self, span: Span) -> Option<Index> {
        if self.len == 0 {
            return None;
        }
        self.overlap_from(self.root, 0, span)
    }

    /// Returns the index of the first span after the one at `index` that overlaps `span`.
    pub fn next_overlap(&self, index: Index, span: Span) -> Option<Index> {
        let (leaf, at) = self.place(index);
        self.overlap_from(leaf, at + 1, span)
    }

    /// Returns the index of the first overlap, starting from the entry `at` of `node`.
    fn overlap_from(&self, mut node: Index, mut at: usize, span: Span) -> Option<Index> {
        loop {
            let entries = self.node(node).entries();
            let late = |entry: &Entry| entry.span.end() > span.start();
            if let Some(entry) = entries[at..].iter().find(|&entry| late(entry)) {
                // This is the first entry that ends late enough. If it starts too late, so do all
                // later entries.
                if !entry.span.overlaps(span) && !ignores_ends() {
                    return None;
                }
                if self.node(node).is_leaf() {
                    return Some(entry.to);
                }
                // Some span below this entry ends late enough (IL-T3).
                (node, at) = (entry.to, 0);
            } else if node == self.root {
                return None;
            } else {
                let parent = self.node(node).parent;
                (node, at) = (parent, self.node(parent).position(node) + 1);
            }
        }
    }

    /// Returns the place where `span` belongs.
    pub fn gap(&self, span: Span) -> Gap {
        let mut gap = Gap {
            leaf: self.root,
            at: 0,
            free: true,
        };
        if self.len == 0 {
            return gap;
        }
        loop {
            let node = self.node(gap.leaf);
            let (before, furthest) = node.before(span.start());
            let later = node.entries().get(before);
            gap.free &= furthest <= span.start();
            gap.free &= later.is_none_or(|it| it.span.start() >= span.end() && !ignores_ends());
            // A span that starts before all entries belongs below the first one.
            let last = node.entries()[before.saturating_sub(1)];
            if node.is_leaf() {
                gap.free &= !last.span.overlaps(span);
                gap.at = before as u8;
                return gap;
            }
            gap.leaf = last.to;
        }
    }

    /// Inserts a span at `gap`; returns its index. There must be [`room`](Self::room), and the
    /// tree must not have changed since [`gap`](Self::gap) returned.
    ///
    /// The value of the span is unspecified until the caller sets it. This function does not take
    /// the value as an argument. The value would be stored in small pieces and loaded in large
    /// ones, and the processor would stall for longer than the whole insertion takes.
    pub fn insert(&mut self, gap: Gap, span: Span) -> Index {
        let index = self.allocate();
        self.attach(gap, Entry { span, to: index });
        index
    }

    /// Inserts a span into an empty tree; see [`insert`](Self::insert).
    ///
    /// Most locks have at most one hold at a time. This fast path spares them the search.
    #[inline]
    pub(crate) fn insert_first(&mut self, span: Span) -> Index {
        debug_assert_eq!(self.len, 0);
        let index = self.allocate();
        self.len = 1;
        self.slots[index as usize].leaf = self.root;
        self.node_mut(self.root)
            .put_first(Entry { span, to: index });
        index
    }

    /// Removes the span at `index`, which must be in the tree.
    #[inline]
    pub fn remove(&mut self, index: Index) {
        if self.len == 1 {
            self.len = 0;
            self.node_mut(self.root).clear();
        } else {
            self.detach(index);
        }
        self.slots[index as usize].leaf = self.free_slot;
        self.free_slot = index;
    }

    /// Changes the bounds of the span at `index`.
    pub fn resize(&mut self, index: Index, span: Span) {
        let (leaf, at) = self.place(index);
        let entry = &mut self.node_mut(leaf).entries_mut()[at];
        let old = entry.span;
        if old.start() == span.start() {
            entry.span = span;
            self.widen(leaf, span);
            self.narrow(leaf, old.end());
        } else {
            self.detach(index);
            self.attach(self.gap(span), Entry { span, to: index });
        }
    }

    fn attach(&mut self, gap: Gap, entry: Entry) {
        let (mut leaf, mut at) = (gap.leaf, usize::from(gap.at));
        if self.node(leaf).is_full() {
            (leaf, at) = self.split(leaf, at);
        }
        self.node_mut(leaf).insert(at, entry);
        self.slots[entry.to as usize].leaf = leaf;
        self.len += 1;
        self.widen(leaf, entry.span);
    }

    #[inline(never)]
    fn detach(&mut self, index: Index) {
        let (leaf, at) = self.place(index);
        let gone = self.node_mut(leaf).remove(at);
        self.len -= 1;
        self.narrow(leaf, gone.span.end());
    }

    /// Returns the leaf of the span at `index`, and the place of its entry there.
    #[inline]
    fn place(&self, index: Index) -> (Index, usize) {
        let leaf = self.slots[index as usize].leaf;
        (leaf, self.node(leaf).position(index))
    }

    #[inline]
    fn node(&self, node: Index) -> &Node {
        &self.nodes[node as usize]
    }

    #[inline]
    fn node_mut(&mut self, node: Index) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    /// Restores IL-T3 above `node` after `span` was added to it.
    fn widen(&mut self, mut node: Index, span: Span) {
        while node != self.root {
            let parent = self.node(node).parent;
            let at = self.node(parent).position(node);
            let entry = &mut self.node_mut(parent).entries_mut()[at];
            if entry.span.contains(span) {
                return;
            }
            entry.span = hull(entry.span, span);
            node = parent;
        }
    }

    /// Restores IL-T2 and IL-T3 from `node` upwards, after an entry that ended at `end` was
    /// removed.
    fn narrow(&mut self, mut node: Index, end: u64) {
        while node != self.root {
            let parent = self.node(node).parent;
            let at = self.node(parent).position(node);
            if self.node(node).len() < FEWEST {
                self.refill(parent, at);
            } else if self.node(parent).entries()[at].span.end() > end
                || !self.summarize(parent, at)
            {
                return;
            }
            node = parent;
        }
        self.lower_root();
    }

    /// Recomputes the span of the entry at `at` in `parent` from the child; returns whether the end
    /// of the span has changed.
    #[inline]
    fn summarize(&mut self, parent: Index, at: usize) -> bool {
        let child = self.node(parent).entries()[at].to;
        let new = self.node(child).hull();
        let entry = &mut self.node_mut(parent).entries_mut()[at];
        let changed = entry.span.end() != new.end();
        entry.span = new;
        changed
    }

    /// Splits a full node, so that an entry can be inserted at `at`. Returns the node and the place
    /// where that entry now belongs.
    #[cold]
    fn split(&mut self, node: Index, at: usize) -> (Index, usize) {
        if node == self.root {
            self.raise_root();
        }
        let mut parent = self.node(node).parent;
        let mut place = self.node(parent).position(node) + 1;
        if self.node(parent).is_full() {
            (parent, place) = self.split(parent, place);
        }
        // An insertion at one end is often followed by more at the same end. So cut near that end,
        // to leave the other node well filled.
        let cut = match at {
            0 => FEWEST - 1,
            CAPACITY => CAPACITY - (FEWEST - 1),
            _ => CAPACITY / 2,
        };
        let new = self.allocate_node(self.node(node).level);
        self.transfer(node, cut..CAPACITY, new, 0);
        self.summarize(parent, place - 1);
        self.node_mut(new).parent = parent;
        let span = self.node(new).hull();
        self.node_mut(parent).insert(place, Entry { span, to: new });
        if at > cut {
            (new, at - cut)
        } else {
            (node, at)
        }
    }

    /// Refills the child at `at` in `parent`, which has too few entries.
    ///
    /// The child takes entries from a neighbour, or is merged with it.
    #[cold]
    fn refill(&mut self, parent: Index, at: usize) {
        let at = at.saturating_sub(1);
        let [left, right] = [at, at + 1].map(|at| self.node(parent).entries()[at].to);
        let (few, more) = (self.node(left).len(), self.node(right).len());
        let half = (few + more) / 2;
        if few + more <= 2 * FEWEST {
            self.transfer(right, 0..more, left, few);
            self.node_mut(parent).remove(at + 1);
            self.free_node(right);
        } else {
            if few > half {
                self.transfer(left, half..few, right, 0);
            } else {
                self.transfer(right, 0..half - few, left, few);
            }
            self.summarize(parent, at + 1);
        }
        self.summarize(parent, at);
    }

    /// Adds a new root above the current one.
    fn raise_root(&mut self) {
        let old = self.root;
        self.root = self.allocate_node(self.node(old).level + 1);
        let span = self.node(old).hull();
        self.node_mut(self.root).insert(0, Entry { span, to: old });
        self.node_mut(old).parent = self.root;
    }

    /// Removes the root if it has only one child.
    #[inline]
    fn lower_root(&mut self) {
        let root = self.node(self.root);
        if !root.is_leaf() && root.len() == 1 {
            let old = self.root;
            self.root = root.entries()[0].to;
            self.free_node(old);
        }
    }

    /// Moves entries between two nodes of the same level, and updates their links (IL-T4).
    fn transfer(&mut self, from: Index, range: Range<usize>, to: Index, mut at: usize) {
        let old = *self.node(from);
        self.node_mut(from).drain(range.clone());
        for &entry in &old.entries()[range] {
            self.node_mut(to).insert(at, entry);
            at += 1;
            if old.is_leaf() {
                self.slots[entry.to as usize].leaf = to;
            } else {
                self.node_mut(entry.to).parent = to;
            }
        }
    }

    /// Returns the index of a slot that no leaf refers to yet.
    #[inline]
    fn allocate(&mut self) -> Index {
        let index = self.free_slot;
        if index == NIL {
            return self.allocate_new();
        }
        self.free_slot = self.slots[index as usize].leaf;
        index
    }

    #[cold]
    fn allocate_new(&mut self) -> Index {
        // This does not allocate, and the index is below 2³² − 1 (IL-T6).
        debug_assert!(self.slots.len() < self.room());
        self.slots.push(Slot {
            value: T::default(),
            leaf: NIL,
        });
        self.slots.len() as Index - 1
    }

    fn allocate_node(&mut self, level: u8) -> Index {
        let new = Node::new(level);
        let node = self.free_node;
        if node == NIL {
            // This does not allocate (IL-T6). The index fits, since IL-T2 bounds the number of
            // nodes.
            self.nodes.push(new);
            return self.nodes.len() as Index - 1;
        }
        self.free_node = self.node(node).parent;
        *self.node_mut(node) = new;
        node
    }

    fn free_node(&mut self, node: Index) {
        self.node_mut(node).parent = self.free_node;
        self.free_node = node;
    }
}

/// Returns whether the injected bug `no-end-stop` is active. It lets searches run past the end of
/// their range.
fn ignores_ends() -> bool {
    injected_bug!(
        "no-end-stop",
        "a search of the tree does not stop at the end of its range",
        killed_by = "disjoint"
    )
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;
