//! The grid of cases.

use serde::{Deserialize, Serialize};

/// Lengths of critical sections in nanoseconds.
const SECTIONS_NS: [u32; 4] = [0, 300, 3_000, 30_000];

/// Probabilities in percent that the ranges of two requests overlap.
const OVERLAPS: [u32; 4] = [0, 10, 50, 100];

/// Shares of reads in percent.
const READS: [u32; 4] = [0, 50, 75, 100];

/// Thread counts.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// A point of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The work under the lock, in nanoseconds of undisturbed computation. As much follows outside
    /// the lock.
    pub section_ns: u32,
    /// The probability in percent that the ranges of two requests of different threads overlap.
    pub overlap: u32,
    /// The share of shared requests in percent.
    pub reads: u32,
    /// The number of threads.
    pub threads: usize,
}

impl Case {
    /// Returns the name in reports, which `--filter` searches.
    pub fn name(&self) -> String {
        let Case {
            overlap,
            reads,
            threads,
            ..
        } = self;
        let section = f64::from(self.section_ns) / 1e3;
        format!("section-{section}us/overlap-{overlap}/reads-{reads}/threads-{threads}")
    }

    /// Returns whether the case is in the cheap subset that runs by default.
    fn is_default(&self) -> bool {
        [300, 3_000].contains(&self.section_ns)
            && [0, 100].contains(&self.overlap)
            && [0, 75].contains(&self.reads)
            && [2, 8].contains(&self.threads)
    }
}

/// Returns all cases if `all`, or else the cheap subset. With one thread there is nothing to
/// overlap with, so those cases exist only once, with the overlap 100.
pub fn cases(all: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for section_ns in SECTIONS_NS {
        for overlap in OVERLAPS {
            for reads in READS {
                for threads in THREADS {
                    cases.push(Case {
                        section_ns,
                        overlap,
                        reads,
                        threads,
                    });
                }
            }
        }
    }
    cases.retain(|it| it.threads > 1 || it.overlap == 100);
    cases.retain(|it| all || it.is_default());
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_a_small_part_of_the_grid() {
        assert_eq!(cases(true).len(), 4 * 4 * (4 * 4 + 1));
        let default = cases(false);
        assert_eq!(default.len(), 16);
        assert_eq!(
            default[0].name(),
            "section-0.3us/overlap-0/reads-0/threads-2"
        );
    }
}
