//! The cases, and the loop that does one of them with one lock: for `cargo compare --micro` and criterion alike.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use spanlock_range_lock::{Access, RawRangeLock};

use super::contended;
use super::subjects::{Need, Ofd, Ours, SliceMutex, Subject, VecRange};
use crate::locks::{self, Entry, Visitor};
use crate::measure::Round;

/// Bytes of a segment.
pub const SEGMENT: u64 = 4096;

/// Segments of 1 GiB: as many as every lock can hold, and as were taken before a full range is measured.
pub const SEGMENTS: u64 = (1 << 30) / SEGMENT;

/// Bytes that a lock covers if it can: the largest file of [SRL] §IV-A, 1.5 TB.
///
/// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
pub const LARGEST: u64 = 1_500_000_000_000;

/// The first segment that is taken: neither the lock's first nor its last, and a multiple of 256.
const FIRST: u64 = 512;

/// Something that is done again and again, while nobody competes.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// As it is reported.
    pub name: &'static str,
    /// What is done, in a few words.
    pub about: &'static str,
    access: Access,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// So many neighbouring segments in one range.
    Segments(u64),
    /// All that the lock covers in one range, after every segment of 1 GiB was taken once.
    Everything,
    /// Each segment of 1 GiB, one after the other, given back before the next: so no memory of guards is measured.
    EachSegment,
    /// One segment in a gap among so many that are held.
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

    /// Whether doing it once can take milliseconds, because there is something to do for each of many
    /// segments.
    pub const fn is_long(&self) -> bool {
        matches!(self.work, Work::Everything | Work::EachSegment)
    }
}

/// All cases, in the order in which they are reported.
pub const CASES: [Case; 8] = [
    Case::write(
        "write/1-segment",
        "one segment of 4 KiB, alone",
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
        "all that the lock covers, after each segment of 1 GiB was taken once",
        Work::Everything,
    ),
    Case::write(
        "write/full-range-by-segment",
        "the 262,144 segments of 1 GiB, a hold for each, one after the other",
        Work::EachSegment,
    ),
    Case::write(
        "write/held-10",
        "one segment in a gap among 10 that are held",
        Work::Beside(10),
    ),
    Case::write(
        "write/held-10000",
        "one segment in a gap among 10,000 that are held",
        Work::Beside(10_000),
    ),
];

/// Does a case so many times, and returns how long that took.
pub type Runner<'a> = Box<dyn FnMut(u64) -> Duration + 'a>;

/// A lock that was made, whatever its type.
pub trait Contestant: Sync {
    /// Bytes that are taken and given back in `case`.
    fn bytes(&self, case: &Case) -> u64;

    /// Makes ready for `case`: populates, and takes what is held meanwhile.
    ///
    /// # Errors
    /// Why this lock has no part in the case.
    fn prepare<'a>(&'a self, case: &Case) -> Result<Runner<'a>, &'static str>;

    /// Why this lock has no part in [contended rounds](Self::contended); `None` if it has.
    fn cannot_wait(&self) -> Option<&'static str>;

    /// A round in which `threads` threads want the same segment.
    ///
    /// # Errors
    /// A thread cannot be started; the lock let two in at once.
    fn contended(&self, threads: usize, duration: Duration) -> Result<Round>;
}

/// A lock that can be made.
pub struct Candidate {
    /// As it is chosen and reported.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Whether it is of the registry.
    pub ours: bool,
    make: Box<dyn Fn() -> Result<Box<dyn Contestant>> + Send + Sync>,
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
            Ok(Box::new(entrant) as Box<dyn Contestant>)
        };
        Candidate {
            name,
            about,
            ours,
            make: Box::new(make),
        }
    }

    /// Makes one.
    ///
    /// # Errors
    /// No memory for it, or the system has no such lock.
    pub fn make(&self) -> Result<Box<dyn Contestant>> {
        (self.make)()
    }
}

/// Every lock of the registry, then the peers.
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

/// What others make.
#[rustfmt::skip] // A lock is one line.
fn peers() -> [Candidate; 5] {
    [
        Candidate::new("parking_lot", "parking_lot::RwLock 0.13: no ranges, a lock of everything", false, LARGEST, || Ok(parking_lot::RwLock::new(()))),
        Candidate::new("std", "std::sync::RwLock: no ranges, a lock of everything", false, LARGEST, || Ok(std::sync::RwLock::new(()))),
        Candidate::new("range-lock", "range_lock::VecRangeLock 0.2.4: a tree of ranges under a mutex, exclusive, without waiting", false, 1 << 30, || Ok(VecRange::new())),
        Candidate::new("range-mutex", "range_mutex::RangeMutex 0.1.7: a sorted vector of ranges under a mutex, exclusive", false, 1 << 30, || Ok(SliceMutex::new())),
        Candidate::new("ofd", "fcntl's byte-range locks of open file descriptions, on a temporary file", false, LARGEST, Ofd::new),
    ]
}

struct Entrant<S> {
    subject: S,
    /// Who holds what others hold, if it takes another handle to be somebody else.
    other: Option<S>,
    capacity: u64,
}

impl<S: Subject> Contestant for Entrant<S> {
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
                // Every other segment is held, so the gap is a segment wide, with as many below as above.
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

    fn contended(&self, threads: usize, duration: Duration) -> Result<Round> {
        contended::round(&self.subject, threads, duration)
    }
}

/// The range of `count` segments from `first` on.
pub(super) fn segments(first: u64, count: u64) -> Range<u64> {
    first * SEGMENT..(first + count) * SEGMENT
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
