//! Records what a crash may leave: every image, with what the operations had done by then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cache::{Act, Cache, Content, hash};

/// How far an operation has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Begun {
    pub(super) operation: u32,
    pub(super) thread: usize,
    /// The operations that had ended before this one began, one bit each.
    pub(super) after: u64,
    /// What it returned, if it has ended.
    pub(super) result: Option<String>,
}

/// The operations of a run that have begun, in that order.
pub(super) type Progress = Vec<Begun>;

/// What an event is.
#[derive(Clone, Debug)]
pub(super) enum What {
    Act(Act),
    Begin { operation: u32 },
    End { begun: usize, result: String },
}

impl What {
    /// Whether the event takes images away, or lets more of them be correct. All other events only
    /// add images or conditions.
    pub(super) fn loosens(&self) -> bool {
        match self {
            What::Act(act) => act.loosens(),
            What::Begin { .. } => true,
            What::End { .. } => false,
        }
    }
}

/// Something that a thread did.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) thread: usize,
    /// The number of the step, counted by the search.
    pub(super) step: u32,
    pub(super) place: &'static Location<'static>,
    pub(super) what: What,
}

pub(super) type Trace = Arc<Mutex<Vec<Event>>>;

/// A moment of a run.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) cache: Cache,
    pub(super) progress: Progress,
}

impl Moment {
    /// Applies an event. `begun` is the number of the operation that ends, counted in the order of
    /// the beginnings. `is_before` says whether the end of an operation comes before the event.
    pub(super) fn apply(&mut self, event: &Event, begun: usize, is_before: impl Fn(usize) -> bool) {
        match &event.what {
            What::Act(act) => self.cache.apply(event.thread, act),
            What::Begin { operation } => {
                let ended = self.progress.iter().enumerate();
                let ended = ended.filter(|(at, it)| it.result.is_some() && is_before(*at));
                self.progress.push(Begun {
                    operation: *operation,
                    thread: event.thread,
                    after: ended.fold(0, |all, (at, _)| all | 1 << at),
                    result: None,
                });
            }
            What::End { result, .. } => self.progress[begun].result = Some(result.clone()),
        }
    }
}

/// For each progress of the operations: where it was found, as a trace and its length.
pub(super) type Places = BTreeMap<u32, (Trace, usize)>;

/// An image, and what is required of it.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) content: Content,
    pub(super) found: Places,
}

/// A process killed at some moment, while the machine went on.
#[derive(Debug)]
pub(super) struct Kill {
    pub(super) cache: Cache,
    /// The words that threads saw, where the medium may have others.
    pub(super) seen: Vec<(u32, u64)>,
    pub(super) found: Places,
}

/// Everything that a search has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) images: HashMap<u128, Image>,
    pub(super) progresses: Vec<Progress>,
    numbers: HashMap<Progress, u32>,
    /// The moments whose images are recorded.
    moments: HashSet<u128>,
    /// The moments at which the process may be killed, where that leaves more than an image: the
    /// next process sees stores that a power failure may still take away.
    pub(super) kills: HashMap<u128, Kill>,
}

impl Found {
    fn number(&mut self, progress: &Progress) -> u32 {
        let next = self.numbers.len() as u32;
        match self.numbers.get(progress) {
            Some(number) => *number,
            None => {
                self.numbers.insert(progress.clone(), next);
                self.progresses.push(progress.clone());
                next
            }
        }
    }

    /// Records that the process may be killed at a moment, after the first `len` events of `trace`.
    /// `see` returns what threads see of a word.
    pub(super) fn record_kill(
        &mut self,
        moment: &Moment,
        trace: &Trace,
        len: usize,
        see: impl Fn(u32) -> u64,
    ) {
        let mut cache = moment.cache.clone();
        cache.kill();
        let pending = cache.pending();
        if pending.is_empty() {
            return;
        }
        let number = self.number(&moment.progress);
        let kill = self.kills.entry(cache.state()).or_insert_with(|| {
            let seen = pending.into_iter().map(|word| (word, see(word))).collect();
            let found = BTreeMap::new();
            Kill { cache, seen, found }
        });
        (kill.found.entry(number)).or_insert_with(|| (trace.clone(), len));
    }

    /// Records the images of a moment, after the first `len` events of `trace`.
    pub(super) fn record(&mut self, moment: &Moment, trace: &Trace, len: usize) {
        let number = self.number(&moment.progress);
        if !self
            .moments
            .insert(moment.cache.state() ^ hash(u64::MAX, number.into()))
        {
            return;
        }
        moment.cache.images(|digest, content| {
            let image = self.images.entry(digest).or_insert_with(|| Image {
                content: content(),
                found: BTreeMap::new(),
            });
            (image.found.entry(number)).or_insert_with(|| (trace.clone(), len));
        });
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
