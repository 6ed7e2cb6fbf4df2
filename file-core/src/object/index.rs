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
//! - Lookups take no lock and write nothing. Inserts and removals never block. Nodes are allocated
//!   on first use. A removal frees the nodes whose whole span it removes, except for the root.
//! - A thread needs no pin for pages that it holds, because the range lock protects their nodes. A
//!   *walker*, a thread that holds nothing, pins itself (about 7 ns).
//! - A value consists of a 64-bit word (a data page and the checksum of its content), and of the
//!   number of the log page that has the mapping's group. From these numbers, the log knows which
//!   of its pages are still needed (F-P1 of [`crate::medium::log_page`]).
//!
//! ```text
//!   root ──► Inner (level 1) ──► Leaf: 64 × │ checksum │ page │ log page │
//!   + level       │                              63..32   31..0
//!                 └────────────► Leaf
//! ```
//!
//! The **span** of a node, or of a slot of an inner node, is the file pages below it. A thread
//! **holds** a page shared while it holds any of the page's bytes in the file's range lock, and
//! exclusively while it holds all of them exclusively. While nobody else has the index, as during
//! recovery, its owner holds all pages exclusively.
//!
//! # Invariants
//! - **F-X1** A thread uses a node only while it holds a page of the node's span, or while it is
//!   pinned and has found the node since. F-X4 keeps the node allocated in both cases.
//! - **F-X2** A node's `level` and kind never change. A child's level is one less than its
//!   parent's.
//! - **F-X3** A value is written only by a thread that holds its file page exclusively. But a
//!   cleaning of the log may change a value's log page at any time.
//! - **F-X4** Only [`Index::remove`] unlinks a node, never the root, and only while its thread
//!   holds the node's whole span exclusively. Its free is deferred by epoch.
//!   - Another thread that holds a page of the span does so before the removal or after it. Before,
//!     the node is linked. After, the thread finds its slot empty, because the range lock orders
//!     the two. So no such thread ever uses an unlinked node, or inserts below one.
//!   - A pinned thread may use the unlinked node, until it unpins (EP-I2 of
//!     `spanlock_sync::epoch`).
//! - **F-X5** A slot of a linked inner node is changed only by threads that hold pages of the
//!   slot's span: from null to a node by a thread that holds one of them, and back by one that
//!   holds them all. So unlinking a node loses no insert of a neighbour. Neighbours insert into
//!   other slots of the parent, or below a child that is covered only in part, which stays.
//! - **F-X6** Once the root's word is not null, it never becomes null again, and its level only
//!   increases: only growth changes the word, and the old root becomes child 0 of the new one. So
//!   the word never has an earlier value again (no ABA problem): if a growing thread's
//!   compare-exchange succeeds, the node that it linked was the root all the time. The level is
//!   part of the word, so no thread uses a root that does not cover its page (F-X1). If the tree
//!   grows during a removal, the removal leaves the old root linked and empty.
//! - **F-X7** A node is unlinked only when it is empty: its values are holes, its slots null. So a
//!   walker finds nothing in an unlinked node that [`Index::remove`] has not reported.
//!
//! # Log pages
//! A removal takes a value's log page by a swap with 0. A cleaning replaces it by an exchange. So
//! if [`Index::relocate`] comes first, the removal reports the new log page; otherwise `relocate`
//! finds 0, or no node, and returns `None`, as if a writer had replaced the mapping. Either way
//! each reference to a log page is taken away once, in an unlinked node too.
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries | model |
//! |---|---|---|---|---|
//! | A | `publish_root`, `Inner::insert`: CAS, Release | B | a new node | `roots`, `children` |
//! | B | root, children: loads, failed CAS, Acquire | A | | `roots`, `children`, `check-child` |
//! | L | [`Index::relocate`]: CAS, Release | M | the new log page's state | (`replace-write`) |
//! | M | [`Value::replace`], `Value::take`: swap, Acquire | L | | (`replace-write`) |
//! | N | [`Value::replace`]: store of the word, Release | O | the new log page | (`compaction`) |
//! | O | [`Index::for_each`]: load of the word, Acquire | N | | (`compaction`) |
//!
//! A model in parentheses runs the access, but no model needs the ordering: the comments at the
//! accesses say why.
//!
//! F-X3 orders every other access to a value. A reader holds the range lock shared, so the last
//! writer's store happens-before its load. A cleaning looks only at pages whose groups are all in
//! settled log pages (letters F and G of `log_page.rs`), so their writers' stores happen-before its
//! loads. It must not mistake the mapping of a later writer, which may not be durable yet, for a
//! settled one. If it loads the new word, it also sees the later writer's log page (N, O), which is
//! not settled.
//!
//! Unlinking needs no ordering. A thread that holds a page of the span is ordered by the range
//! lock, and walkers by the fences of the epochs.
//!
//! # Not guaranteed
//! The value of a page is meaningless to a thread that does not hold that page, except as a hint.
//! An index that is emptied keeps its root, and the levels above the largest page that it ever had.

pub(crate) mod node;
mod removal;
mod root;
mod walk;

use core::ops::Range;
use core::ptr;

use spanlock_sync::atomic::{AtomicPtr, Ordering};
use spanlock_sync::epoch::{self, Collector};

use crate::object::index::node::{Body, FANOUT, Mapping, Node, Value};
use crate::object::index::removal::Removal;
use crate::object::index::root::{Root, level_for};

/// The index of one file.
pub(crate) struct Index {
    /// See [`Root`].
    root: AtomicPtr<Node>,
    /// Frees the nodes that are unlinked.
    epochs: Collector,
}

impl Index {
    pub(crate) fn new() -> Self {
        Index {
            root: AtomicPtr::new(ptr::null_mut()),
            epochs: Collector::new(),
        }
    }

    #[inline]
    fn root(&self) -> Root {
        // Acquire [B←A]: the root's content.
        Root(self.root.load(Ordering::Acquire))
    }

    /// Returns the value of file page `page`, or `None` if there is no node for it.
    ///
    /// # Safety
    /// While the reference is used, and since before the call, the caller holds the page or is
    /// pinned.
    #[inline]
    unsafe fn value(&self, page: u32) -> Option<&Value> {
        // SAFETY: as the caller promises.
        let values = unsafe { self.leaf(page) }?;
        Some(&values[page as usize % FANOUT])
    }

    /// Returns the values of the leaf of `page`, or `None` if there is no such leaf.
    ///
    /// # Safety
    /// Same as [`value`](Self::value).
    #[inline]
    unsafe fn leaf(&self, page: u32) -> Option<&[Value; FANOUT]> {
        let root = self.root();
        if !root.covers(page) {
            return None;
        }
        // SAFETY: F-X1, as the caller promises: the root covers `page`.
        let mut node = unsafe { &*root.node() };
        loop {
            match &node.body {
                Body::Leaf(values) => return Some(values),
                Body::Inner(inner) => {
                    // Acquire [B←A]: the child's content.
                    let child = inner.0[node.slot(page)].load(Ordering::Acquire);
                    if child.is_null() {
                        return None;
                    }
                    // SAFETY: F-X1, as above.
                    node = unsafe { &*child };
                }
            }
        }
    }

    /// Returns the location of file page `page`, or `None` for a hole.
    ///
    /// # Safety
    /// The caller holds the page, shared or exclusively (F-X1).
    #[inline]
    pub(crate) unsafe fn get(&self, page: u32) -> Option<Mapping> {
        // SAFETY: the caller holds the page.
        let value = unsafe { self.value(page) }?;
        // Relaxed: F-X3, the range lock orders this after the last store.
        Mapping::from_word(value.word.load(Ordering::Relaxed))
    }

    /// Returns whether every one of the file pages `pages` is mapped.
    ///
    /// # Safety
    /// The caller holds the pages, shared or exclusively (F-X1).
    #[inline]
    pub(crate) unsafe fn has_all(&self, pages: Range<u64>) -> bool {
        let mut first = pages.start;
        while first < pages.end {
            // SAFETY: the caller holds the page.
            let Some(values) = (unsafe { self.leaf(first as u32) }) else {
                return false;
            };
            let slot = first as usize % FANOUT;
            let count = ((pages.end - first) as usize).min(FANOUT - slot);
            // Relaxed: F-X3, as in `get`.
            let is_hole = |it: &Value| it.word.load(Ordering::Relaxed) == 0;
            if values[slot..slot + count].iter().any(is_hole) {
                return false;
            }
            first += count as u64;
        }
        true
    }

    /// Calls `each` with the log pages to which the file pages `pages` refer, but not twice in a
    /// row with the same one. A cleaning may replace them meanwhile.
    ///
    /// # Safety
    /// The caller holds the pages, shared or exclusively (F-X1).
    #[inline]
    pub(crate) unsafe fn each_log_page(&self, pages: Range<u64>, mut each: impl FnMut(u32)) {
        let (mut first, mut last) = (pages.start, 0);
        while first < pages.end {
            let slot = first as usize % FANOUT;
            let count = ((pages.end - first) as usize).min(FANOUT - slot);
            // SAFETY: the caller holds the page.
            let values = unsafe { self.leaf(first as u32) };
            for value in values.map_or(&[][..], |it| &it[slot..slot + count]) {
                // Relaxed: F-X3, as in `get`. If a cleaning replaces it, the caller needs neither.
                let log_page = value.log_page.load(Ordering::Relaxed);
                if log_page != last && log_page != 0 {
                    each(log_page);
                }
                last = log_page;
            }
            first += count as u64;
        }
    }

    /// Maps `page` of the file by a group in `log_page`, and returns its previous mapping and that
    /// mapping's log page.
    ///
    /// # Safety
    /// The caller holds the page exclusively (F-X1, F-X3).
    #[inline]
    pub(crate) unsafe fn replace(
        &self,
        page: u32,
        mapping: Mapping,
        log_page: u32,
    ) -> Option<(Mapping, u32)> {
        // SAFETY: as the caller promises.
        let values = unsafe { self.leaf_or_insert(page) };
        values[page as usize % FANOUT].replace(mapping, log_page)
    }

    /// Maps the file pages `pages` by a group in `log_page`. `next` gives their mappings, in file
    /// order. Calls `each` for every page that was mapped, with its previous mapping and that
    /// mapping's log page.
    ///
    /// # Safety
    /// The caller holds these pages exclusively (F-X1, F-X3).
    #[inline]
    pub(crate) unsafe fn replace_run(
        &self,
        pages: Range<u64>,
        mut next: impl FnMut() -> Mapping,
        log_page: u32,
        mut each: impl FnMut(Mapping, u32),
    ) {
        let mut first = pages.start;
        while first < pages.end {
            // SAFETY: as the caller promises.
            let values = unsafe { self.leaf_or_insert(first as u32) };
            let slot = first as usize % FANOUT;
            let count = ((pages.end - first) as usize).min(FANOUT - slot);
            for value in &values[slot..slot + count] {
                if let Some((before, from)) = value.replace(next(), log_page) {
                    each(before, from);
                }
            }
            first += count as u64;
        }
    }

    /// Returns the values of the leaf of `page`, creating it if there is none.
    ///
    /// # Safety
    /// While the reference is used, and since before the call, the caller holds the page (F-X1).
    #[inline]
    unsafe fn leaf_or_insert(&self, page: u32) -> &[Value; FANOUT] {
        let root = self.root_covering(page);
        // SAFETY: F-X1: the caller holds the page, which the root covers.
        let mut node = unsafe { &*root.node() };
        loop {
            match &node.body {
                Body::Leaf(values) => return values,
                Body::Inner(inner) => {
                    let child = inner.child_or_insert(node.slot(page), node.level - 1);
                    // SAFETY: F-X1, as above.
                    node = unsafe { &*child };
                }
            }
        }
    }

    /// Makes the file pages `first..end` holes. Calls `each` for every one that was mapped, in file
    /// order, with its mapping and the log page of its group. Frees the nodes that this empties,
    /// once no walker can reference them.
    ///
    /// If `each` panics, the pages after it stay mapped.
    ///
    /// # Safety
    /// The caller holds these pages exclusively (F-X1, F-X3, F-X4). Pages that no thread can hold,
    /// past the capacity of the range lock, need no hold. So a removal of everything from `first`
    /// on may have any end past them.
    pub(crate) unsafe fn remove(
        &self,
        first: u64,
        end: u64,
        each: &mut dyn FnMut(u32, Mapping, u32),
    ) {
        let root = self.root();
        let has_pages = |first| first < end && root.covers(first as u32);
        if !u32::try_from(first).is_ok_and(|_| has_pages(first)) {
            return;
        }
        let mut removal = Removal {
            epochs: &self.epochs,
            first,
            end,
            unlinked: false,
            each,
        };
        // SAFETY: F-X1: the caller holds `first`, which the root covers.
        removal.clear(unsafe { &*root.node() }, 0);
        if removal.unlinked {
            self.epochs.pin().flush();
        }
    }

    /// Records that the group of `page`'s mapping is now in the log page `new`, if it was in one of
    /// the log pages `old`. Returns that old page. The caller need not hold `page`.
    pub(crate) fn relocate(&self, page: u32, old: impl Fn(u32) -> bool, new: u32) -> Option<u32> {
        let _pinned = self.epochs.pin();
        // SAFETY: pinned until the end of the function.
        let log_page = &unsafe { self.value(page) }?.log_page;
        // Relaxed: the exchange checks it.
        let from = log_page.load(Ordering::Relaxed);
        if !old(from) {
            return None;
        }
        // Release [L→M]: the state of `new`. Relaxed on failure: a writer has replaced the mapping,
        // or a removal has taken it.
        // equivalent(Relaxed): no program of ours shows that it is needed. By the proof, taking a
        // reference away could otherwise come before the store that has counted it.
        log_page
            .compare_exchange(from, new, Ordering::Release, Ordering::Relaxed)
            .ok()
    }

    /// Returns a root that covers `page`, growing the tree if needed.
    fn root_covering(&self, page: u32) -> Root {
        let mut root = self.root();
        while !root.covers(page) {
            let new = if root.0.is_null() {
                Node::new(level_for(page))
            } else {
                // The node of the old root is not used here: the thread holds no page of its span.
                let parent = Node::new(root.level() + 1);
                if let Body::Inner(inner) = &parent.body {
                    // Relaxed: not published yet; A publishes it.
                    inner.0[0].store(root.node(), Ordering::Relaxed);
                }
                parent
            };
            root = self.publish_root(root, new);
        }
        root
    }

    /// Makes `new` the root if the root is still `old`. Returns the current root.
    fn publish_root(&self, old: Root, new: Box<Node>) -> Root {
        let level = new.level;
        let new = Box::into_raw(new);
        let root = Root::new(new, level);
        // Release [A→B]: publishes the new root with its child. Acquire [B←A] on failure: the
        // winner's root.
        match self
            .root
            .compare_exchange(old.0, root.0, Ordering::Release, Ordering::Acquire)
        {
            Ok(_) => root,
            Err(winner) => {
                // SAFETY: `new` came from `Box::into_raw` and was not published, so this thread
                // owns it. Freeing a node does not free its children.
                epoch::free(unsafe { Box::from_raw(new) });
                Root(winner)
            }
        }
    }
}

#[cfg(test)]
mod tests;
