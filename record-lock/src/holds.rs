//! The holds of all owners.
//!
//! A hold is a run of bytes that one owner has locked in one mode. The holds of one owner are as
//! few as possible: `lock` and `unlock` *assign* a mode, or none, to bytes, whatever the owner held
//! there. Then they cut the owner's old holds at the ends of the range, and join equal neighbours.
//!
//! ```text
//!   an owner holds          rrrrrrrrrrrr          wwww
//!   it locks for writing          wwwwwwwwwwwwwwww
//!   then it holds           rrrrrrwwwwwwwwwwwwwwwwwwww
//! ```
//!
//! An assignment is one step. So an upgrade or a downgrade of bytes never leaves them unlocked, and
//! a request that fails changes nothing.
//!
//! The holds of all owners are in one interval tree, that of `spanlock-interval-lock`. Its public
//! locks cannot serve here, because they exclude requests by ranges alone: a second request of an
//! owner would wait for its first, and no call of theirs says whose hold is in the way.
//!
//! # Invariants
//! - **REC-I1** Two holds of different owners that share a byte are both for reading. Two holds of
//!   one owner share no byte, and if they touch, their modes differ.

use spanlock_interval_lock::shared::{Index, Tree};

use crate::error::Error;
use crate::hold::{Bytes, Hold, Mode};

/// What the tree stores with each span. The tree wants a default, and overwrites it.
struct Node(Hold);

impl Default for Node {
    fn default() -> Self {
        let (owner, first, last, mode) = (0, 0, 0, Mode::Read);
        Node(Hold {
            owner,
            first,
            last,
            mode,
        })
    }
}

pub(crate) struct Holds {
    tree: Tree<Node>,
}

impl Holds {
    pub(crate) const fn new() -> Self {
        Holds { tree: Tree::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Returns the holds that conflict with a request, in the order of their first bytes.
    pub(crate) fn conflicts(&self, want: &Hold) -> impl Iterator<Item = Hold> {
        let holds = self.overlaps(want.bytes());
        holds.filter(move |hold| hold.conflicts_with(want))
    }

    /// Returns the holds that overlap bytes, in the order of their first bytes.
    pub(crate) fn overlaps(&self, bytes: Bytes) -> impl Iterator<Item = Hold> {
        // The last two bytes share a position, so the tree may have holds that start with the last
        // one before others.
        let end = Bytes {
            first: u64::MAX,
            last: u64::MAX,
        };
        let end = (bytes.last == end.last).then(|| self.near(end));
        let before = self.near(bytes).filter(|hold| hold.first < u64::MAX);
        let last = end.into_iter().flatten();
        let holds = before.chain(last.filter(|hold| hold.first == u64::MAX));
        holds.filter(move |hold| hold.bytes().overlaps(bytes))
    }

    /// Returns the holds whose spans overlap that of `bytes`, in the order of the tree.
    fn near(&self, bytes: Bytes) -> impl Iterator<Item = Hold> {
        let mut next = self.tree.first_overlap(bytes.span());
        core::iter::from_fn(move || {
            let at = next?;
            next = self.tree.next_overlap(at, bytes.span());
            let hold = self.tree.value(at).0;
            debug_assert!(hold.bytes().span().overlaps(bytes.span()), "IL-T3");
            Some(hold)
        })
    }

    /// Sets the mode in which an owner holds bytes (REC-I1); returns by how many this changes the
    /// number of holds. Nothing conflicts with the mode, and there is room for new holds: for two,
    /// or without a mode for one, if the bytes lie inside a hold.
    pub(crate) fn assign(&mut self, owner: u64, bytes: Bytes, mode: Option<Mode>) -> isize {
        let before = self.tree.len();
        let (mut new, around) = (bytes, bytes.widened());
        let mut next = self.tree.first_overlap(around.span());
        while let Some(at) = next {
            // A step adds parts of `old` only, and later steps leave these as they are.
            next = self.tree.next_overlap(at, around.span());
            let old = self.tree.value(at).0;
            if old.owner != owner || !old.bytes().overlaps(around) {
                continue;
            }
            if Some(old.mode) == mode {
                new.first = new.first.min(old.first);
                new.last = new.last.max(old.last);
                self.tree.remove(at);
            } else if old.bytes().overlaps(bytes) {
                self.cut(at, old, bytes);
            }
        }
        if let Some(mode) = mode {
            self.insert(Hold::new(owner, new, mode));
        }
        self.tree.len() as isize - before as isize
    }

    /// Cuts bytes out of a hold.
    fn cut(&mut self, at: Index, old: Hold, bytes: Bytes) {
        let low = (old.first < bytes.first).then(|| Hold {
            last: bytes.first - 1,
            ..old
        });
        let high = (bytes.last < old.last).then(|| Hold {
            first: bytes.last + 1,
            ..old
        });
        match (low, high) {
            (None, None) => self.tree.remove(at),
            (Some(part), None) | (None, Some(part)) => self.resize(at, part),
            (Some(low), Some(high)) => {
                self.resize(at, low);
                self.insert(high);
            }
        }
    }

    fn insert(&mut self, hold: Hold) {
        let span = hold.bytes().span();
        let at = self.tree.insert(self.tree.gap(span), span);
        self.tree.value_mut(at).0 = hold;
    }

    fn resize(&mut self, at: Index, hold: Hold) {
        self.tree.resize(at, hold.bytes().span());
        self.tree.value_mut(at).0 = hold;
    }

    /// Makes room for this number of new holds.
    pub(crate) fn reserve(&mut self, new: usize) -> Result<(), Error> {
        let (needed, room) = (self.tree.len() + new, self.tree.room());
        if needed <= room {
            return Ok(());
        }
        // If there is no memory for twice the room, there may be some for what is needed now.
        let grown = self.tree.try_reserve(needed.max(2 * room).max(4));
        Ok(grown.or_else(|_| self.tree.try_reserve(needed))?)
    }
}
