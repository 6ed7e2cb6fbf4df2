//! Giving memory back: see [`crate::tree`].

use alloc::vec::Vec;
use core::ops::Range;

use spanlock_range_lock::words::{Word, address_range, for_each_surely};
use spanlock_range_lock::{Access, RangeError, RawRangeLock, Span};
use spanlock_sync::Park;
use spanlock_sync::atomic::Ordering::Relaxed;

use super::node::{self, Node, Slot};
use super::{Srl, Tree};
use crate::lock::entry_of;
use crate::surely::and_surely;

/// An inner node, as who shrinks sees it.
#[derive(Clone, Copy)]
struct Inner<'a> {
    slots: &'a [Slot],
    /// The first segment.
    first: u64,
    /// How many levels lie above: 0 is the root.
    depth: usize,
    /// How far a segment's number is shifted to be a slot.
    shift: u32,
}

impl<'a> Inner<'a> {
    /// The slots whose spans overlap `segments`.
    fn slots_of(self, segments: &Range<u64>) -> impl Iterator<Item = (u64, &'a Slot)> + use<'a> {
        let slot = |segment: u64| (segment.saturating_sub(self.first) >> self.shift) as usize;
        let end = (slot(segments.end - 1) + 1).min(self.slots.len());
        let slots = slot(segments.start).min(end)..end;
        let first = move |slot| self.first + ((slot as u64) << self.shift);
        slots.map(move |slot| (first(slot), &self.slots[slot]))
    }
}

impl<W: Word, P: Park> Srl<Tree<W>, P> {
    /// Gives the memory of all leaves back in which nobody holds anything, and of the nodes above them: how many bytes.
    ///
    /// Holds and waiters are not disturbed; small requests for neighbours of what goes wait for some microseconds. Wide holds keep the
    /// memory of all that they cover. Blocks while another thread shrinks this lock, and until every thread is out of the midst of taking a range; so not from
    /// within a [`Waker`](core::task::Waker).
    pub fn shrink(&self) -> usize {
        self.shrink_segments(0..self.segments.count())
    }

    /// As [`shrink`](Self::shrink), of the leaves that touch `range`: for instance what a file has been truncated by, once nobody holds it any more.
    ///
    /// # Errors
    /// [`RangeError`] if `range` is reversed or ends past the capacity.
    pub fn shrink_range(&self, range: Range<u64>) -> Result<usize, RangeError> {
        match Span::new(range)? {
            None => Ok(0),
            Some(span) => Ok(self.shrink_segments(self.segments.touched(span)?)),
        }
    }

    fn shrink_segments(&self, segments: Range<u64>) -> usize {
        if segments.is_empty() {
            return 0;
        }
        let _alone = self.space.shrinking.lock();
        let root = Inner {
            slots: &self.space.root,
            first: 0,
            depth: 0,
            shift: self.space.levels.root_shift,
        };
        self.shrink_below(root, &segments)
    }

    /// Frees what is vacant below a node. Only who shrinks does this.
    fn shrink_below(&self, node: Inner<'_>, segments: &Range<u64>) -> usize {
        let mut freed = 0;
        for (first, slot) in node.slots_of(segments) {
            // SAFETY: only this thread unlinks nodes, and has not yet been there.
            if let Some(child) = unsafe { self.space.inner(node.depth, first, slot.load()) } {
                freed += self.shrink_below(child, segments);
            }
        }
        // A look without the gate first: as a rule there is nothing to do.
        let worthwhile = node
            .slots_of(segments)
            .any(|(_, slot)| self.space.is_vacant(node.depth, slot));
        if worthwhile {
            freed += self.shrink_node(node, segments);
        }
        freed
    }

    /// Frees the vacant children of a node: steps 1 to 5. Only who shrinks does this.
    fn shrink_node(&self, node: Inner<'_>, segments: &Range<u64>) -> usize {
        let span = self.space.span(node);
        self.gate.close();
        let entry = self.gate.entries().try_lock(entry_of(&span), Access::Write);
        let Ok(entry) = entry else {
            self.gate.open();
            return 0;
        };
        self.gate.before_scan();
        let mut unlinked = Vec::new();
        for (_, slot) in node.slots_of(segments) {
            if self.space.is_vacant(node.depth, slot) {
                unlinked.push(slot.load());
                slot.unlink();
            }
        }
        if !unlinked.is_empty() {
            self.space.rcu.synchronize();
        }
        // SAFETY: it was taken above.
        let open = || unsafe { self.unlock_wide(&span, Access::Write, entry) };
        // Requests that were forgotten while they waited there must not be found at the next owner's words.
        let evict = |words| self.queue.evict(words);
        let mut freed = 0;
        // SAFETY: N-I4, N-I5: nobody finds it, all who had found it have left, and nobody holds anything in it.
        let free = |child| freed += unsafe { self.space.free(node.depth, child, &evict) };
        and_surely(open, || for_each_surely(unlinked.into_iter(), free));
        freed
    }
}

impl<W: Word> Tree<W> {
    /// The child of a node at `depth`, if it is an inner one.
    ///
    /// # Safety
    /// It is that, and stays for `'a`.
    unsafe fn inner<'a>(&self, depth: usize, first: u64, child: *mut Node) -> Option<Inner<'a>> {
        let level = *self.levels.inner.get(depth)?;
        (!child.is_null()).then(|| Inner {
            // SAFETY: N-I1. It stays: the caller's promise.
            slots: unsafe { node::contents(child, level.len()) },
            first,
            depth: depth + 1,
            shift: level.shift,
        })
    }

    /// The segments of a node.
    fn span(&self, node: Inner<'_>) -> Range<u64> {
        let segments = (node.slots.len() as u64).saturating_mul(1 << node.shift);
        let end = node.first.saturating_add(segments);
        node.first..end.min(self.segments.count())
    }

    /// Whether the slot of a node at `depth` has a child of which every word is free, or every slot null. Only for who shrinks.
    fn is_vacant(&self, depth: usize, slot: &Slot) -> bool {
        let child = slot.load();
        if child.is_null() {
            return false;
        }
        // SAFETY: N-I1; it stays, since only who shrinks could take it away (N-I2).
        unsafe {
            match self.inner(depth, 0, child) {
                Some(inner) => inner.slots.iter().all(|slot| slot.load().is_null()),
                None => {
                    let words: &[W] = node::contents(child, self.levels.leaf_len::<W>());
                    words.iter().all(|word| {
                        let all = W::LANES;
                        word.free_until(0, all, Access::Write) == all
                    })
                }
            }
        }
    }

    /// Frees the child of a node at `depth`, with all that is below, after a call of `evict` with the addresses of each leaf's words, even if that panics (wakers
    /// do); null is nothing. How many bytes.
    ///
    /// # Safety
    /// It is that, and nobody uses it any more.
    pub(super) unsafe fn free(
        &self,
        depth: usize,
        child: *mut Node,
        evict: &impl Fn(Range<usize>),
    ) -> usize {
        if child.is_null() {
            return 0;
        }
        let (mut below, mut own) = (0, 0);
        // SAFETY: N-I1, and the caller's promise. The words and slots are not used after the node is freed.
        unsafe {
            if let Some(level) = self.levels.inner.get(depth) {
                let slots: &[Slot] = node::contents(child, level.len());
                let free = |slot: &Slot| below += self.free(depth + 1, slot.load(), evict);
                and_surely(
                    || for_each_surely(slots.iter(), free),
                    || own = self.free_node::<Slot>(child, level.len()),
                );
            } else {
                let words: &[W] = node::contents(child, self.levels.leaf_len::<W>());
                and_surely(
                    || evict(address_range(words)),
                    || own = self.free_node::<W>(child, words.len()),
                );
            }
        }
        below + own
    }

    /// Frees one node, and counts it. How many bytes.
    ///
    /// # Safety
    /// As [`node::free`].
    unsafe fn free_node<T: 'static>(&self, node: *mut Node, len: usize) -> usize {
        // SAFETY: the caller's promise.
        let freed = unsafe { node::free::<T>(node, len) };
        // Relaxed: a count for statistics.
        self.bytes.fetch_sub(freed, Relaxed);
        freed
    }
}
