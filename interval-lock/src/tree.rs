//! An interval tree: spans in order of their starts, and of each subtree the span that covers it.
//!
//! # Why this one
//! What overlaps a span is found through starts in order and the furthest end below each branch, in any balanced tree. This
//! one is a B-tree: with thousands of spans a descent of a binary tree is a dozen of loads that wait for each other, and as many
//! branches that nobody can foresee; here it is four nodes, each scanned in a row. All spans are in the leaves, and an
//! inner node says of each child what a leaf says of a span: where it starts, where it ends, who it is.
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
//! A span's *index* is the number of its slot, in a vector: spans move between leaves, slots stay. The slot names the leaf, and each node its
//! parent, so that a span is removed without being looked for, and the next overlap is found without a stack, while the caller changes what
//! the slots carry. Nodes are side by side in a vector too: no unsafe, and no allocation once the vectors are as long as they ever have to be.
//!
//! # Invariants
//! - **T1** In order, spans ascend by their starts; of those with the same start the later insertion comes later.
//! - **T2** All leaves are equally deep, and every node but the root has at least [`FEWEST`] entries, an inner root two: so a tree
//!   of *n* spans has at most 1 + log₇ *n* levels and 1 + *n* / 6 nodes.
//! - **T3** An inner entry ends where the furthest span below it ends. It starts at or before all spans below it, and not before
//!   any that come earlier in the order.
//! - **T4** Links are mutual: a slot names the leaf that it stands in, a node the parent that names it; of the root's parent nobody asks.
//! - **T5** Every slot is in the tree or in the list of free ones, never in both; so is every node.
//! - **T6** There is room for as many nodes as the slots that there is room for can need (T2).
//!
//! # Cost
//! Insertion: one walk down, O(log *n*), which also tells whether anything overlaps. Removal: no walk. Both go up only as far as the tree changes. All
//! *k* overlaps of a span: O(log *n* + *k*) if they are neighbours in the order, as those of disjoint spans are; at worst O(log *n*) each.

use alloc::vec::Vec;
use core::ops::Range;

use spanlock_range_lock::Span;
use spanlock_sync::injected_bug;

use node::{Entry, Node, hull};

mod node;

/// A span's place. It stays the same until the span is removed.
pub(crate) type Index = u32;

/// Nobody: ends a list.
const NIL: Index = Index::MAX;

/// Entries of a node at most: 6 lines of cache.
const CAPACITY: usize = 16;

/// Entries of a node at least, if it is not the root. Less than half, so that what was cut in two is not joined again at once.
const FEWEST: usize = 7;

/// Spans, each with a value of `T`.
pub(crate) struct Tree<T> {
    /// Empty until the first span comes: a lock that was never taken owns no memory.
    nodes: Vec<Node>,
    slots: Vec<Slot<T>>,
    root: Index,
    /// The first free node; each names the next as its parent.
    free_node: Index,
    /// The first free slot; each names the next as its leaf.
    free_slot: Index,
    len: u32,
}

/// What belongs to a span wherever it stands.
struct Slot<T> {
    value: T,
    leaf: Index,
}

/// Where a span belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    leaf: Index,
    at: u8,
    /// True only if nobody overlaps the span. False can be a mistake.
    pub(crate) free: bool,
}

impl<T: Default> Tree<T> {
    /// A tree that has room for `capacity` spans before it allocates.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut tree = Tree {
            nodes: Vec::new(),
            slots: Vec::with_capacity(capacity),
            root: 0,
            free_node: NIL,
            free_slot: NIL,
            len: 0,
        };
        if capacity > 0 {
            tree.make_room();
        }
        tree
    }

    /// How many spans there are.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes that the spans take, those to come included.
    pub(crate) fn memory_usage(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.slots.capacity() * size_of::<Slot<T>>()
    }

    /// The span at `index`, which is in the tree.
    pub(crate) fn span(&self, index: Index) -> Span {
        let (leaf, at) = self.place(index);
        self.node(leaf).entries()[at].span
    }

    /// What the span at `index`, which is in the tree, carries.
    #[inline]
    pub(crate) fn value(&self, index: Index) -> &T {
        &self.slots[index as usize].value
    }

    /// As [`value`](Self::value).
    #[inline]
    pub(crate) fn value_mut(&mut self, index: Index) -> &mut T {
        &mut self.slots[index as usize].value
    }

    /// The first span, in order, that overlaps `span`.
    pub(crate) fn first_overlap(&self, span: Span) -> Option<Index> {
        if self.len == 0 {
            return None;
        }
        self.overlap_from(self.root, 0, span)
    }

    /// The next span after that at `index`, in order, that overlaps `span`.
    pub(crate) fn next_overlap(&self, index: Index, span: Span) -> Option<Index> {
        let (leaf, at) = self.place(index);
        self.overlap_from(leaf, at + 1, span)
    }

    /// The first overlap in or after the entry `at` of a node.
    fn overlap_from(&self, mut node: Index, mut at: usize, span: Span) -> Option<Index> {
        loop {
            let entries = self.node(node).entries();
            let late = |entry: &Entry| entry.span.end() > span.start();
            if let Some(entry) = entries[at..].iter().find(|&entry| late(entry)) {
                // If the first that ends late enough starts too late, so do all after it.
                if !entry.span.overlaps(span) && !ignores_ends() {
                    return None;
                }
                if self.node(node).is_leaf() {
                    return Some(entry.to);
                }
                // Somebody there ends late enough (T3).
                (node, at) = (entry.to, 0);
            } else if node == self.root {
                return None;
            } else {
                let parent = self.node(node).parent;
                (node, at) = (parent, self.node(parent).position(node) + 1);
            }
        }
    }

    /// Where `span` belongs.
    pub(crate) fn gap(&self, span: Span) -> Gap {
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
            // Who starts before all belongs to the first.
            let last = node.entries()[before.saturating_sub(1)];
            if node.is_leaf() {
                gap.free &= !last.span.overlaps(span);
                gap.at = before as u8;
                return gap;
            }
            gap.leaf = last.to;
        }
    }

    /// Adds a span, in a gap found since the last change; what it carries is anything yet. (A value that is handed over
    /// goes through memory, in small stores and large loads, and costs more than all the rest.)
    ///
    /// # Panics
    /// At 2³² − 1 spans, which are more than 400 GiB.
    pub(crate) fn insert(&mut self, gap: Gap, span: Span) -> Index {
        let index = self.allocate();
        self.attach(gap, Entry { span, to: index });
        index
    }

    /// [`insert`](Self::insert) into an empty tree. Most locks are held once, if at all: one that is should not pay for a tree.
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

    /// Removes the span at `index`, which is in the tree.
    #[inline]
    pub(crate) fn remove(&mut self, index: Index) {
        if self.len == 1 {
            self.len = 0;
            self.node_mut(self.root).clear();
        } else {
            self.detach(index);
        }
        self.slots[index as usize].leaf = self.free_slot;
        self.free_slot = index;
    }

    /// Gives the span at `index` other bounds.
    pub(crate) fn resize(&mut self, index: Index, span: Span) {
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

    /// The leaf in which the span at `index` stands, and where in it.
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

    /// Makes T3 true above `node`, to which `span` was added.
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

    /// Makes T2 and T3 true from `node` upwards, from which something is gone that ended at `end`.
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

    /// Tells the entry `at` a place in `parent` where its child starts and ends: whether the end is news.
    #[inline]
    fn summarize(&mut self, parent: Index, at: usize) -> bool {
        let child = self.node(parent).entries()[at].to;
        let new = self.node(child).hull();
        let entry = &mut self.node_mut(parent).entries_mut()[at];
        let news = entry.span.end() != new.end();
        entry.span = new;
        news
    }

    /// Cuts a full node in two, for an entry that is to be inserted `at` a place in it; returns where that place has gone to.
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
        // At either end more are likely to come there: what they leave behind is well filled.
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

    /// Makes two nodes with enough entries, or one, of the child `at` a place in `parent`, which has too few, and a neighbour.
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

    /// Puts a root above the root.
    fn raise_root(&mut self) {
        let old = self.root;
        self.root = self.allocate_node(self.node(old).level + 1);
        let span = self.node(old).hull();
        self.node_mut(self.root).insert(0, Entry { span, to: old });
        self.node_mut(old).parent = self.root;
    }

    /// Removes a root that has but one child.
    #[inline]
    fn lower_root(&mut self) {
        let root = self.node(self.root);
        if !root.is_leaf() && root.len() == 1 {
            let old = self.root;
            self.root = root.entries()[0].to;
            self.free_node(old);
        }
    }

    /// Moves entries between two nodes of the same level, and tells those whom they name (T4).
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

    /// A slot that is in no leaf yet.
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
        let index = Index::try_from(self.slots.len()).unwrap_or(NIL);
        assert!(index < NIL, "fewer than 2³² requests at once");
        self.slots.push(Slot {
            value: T::default(),
            leaf: NIL,
        });
        self.make_room();
        index
    }

    /// T6, and a root.
    fn make_room(&mut self) {
        let most = 1 + self.slots.capacity() / (FEWEST - 1);
        self.nodes.reserve_exact(most - self.nodes.len());
        if self.nodes.is_empty() {
            self.root = self.allocate_node(0);
        }
    }

    fn allocate_node(&mut self, level: u8) -> Index {
        let new = Node::new(level);
        let node = self.free_node;
        if node == NIL {
            // T6: no allocation, and fewer of them than slots.
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

/// Whether a model asks for searches that do not stop at the end of their range.
fn ignores_ends() -> bool {
    injected_bug!(
        "no-end-stop",
        "a search of the tree does not stop at the end of its range",
        killed_by = "disjoint"
    )
}

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests;
