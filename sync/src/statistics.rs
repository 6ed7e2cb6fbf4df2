//! Counters of the events of a lock, with the feature `statistics`. Without the feature, they take
//! no space and generate no code.

#[cfg(feature = "statistics")]
pub use on::Statistics;

/// Counters of the events of a lock. Without the feature `statistics`, they take no space.
///
/// With the feature, they take four cache lines: two for the acquisitions and two for the other
/// counts. So the two groups share no line with each other or with the lock's own words. Counting
/// an acquisition is a read-modify-write on a line that all threads share. That costs some
/// nanoseconds if only one thread at a time acquires the lock. Threads that shared no line before
/// (readers of different slots, writers of different segments) now contend for this one. So the
/// feature is for measurements, not for production on many cores.
///
/// The counters are the processor's atomics even under a checker, so no checker tracks them.
#[derive(Debug, Default)]
pub struct Counters {
    #[cfg(feature = "statistics")]
    counts: on::Counts,
}

impl Counters {
    /// Returns counters that have counted nothing.
    pub const fn new() -> Self {
        Counters {
            #[cfg(feature = "statistics")]
            counts: on::Counts::new(),
        }
    }
}

#[cfg(feature = "statistics")]
impl Counters {
    /// Counts `holds` more holds (granted requests).
    #[inline]
    pub fn acquisitions(&self, holds: usize) {
        self.counts.acquisitions(holds);
    }

    /// Counts a request that began to wait.
    pub fn waits(&self) {
        self.counts.waits();
    }

    /// Counts a later request that overtook a waiter.
    pub fn overtakes(&self) {
        self.counts.overtakes();
    }

    /// Returns the counts so far.
    pub fn snapshot(&self) -> Statistics {
        self.counts.snapshot()
    }
}

#[cfg(not(feature = "statistics"))]
impl Counters {
    /// Counts nothing.
    #[inline(always)]
    pub fn acquisitions(&self, _holds: usize) {}

    /// Counts nothing.
    #[inline(always)]
    pub fn waits(&self) {}

    /// Counts nothing.
    #[inline(always)]
    pub fn overtakes(&self) {}
}

#[cfg(feature = "statistics")]
mod on {
    use core::fmt;
    use core::ops::AddAssign;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// The counts of a lock's events since it was made.
    ///
    /// A snapshot: the numbers are read one after the other, so they may belong to different
    /// moments. Each counter wraps at 2⁶⁴.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Statistics {
        /// How many holds were granted: to blocking calls, tries, calls with a deadline, and
        /// futures. Each span of a batch counts as a hold. Upgrading, downgrading or splitting a
        /// hold does not count again.
        pub acquisitions: u64,
        /// How often a request found the range held and joined a queue. (A thread spins before it
        /// joins.) A request for several words or segments may join a queue at each of them.
        pub waits: u64,
        /// How often a later request overtook a waiter. While passes are counted in batches, this
        /// includes requests that a waiter did not conflict with, if their words share a part of
        /// the waiting table with the waiter's.
        pub overtakes: u64,
    }

    impl AddAssign for Statistics {
        /// Adds the counts of another lock, for the sum over the locks of many files.
        fn add_assign(&mut self, other: Self) {
            self.acquisitions = self.acquisitions.wrapping_add(other.acquisitions);
            self.waits = self.waits.wrapping_add(other.waits);
            self.overtakes = self.overtakes.wrapping_add(other.overtakes);
        }
    }

    impl fmt::Display for Statistics {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Statistics {
                acquisitions,
                waits,
                overtakes,
            } = self;
            write!(
                f,
                "{acquisitions} acquisitions, {waits} waits, {overtakes} overtakes"
            )
        }
    }

    /// A value alone on two cache lines, because x86 fetches lines in pairs.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    struct Apart<T>(T);

    #[derive(Debug, Default)]
    pub(super) struct Counts {
        acquisitions: Apart<AtomicU64>,
        /// Waits and overtakes. They share lines with each other, because a thread that waits loses
        /// far more time than a shared line costs.
        others: Apart<[AtomicU64; 2]>,
    }

    const WAITS: usize = 0;
    const OVERTAKES: usize = 1;

    // Relaxed, everywhere below: the counts order nothing.
    impl Counts {
        pub(super) const fn new() -> Self {
            Counts {
                acquisitions: Apart(AtomicU64::new(0)),
                others: Apart([const { AtomicU64::new(0) }; 2]),
            }
        }

        #[inline]
        pub(super) fn acquisitions(&self, holds: usize) {
            self.acquisitions.0.fetch_add(holds as u64, Relaxed);
        }

        pub(super) fn waits(&self) {
            self.others.0[WAITS].fetch_add(1, Relaxed);
        }

        pub(super) fn overtakes(&self) {
            self.others.0[OVERTAKES].fetch_add(1, Relaxed);
        }

        pub(super) fn snapshot(&self) -> Statistics {
            Statistics {
                acquisitions: self.acquisitions.0.load(Relaxed),
                waits: self.others.0[WAITS].load(Relaxed),
                overtakes: self.others.0[OVERTAKES].load(Relaxed),
            }
        }
    }
}
