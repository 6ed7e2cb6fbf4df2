//! What owners hold and request: bytes and a mode.

use core::fmt;

use spanlock_range_lock::Span;

/// How bytes are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Shared with other owners that read (`F_RDLCK`).
    Read,
    /// Exclusive (`F_WRLCK`).
    Write,
}

/// Bytes that an owner has locked, from the first to the last, in one mode. It also describes a
/// [waiting request](crate::RecordLock::waiting): then the owner has not locked them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The id of the owner.
    pub owner: u64,
    /// The first byte.
    pub first: u64,
    /// The last byte. It belongs to the hold, so that a hold can contain the byte `u64::MAX`.
    pub last: u64,
    /// The mode.
    pub mode: Mode,
}

impl Hold {
    pub(crate) fn new(owner: u64, bytes: Bytes, mode: Mode) -> Self {
        let Bytes { first, last } = bytes;
        Hold {
            owner,
            first,
            last,
            mode,
        }
    }

    pub(crate) fn bytes(&self) -> Bytes {
        Bytes {
            first: self.first,
            last: self.last,
        }
    }

    pub(crate) fn conflicts_with(&self, other: &Hold) -> bool {
        self.owner != other.owner
            && (self.mode == Mode::Write || other.mode == Mode::Write)
            && self.bytes().overlaps(other.bytes())
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hold {
            owner,
            first,
            last,
            mode,
        } = self;
        let verb = match mode {
            Mode::Read => "read",
            Mode::Write => "write",
        };
        write!(
            f,
            "the {verb} lock of owner {owner} on the bytes {first}..={last}"
        )
    }
}

/// At least one byte: all from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Bytes {
    pub(crate) const ALL: Bytes = Bytes {
        first: 0,
        last: u64::MAX,
    };

    pub(crate) fn overlaps(self, other: Bytes) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Returns the bytes that both contain.
    pub(crate) fn common(self, other: Bytes) -> Option<Bytes> {
        self.overlaps(other).then(|| Bytes {
            first: self.first.max(other.first),
            last: self.last.min(other.last),
        })
    }

    /// Returns all bytes from the first to the last one of both.
    pub(crate) fn hull(self, other: Bytes) -> Bytes {
        Bytes {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }

    /// Returns the bytes together with both neighbours.
    pub(crate) fn widened(self) -> Bytes {
        Bytes {
            first: self.first.saturating_sub(1),
            last: self.last.saturating_add(1),
        }
    }

    /// Returns the positions of the tree that stand for the bytes.
    ///
    /// A position is a byte, except that the last position stands for the last two bytes. So ranges
    /// that overlap have spans that overlap. The opposite is false for these two bytes only, and
    /// every search of the tree compares the bytes as well.
    pub(crate) fn span(self) -> Span {
        let at = |byte: u64| byte.min(u64::MAX - 1);
        let span = Span::new(at(self.first)..at(self.last) + 1);
        span.ok().flatten().expect("first <= last")
    }
}
