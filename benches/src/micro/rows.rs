//! The results of `--micro`, row by row.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cases::CASES;
use super::ranges::SEGMENT;
use crate::target::Target;

/// The lock that rows are compared with.
pub const PEER: &str = "parking_lot";

/// The lock that longest waits are compared with.
pub const FAIR: &str = "parking_lot-fair";

/// A case under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The case's name.
    pub case: &'static str,
    /// The lock's name.
    pub lock: &'static str,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.case, self.lock)
    }
}

/// The result of a case under a lock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub case: &'static str,
    /// The lock's name.
    pub lock: &'static str,
    /// Nanoseconds for lock and unlock: the median of the samples. In contended cases, the
    /// nanoseconds per acquisition of all threads together.
    pub ns: f64,
    /// The shortest sample.
    pub min_ns: f64,
    /// The first quartile of the samples.
    pub q1_ns: f64,
    /// The third quartile of the samples.
    pub q3_ns: f64,
    /// The longest wait for an acquisition, from the half of each contended round in which every
    /// acquisition was timed. `None` in uncontended cases.
    pub longest_ns: Option<f64>,
    /// The number of samples.
    pub samples: usize,
    /// The length in bytes of the range that is locked. For the full range it is the lock's
    /// capacity.
    pub bytes: u64,
    /// `ns` divided by parking_lot's in the same case. In cases that lock one segment and that
    /// parking_lot cannot run, it is divided by parking_lot's write of one segment. `None` in other
    /// cases, or if parking_lot was not measured.
    pub ratio: Option<f64>,
    /// The targets of this row.
    #[serde(skip_deserializing)]
    pub targets: Vec<Target>,
}

impl Row {
    pub(super) fn cell(&self) -> Cell {
        Cell {
            case: self.case,
            lock: self.lock,
        }
    }

    /// Returns whether parking_lot is faster.
    pub fn is_loss(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio > 1.0)
    }

    pub(super) fn new(
        case: &'static str,
        lock: &'static str,
        bytes: u64,
        mut samples: Vec<f64>,
    ) -> Self {
        samples.sort_by(f64::total_cmp);
        // Interpolates if the position lies between two samples.
        let at = |share: f64| {
            let place = (samples.len() - 1) as f64 * share;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            samples[below] + (samples[above] - samples[below]) * place.fract()
        };
        Row {
            case,
            lock,
            ns: at(0.5),
            min_ns: at(0.0),
            q1_ns: at(0.25),
            q3_ns: at(0.75),
            longest_ns: None,
            samples: samples.len(),
            bytes,
            ratio: None,
            targets: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_test(case: &'static str, lock: &'static str, ns: f64) -> Self {
        Row::new(case, lock, SEGMENT, vec![ns])
    }
}

/// Fills in the ratios.
pub(super) fn compare(rows: &mut [Row]) {
    let peer = |case: &str| {
        let mut of_peer = rows.iter().filter(|row| row.lock == PEER);
        of_peer.find(|row| row.case == case).map(|row| row.ns)
    };
    let ratios: Vec<_> = rows
        .iter()
        .map(|row| {
            let one_segment = || peer(CASES[0].name).filter(|_| row.bytes == SEGMENT);
            let against = peer(row.case).or_else(one_segment);
            against.map(|ns| row.ns / ns)
        })
        .collect();
    for (row, ratio) in rows.iter_mut().zip(ratios) {
        row.ratio = ratio;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_follow_from_the_samples() {
        let samples = vec![5.0, 1.0, 4.0, 2.0, 3.0];
        let row = Row::new("case", "lock", 1, samples);
        let told = (row.min_ns, row.q1_ns, row.ns, row.q3_ns, row.samples);
        assert_eq!(told, (1.0, 2.0, 3.0, 4.0, 5));
        let row = Row::new("case", "lock", 1, vec![2.0, 1.0]);
        let told = (row.min_ns, row.q1_ns, row.ns, row.q3_ns);
        assert_eq!(told, (1.0, 1.25, 1.5, 1.75));
        let row = Row::of_test("case", "lock", 7.0);
        assert_eq!(
            (row.min_ns, row.q1_ns, row.ns, row.q3_ns),
            (7.0, 7.0, 7.0, 7.0)
        );
    }

    #[test]
    fn a_ratio_uses_the_peer_in_the_same_case_or_its_write() {
        let mut rows = [
            Row::of_test("write/1-segment", "parking_lot", 10.0),
            Row::of_test("read/1-segment", "parking_lot", 20.0),
            Row::of_test("read/1-segment", "a", 10.0),
            Row::of_test("write/held-10", "a", 20.0),
        ];
        compare(&mut rows);
        assert_eq!(
            rows.each_ref().map(|it| it.ratio),
            [1.0, 1.0, 0.5, 2.0].map(Some)
        );
        assert!(rows[3].is_loss() && !rows[2].is_loss());
        compare(&mut rows[2..]);
        assert_eq!(rows[3].ratio, None);
        // A pass over many segments is not compared with a single segment.
        rows[3].bytes = 1 << 30;
        compare(&mut rows);
        assert_eq!(rows[3].ratio, None);
    }
}
