//! Freeing nodes: see [Shrinking](crate::tree#shrinking).

use alloc::vec::Vec;
use core::ops::Range;

use spanlock_range_lock::words::{Word, address_range, for_each_surely};
use spanlock_range_lock::{Access, RawRangeLock};
use spanlock_sync::Park;
use spanlock_sync::atomic::Ordering::Relaxed;
use spanlock_sync::barrier;
use spanlock_sync::unwind::and_surely;
use spanlock_sync::wait::WaitQueue;

use super::Tree;
use super::node::{self, Node, Slot};
use crate::gate::{Gate, entry_of};

/// An inner node, as the thread that shrinks the tree sees it.
#[derive(Clone, Copy)]
struct Inner<'a> {
    slots: &'a [Slot],
    /// The first segment that the node covers.
    first: u64,
    /// The number of levels above the node: 0 for the root.
    depth: usize,
    /// The slot of a segment is its distance from `first`, shifted right by this.
    shift: u32,
}

impl<'a> Inner<'a> {
    /// Returns the slots whose spans overlap `segments`, each with its first segment.
    fn slots_of(self, segments: &Range<u64>) -> impl Iterator<Item = (u64, &'a Slot)> + use<'a> {
        let slot = |segment: u64| (segment.saturating_sub(self.first) >> self.shift) as usize;
        let end = (slot(segments.end - 1) + 1).min(self.slots.len());
        let slots = slot(segments.start).min(end)..end;
        let first = move |slot| self.first + ((slot as u64) << self.shift);
        slots.map(move |slot| (first(slot), &self.slots[slot]))
    }
}

/// What one walk over the tree needs.
struct Walk<'a, P> {
    gate: &'a Gate<P>,
    queue: &'a WaitQueue<P>,
    segments: &'a Range<u64>,
    /// See [`Tree::shrinking`](super::Tree).
    unlinked: &'a mut Vec<Unlinked>,
}

/// A node that was unlinked from a node at `depth`, and cannot be freed yet.
pub(super) struct Unlinked {
    pub(super) depth: usize,
    pub(super) child: *mut Node,
}

// SAFETY: the thread that has the list owns the node.
unsafe impl Send for Unlinked {}

/// Shrinking. Any thread may call `shrink`. The other functions run only in the thread that holds
/// the mutex `shrinking`.
impl<W: Word> Tree<W> {
    /// Frees the vacant nodes that cover any of `segments`; returns the bytes freed. Frees nothing
    /// if the system refuses the heavy barrier to this thread.
    pub(crate) fn shrink<P: Park>(
        &self,
        gate: &Gate<P>,
        queue: &WaitQueue<P>,
        segments: &Range<u64>,
    ) -> usize {
        if segments.is_empty() {
            return 0;
        }
        let mut unlinked = self.shrinking.lock();
        if !barrier::is_heavy_granted() {
            return 0;
        }
        let mut freed = 0;
        if !unlinked.is_empty() {
            if !self.rcu.synchronize() {
                return 0;
            }
            gate.end_doubt();
            for_each_surely(unlinked.drain(..), |Unlinked { depth, child }| {
                // SAFETY: every thread that found the child has left its critical section, and no
                // word in it is held (ST-I4, ST-I5).
                freed += unsafe { self.free(depth, child, &|words| queue.evict(words)) };
            });
        }
        let root = Inner {
            slots: &self.root,
            first: 0,
            depth: 0,
            shift: self.levels.root_shift,
        };
        let mut walk = Walk {
            gate,
            queue,
            segments,
            unlinked: &mut unlinked,
        };
        freed + self.shrink_below(&mut walk, root)
    }

    /// Frees the vacant nodes below `node` that cover any of the walk's segments; returns the bytes
    /// freed.
    fn shrink_below<P: Park>(&self, walk: &mut Walk<'_, P>, node: Inner<'_>) -> usize {
        let mut freed = 0;
        for (first, slot) in node.slots_of(walk.segments) {
            // SAFETY: only this thread unlinks nodes, and it has not unlinked this one.
            if let Some(child) = unsafe { self.inner(node.depth, first, slot.load()) } {
                freed += self.shrink_below(walk, child);
            }
        }
        // Check without closing the gate first: usually no child is vacant. After a refusal, the
        // walk only returns.
        let worthwhile = walk.unlinked.is_empty()
            && (node.slots_of(walk.segments)).any(|(_, slot)| self.is_vacant(node.depth, slot));
        if worthwhile {
            freed += self.shrink_node(walk, node);
        }
        freed
    }

    /// Frees the vacant children of `node`: steps 1 to 5 of [Shrinking](crate::tree#shrinking).
    fn shrink_node<P: Park>(&self, walk: &mut Walk<'_, P>, node: Inner<'_>) -> usize {
        let (gate, queue) = (walk.gate, walk.queue);
        let span = self.span(node);
        gate.close();
        let entry = gate.entries().try_lock(entry_of(&span), Access::Write);
        let Ok(entry) = entry else {
            gate.open();
            return 0;
        };
        gate.before_scan();
        let depth = node.depth;
        for (_, slot) in node.slots_of(walk.segments) {
            // A node for which the list has no room stays linked.
            if self.is_vacant(depth, slot) && walk.unlinked.try_reserve(1).is_ok() {
                let child = slot.load();
                walk.unlinked.push(Unlinked { depth, child });
                slot.unlink();
            }
        }
        if !walk.unlinked.is_empty() && !self.rcu.synchronize() {
            // The nodes stay in the list.
            // SAFETY: the entry was taken above.
            unsafe { gate.release_in_doubt(&span, entry) };
            return 0;
        }
        // SAFETY: the entry was taken above.
        let open = || unsafe { gate.release(&span, Access::Write, entry) };
        // Remove the waiters from the queue. A waiting request that was leaked by `mem::forget`
        // would otherwise stay queued at an address that the next owner of this memory may use for
        // a word.
        let evict = |words| queue.evict(words);
        let mut freed = 0;
        // SAFETY: no thread finds the child any more. Every thread that found it has left its
        // critical section, and no word in it is held (ST-I4, ST-I5).
        let free = |it: Unlinked| freed += unsafe { self.free(it.depth, it.child, &evict) };
        and_surely(open, || for_each_surely(walk.unlinked.drain(..), free));
        freed
    }

    /// Returns the child of a node at `depth`, if it is an inner node.
    ///
    /// # Safety
    /// `child` is a child of that node, and stays for `'a`.
    unsafe fn inner<'a>(&self, depth: usize, first: u64, child: *mut Node) -> Option<Inner<'a>> {
        let level = *self.levels.inner.get(depth)?;
        (!child.is_null()).then(|| Inner {
            // SAFETY: ST-I1. The child stays: the caller's promise.
            slots: unsafe { node::contents(child, level.len()) },
            first,
            depth: depth + 1,
            shift: level.shift,
        })
    }

    /// Returns the segments that a node covers.
    fn span(&self, node: Inner<'_>) -> Range<u64> {
        let segments = (node.slots.len() as u64).saturating_mul(1 << node.shift);
        let end = node.first.saturating_add(segments);
        node.first..end.min(self.segments.count())
    }

    /// Returns whether a slot of a node at `depth` has a vacant child.
    ///
    /// A leaf is vacant if every word is free, an inner node if every slot is null.
    fn is_vacant(&self, depth: usize, slot: &Slot) -> bool {
        let child = slot.load();
        if child.is_null() {
            return false;
        }
        // SAFETY: ST-I1. The child stays, since only this thread may unlink it (ST-I2).
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
}

/// Freeing unlinked nodes.
impl<W: Word> Tree<W> {
    /// Frees the child of a node at `depth`, with everything below it; returns the bytes freed.
    ///
    /// Calls `evict` with the addresses of each leaf's words before it frees the leaf. `evict`
    /// wakes waiters, so it may panic; everything is freed even then. Does nothing if `child` is
    /// null.
    ///
    /// # Safety
    /// `child` is a child of that node, and no thread uses it any more.
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
        // SAFETY: ST-I1, and the caller's promise. The words and slots are not used after the node
        // is freed.
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

    /// Frees one node and subtracts it from the count; returns the bytes freed.
    ///
    /// # Safety
    /// As for [`node::free`].
    unsafe fn free_node<T: 'static>(&self, node: *mut Node, len: usize) -> usize {
        // SAFETY: the caller's promise.
        let freed = unsafe { node::free::<T>(node, len) };
        // Relaxed: a count for statistics.
        self.bytes.fetch_sub(freed, Relaxed);
        freed
    }
}
