//! Numbers of records.

use std::fmt;

/// The number of a record: the first is 1, each one more than the one before. Truncating changes no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub(super) u64);

impl Lsn {
    /// Of the first record of a log.
    pub const FIRST: Lsn = Lsn(1);

    /// Of a number that was [kept](Self::get).
    pub const fn new(number: u64) -> Self {
        Lsn(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Of the record after this one.
    pub const fn next(self) -> Self {
        Lsn(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
