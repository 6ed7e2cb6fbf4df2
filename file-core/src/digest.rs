//! The digest of a file: 32 bits that tell whether the file's log still says what it said before.
//!
//! # The problem
//! A file that is not in memory is known by its log only, and the checks of the log's words cannot
//! see a word that has become zero. If the mark of a group becomes zero, the groups that it had
//! replaced are in force again. Their data pages may belong to another file by now, which would
//! lose data as soon as this file is changed or removed. An opening that reads all logs notices
//! such a page, because two files claim it. A file whose log is read later claims nothing.
//!
//! # Method
//! While a file is not in memory, the volume keeps its [`Summary`]: the size, and a digest of all
//! that the log yields. The checkpoint of a closed volume keeps it, too. When the file is loaded,
//! the summary of what was read must be the same. Otherwise the file is damaged. Checks, repairs
//! and read-only openings compare the summaries of all files with the checkpoint.
//!
//! The digest depends on the size, on the data page of each file page, and on the pages of the log,
//! in their order. It is made of sums, so it can be computed from an index or from extents, in any
//! order. A cleaning changes the pages of the log, so a digest is computed when a file leaves
//! memory, not when the file changes. `docs/format.md` has the formula.
//!
//! # Not guaranteed
//! A change of the log is missed in one of 2³² cases. It is always missed if it changes only the
//! time of the last change, or the checksums of data.

use crate::alloc::Extent;

/// The damage of a file whose log has another summary than before.
pub(crate) const CHANGED: &str = "a log that has changed since the file was last in use";

/// The facts that a volume keeps about a file while the file is not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) digest: u32,
}

/// The digest of a file, while it is computed.
#[derive(Default)]
pub(crate) struct Digest {
    log: u64,
    data: u64,
}

impl Digest {
    /// Creates the digest of a file without data pages, with these pages in its log.
    pub(crate) fn of_log(pages: impl Iterator<Item = u32>) -> Digest {
        let terms = (0..).zip(pages).map(|(nth, page)| term(nth, page));
        Digest {
            log: terms.fold(0, u64::wrapping_add),
            data: 0,
        }
    }

    /// Adds consecutive pages of the file, from `first` on, that are in these data pages.
    pub(crate) fn add(&mut self, first: u32, pages: Extent) {
        for nth in 0..pages.len {
            let term = term(first + nth, pages.start + nth);
            self.data = self.data.wrapping_add(term);
        }
    }

    /// Returns the summary of the file, which has this size.
    pub(crate) fn summary(&self, size: u64) -> Summary {
        let parts = [size, self.log, self.data].into_iter();
        let mixed = parts.fold(0, |before, part| mix(before ^ part));
        Summary {
            size,
            digest: (mixed >> 32) as u32,
        }
    }
}

/// Returns what a page at position `at` adds to a sum.
fn term(at: u32, page: u32) -> u64 {
    mix(u64::from(at) << 32 | u64::from(page))
}

/// Spreads the bits of a number: the step of SplitMix64 (Steele, Lea & Flood, "Fast Splittable
/// Pseudorandom Number Generators", OOPSLA '14, <https://doi.org/10.1145/2660193.2660195>).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(log: &[u32], data: &[(u32, u32, u32)], size: u64) -> u32 {
        let mut digest = Digest::of_log(log.iter().copied());
        for &(first, start, len) in data {
            digest.add(first, Extent { start, len });
        }
        digest.summary(size).digest
    }

    #[test]
    fn only_what_a_file_has_decides_its_digest() {
        let whole = digest(&[7, 9], &[(0, 20, 3), (5, 30, 1)], 100);
        let parts = digest(&[7, 9], &[(5, 30, 1), (1, 21, 2), (0, 20, 1)], 100);
        assert_eq!(whole, parts);
        let others = [
            digest(&[7, 9], &[(0, 20, 3), (5, 30, 1)], 101),
            digest(&[9, 7], &[(0, 20, 3), (5, 30, 1)], 100),
            digest(&[7], &[(0, 20, 3), (5, 30, 1)], 100),
            digest(&[7, 9], &[(0, 20, 3), (5, 31, 1)], 100),
            digest(&[7, 9], &[(0, 20, 3), (6, 30, 1)], 100),
            digest(&[7, 9], &[(0, 20, 3)], 100),
            digest(&[], &[], 0),
        ];
        assert!(!others.contains(&whole));
    }

    /// The checkpoints that exist must stay readable.
    #[test]
    fn the_formula_does_not_change() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(digest(&[], &[], 0), 0x2382_75BC);
        assert_eq!(digest(&[7, 9], &[(0, 20, 3), (5, 30, 1)], 100), 0xDA0B_7B66);
    }
}
