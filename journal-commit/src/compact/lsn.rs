//! Numbers of records.

use std::fmt;

/// The number of a record (log sequence number). The first record has number 1, the next has 2, and
/// so on. Truncating the log does not renumber records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub(super) u64);

impl Lsn {
    /// The number of the first record of a log.
    pub const FIRST: Lsn = Lsn(1);

    /// Restores a number that was [stored](Self::get).
    pub const fn new(number: u64) -> Self {
        Lsn(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of the record after this one.
    pub const fn next(self) -> Self {
        Lsn(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
