//! An interval tree: spans in order of their starts, and each subtree's furthest end.
//!
//! # Why this one
//! What overlaps a span is found through starts in order and the largest end below each node, in any balanced tree. This
//! one is an AVL tree: of the plain ones the flattest, and its balance is a property that a test can assert (a
//! treap's is a matter of luck). Nodes live side by side in one vector and name each other by index: no unsafe, and no allocation
//! once the vector is as long as it ever has to be. Each knows its parent, so that a node is removed without being looked for,
//! and the next overlap is found without a stack, while the caller changes what the nodes carry.
//!
//! # Invariants
//! - **T1** In order, nodes ascend by (start, number). Numbers are unique, so this is a total order.
//! - **T2** The heights of a node's two subtrees differ by at most 1, and `height` is right: a tree of *n* nodes is at most
//!   1.45 · log₂(*n* + 2) high.
//! - **T3** `max_end` is the largest end in the node's subtree.
//! - **T4** Links are mutual: a child's parent is the node whose child it is; the root has none.
//! - **T5** Every slot of the vector but the first is in the tree or in the list of free ones, never in both.
//! - **T6** The first slot stands for "no node": it ends at 0 and is 0 high, so that nobody has to ask whether there is a child. Its left
//!   child is the root, so that nobody has to ask whether there is a parent to hang a node under.
//!
//! # Cost
//! Insertion and removal: one walk down, one up, O(log *n*); on the way up they stop where a subtree has come out as it was. All
//! *k* overlaps of a span: O(log *n* + *k*) if they are neighbours in the order, as those of disjoint spans are; at worst O(log *n*) each.

use alloc::vec::Vec;

use spanlock::Span;

/// A node's place. It stays the same until the node is removed.
pub(crate) type Index = u32;

/// No node (T6).
const NIL: Index = 0;

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// Spans, each with a number and a value of `T`.
pub(crate) struct Tree<T> {
    /// Empty until the first node comes: a lock that was never taken owns no memory.
    nodes: Vec<Node<T>>,
    /// The first free slot; each names the next as its parent.
    free: Index,
    len: u32,
}

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Node<T> {
    span: Span,
    max_end: u64,
    children: [Index; 2],
    parent: Index,
    /// Of the subtree: 1 for a leaf.
    height: u8,
    pub(crate) value: T,
    number: u64,
}

impl<T> Node<T> {
    #[inline]
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl<T: Copy> Tree<T> {
    /// A tree that has room for `capacity` nodes before it allocates.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let slots = if capacity == 0 { 0 } else { capacity + 1 };
        Tree {
            nodes: Vec::with_capacity(slots),
            free: NIL,
            len: 0,
        }
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes that the nodes take, those to come included.
    pub(crate) fn memory_usage(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T>>()
    }

    /// The node at `index`, which is in the tree.
    #[inline]
    pub(crate) fn node(&self, index: Index) -> &Node<T> {
        &self.nodes[index as usize]
    }

    /// What the node at `index`, which is in the tree, carries.
    #[inline]
    pub(crate) fn value_mut(&mut self, index: Index) -> &mut T {
        &mut self.node_mut(index).value
    }

    /// The first node, in order, that overlaps `span`.
    #[inline(always)]
    pub(crate) fn first_overlap(&self, span: Span) -> Option<Index> {
        if self.len == 0 {
            return None;
        }
        self.first_overlap_below(self.node(NIL).children[LEFT], span)
    }

    /// The first node in the subtree of `at` that overlaps `span`.
    fn first_overlap_below(&self, mut at: Index, span: Span) -> Option<Index> {
        while self.ends_after(at, span.start()) {
            let node = self.node(at);
            // If somebody on the left ends late enough: if all who do start too late, so do all after them, and there
            // is no need to come back.
            let on_the_left = self.ends_after(node.children[LEFT], span.start());
            if !on_the_left {
                if node.span.overlaps(span) {
                    return Some(at);
                }
                if node.span.start() >= span.end() {
                    return None;
                }
            }
            at = node.children[usize::from(!on_the_left)];
        }
        None
    }

    /// The next node after `at`, in order, that overlaps `span`; `at` overlaps it.
    pub(crate) fn next_overlap(&self, mut at: Index, span: Span) -> Option<Index> {
        loop {
            let right = self.node(at).children[RIGHT];
            if self.ends_after(right, span.start()) {
                // As above: if nobody there overlaps, all who follow start too late.
                return self.first_overlap_below(right, span);
            }
            // Up, until from a left child. The root is one (T6).
            loop {
                let child = at;
                at = self.node(at).parent;
                if self.node(at).children[LEFT] == child {
                    break;
                }
            }
            if at == NIL {
                return None;
            }
            let node = self.node(at);
            if node.span.overlaps(span) {
                return Some(at);
            }
            if node.span.start() >= span.end() {
                return None;
            }
        }
    }

    /// Whether some node in the subtree of `at` ends after `position`.
    #[inline]
    fn ends_after(&self, at: Index, position: u64) -> bool {
        self.node(at).max_end > position
    }

    /// Adds a node. No other has this `number`.
    ///
    /// # Panics
    /// At 2³² − 1 nodes, which are more than 200 GiB.
    #[inline(always)]
    pub(crate) fn insert(&mut self, span: Span, number: u64, value: T) -> Index {
        let index = self.allocate(span, value);
        let (parent, side) = match self.len {
            0 => (NIL, LEFT),
            _ => self.descend(span, number),
        };
        // Field by field: a node that is built elsewhere and copied costs more than all the rest.
        let node = self.node_mut(index);
        node.span = span;
        node.max_end = span.end();
        node.children = [NIL; 2];
        node.parent = parent;
        node.height = 1;
        node.value = value;
        node.number = number;
        self.len += 1;
        self.node_mut(parent).children[side] = index;
        if parent != NIL {
            self.restore(parent);
        }
        index
    }

    /// Where a new node belongs: below whom, and on which side. Takes its end into the maxima of all above (T3).
    fn descend(&mut self, span: Span, number: u64) -> (Index, usize) {
        let (mut parent, mut side) = (NIL, LEFT);
        let mut at = self.node(NIL).children[LEFT];
        while at != NIL {
            let node = self.node_mut(at);
            node.max_end = node.max_end.max(span.end());
            parent = at;
            side = usize::from((span.start(), number) > (node.span.start(), node.number));
            at = node.children[side];
        }
        (parent, side)
    }

    /// Removes the node at `index`, which is in the tree.
    #[inline]
    pub(crate) fn remove(&mut self, index: Index) {
        let node = self.node(index);
        let parent = node.parent;
        match node.children {
            [NIL, NIL] if parent == NIL => self.node_mut(NIL).children[LEFT] = NIL,
            [NIL, child] | [child, NIL] => {
                self.link(parent, index, child);
                self.restore(parent);
            }
            [left, right] => self.remove_inner(index, left, right),
        }
        self.len -= 1;
        self.node_mut(index).parent = self.free;
        self.free = index;
    }

    /// Puts the node that follows in the place of the one at `index`, which has two children.
    fn remove_inner(&mut self, index: Index, left: Index, right: Index) {
        let gone = *self.node(index);
        let mut next = right;
        while self.node(next).children[LEFT] != NIL {
            next = self.node(next).children[LEFT];
        }
        let mut lowest = next;
        if next != right {
            lowest = self.node(next).parent;
            self.link(lowest, next, self.node(next).children[RIGHT]);
            self.node_mut(next).children[RIGHT] = right;
            self.node_mut(right).parent = next;
        }
        self.node_mut(next).children[LEFT] = left;
        self.node_mut(left).parent = next;
        self.link(gone.parent, index, next);
        // What was true at this place, so that `restore` sees what has changed here.
        self.node_mut(next).height = gone.height;
        self.node_mut(next).max_end = gone.max_end;
        self.restore(lowest);
        self.restore(next);
    }

    /// Gives the node at `index` another span; returns where it is now.
    pub(crate) fn resize(&mut self, index: Index, span: Span) -> Index {
        let node = *self.node(index);
        if node.span.start() == span.start() {
            self.node_mut(index).span = span;
            self.restore(index);
            index
        } else {
            self.remove(index);
            self.insert(span, node.number, node.value)
        }
    }

    /// A slot to be filled.
    #[inline]
    fn allocate(&mut self, span: Span, value: T) -> Index {
        let index = self.free;
        if index == NIL {
            return self.allocate_new(span, value);
        }
        self.free = self.node(index).parent;
        index
    }

    #[cold]
    fn allocate_new(&mut self, span: Span, value: T) -> Index {
        // T6. Span and value are anybody's: nobody looks.
        let no_node = Node {
            span,
            max_end: 0,
            children: [NIL; 2],
            parent: NIL,
            height: 0,
            value,
            number: 0,
        };
        if self.nodes.is_empty() {
            self.nodes.push(no_node);
        }
        let index = Index::try_from(self.nodes.len()).expect("fewer than 2³² requests at once");
        self.nodes.push(no_node);
        index
    }

    #[inline]
    fn node_mut(&mut self, index: Index) -> &mut Node<T> {
        &mut self.nodes[index as usize]
    }

    /// Puts `new`, or nothing, where `old` was below `parent`: T4.
    fn link(&mut self, parent: Index, old: Index, new: Index) {
        let children = &mut self.node_mut(parent).children;
        children[usize::from(children[RIGHT] == old)] = new;
        if new != NIL {
            self.node_mut(new).parent = parent;
        }
    }

    /// Makes T2 and T3 true again, from `at` upwards, until a subtree has come out as it was.
    fn restore(&mut self, mut at: Index) {
        while at != NIL {
            let node = self.node(at);
            let before = (node.height, node.max_end);
            let top = self.balance(at);
            let node = self.node(top);
            if (node.height, node.max_end) == before {
                return;
            }
            at = node.parent;
        }
    }

    /// Makes T2 and T3 true of the subtree of `at`, of whose children they are; returns its root.
    fn balance(&mut self, at: Index) -> Index {
        let [left, right] = self.node(at).children.map(|child| self.height(child));
        if left.abs_diff(right) <= 1 {
            self.update(at);
            return at;
        }
        let heavy = if left > right { LEFT } else { RIGHT };
        let child = self.node(at).children[heavy];
        let inner = self.height(self.node(child).children[1 - heavy]);
        if inner > self.height(self.node(child).children[heavy]) {
            self.rotate(child, 1 - heavy);
        }
        self.rotate(at, heavy)
    }

    /// Lifts the child of `at` on `side` above it; returns that child.
    fn rotate(&mut self, at: Index, side: usize) -> Index {
        let child = self.node(at).children[side];
        let inner = self.node(child).children[1 - side];
        self.link(self.node(at).parent, at, child);
        self.node_mut(at).children[side] = inner;
        if inner != NIL {
            self.node_mut(inner).parent = at;
        }
        self.node_mut(child).children[1 - side] = at;
        self.node_mut(at).parent = child;
        self.update(at);
        self.update(child);
        child
    }

    fn height(&self, at: Index) -> u8 {
        self.node(at).height
    }

    /// Computes `height` and `max_end` of one node from its children.
    #[inline]
    fn update(&mut self, at: Index) {
        let node = self.node(at);
        let [left, right] = node.children.map(|child| self.node(child));
        let height = 1 + left.height.max(right.height);
        let max_end = node.span.end().max(left.max_end).max(right.max_end);
        let node = self.node_mut(at);
        node.height = height;
        node.max_end = max_end;
    }
}

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests;
