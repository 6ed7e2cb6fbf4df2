//! The radix tree: the words of segments in leaves that are made when they are first needed, and given back when nobody needs them.
//!
//! # The problem
//! An array of words is as long as the largest file may become. A radix tree over the segments' numbers has words only where
//! somebody has been ([SRL] §IV-A, Algorithm 1). The paper's has a pointer to each word, 8 bytes for 4, and keeps
//! its nodes until the file is closed. Here a leaf *is* its words, side by side, and nodes go while the file is open: [`shrink`](Srl::shrink), or
//! [`shrink_range`](Srl::shrink_range) after a truncate.
//!
//! # Picture
//!
//! ```text
//!  segment number   00 0000 | 000001 | 000011 | 000000 | 00101      levels of 6, 6, 6, 6, 5 bits
//!                        │        │        │        │       │
//!  root             [ ●  ∅  ∅ … ] │        │        │       │       48 slots for 1.5 TB
//!                     └→ [ ∅  ●  ∅ … ]     │        │       │       64 slots: a null pointer, or a node
//!                             └→ [ ∅  ∅  ∅  ● … ]   │       │
//!                                            └→ [ ●  ∅ … ]  │
//!                                                 └→ [ 0 0 0 0 0 W 0 … ]   a leaf: 32 words
//! ```
//!
//! Levels that the capacity does not need are left out at the top, and the root has no more slots than that takes.
//!
//! # Properties
//! - **Cost**: on top of what the words cost, a dependent load a level, or one for a leaf that the thread has been to lately. A hold's release looks
//!   nothing up for its first leaf.
//! - **Progress**: finding a word is wait-free, making a node lock-free but for the allocator. Whoever shrinks waits for others, and holds nobody up but those
//!   whom its gate stops, for about the time of two system calls a node.
//! - **Memory**: [`memory_usage`](Srl::memory_usage) bytes: 4 a segment in use (half a byte packed), as whole leaves, and 8 for each slot above.
//!
//! # Giving memory back
//! Who takes words away must be sure that nobody holds one, nobody is about to take one, and nobody looks at them. A wide request makes sure of
//! the first two ([`crate::gate`]), and sections of the third ([`spanlock_sync::rcu`]). So the node whose children are to go is treated as a wide
//! request of its whole span would do, save that it tries and never waits for a hold:
//!
//! 1. closes the gate, and takes an entry for the span, exclusively: if that is not to be had at once, the node keeps what it has;
//! 2. heavy barrier; then scans the children: *vacant* is a leaf of which every word is free, an inner node of which every slot is null;
//! 3. unlinks the vacant ones;
//! 4. waits until all sections have ended that began before;
//! 5. gives up the entry and opens the gate; frees what it has unlinked, with what was linked under it meanwhile.
//!
//! Children come before their parents, so a tree that nobody uses shrinks to its root in one walk. One thread at a time shrinks: so the nodes that it walks
//! over stay.
//!
//! Why not crossbeam-epoch, the usual remedy: each descent would announce itself by a fenced store, and that costs more than taking and releasing the
//! word at its end (3.8 ns to 2.4 where this was written; a section costs 0.7). Here shrinking pays, once in a long while.
//!
//! # Invariants
//! - **N-I1** A slot of a level points to a node of the next: so many slots as that level's bits say, or a leaf's words.
//! - **N-I2** A slot goes from null to a node by anybody's compare-exchange, and from a node to null only by who shrinks, alone, with the exclusive
//!   entry for its span. So a segment has one word at a time, but while that entry is there: then no request that takes a word of either passes the gate.
//! - **N-I3** A node that holds are in stays. A hold has passed the gate: if it did before the gate was closed, the scan sees its word taken (G-I2); if
//!   later, it was stopped, or came after the gate was opened and found no node that was unlinked. (A small request that has an entry of its own does not ask
//!   the gate; then the shrinking has none for its span.) The nodes above it have a slot that is not null, so they stay too.
//! - **N-I4** A node found in a section stays until that section ends: unlinked nodes are freed after all sections that began before (RCU-I2), and whoever
//!   begins later does not find them: not even below each other, as children are unlinked from a node or freed with it.
//! - **N-I5** When the sections have ended nobody holds a word of an unlinked node: who took one was stopped, and gave it back within its section (G-I6), by
//!   the address, since the way down may lead elsewhere by then.
//!
//! # Who waits in a leaf that goes
//! A waiter sleeps on an *address*. It holds no word there: it waits for one that somebody holds, and then the leaf stays (N-I3); or that somebody has just
//! given back, and is awake or about to be. When it looks again it comes down the tree anew, sees that its word is elsewhere now, leaves the
//! queue that it stood in, which wakes the next there, and comes as one who has just arrived ([`Progress`](spanlock_range_lock::words::Progress)). So it may be passed
//! by [`MAX_PASSES`](spanlock_range_lock::words::MAX_PASSES) more arrivals for each time that its leaf went.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | N | the compare-exchange that links a node | Release | O | `srl-tree/exclusion`, `growth` |
//! | O | the load of a slot; the compare-exchange that fails | Acquire | N | `srl-tree/exclusion`, `growth` |
//!
//! The store that unlinks a node is Relaxed: the gate orders it (L and M). F to I: [`spanlock_sync::rcu`]; J to M: [`crate::gate`].
//!
//! # Not promised
//! Wide holds keep the nodes of their whole span, and those that overlap it, whether there are words in use or not.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

mod node;
mod shape;
mod shrink;

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;

use spanlock_range_lock::RwWord;
use spanlock_range_lock::words::Word;
use spanlock_sync::atomic::{AtomicUsize, Ordering::*, Zeroed, zeroed_slice};
use spanlock_sync::rcu::{Rcu, ReadGuard};
use spanlock_sync::{DefaultPark, Mutex, Park};

use crate::lock::Srl;
use crate::packed::PackedWord;
use crate::segment::{SegmentError, Segments};
use crate::space::{Piece, Space, words_of};
use node::{Node, Slot};
use shape::{Level, Levels};

pub use shape::Shape;

/// A range lock with a reader-writer word for each segment that somebody has used: for files that are sparse, or may become very large.
///
/// ```
/// use spanlock_range_lock::RangeLockExt;
/// use spanlock_srl::SrlTree;
///
/// const TB: u64 = 1 << 40;
/// let lock = SrlTree::new(3 * TB / 2)?; // in segments of 4 KiB
/// let idle = lock.memory_usage();
/// let (first, last) = (lock.write(0..1)?, lock.write(3 * TB / 2 - 1..3 * TB / 2)?);
/// assert!(lock.memory_usage() < 8192);
/// drop((first, last));
/// lock.shrink();
/// assert_eq!(lock.memory_usage(), idle);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SrlTree<P = DefaultPark> = Srl<Tree<RwWord>, P>;

/// As [`SrlTree`], with the states of sixteen segments in one word: as [`SrlPacked`](crate::SrlPacked) is to the array.
///
/// ```
/// use spanlock_range_lock::RangeLockExt;
/// use spanlock_srl::SrlTreePacked;
///
/// let lock = SrlTreePacked::new(3 << 39)?;
/// let megabyte = lock.write(0..1 << 20)?; // 256 segments: sixteen words in eight leaves
/// assert!(lock.try_read(4000..5000).is_err());
/// # drop(megabyte);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SrlTreePacked<P = DefaultPark> = Srl<Tree<PackedWord>, P>;

/// The words of segments in the leaves of a radix tree.
pub struct Tree<W: Word> {
    root: Box<[Slot]>,
    levels: Levels,
    segments: Segments,
    rcu: Rcu,
    /// Of all nodes but the root.
    bytes: AtomicUsize,
    /// Held by who shrinks.
    shrinking: Mutex<()>,
    words: PhantomData<Box<[W]>>,
}

impl<W: Word> Srl<Tree<W>> {
    /// A lock for positions `0..capacity` in segments of 4 KiB. Its shape is [`Shape::for_capacity`]'s: for 1.5 TB the paper's.
    ///
    /// # Errors
    /// [`SegmentError::Memory`] if there is no memory for the root.
    pub fn new(capacity: u64) -> Result<Self, SegmentError> {
        Self::with_segment_size(capacity, Segments::DEFAULT_SIZE)
    }

    /// A lock for positions `0..capacity` in segments of `size`. Its shape is [`Shape::for_capacity`]'s.
    ///
    /// # Errors
    /// [`SegmentError::Size`] if `size` is not a power of two, [`SegmentError::Memory`] if there is no memory for the root.
    pub fn with_segment_size(capacity: u64, size: u64) -> Result<Self, SegmentError> {
        Self::with_shape(capacity, &Shape::for_capacity(capacity, size)?)
    }

    /// A lock for positions `0..capacity` in a tree of this shape. Levels that the capacity does not need are left out at the top.
    ///
    /// # Errors
    /// [`SegmentError::Coverage`] if the levels do not cover the capacity. [`SegmentError::Level`] if the leaves have fewer segments than a word has states: in
    /// the packed form they need 4 bits. [`SegmentError::Memory`] if there is no memory for the root.
    pub fn with_shape(capacity: u64, shape: &Shape) -> Result<Self, SegmentError> {
        Ok(Srl::with_space(Tree::new(capacity, shape)?))
    }
}

impl<W: Word, P: Park> Srl<Tree<W>, P> {
    /// Bytes that all nodes take. Exact while nobody makes or frees one.
    pub fn memory_usage(&self) -> usize {
        // Relaxed: a count for statistics.
        size_of_val(&*self.space.root) + self.space.bytes.load(Relaxed)
    }
}

impl<W: Word> Tree<W> {
    fn new(capacity: u64, shape: &Shape) -> Result<Self, SegmentError> {
        let segments = Segments::new(capacity, shape.segment_size())?;
        shape.check(W::LANES.trailing_zeros())?;
        let levels = shape.above_leaves(segments)?;
        let root_slots = (segments.count().saturating_sub(1) >> levels.root_shift) as usize + 1;
        let root = zeroed_slice(root_slots).ok_or(SegmentError::Memory {
            segments: segments.count(),
            capacity,
        })?;
        Ok(Tree {
            root,
            levels,
            segments,
            rcu: Rcu::new(),
            bytes: AtomicUsize::new(0),
            shrinking: Mutex::new(()),
            words: PhantomData,
        })
    }

    /// The root's slot for a segment.
    #[inline]
    fn root_slot(&self, segment: u64) -> &Slot {
        &self.root[(segment >> self.levels.root_shift) as usize]
    }

    /// The slot for a segment in an inner node of this level.
    ///
    /// # Safety
    /// The node is not null, and was found at this level in a section that lasts for `'a`, or cannot go for another reason.
    #[inline]
    unsafe fn slot_in<'a>(node: *mut Node, level: Level, segment: u64) -> &'a Slot {
        // SAFETY: N-I1: it has `level.len()` slots, and `slot` is below that. It stays: the caller's promise.
        unsafe { &*node.cast::<Slot>().add(level.slot(segment)) }
    }

    /// The words of the segments from `first` on, up to `end` and as far as the leaf goes, the first of them at `word`.
    ///
    /// # Safety
    /// `word` is the word of `first`, and its leaf stays for `'a`.
    #[inline]
    unsafe fn piece<'a>(&self, word: *const W, first: u64, end: u64) -> Piece<'a, W> {
        let leaf = 1 << self.levels.leaf_bits;
        let end = first + (end - first).min(leaf - (first & (leaf - 1)));
        // SAFETY: the leaf has the words of all its segments, in order, and `end` is within it. It stays: the caller's promise.
        let words = unsafe { core::slice::from_raw_parts(word, words_of::<W>(first, end)) };
        Piece::new(words, first, end)
    }

    /// The word of a segment in its leaf.
    ///
    /// # Safety
    /// `leaf` is the leaf of `segment`, and is there.
    #[inline]
    unsafe fn word_in(&self, leaf: *mut Node, segment: u64) -> *const W {
        let within = segment & ((1 << self.levels.leaf_bits) - 1);
        // SAFETY: N-I1: the leaf has that many segments, and so that word.
        unsafe { leaf.cast::<W>().add(within as usize / W::LANES as usize) }
    }

    /// As [`piece`](Self::piece), of the leaf.
    ///
    /// # Safety
    /// `leaf` is the leaf of `first`, and stays for `'a`.
    #[inline]
    unsafe fn piece_of<'a>(&self, leaf: *mut Node, first: u64, end: u64) -> Piece<'a, W> {
        // SAFETY: the caller's promise.
        unsafe { self.piece(self.word_in(leaf, first), first, end) }
    }

    /// The leaf of a segment. Makes what is missing. In a section, that it stays until the end of.
    #[inline]
    fn leaf(&self, segment: u64) -> *mut Node {
        let mut slot = self.root_slot(segment);
        for &level in &self.levels.inner {
            let mut node = slot.load();
            if node.is_null() {
                node = self.make::<Slot>(slot, level.len());
            }
            // SAFETY: it is of this level (N-I1), and found or made in a section that lasts (N-I4).
            slot = unsafe { Self::slot_in(node, level, segment) };
        }
        let leaf = slot.load();
        if leaf.is_null() {
            return self.make::<W>(slot, self.levels.leaf_len::<W>());
        }
        leaf
    }

    /// The slots of the leaves from that of a segment on, as far as they lie in one node; or, if there is no such node, the first segment that it would not be
    /// for, which is `end` at most.
    fn leaf_slots<'s>(
        &'s self,
        _section: &'s ReadGuard<'_>,
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
            // SAFETY: it is of this level (N-I1), and found in a section that outlasts `'s` (N-I4).
            slots = unsafe { &node::contents(node, level.len())[level.slot(segment)..] };
            shift = level.shift;
        }
        Ok(slots)
    }

    /// As [`leaf`](Self::leaf), for the leaf of this number.
    #[inline(never)]
    fn leaf_to_remember(&self, section: &ReadGuard<'_>, number: u64, segment: u64) -> *mut Node {
        let leaf = self.leaf(segment);
        if let Some(leaf) = core::ptr::NonNull::new(leaf.cast()) {
            section.remember(number, leaf);
        }
        leaf
    }

    #[cold]
    fn make<T: Zeroed + 'static>(&self, slot: &Slot, len: usize) -> *mut Node {
        let bytes = len * size_of::<T>();
        // Relaxed, both: a count for statistics. Before the node is linked, so that whoever takes it away finds it counted.
        self.bytes.fetch_add(bytes, Relaxed);
        let (node, made) = slot.make::<T>(len);
        if !made {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
        node
    }
}

// SAFETY: N-I2: one word a segment. N-I4: it stays while the section lasts in which it was found, and N-I3: while it is held.
unsafe impl<W: Word> Space for Tree<W> {
    type Word = W;
    type Section<'a> = ReadGuard<'a>;

    #[inline]
    fn segments(&self) -> Segments {
        self.segments
    }

    #[inline]
    fn enter(&self) -> ReadGuard<'_> {
        self.rcu.enter()
    }

    #[inline]
    fn word<'s>(&'s self, section: &'s ReadGuard<'_>, segment: u64) -> &'s W {
        let number = segment >> self.levels.leaf_bits;
        let leaf = match section.recall(number) {
            Some(leaf) => leaf.as_ptr().cast(),
            None => self.leaf_to_remember(section, number, segment),
        };
        // SAFETY: the leaf is found in a section that outlasts `'s` (N-I4), or as good as (RCU-I3).
        unsafe { &*self.word_in(leaf, segment) }
    }

    #[inline]
    fn find_or_make<'s>(
        &'s self,
        _section: &'s ReadGuard<'_>,
        first: u64,
        end: u64,
    ) -> Piece<'s, W> {
        // SAFETY: the leaf is found in a section that outlasts `'s` (N-I4).
        unsafe { self.piece_of(self.leaf(first), first, end) }
    }

    #[inline]
    fn find<'s>(
        &'s self,
        _section: &'s ReadGuard<'_>,
        first: u64,
        end: u64,
    ) -> Result<Piece<'s, W>, u64> {
        // The first segment that a slot of a node is not for.
        let behind = |shift: u32| (first | ((1 << shift) - 1)).saturating_add(1).min(end);
        let (mut slot, mut shift) = (self.root_slot(first), self.levels.root_shift);
        for &level in &self.levels.inner {
            let node = slot.load();
            if node.is_null() {
                return Err(behind(shift));
            }
            // SAFETY: it is of this level (N-I1), and found in a section that outlasts `'s` (N-I4).
            (slot, shift) = (unsafe { Self::slot_in(node, level, first) }, level.shift);
        }
        let leaf = slot.load();
        if leaf.is_null() {
            return Err(behind(shift));
        }
        // SAFETY: below the last level are leaves (N-I1); found in a section that outlasts `'s` (N-I4).
        Ok(unsafe { self.piece_of(leaf, first, end) })
    }

    fn first_taken<'s>(
        &'s self,
        section: &'s ReadGuard<'_>,
        first: u64,
        end: u64,
        is_free: impl Fn(Piece<'s, W>) -> bool,
    ) -> u64 {
        let leaf_segments = 1 << self.levels.leaf_bits;
        let mut at = first;
        while at < end {
            let slots = match self.leaf_slots(section, at, end) {
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
                // SAFETY: below the last level are leaves (N-I1); found in a section that outlasts `'s` (N-I4).
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
        // SAFETY: of all of these: the caller holds `first`, so there is a way to its leaf, and both stay (N-I3).
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
        for slot in &self.root {
            // SAFETY: nobody else has the tree.
            unsafe { self.free(0, slot.load(), &|_| {}) };
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
