//! A node of the tree: up to [`CAPACITY`] entries, in order of their starts.

use core::ops::Range;

use spanlock_range_lock::Span;

/// The index of a span or of a node. It does not change until the span or the node is removed.
pub type Index = u32;

/// Marks the end of a list. It is never the index of a span or a node.
pub(super) const NIL: Index = Index::MAX;

/// The maximum number of entries in a node. Sixteen entries take 6 cache lines.
pub(super) const CAPACITY: usize = 16;

/// In a leaf, a span and its slot. In an inner node, a child and the span that covers it.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) span: Span,
    pub(super) to: Index,
}

#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) parent: Index,
    len: u8,
    /// 0 for a leaf.
    pub(super) level: u8,
    /// Entries from `len` on have no meaning.
    entries: [Entry; CAPACITY],
}

impl Node {
    /// Creates a node without entries and without a parent.
    pub(super) fn new(level: u8) -> Self {
        let empty = Entry {
            span: Span::FULL,
            to: NIL,
        };
        Node {
            parent: NIL,
            len: 0,
            level,
            entries: [empty; CAPACITY],
        }
    }

    #[inline]
    pub(super) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() == CAPACITY
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..self.len()]
    }

    #[inline]
    pub(super) fn entries_mut(&mut self) -> &mut [Entry] {
        let len = self.len();
        &mut self.entries[..len]
    }

    /// Returns the place of the entry that refers to `to`. There must be one.
    #[inline]
    pub(super) fn position(&self, to: Index) -> usize {
        let found = self.entries().iter().position(|entry| entry.to == to);
        found.expect("links are mutual")
    }

    /// Returns the number of entries that start at or before `position`. Also returns the furthest
    /// end among these entries, except the last of them.
    #[inline]
    pub(super) fn before(&self, position: u64) -> (usize, u64) {
        let (mut before, mut furthest, mut last) = (0, 0, 0);
        for entry in self.entries() {
            if entry.span.start() > position {
                break;
            }
            before += 1;
            furthest = last.max(furthest);
            last = entry.span.end();
        }
        (before, furthest)
    }

    /// Returns the span that covers all entries. There must be at least one.
    #[inline]
    pub(super) fn hull(&self) -> Span {
        let ends = self.entries().iter().map(|entry| entry.span.end());
        span(self.entries()[0].span.start(), ends.fold(0, u64::max))
    }

    /// Inserts an entry at `at`. The node must not be full.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, entry: Entry) {
        let len = self.len();
        // `copy_within` costs a call even if there is nothing to move.
        if at < len {
            self.entries.copy_within(at..len, at + 1);
        }
        self.entries[at] = entry;
        self.len += 1;
    }

    /// Makes `entry` the only entry.
    #[inline]
    pub(super) fn put_first(&mut self, entry: Entry) {
        self.entries[0] = entry;
        self.len = 1;
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(super) fn remove(&mut self, at: usize) -> Entry {
        let gone = self.entries()[at];
        self.drain(at..at + 1);
        gone
    }

    /// Removes the entries in `range`.
    #[inline]
    pub(super) fn drain(&mut self, range: Range<usize>) {
        let len = self.len();
        if range.end < len {
            self.entries.copy_within(range.end..len, range.start);
        }
        self.len -= range.len() as u8;
    }
}

/// Returns the span that covers both spans.
pub(super) fn hull(one: Span, other: Span) -> Span {
    span(one.start().min(other.start()), one.end().max(other.end()))
}

fn span(start: u64, end: u64) -> Span {
    let span = Span::new(start..end);
    span.ok().flatten().expect("covers a span")
}
