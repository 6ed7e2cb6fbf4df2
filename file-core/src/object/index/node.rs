//! The nodes of an index, and the values in its leaves. The invariants and letters are those of
//! `index.rs`.

use core::ptr;

use spanlock_sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use spanlock_sync::epoch;

pub(super) const BITS: u32 = 6;
pub(super) const FANOUT: usize = 1 << BITS;

/// The location of a file page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The data page; never 0.
    pub(crate) page: u32,
    /// The CRC32C of its content; 0 in volumes without data checksums.
    pub(crate) checksum: u32,
}

impl Mapping {
    pub(super) fn to_word(self) -> u64 {
        self.page as u64 | (self.checksum as u64) << 32
    }

    pub(super) fn from_word(word: u64) -> Option<Mapping> {
        let page = word as u32;
        (page != 0).then_some(Mapping {
            page,
            checksum: (word >> 32) as u32,
        })
    }
}

/// What the index says about a file page.
pub(super) struct Value {
    /// The mapping; 0 for a hole.
    pub(super) word: AtomicU64,
    /// The log page that has the mapping's group; 0 for a hole.
    pub(super) log_page: AtomicU32,
}

impl Value {
    pub(super) fn hole() -> Self {
        Value {
            word: AtomicU64::new(0),
            log_page: AtomicU32::new(0),
        }
    }

    /// Maps the page, and returns the previous mapping with its log page.
    #[inline]
    pub(super) fn replace(&self, mapping: Mapping, log_page: u32) -> Option<(Mapping, u32)> {
        debug_assert!(mapping.page != 0 && log_page != 0);
        // Acquire [M←L]: the state of the page that a cleaning has stored here.
        // equivalent(Relaxed): see `relocate`.
        let old_log_page = self.log_page.swap(log_page, Ordering::Acquire);
        // Relaxed: F-X3, only this thread stores the word meanwhile.
        let old = self.word.load(Ordering::Relaxed);
        // Release [N→O]: the new log page.
        // equivalent(Relaxed): no program of ours shows that it is needed: a walk could pair the
        // new word with the old log page, but only a crash would reveal it.
        self.word.store(mapping.to_word(), Ordering::Release);
        Mapping::from_word(old).map(|old| (old, old_log_page))
    }

    /// Makes the page a hole, and returns the previous mapping with its log page.
    pub(super) fn take(&self) -> Option<(Mapping, u32)> {
        // Relaxed: F-X3, only this thread stores the word meanwhile.
        let mapping = Mapping::from_word(self.word.load(Ordering::Relaxed))?;
        // Relaxed: a walker that sees a hole looks no further.
        self.word.store(0, Ordering::Relaxed);
        // Acquire [M←L]: the state of the page that a cleaning has stored here.
        // equivalent(Relaxed): see `relocate`.
        let log_page = self.log_page.swap(0, Ordering::Acquire);
        Some((mapping, log_page))
    }
}

#[allow(
    clippy::large_enum_variant,
    reason = "most nodes are leaves, and a box would cost each lookup a load"
)]
pub(super) enum Body {
    Leaf([Value; FANOUT]),
    Inner(Inner),
}

pub(super) struct Inner(pub(super) [AtomicPtr<Node>; FANOUT]);

/// It begins with a cache line, so that writers of pages in different nodes share no line.
#[repr(align(64))]
pub(super) struct Node {
    /// The height of the node; 0 for leaves.
    pub(super) level: u32,
    pub(super) body: Body,
}

impl Node {
    pub(super) fn new(level: u32) -> Box<Node> {
        let body = if level == 0 {
            Body::Leaf(core::array::from_fn(|_| Value::hole()))
        } else {
            Body::Inner(Inner(core::array::from_fn(|_| {
                AtomicPtr::new(ptr::null_mut())
            })))
        };
        epoch::owned(Box::new(Node { level, body }))
    }

    /// Returns the slot of `page` in this node.
    #[inline]
    pub(super) fn slot(&self, page: u32) -> usize {
        (page >> (self.level * BITS)) as usize % FANOUT
    }
}

impl Inner {
    /// Returns the child at `slot`, creating it if there is none.
    #[inline]
    pub(super) fn child_or_insert(&self, slot: usize, level: u32) -> *mut Node {
        // Acquire [B←A]: the child's content.
        let child = self.0[slot].load(Ordering::Acquire);
        match child.is_null() {
            true => self.insert(slot, level),
            false => child,
        }
    }

    /// Creates the child at `slot`, unless another thread has created it first. Returns the child.
    #[cold]
    pub(super) fn insert(&self, slot: usize, level: u32) -> *mut Node {
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
                epoch::free(unsafe { Box::from_raw(new) });
                winner
            }
        }
    }
}
