//! The radix tree: a segment's word is created when it is first needed, and freed while the lock
//! is in use.
//!
//! # The problem
//! A segment's word holds its reader-writer state. An array in use needs a word for every segment
//! that the file may ever have. A radix tree over segment numbers has words only for segments that
//! have been used ([SRL] §IV-A, Algorithm 1). The paper's tree has a pointer of 8 bytes to each
//! word of 4 bytes, and keeps its nodes until the file is closed. Here, a leaf contains its words,
//! side by side. [`shrink`](crate::Srl::shrink) frees nodes while the file is open, and so does
//! [`shrink_range`](crate::Srl::shrink_range) after a truncate.
//!
//! # Picture
//!
//! ```text
//!  segment number   00 0000 | 000001 | 000011 | 000000 | 00101      levels of 6, 6, 6, 6, 5 bits
//!                        │        │        │        │       │
//!  root             [ ●  ∅  ∅ … ] │        │        │       │       48 slots for 1.5 TB
//!                     └→ [ ∅  ●  ∅ … ]     │        │       │       64 slots, null or a node
//!                             └→ [ ∅  ∅  ∅  ● … ]   │       │
//!                                            └→ [ ●  ∅ … ]  │
//!                                                 └→ [ 0 0 0 0 0 W 0 … ]   a leaf: 32 words
//! ```
//!
//! The tree omits top levels that the capacity does not need. The root has no more slots than the
//! capacity needs.
//!
//! # Properties
//! - **Cost**: finding a leaf costs one dependent load per level. With std, a thread remembers a
//!   few leaves in which it requested a single word, and finds them again without a descent. A
//!   release needs no lookup for the hold's first leaf.
//! - **Progress**: finding a word is wait-free. Creating a node is lock-free except for the
//!   allocator. A thread that shrinks the tree waits for other threads. It delays only the requests
//!   that the closed gate stops, by about one system call per node.
//! - **Memory**: leaves in use take 4 bytes per segment (half a byte packed), and inner nodes take
//!   8 per slot. [`memory_usage`](crate::Srl::memory_usage) returns the sum. A node shares no cache
//!   line with other memory, unless it takes less than one ([`Padded`]).
//!
//! # Shrinking
//! Before a word's memory is freed, three things must be certain. No thread holds the word, no
//! thread is about to take it, and no thread still has a reference to it. The [gate](crate::gate),
//! through which requests for very many segments go, ensures the first two. RCU
//! ([`spanlock_sync::rcu`]) ensures the third. To free children of a node, a thread acts like such
//! a **wide** request for the node's whole span, except that it never waits for a hold:
//!
//! 1. Close the gate, and try to take an exclusive entry for the span. If the try fails, the node
//!    keeps its children.
//! 2. Issue the full barrier, then scan the children. A leaf is **vacant** if every word is free.
//!    An inner node is vacant if every slot is null.
//! 3. Unlink the vacant children.
//! 4. Synchronize: wait for every read-side critical section that began before.
//! 5. Open the gate, and release the entry. Free the unlinked nodes, and all nodes that were linked
//!    below them meanwhile.
//!
//! If the system refuses the barrier of step 4, the thread must not free the nodes, and cannot link
//! them again: meanwhile, other nodes may be in their slots. So it keeps them in a list, releases
//! the entry, and leaves the gate closed and in [doubt](crate::gate#doubt). The next shrink begins
//! with step 4. A shrink first asks whether the system grants barriers, and does nothing if not. So
//! a gate gets in doubt only if a refusal begins after that.
//!
//! The walk shrinks children before their parents, so one walk shrinks an idle tree to its root.
//! Only one thread at a time shrinks a tree, so no other thread frees the nodes that it walks over.
//!
//! The usual solution is crossbeam-epoch. There, each descent would announce itself with a fenced
//! store, which costs about as much as taking and releasing the word that the descent finds. With
//! RCU, a descent announces itself by plain stores, and the rare shrink bears the cost.
//!
//! # Invariants
//! - **ST-I1** A slot is null or points to a node of the next level. That node is a leaf with all
//!   of its words, or an inner node with as many slots as the bits of its level can index.
//! - **ST-I2** Any thread may change a slot from null to a node, by compare-exchange. Only the one
//!   thread that shrinks the tree changes a slot from a node to null, while it has the exclusive
//!   entry for the span. So a segment has one word at a time, except between this unlinking and the
//!   opening of the gate. During that time, no request that takes the old or the new word passes
//!   the gate. (While the gate is in doubt, requests take new words under entries of their own.)
//! - **ST-I3** A node in which a word is held is not freed. Either the scan sees the word taken, or
//!   the request found the gate closed and the entry in place, and backed off (G-I2). After the
//!   gate has been opened, no request finds an unlinked node. A small request with an entry of its
//!   own does not ask the gate. But while it has this entry, the thread that shrinks gets no entry
//!   for the span. A node above a node with a hold has a slot that is not null, so it is not freed
//!   either.
//! - **ST-I4** A node found in a read-side critical section stays until that section ends. Before
//!   an unlinked node is freed, `synchronize` waits for every critical section that may have found
//!   it (RCU-I2). A later critical section finds neither this node nor the nodes below it, which
//!   are freed together with it.
//! - **ST-I5** After `synchronize` has returned, no thread holds a word of an unlinked node. The
//!   gate stopped each request that took such a word, and the request released the word within its
//!   critical section (G-I6). It released the word by address, since a descent may no longer lead
//!   to it.
//!
//! # Waiters in a leaf that is freed
//! A waiter sleeps in the queue of its word's *address*. A leaf with a held word is not freed
//! (ST-I3). So when a leaf is freed, the waiter's word has been released, and the head of the queue
//! has been woken or is about to be. When the head rechecks, it descends the tree again and sees
//! that its segment now has a word elsewhere. It leaves the old queue, wakes the next waiter
//! there, and starts again as a new request ([`Progress`](spanlock_range_lock::words::Progress)).
//! Before the leaf's memory is freed, all waiters still queued there are removed from the queue and
//! woken. So a waiter whose leaf is freed loses its place. Requests that arrive before it runs
//! again overtake it, and [`MAX_PASSES`](spanlock_range_lock::words::MAX_PASSES) more may overtake
//! it once it is the head of the new queue.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | N | the compare-exchange that links a node | Release | O | `exclusion`, `growth` |
//! | O | the load of a slot, the failed link | Acquire | N | `exclusion`, `growth` |
//!
//! The models are those of `srl-tree`.
//!
//! The store that unlinks a node is Relaxed: the gate orders it (L and M). For F to I see
//! [`spanlock_sync::rcu`]; for J to M see [`crate::gate`].
//!
//! # Not guaranteed
//! A shrink may leave unused memory near a wide hold: a node that overlaps the hold keeps all of
//! its children.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

mod node;
mod shape;
mod shrink;

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use spanlock_range_lock::words::Word;
use spanlock_sync::BlockingMutex;
use spanlock_sync::atomic::{AtomicUsize, Ordering::*, Zeroed};
use spanlock_sync::rcu::{Rcu, ReadGuard};

use crate::padded::{Padded, bytes_of};
use crate::segment::{SegmentError, Segments};
use crate::store::{Piece, SegmentStore, words_of};
use node::{Node, Slot};
use shape::{Level, Levels};
use shrink::Unlinked;

pub use shape::Shape;

/// The words of segments, in the leaves of a radix tree.
pub struct Tree<W: Word> {
    root: Padded<Slot>,
    levels: Levels,
    segments: Segments,
    rcu: Rcu,
    /// The size of all nodes but the root.
    bytes: AtomicUsize,
    /// Held by the thread that shrinks the tree, which may sleep meanwhile. Contains the nodes that
    /// were unlinked but cannot be freed yet.
    shrinking: BlockingMutex<Vec<Unlinked>>,
    words: PhantomData<Padded<W>>,
}

impl<W: Word> Tree<W> {
    pub(crate) fn new(capacity: u64, shape: &Shape) -> Result<Self, SegmentError> {
        let segments = Segments::new(capacity, shape.segment_size())?;
        shape.check(W::LANES.trailing_zeros())?;
        let levels = shape.above_leaves(segments)?;
        let root_slots = (segments.count().saturating_sub(1) >> levels.root_shift) as usize + 1;
        let root = Padded::zeroed(root_slots).ok_or_else(|| segments.no_memory())?;
        Ok(Tree {
            root,
            levels,
            segments,
            rcu: Rcu::new(),
            bytes: AtomicUsize::new(0),
            shrinking: BlockingMutex::new(Vec::new()),
            words: PhantomData,
        })
    }

    /// Returns the size of all nodes in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        // Relaxed: a count for statistics.
        bytes_of::<Slot>(self.root.len()) + self.bytes.load(Relaxed)
    }

    /// Returns the root's slot for a segment.
    #[inline]
    fn root_slot(&self, segment: u64) -> &Slot {
        &self.root[(segment >> self.levels.root_shift) as usize]
    }

    /// Returns the slot for a segment in an inner node of this level.
    ///
    /// # Safety
    /// The node is not null and is of this level. It stays for `'a`, because a guard that lasts as
    /// long protects it, or a hold does.
    #[inline]
    unsafe fn slot_in<'a>(node: *mut Node, level: Level, segment: u64) -> &'a Slot {
        // SAFETY: the node has `level.len()` slots (ST-I1), and `slot` is below that. It stays: the
        // caller's promise.
        unsafe { &*node.cast::<Slot>().add(level.slot(segment)) }
    }

    /// Returns the words of those segments of `first..end` that lie in the leaf of `first`.
    ///
    /// # Safety
    /// `word` is the word of `first`, and its leaf stays for `'a`.
    #[inline]
    unsafe fn piece<'a>(&self, word: *const W, first: u64, end: u64) -> Piece<'a, W> {
        let leaf = 1 << self.levels.leaf_bits;
        let end = first + (end - first).min(leaf - (first & (leaf - 1)));
        // SAFETY: the leaf has the words of all its segments, in order, and ends at or after `end`.
        // It stays: the caller's promise.
        let words = unsafe { core::slice::from_raw_parts(word, words_of::<W>(first, end)) };
        Piece::new(words, first, end)
    }

    /// Returns the word of a segment in its leaf.
    ///
    /// # Safety
    /// `leaf` is the leaf of `segment`, and has not been freed.
    #[inline]
    unsafe fn word_in(&self, leaf: *mut Node, segment: u64) -> *const W {
        let within = segment & ((1 << self.levels.leaf_bits) - 1);
        // SAFETY: the leaf has that many segments (ST-I1), so it has that word.
        unsafe { leaf.cast::<W>().add(within as usize / W::LANES as usize) }
    }

    /// Returns what [`piece`](Self::piece) returns, given the leaf.
    ///
    /// # Safety
    /// `leaf` is the leaf of `first`, and stays for `'a`.
    #[inline]
    unsafe fn piece_of<'a>(&self, leaf: *mut Node, first: u64, end: u64) -> Piece<'a, W> {
        // SAFETY: the caller's promise.
        unsafe { self.piece(self.word_in(leaf, first), first, end) }
    }

    /// Returns the leaf of a segment; creates it if it is missing. Returns `None` if there is no
    /// memory for it; nodes above it may have been created.
    ///
    /// The caller is in a read-side critical section. The leaf stays until that section ends.
    #[inline]
    fn leaf(&self, segment: u64) -> Option<NonNull<Node>> {
        let mut slot = self.root_slot(segment);
        for &level in &self.levels.inner {
            let node = match NonNull::new(slot.load()) {
                Some(node) => node,
                None => self.make::<Slot>(slot, level.len())?,
            };
            // SAFETY: the node is of this level (ST-I1), and was found or created in the caller's
            // critical section (ST-I4).
            slot = unsafe { Self::slot_in(node.as_ptr(), level, segment) };
        }
        match NonNull::new(slot.load()) {
            Some(leaf) => Some(leaf),
            None => self.make::<W>(slot, self.levels.leaf_len::<W>()),
        }
    }

    /// Returns the slots of the node above the leaf of `segment`, from the slot of that leaf on.
    ///
    /// # Errors
    /// If a node on the path is missing: the first segment after those that this node would cover,
    /// or `end` if that is lower.
    fn leaf_slots<'s>(
        &'s self,
        _guard: &'s ReadGuard<'_>,
        segment: u64,
        end: u64,
    ) -> Result<&'s [Slot], u64> {
        let root = (segment >> self.levels.root_shift) as usize;
        let (mut slots, mut shift) = (&self.root[root..], self.levels.root_shift);
        for &level in &self.levels.inner {
            let node = slots[0].load();
            if node.is_null() {
                return Err((segment | ((1 << shift) - 1)).saturating_add(1).min(end));
            }
            // SAFETY: the node is of this level (ST-I1), and was found under a guard that outlasts
            // `'s` (ST-I4).
            slots = unsafe { &node::contents(node, level.len())[level.slot(segment)..] };
            shift = level.shift;
        }
        Ok(slots)
    }

    /// Returns what [`leaf`](Self::leaf) returns, and remembers the leaf under its number.
    #[inline(never)]
    fn leaf_to_remember(
        &self,
        guard: &ReadGuard<'_>,
        number: u64,
        segment: u64,
    ) -> Option<NonNull<Node>> {
        let leaf = self.leaf(segment)?;
        guard.remember(number, leaf.cast());
        Some(leaf)
    }

    #[cold]
    fn make<T: Zeroed + 'static>(&self, slot: &Slot, len: usize) -> Option<NonNull<Node>> {
        let bytes = bytes_of::<T>(len);
        // Relaxed, both: a count for statistics. Count before the node is linked, so that the count
        // includes the node when another thread frees it.
        self.bytes.fetch_add(bytes, Relaxed);
        let node = match slot.make::<T>(len) {
            Some((node, true)) => return NonNull::new(node),
            Some((other, false)) => other,
            None => core::ptr::null_mut(),
        };
        self.bytes.fetch_sub(bytes, Relaxed);
        NonNull::new(node)
    }
}

// SAFETY: a segment has one word (ST-I2). A word stays while the guard under which it was found
// lives (ST-I4), and while the word is held (ST-I3).
unsafe impl<W: Word> SegmentStore for Tree<W> {
    type Word = W;
    type ReadGuard<'a> = ReadGuard<'a>;

    #[inline]
    fn segments(&self) -> Segments {
        self.segments
    }

    #[inline]
    fn enter(&self) -> ReadGuard<'_> {
        self.rcu.enter()
    }

    #[inline]
    fn word<'s>(&'s self, guard: &'s ReadGuard<'_>, segment: u64) -> Option<&'s W> {
        let number = segment >> self.levels.leaf_bits;
        let leaf = match guard.recall(number) {
            Some(leaf) => leaf.as_ptr().cast(),
            None => self.leaf_to_remember(guard, number, segment)?.as_ptr(),
        };
        // SAFETY: the leaf was found under a guard that outlasts `'s` (ST-I4). A recalled leaf is
        // as safe to use (RCU-I3).
        Some(unsafe { &*self.word_in(leaf, segment) })
    }

    #[inline]
    fn find_or_make<'s>(
        &'s self,
        _guard: &'s ReadGuard<'_>,
        first: u64,
        end: u64,
    ) -> Option<Piece<'s, W>> {
        let leaf = self.leaf(first)?;
        // SAFETY: the leaf was found under a guard that outlasts `'s` (ST-I4).
        Some(unsafe { self.piece_of(leaf.as_ptr(), first, end) })
    }

    #[inline]
    fn find<'s>(
        &'s self,
        _guard: &'s ReadGuard<'_>,
        first: u64,
        end: u64,
    ) -> Result<Piece<'s, W>, u64> {
        // The first segment after those below a null slot.
        let behind = |shift: u32| (first | ((1 << shift) - 1)).saturating_add(1).min(end);
        let (mut slot, mut shift) = (self.root_slot(first), self.levels.root_shift);
        for &level in &self.levels.inner {
            let node = slot.load();
            if node.is_null() {
                return Err(behind(shift));
            }
            // SAFETY: the node is of this level (ST-I1), and was found under a guard that outlasts
            // `'s` (ST-I4).
            (slot, shift) = (unsafe { Self::slot_in(node, level, first) }, level.shift);
        }
        let leaf = slot.load();
        if leaf.is_null() {
            return Err(behind(shift));
        }
        // SAFETY: below the last level are leaves (ST-I1). This leaf was found under a guard that
        // outlasts `'s` (ST-I4).
        Ok(unsafe { self.piece_of(leaf, first, end) })
    }

    /// Descends once to each parent of leaves, instead of once to each leaf.
    fn first_busy<'s>(
        &'s self,
        guard: &'s ReadGuard<'_>,
        first: u64,
        end: u64,
        is_free: impl Fn(Piece<'s, W>) -> bool,
    ) -> u64 {
        let leaf_segments = 1 << self.levels.leaf_bits;
        let mut at = first;
        while at < end {
            let slots = match self.leaf_slots(guard, at, end) {
                Ok(slots) => slots,
                Err(next) => {
                    at = next;
                    continue;
                }
            };
            for slot in slots {
                if at >= end {
                    break;
                }
                let leaf = slot.load();
                // SAFETY: below the last level are leaves (ST-I1). This leaf was found under a
                // guard that outlasts `'s` (ST-I4).
                if !leaf.is_null() && !is_free(unsafe { self.piece_of(leaf, at, end) }) {
                    return at;
                }
                at = (at | (leaf_segments - 1)).saturating_add(1);
            }
        }
        end
    }

    #[inline]
    unsafe fn held(&self, word: Option<usize>, first: u64, end: u64) -> Piece<'_, W> {
        // SAFETY: for all calls: the caller holds `first`, so there is a path to its leaf, and all
        // nodes on this path stay (ST-I3).
        unsafe {
            if let Some(word) = word {
                return self.piece(core::ptr::with_exposed_provenance(word), first, end);
            }
            let mut slot = self.root_slot(first);
            for &level in &self.levels.inner {
                slot = Self::slot_in(slot.load(), level, first);
            }
            self.piece_of(slot.load(), first, end)
        }
    }
}

impl<W: Word> Drop for Tree<W> {
    fn drop(&mut self) {
        for slot in self.root.iter() {
            // SAFETY: no other thread has the tree.
            unsafe { self.free(0, slot.load(), &|_| {}) };
        }
        for Unlinked { depth, child } in core::mem::take(self.shrinking.get_mut()) {
            // SAFETY: no other thread has the tree.
            unsafe { self.free(depth, child, &|_| {}) };
        }
    }
}

impl<W: Word> fmt::Debug for Tree<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("segments", &self.segments)
            .field("levels", &self.levels)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
