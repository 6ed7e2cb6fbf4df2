//! A simulated region that knows every image that a crash may leave, for tests and model checking.
//!
//! A [`Simulated`] region is a [`Pmem`] and the disk of a journal. The code under test runs on it
//! unchanged. The region keeps, besides the bytes that threads see, what is on the medium and which
//! stores may still be lost:
//!
//! - The eight-byte stores to one 64-byte line persist in their order, so a crash keeps a prefix of
//!   them. The prefix is durable once a thread has flushed the line and then fenced.
//! - Stores past the cache ([`Pmem::write_streaming`]) persist each by itself. They are durable
//!   from the next fence of the same thread.
//! - Writes to a 512-byte sector of a disk ([`Simulated::write_sectors`]) persist whole and in
//!   their order. They are durable from [`Simulated::flush_sectors`].
//!
//! A disk is a range of the region. So one region can have several media, whose images are searched
//! together.
//!
//! A store past the cache that changes many words may be torn in too many ways to try them all. All
//! these images become one, whose torn words nobody may read: [`Search::judge`] fails if recovery
//! or the recovered store reads one before it is stored anew. If none is read, all the images have
//! the same outcome.
//!
//! Units persist independently of each other. These are the rules of x86 (Intel, Software
//! Developer's Manual, volume 1, section 11.4.6; volume 2, `CLWB` and `CLFLUSHOPT`) and of a disk
//! with a volatile cache. A store of the value that is already there adds no image, so it is not
//! kept.
//!
//! # Searches
//!
//! A [`Search`] collects the images of many runs, and [`Search::judge`] recovers each one with the
//! real recovery code ([`Subject`]). An image is correct if the recovered state follows from *some
//! order* of the operations in which each one that has returned is there with its result, and each
//! one that has begun is there as a whole or not at all.
//!
//! Threads run under a checker, which chooses their order. What it must explore depends on the
//! [`Method`]:
//!
//! - [`Method::Cut`], for the explorer: the images of each *cut* of each execution. A cut is a set
//!   of steps that contains, with each step, all steps that happen before it. The prefixes of the
//!   executions that the explorer visits are *not* enough: the test
//!   `prefixes_of_one_order_miss_images` shows images that they miss.
//! - [`Method::Global`], for searches of schedules: the images of each prefix of each schedule.
//!
//! Stores, and the returns of operations, *tighten*: they only add images or conditions. Fences, a
//! disk's flushes, and the beginnings of operations *loosen*: they only take images away, or let
//! more of them be correct. So of all moments between two loosening steps, the last one has all the
//! images and all the conditions of the others, and the search records images only there: just
//! before each loosening step, and at the end.
//!
//! # Killed processes and failed flushes
//!
//! With [`Search::kills`], the process may also be killed at any step while the machine goes on.
//! The next process sees every store. For persistent memory that is one of the images already:
//! opening a region makes durable what it shows ([`Durable::at_rest`]). For a disk it is not: after
//! a failed write-back, Linux marks the page clean, so that a later flush does not cover it, and
//! reads return it all the same. The search assumes the worst, that every write-back before the
//! kill has failed. A sector becomes durable only if the next process writes and flushes it again.
//! [`Simulated::fail_flush`] does the same while the process lives on.
//!
//! Not simulated: a process that is killed in the middle of one store of several sectors.
//!
//! Without a checker, the region serves tests with one thread: every moment of the one order is
//! recorded.

mod cache;
mod cuts;
mod disk;
mod judge;
mod marks;
mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::Location;
use std::sync::{Arc, Mutex};

use spanlock_sync::{is_drain_left_out, is_flush_left_out, thread};

use self::cache::{Act, Cache, Difference, Unit, Words};
use self::marks::Marks;
use self::record::{Event, Found, Moment, Trace, What, lock};
use crate::region::{LINE_BYTES, Pmem};
use crate::tokens::{Durable, Flushed, RegionId, Written};

pub use self::judge::{Apart, Judged, Subject, Wrong};

// What a region records outlives the execution.
#[cfg(spanlock_explorer)]
use spanlock_sync::check::outside;

#[cfg(not(spanlock_explorer))]
fn outside<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// The bytes of a disk's sector.
pub const SECTOR_BYTES: u64 = 512;

/// How the images of an execution's steps are found; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the prefixes of all schedules.
    Global,
    /// From the cuts of execution graphs.
    Cut,
}

/// The images of all runs of one program.
#[derive(Debug)]
pub struct Search {
    initial: Arc<[u64]>,
    method: Method,
    /// Returns the number of the checker's current step.
    step: fn() -> u32,
    found: Arc<Mutex<Found>>,
    kills: bool,
    /// The latest run.
    run: Mutex<Option<(Moment, Trace)>>,
}

impl Search {
    /// Creates a search whose runs begin with a medium of these bytes, a multiple of 512. `step`
    /// returns the number of the checker's current step; only [`Method::Cut`] needs it.
    ///
    /// # Panics
    /// If the number of bytes is zero or not a multiple of 512.
    pub fn new(medium: &[u8], method: Method, step: fn() -> u32) -> Self {
        Search {
            initial: words(medium),
            method,
            step,
            found: Arc::default(),
            kills: false,
            run: Mutex::default(),
        }
    }

    /// Also judges every moment at which the process may be killed while the machine goes on. For
    /// runs of one thread under [`Method::Global`]: the order of two threads' stores, of which a
    /// kill keeps a prefix, is not searched.
    pub fn kills(self) -> Self {
        Search {
            kills: true,
            ..self
        }
    }

    /// Returns a new region for one run. It records images from [`Simulated::watch`] on.
    pub fn region(&self) -> Arc<Simulated> {
        outside(|| {
            let cache = Cache::new(self.initial.clone(), Difference::new());
            let region = Simulated::make(cache, self.method, self.step, self.found.clone());
            lock(&region.state).kills = self.kills;
            region
        })
    }

    /// Ends a run: records the images that a crash now may leave.
    pub fn end(&self, region: &Simulated) {
        outside(|| {
            let mut state = lock(&region.state);
            state.record(self.method);
            if let Some(start) = state.start.take() {
                *lock(&self.run) = Some((start, state.trace.clone()));
                state.trace = Trace::default();
            }
        });
    }

    /// For [`Method::Cut`], after each execution: records the images of all its cuts.
    /// `comes_before` says which steps come before which. `with_order` says what comes before what
    /// if the given pairs are ordered, too, or returns `None` if they cannot be.
    ///
    /// # Panics
    /// If two threads store to the same unit, and neither store comes before the other.
    pub fn record_cuts(&self, comes_before: &ComesBefore<'_>, with_order: &WithOrder<'_>) {
        if let Some((start, trace)) = lock(&self.run).take() {
            let found = &mut lock(&self.found);
            cuts::record(&start, &trace, comes_before, with_order, found);
        }
    }
}

/// Says whether a step of an execution comes before another one, or is that step.
pub type ComesBefore<'a> = dyn Fn(u32, u32) -> bool + 'a;

/// Returns what comes before what if each pair of steps is ordered, too.
pub type WithOrder<'a> = dyn Fn(&[(u32, u32)]) -> Option<Box<ComesBefore<'a>>> + 'a;

fn words(bytes: &[u8]) -> Arc<[u64]> {
    assert!(
        !bytes.is_empty() && (bytes.len() as u64).is_multiple_of(SECTOR_BYTES),
        "{} bytes are no multiple of 512",
        bytes.len()
    );
    let words = bytes.chunks_exact(8);
    words
        .map(|it| u64::from_le_bytes(it.try_into().expect("8 bytes")))
        .collect()
}

#[derive(Debug)]
struct State {
    /// What threads see.
    visible: Vec<u64>,
    /// Words that an earlier crash may have torn, and that nobody has stored since. See
    /// [`Unit::Torn`].
    torn: BTreeSet<u32>,
    /// A torn word that was read.
    misread: Option<u32>,
    moment: Moment,
    /// The moment at which recording began. `None`: nothing is recorded.
    start: Option<Moment>,
    trace: Trace,
    found: Arc<Mutex<Found>>,
    /// Whether moments at which the process may be killed are recorded.
    kills: bool,
}

impl State {
    /// Notes a read of `len` bytes.
    fn read(&mut self, at: u64, len: usize) {
        let words = (at / 8) as u32..(at + len as u64).div_ceil(8) as u32;
        if !words.is_empty() && self.misread.is_none() {
            self.misread = self.torn.range(words).next().copied();
        }
    }

    fn record(&mut self, method: Method) {
        if method == Method::Global && self.start.is_some() {
            let len = lock(&self.trace).len();
            lock(&self.found).record(&self.moment, &self.trace, len);
        }
    }
}

/// A store past the cache that changes more words than this is not enumerated: see [`Unit::Torn`].
const MANY: usize = 8;

/// A simulated region. See the [module](self).
#[derive(Debug)]
pub struct Simulated {
    id: RegionId,
    len: u64,
    method: Method,
    step: fn() -> u32,
    marks: Marks,
    state: Mutex<State>,
}

impl Simulated {
    /// Creates a region with these bytes on its medium. It records no images.
    ///
    /// # Panics
    /// If the number of bytes is zero or not a multiple of 512.
    pub fn new(medium: &[u8]) -> Arc<Self> {
        Search::new(medium, Method::Cut, || 0).region()
    }

    fn make(
        cache: Cache,
        method: Method,
        step: fn() -> u32,
        found: Arc<Mutex<Found>>,
    ) -> Arc<Self> {
        let visible = cache.medium();
        let len = visible.len() as u64 * 8;
        let state = State {
            visible,
            torn: BTreeSet::new(),
            misread: None,
            moment: Moment {
                cache,
                progress: Vec::new(),
            },
            start: None,
            trace: Trace::default(),
            found,
            kills: false,
        };
        Arc::new(Simulated {
            id: RegionId::new(),
            len,
            method,
            step,
            marks: Marks::new(),
            state: Mutex::new(state),
        })
    }

    /// Records images from now on.
    pub fn watch(&self) {
        outside(|| {
            let state = &mut *lock(&self.state);
            state.start = Some(state.moment.clone());
        });
    }

    /// Stops recording, and returns the cache as it is now. What was recorded stays.
    fn unwatch(&self) -> Cache {
        let state = &mut *lock(&self.state);
        state.start = None;
        state.moment.cache.clone()
    }

    /// Returns the bytes that threads see.
    pub fn bytes(&self) -> Vec<u8> {
        let state = lock(&self.state);
        state
            .visible
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    /// Performs an operation of a run: `operation` is its number in the [`Subject`], and `perform`
    /// returns its result in words. From the call on, the operation may be on the medium; from the
    /// return on, it must be.
    #[track_caller]
    pub fn perform(&self, operation: u32, perform: impl FnOnce() -> String) -> String {
        let place = Location::caller();
        if let Some(marks) = self.marks() {
            marks.begin_operation();
        }
        let begun = outside(|| {
            let state = &mut *lock(&self.state);
            self.note(state, place, What::Begin { operation });
            let begun = state.moment.progress.len() - 1;
            assert!(begun < 64, "a run has more than 64 operations");
            begun
        });
        let result = perform();
        self.begin_step();
        outside(|| {
            let result = result.clone();
            let what = What::End { begun, result };
            self.note(&mut lock(&self.state), place, what);
        });
        result
    }

    /// Returns the marks while images are recorded. Before and after that, the checker need not
    /// know about accesses to the region.
    fn marks(&self) -> Option<&Marks> {
        let is_watched = lock(&self.state).start.is_some();
        is_watched.then_some(&self.marks)
    }

    /// Whether a model leaves out the flush that the caller's caller wants. Only flushes whose
    /// images are judged count.
    #[track_caller]
    fn lacks_flush(&self) -> bool {
        self.marks().is_some() && is_flush_left_out()
    }

    /// Whether a model leaves out the fence that the caller's caller wants.
    #[track_caller]
    fn lacks_fence(&self) -> bool {
        self.marks().is_some() && is_drain_left_out()
    }

    /// Begins a step of the calling thread.
    fn begin_step(&self) {
        if let Some(marks) = self.marks() {
            marks.begin();
        }
    }

    /// Tells the checker which bytes the current step reads or writes.
    fn touch(&self, range: &Range<u64>, writes: bool) {
        if let Some(marks) = self.marks() {
            outside(|| marks.touch(range, writes));
        }
    }

    /// Applies an event. Records the images before an event that takes images away.
    fn note(&self, state: &mut State, place: &'static Location<'static>, what: What) {
        if what.loosens() {
            state.record(self.method);
        }
        let event = Event {
            thread: thread::index(),
            step: (self.step)(),
            place,
            what,
        };
        let begun = match &event.what {
            What::End { begun, .. } => *begun,
            _ => 0,
        };
        state.moment.apply(&event, begun, |_| true);
        if state.start.is_some() {
            let may_be_killed =
                state.kills && matches!(event.what, What::Act(Act::Store(_)) | What::End { .. });
            let mut trace = lock(&state.trace);
            trace.push(event);
            let len = trace.len();
            drop(trace);
            if may_be_killed {
                let see = |word| state.visible[word as usize];
                lock(&state.found).record_kill(&state.moment, &state.trace, len, see);
            }
        }
    }

    /// Stores `data` at `at` in the order of addresses. Each entry of `unit`'s result persists as a
    /// whole.
    fn store(
        &self,
        at: u64,
        data: &[u8],
        place: &'static Location<'static>,
        unit: impl Fn(u64) -> Unit,
    ) {
        self.check(at, data.len());
        self.begin_step();
        let range = at..at + data.len() as u64;
        self.touch(&range, true);
        outside(|| {
            let state = &mut *lock(&self.state);
            let mut stores: Vec<(Unit, Vec<(u32, u64)>)> = Vec::new();
            for word in at / 8..range.end.div_ceil(8) {
                let mut bytes = state.visible[word as usize].to_le_bytes();
                for (within, byte) in bytes.iter_mut().enumerate() {
                    let address = word * 8 + within as u64;
                    if range.contains(&address) {
                        *byte = data[(address - at) as usize];
                    }
                }
                let value = u64::from_le_bytes(bytes);
                state.torn.remove(&(word as u32));
                let unit = unit(word * 8);
                let old = std::mem::replace(&mut state.visible[word as usize], value);
                // The same value again makes a disk's cache write back a sector that it takes for
                // durable.
                if old == value && !state.moment.cache.is_clean(unit) {
                    continue;
                }
                let change = (word as u32, value);
                match stores
                    .last_mut()
                    .filter(|(it, _)| matches!(it, Unit::Sector(_)) && *it == unit)
                {
                    Some((_, changes)) => changes.push(change),
                    None => stores.push((unit, vec![change])),
                }
            }
            if stores.len() > MANY && matches!(stores[0].0, Unit::Word(_)) {
                let words = stores.into_iter().flat_map(|(_, words)| words);
                stores = vec![(Unit::Torn((at / 8) as u32), words.collect())];
            }
            let share = |(unit, words): (Unit, Vec<_>)| (unit, Arc::<Words>::from(words));
            let act = Act::Store(stores.into_iter().map(share).collect());
            self.note(state, place, What::Act(act));
        });
    }

    fn act(&self, place: &'static Location<'static>, act: Act) {
        outside(|| self.note(&mut lock(&self.state), place, What::Act(act)));
    }

    fn check(&self, at: u64, len: usize) {
        let is_inside = at
            .checked_add(len as u64)
            .is_some_and(|end| end <= self.len);
        assert!(
            is_inside,
            "{len} bytes at {at} end beyond the region, which has {}",
            self.len
        );
    }

    /// Reads bytes. For a disk; the same as [`Pmem::read`], and safe because the region copies
    /// under a lock.
    ///
    /// # Panics
    /// If the bytes are not all inside the region.
    pub fn read_bytes(&self, at: u64, into: &mut [u8]) {
        self.check(at, into.len());
        let range = at..at + into.len() as u64;
        self.touch(&range, false);
        let mut state = lock(&self.state);
        state.read(at, into.len());
        for (i, byte) in into.iter_mut().enumerate() {
            let address = at + i as u64;
            *byte = state.visible[(address / 8) as usize].to_le_bytes()[(address % 8) as usize];
        }
    }

    /// Starts the write-back of a range's units.
    #[track_caller]
    fn flush_range(&self, range: Range<u64>, bytes: u64, unit: fn(u64) -> Unit) {
        self.begin_step();
        self.touch(&range, false);
        let place = Location::caller();
        outside(|| {
            let state = &mut *lock(&self.state);
            let units = (range.start / bytes..range.end.div_ceil(bytes)).map(unit);
            let cache = &state.moment.cache;
            let units = units
                .map(|unit| (unit, cache.stores(unit)))
                .filter(|(_, stores)| *stores > 0);
            let act = Act::Flush(units.collect());
            self.note(state, place, What::Act(act));
        });
    }
}

// SAFETY: tokens are made only where their constructors allow it. What a `Durable` covers is on the
// simulated medium, which all images contain. Accesses outside the region panic.
unsafe impl Pmem for Simulated {
    fn len(&self) -> u64 {
        self.len
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        self.read_bytes(at, into);
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        let line = |at| Unit::Line((at / LINE_BYTES) as u32);
        self.store(at, data, Location::caller(), line);
        // SAFETY: these bytes were stored above, and lie in the region.
        unsafe { Written::new(self.id, at..at + data.len() as u64) }
    }

    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        self.store(at, data, Location::caller(), |at| {
            Unit::Word((at / 8) as u32)
        });
        // SAFETY: such stores wait for a fence only.
        unsafe { Flushed::new() }
    }

    fn flush(&self, written: Written) -> Flushed {
        let range = written.into_range(self.id);
        if !self.lacks_flush() {
            self.flush_range(range, LINE_BYTES, |at| Unit::Line(at as u32));
        }
        // SAFETY: the write-back was started above, or a model leaves it out to see that it
        // matters.
        unsafe { Flushed::new() }
    }

    fn fence(&self, _: Flushed) -> Durable {
        if !self.lacks_fence() {
            self.begin_step();
            self.act(Location::caller(), Act::Fence);
        }
        // SAFETY: fenced above, or a model leaves the fence out to see that it matters.
        unsafe { Durable::new() }
    }

    fn publish(&self, at: u64, value: u64, _: Durable) -> Written {
        assert!(at.is_multiple_of(8), "{at} is not a multiple of 8");
        let line = |at| Unit::Line((at / LINE_BYTES) as u32);
        self.store(at, &value.to_le_bytes(), Location::caller(), line);
        // SAFETY: these bytes were stored above, and lie in the region.
        unsafe { Written::new(self.id, at..at + 8) }
    }

    fn load(&self, at: u64) -> u64 {
        assert!(at.is_multiple_of(8), "{at} is not a multiple of 8");
        self.check(at, 8);
        self.begin_step();
        self.touch(&(at..at + 8), false);
        let mut state = lock(&self.state);
        state.read(at, 8);
        state.visible[(at / 8) as usize]
    }

    fn persist(&self, written: Written) -> Durable {
        self.fence(self.flush(written))
    }
}
