//! The cases, and the loop that repeats one of them with one lock; used by `cargo compare --micro`
//! and criterion.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use spanlock_range_lock::{Access, RawRangeLock};

use super::contended::{self, Contention};
use super::ranges::{LARGEST, SEGMENT, SEGMENTS, segments};
use super::subjects::{FairParkingLot, Need, Ofd, Ours, SliceMutex, Subject, VecRange};
use crate::contention::case::Case as ContentionCase;
use crate::contention::round::{self, Measured};
use crate::locks::{self, Entry, Visitor};

/// The first segment that is locked. It is neither the lock's first nor its last, and is a multiple
/// of 256.
const FIRST: u64 = 512;

/// An operation that is repeated without contention.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name in reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    access: Access,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// One range of this many adjacent segments.
    Segments(u64),
    /// One range of everything that the lock covers. Beforehand, a lock with ranges locks and
    /// releases the segments of the first GiB one by one.
    Everything,
    /// The segments of the first GiB, one after another. Each is released before the next is
    /// locked, so that no memory for guards is measured.
    EachSegment,
    /// One segment in a gap between this many held segments.
    Beside(u64),
}

impl Case {
    const fn write(name: &'static str, about: &'static str, work: Work) -> Self {
        Case {
            name,
            about,
            access: Access::Write,
            work,
        }
    }

    /// Returns whether one repetition can take milliseconds, because it does work for each of many
    /// segments.
    pub const fn is_long(&self) -> bool {
        matches!(self.work, Work::Everything | Work::EachSegment)
    }
}

/// All cases, in the order in which they are reported.
pub const CASES: [Case; 8] = [
    Case::write(
        "write/1-segment",
        "one segment of 4 KiB, exclusive",
        Work::Segments(1),
    ),
    Case {
        name: "read/1-segment",
        about: "one segment, shared",
        access: Access::Read,
        work: Work::Segments(1),
    },
    Case::write(
        "write/16-segments",
        "a range of 16 segments, aligned",
        Work::Segments(16),
    ),
    Case::write(
        "write/256-segments",
        "a range of 256 segments, aligned",
        Work::Segments(256),
    ),
    Case::write(
        "write/full-range",
        "everything that the lock covers, after locking the segments of the first GiB one by one",
        Work::Everything,
    ),
    Case::write(
        "write/full-range-by-segment",
        "the 262,144 segments of the first GiB, each released before the next is locked",
        Work::EachSegment,
    ),
    Case::write(
        "write/held-10",
        "one segment in a gap between 10 held segments",
        Work::Beside(10),
    ),
    Case::write(
        "write/held-10000",
        "one segment in a gap between 10,000 held segments",
        Work::Beside(10_000),
    ),
];

/// Repeats a case this many times and returns the elapsed time.
pub type Runner<'a> = Box<dyn FnMut(u64) -> Duration + 'a>;

/// A lock of any type, ready for cases.
pub trait MeasuredLock: Sync {
    /// Returns the length in bytes of the range that `case` locks.
    fn bytes(&self, case: &Case) -> u64;

    /// Prepares the lock for `case`: populates it, and acquires the ranges that stay held during
    /// the case.
    ///
    /// # Errors
    /// The reason that this lock cannot run the case.
    fn prepare<'a>(&'a self, case: &Case) -> Result<Runner<'a>, &'static str>;

    /// Returns the reason that this lock cannot run [contended rounds](Self::contended); `None` if
    /// it can.
    fn cannot_wait(&self) -> Option<&'static str>;

    /// Runs a round in which `threads` threads lock the same segment. `steps_per_us` steps of work
    /// take a microsecond. If `timed`, every acquisition is timed.
    ///
    /// # Errors
    /// A thread cannot be started, or the lock admitted two threads at once.
    fn contended(
        &self,
        threads: usize,
        steps_per_us: f64,
        duration: Duration,
        timed: bool,
    ) -> Result<Contention>;

    /// Runs a round of a case of `compare contention`. The arguments are those of
    /// [`contended`](Self::contended).
    ///
    /// # Errors
    /// Same as [`contended`](Self::contended).
    fn contend(
        &self,
        case: &ContentionCase,
        steps_per_us: f64,
        duration: Duration,
        timed: bool,
    ) -> Result<Measured>;
}

/// A lock that can be created.
pub struct Candidate {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// Whether the lock is in this project's registry.
    pub ours: bool,
    /// Whether the lock is a yardstick under contention, which the other cases leave out.
    pub only_contended: bool,
    make: Box<dyn Fn() -> Result<Box<dyn MeasuredLock>> + Send + Sync>,
}

impl Candidate {
    fn new<S: Subject + 'static>(
        name: &'static str,
        about: &'static str,
        ours: bool,
        capacity: u64,
        make: impl Fn() -> Result<S> + Send + Sync + 'static,
    ) -> Self {
        let make = move || {
            let subject = make()?;
            let other = subject.other_user()?;
            let entrant = Entrant {
                subject,
                other,
                capacity,
            };
            Ok(Box::new(entrant) as Box<dyn MeasuredLock>)
        };
        Candidate {
            name,
            about,
            ours,
            only_contended: false,
            make: Box::new(make),
        }
    }

    fn only_contended(self) -> Self {
        Candidate {
            only_contended: true,
            ..self
        }
    }

    /// Creates the lock.
    ///
    /// # Errors
    /// There is not enough memory for it, or the system has no such lock.
    pub fn make(&self) -> Result<Box<dyn MeasuredLock>> {
        (self.make)()
    }
}

/// Returns every lock of the registry, then the locks of other projects.
pub fn candidates() -> Vec<Candidate> {
    struct List(Vec<Candidate>);
    impl Visitor for List {
        fn visit<L: RawRangeLock + 'static>(&mut self, entry: Entry<L>) {
            let capacity = LARGEST.min(entry.reach);
            let make = move || Ok(Ours((entry.make)(capacity)?));
            let candidate = Candidate::new(entry.name, entry.about, true, capacity, make);
            self.0.push(candidate);
        }
    }
    let mut list = List(Vec::new());
    locks::visit_all(&mut list);
    list.0.extend(peers());
    list.0
}

/// Returns the names of all candidates, each with a description.
pub(crate) fn names() -> Vec<(&'static str, &'static str)> {
    let all = candidates().into_iter();
    all.map(|it| (it.name, it.about)).collect()
}

/// Returns the locks of other projects.
#[rustfmt::skip] // A lock is one line.
fn peers() -> [Candidate; 6] {
    [
        Candidate::new("parking_lot", "parking_lot::RwLock 0.13: no ranges, locks everything", false, LARGEST, || Ok(parking_lot::RwLock::new(()))),
        Candidate::new("parking_lot-fair", "the same, with unlock_fair once every half millisecond: the yardstick for longest waits, measured only under contention", false, LARGEST, || Ok(FairParkingLot::new())).only_contended(),
        Candidate::new("std", "std::sync::RwLock: no ranges, locks everything", false, LARGEST, || Ok(std::sync::RwLock::new(()))),
        Candidate::new("range-lock", "range_lock::VecRangeLock 0.2.4: a tree of ranges under a mutex, exclusive, try-only", false, 1 << 30, || Ok(VecRange::new())),
        Candidate::new("range-mutex", "range_mutex::RangeMutex 0.1.7: a sorted vector of ranges under a mutex, exclusive", false, 1 << 30, || Ok(SliceMutex::new())),
        Candidate::new("ofd", "fcntl byte-range locks on open file descriptions of a temporary file", false, LARGEST, Ofd::new),
    ]
}

struct Entrant<S> {
    subject: S,
    /// A second handle to the lock, which holds the ranges that stay held. `None` if any user may
    /// use the first handle.
    other: Option<S>,
    capacity: u64,
}

impl<S: Subject> MeasuredLock for Entrant<S> {
    fn bytes(&self, case: &Case) -> u64 {
        match case.work {
            Work::Segments(count) => count * SEGMENT,
            Work::Everything => self.capacity,
            Work::EachSegment => SEGMENTS * SEGMENT,
            Work::Beside(_) => SEGMENT,
        }
    }

    fn prepare<'a>(&'a self, case: &Case) -> Result<Runner<'a>, &'static str> {
        let lock = &self.subject;
        let disjoint = lock.lacks(Need::Disjoint);
        match (case.work, case.access) {
            (Work::Segments(count), Access::Write) => Ok(writes(lock, segments(FIRST, count))),
            (Work::Segments(count), _) => match lock.lacks(Need::Sharing) {
                Some(reason) => Err(reason),
                None => Ok(reads(lock, segments(FIRST, count))),
            },
            (Work::Everything, _) => {
                if disjoint.is_none() {
                    each_segment(lock);
                }
                Ok(writes(lock, 0..self.capacity))
            }
            (Work::EachSegment | Work::Beside(_), _) if let Some(reason) = disjoint => Err(reason),
            (Work::EachSegment, _) => Ok(writes_of_each_segment(lock)),
            (Work::Beside(count), _) => {
                // Every other segment is held, so the gap is one segment wide, with as many held
                // segments below as above.
                let holder = self.other.as_ref().unwrap_or(lock);
                let held = (0..count).map(|it| holder.write(segments(2 * it + 1, 1)));
                let held: Vec<_> = held.collect();
                let mut gap = writes(lock, segments(count, 1));
                Ok(Box::new(move |times| {
                    black_box(&held);
                    gap(times)
                }))
            }
        }
    }

    fn cannot_wait(&self) -> Option<&'static str> {
        self.subject.lacks(Need::Waiting)
    }

    fn contended(
        &self,
        threads: usize,
        steps_per_us: f64,
        duration: Duration,
        timed: bool,
    ) -> Result<Contention> {
        contended::round(&self.subject, threads, steps_per_us, duration, timed)
    }

    fn contend(
        &self,
        case: &ContentionCase,
        steps_per_us: f64,
        duration: Duration,
        timed: bool,
    ) -> Result<Measured> {
        round::round(&self.subject, case, steps_per_us, duration, timed)
    }
}

fn writes<S: Subject>(lock: &S, range: Range<u64>) -> Runner<'_> {
    Box::new(move |times| {
        let begun = Instant::now();
        for _ in 0..times {
            let (lock, range) = lock.hidden(range.clone());
            drop(lock.write(range));
        }
        begun.elapsed()
    })
}

fn reads<S: Subject>(lock: &S, range: Range<u64>) -> Runner<'_> {
    Box::new(move |times| {
        let begun = Instant::now();
        for _ in 0..times {
            let (lock, range) = lock.hidden(range.clone());
            drop(lock.read(range));
        }
        begun.elapsed()
    })
}

fn writes_of_each_segment<S: Subject>(lock: &S) -> Runner<'_> {
    Box::new(move |times| {
        let begun = Instant::now();
        for _ in 0..times {
            each_segment(lock);
        }
        begun.elapsed()
    })
}

fn each_segment<S: Subject>(lock: &S) {
    for segment in 0..SEGMENTS {
        let (lock, range) = lock.hidden(segments(segment, 1));
        drop(lock.write(range));
    }
}
