//! The steps that a program's threads perform. A step runs on every lock that has the capability it
//! needs.
//!
//! A thread keeps its holds in a list, and a step acts on the last of them. The thread reads the
//! data of a range when it acquires the range. Each later step on the hold asserts that no other
//! thread has written that data since.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_range_lock::Access::{self, Read, Write};
use spanlock_range_lock::{RangeLockExt, Span};
use spanlock_sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use spanlock_sync::{Park, Parker, thread};
use spanlock_verify::{note_as, overtake, perform};

use super::data::Data;
use super::{Primitive, acquire};
use crate::Driven;
use crate::owner::{Asked, AskedAll, Hold, span};

use Step::*;

#[derive(Debug)]
pub(super) enum Step {
    /// Blocks for a hold.
    Lock(Range<u64>, Access),
    /// Blocks for several holds.
    LockAll(&'static [(Range<u64>, Access)]),
    /// Begins a request for several holds, and polls it until it is granted.
    AwaitAll(&'static [(Range<u64>, Access)]),
    /// Begins a request for several holds, polls it once, and cancels it. If the poll granted it,
    /// releases the holds instead.
    CancelAll(&'static [(Range<u64>, Access)]),
    /// Tries for a hold, and releases it if the try succeeded.
    Try(Range<u64>, Access),
    /// Tries for several holds, and releases them if the try succeeded.
    TryAll(&'static [(Range<u64>, Access)]),
    /// Waits for a hold until a deadline, and releases it. Fault injection decides whether the
    /// deadline passes.
    LockUntil(Range<u64>, Access),
    /// Acquires one position at the end of a file, moves the end past it, and releases the
    /// position.
    Append,
    /// Releases the last hold, which must exist.
    Unlock,
    /// Releases all holds in one call.
    UnlockAll,
    /// Writes again under the last hold, to detect a thread that was wrongly granted the range.
    WriteAgain,
    Downgrade,
    TryUpgrade,
    Upgrade,
    /// Polls an upgrade until it is granted.
    AwaitUpgrade,
    /// Polls an upgrade once, which must wait, and cancels it.
    CancelUpgrade,
    Shrink(Range<u64>),
    /// Splits the last hold in two. The upper part becomes the last hold.
    Split(u64),
    /// Begins a request, and polls it once.
    Request(Range<u64>, Access),
    /// Polls the request until it is granted.
    Await,
    /// Cancels the request. If its first poll granted it, releases the hold instead.
    Cancel,
    /// Tries to read. If the main thread is waiting to write, a try that succeeds overtakes it.
    Overtake(Range<u64>),
    /// Waits for the other threads to finish. Only the main thread performs this step.
    Join,
    /// Frees memory.
    Reclaim,
}

impl Step {
    /// Returns the operations that the step performs in at least one execution. For example, a
    /// request is cancelled only if its first poll did not grant it, and a try releases only if it
    /// succeeded. The list leaves out one operation: if the first poll granted the request,
    /// [`Cancel`] performs a release.
    fn operations(&self) -> Vec<&'static str> {
        match self {
            Lock(_, access) => vec![acquire(*access)],
            LockAll(_) | AwaitAll(_) => vec!["batch"],
            CancelAll(_) | CancelUpgrade => vec!["cancel"],
            Try(..) | Overtake(_) => vec!["try", "release"],
            TryAll(_) => vec!["try-batch", "release"],
            LockUntil(..) => vec!["deadline", "release"],
            Append => vec!["append", "release"],
            Unlock | UnlockAll => vec!["release"],
            Downgrade => vec!["downgrade"],
            TryUpgrade => vec!["try-upgrade"],
            Upgrade | AwaitUpgrade => vec!["upgrade"],
            Shrink(_) => vec!["shrink"],
            Split(_) => vec!["split"],
            Await => vec!["poll"],
            Cancel => vec!["cancel"],
            Reclaim => vec!["reclaim"],
            // A request counts as an operation of the later step that awaits or cancels it.
            Request(..) | WriteAgain | Join => Vec::new(),
        }
    }
}

/// Returns the operations that each thread performs while others may run. After its [`Join`], the
/// main thread is alone.
pub(super) fn performs(threads: &[&[Step]]) -> Vec<Vec<&'static str>> {
    let of = |steps: &&[Step]| {
        let beside = steps.iter().take_while(|step| !matches!(step, Join));
        beside.flat_map(Step::operations).collect()
    };
    threads.iter().map(of).collect()
}

/// The initial end of the file that [`Append`] extends. A lock of four positions has room for two
/// appends.
const END_OF_FILE: u64 = 2;

/// The state that the threads of an execution share.
struct Scene {
    lock: Driven,
    data: Data,
    /// Whether a request of the main thread is waiting. A thread that reads `true` came after the
    /// request, so the lock's bound on overtaking applies to that thread. The atomic comes from
    /// `spanlock_sync`, the facade over std and the checkers, so the checker sees its accesses.
    waits: AtomicBool,
    /// How many readers may overtake the waiting request.
    overtakes: u32,
    /// The end of the file that [`Append`] extends.
    end: AtomicU64,
}

/// Runs each list of steps in its own thread, and the first list in the main thread. The main
/// thread performs the steps in `first` before the others begin. Asserts at the end that the whole
/// lock is free and that no write was lost.
pub(super) fn workers(primitive: &Primitive, first: &[&'static Step], threads: &[&'static [Step]]) {
    let scene = Arc::new(Scene {
        lock: (primitive.make)(),
        data: Data::new(),
        waits: AtomicBool::new(false),
        overtakes: primitive.overtakes.unwrap_or(u32::MAX),
        end: AtomicU64::new(END_OF_FILE),
    });
    let written = Parker::with(|parker| {
        let mut main = Worker::new(0, &scene, parker);
        first.iter().for_each(|step| main.step(step));
        let spawn = |(i, &steps): (usize, &&'static [Step])| {
            let scene = scene.clone();
            thread::spawn(move || {
                Parker::with(|parker| Worker::new(i + 1, &scene, parker).work(steps))
            })
        };
        let others: Vec<_> = threads[1..].iter().enumerate().map(spawn).collect();
        main.join = Some(Box::new(move || {
            let others = others.into_iter();
            let written = others.map(|other| other.join().expect("a worker panicked"));
            written.sum()
        }));
        main.work(threads[0])
    });
    let everything = Hold::try_lock(&scene.lock, span(0..4), Write);
    let everything = everything.expect("all holds are released, yet a try on the whole lock fails");
    assert_eq!(scene.data.sum(&(0..4)), written, "a write was lost");
    everything.release();
}

/// The state of one thread.
struct Worker<'a> {
    me: usize,
    scene: &'a Scene,
    parker: &'a Parker,
    /// The holds, each with the sum of the data that was last read under it.
    holds: Vec<(Hold<'a>, u32)>,
    request: Option<Asked<'a>>,
    /// How much the thread added to the data.
    written: u32,
    passes: u32,
    /// In the main thread: waits for the others, and returns how much they added.
    join: Option<Box<dyn FnOnce() -> u32>>,
}

impl<'a> Worker<'a> {
    fn new(me: usize, scene: &'a Scene, parker: &'a Parker) -> Self {
        Worker {
            me,
            scene,
            parker,
            holds: Vec::new(),
            request: None,
            written: 0,
            passes: 0,
            join: None,
        }
    }

    /// Performs the steps. Returns how much this thread and the threads that it waited for added to
    /// the data.
    fn work(mut self, steps: &'static [Step]) -> u32 {
        for step in steps {
            self.step(step);
        }
        self.wait_for_others();
        assert!(
            self.holds.is_empty() && self.request.is_none(),
            "the program ends with a hold or a request"
        );
        self.written
    }

    fn step(&mut self, step: &'static Step) {
        let lock = &self.scene.lock;
        let all = |batch: &'static [(Range<u64>, Access)]| -> Vec<_> {
            let spans = batch.iter().map(|(range, how)| (span(range.clone()), *how));
            spans.collect()
        };
        match step {
            Lock(range, access) => {
                let held = Hold::lock(lock, span(range.clone()), *access);
                perform(acquire(*access));
                self.begin(held.expect("in range"));
            }
            LockAll(batch) => {
                let held = Hold::lock_all(lock, &all(batch)).expect("in range");
                perform("batch");
                held.into_iter().for_each(|hold| self.begin(hold));
            }
            AwaitAll(batch) => {
                let mut asked = AskedAll::new(lock, all(batch));
                let held = loop {
                    if let Some(held) = asked.poll(self.parker.waker()) {
                        break held;
                    }
                    self.parker.park_until(None);
                };
                perform("batch");
                held.into_iter().for_each(|hold| self.begin(hold));
            }
            CancelAll(batch) => {
                let mut asked = AskedAll::new(lock, all(batch));
                match asked.poll(self.parker.waker()) {
                    Some(held) => held.into_iter().for_each(Hold::release),
                    None => {
                        drop(asked);
                        perform("cancel");
                    }
                }
            }
            Try(range, access) => {
                perform("try");
                match Hold::try_lock(lock, span(range.clone()), *access) {
                    Ok(held) => {
                        self.begin(held);
                        self.unlock();
                    }
                    Err(_) => note_as(self.me, "busy"),
                }
            }
            TryAll(batch) => {
                perform("try-batch");
                match Hold::try_lock_all(lock, &all(batch)) {
                    Ok(held) => {
                        held.into_iter().for_each(|hold| self.begin(hold));
                        batch.iter().for_each(|_| self.unlock());
                    }
                    Err(_) => note_as(self.me, "busy"),
                }
            }
            LockUntil(range, access) => self.lock_until(range, *access),
            Append => self.append(),
            Unlock => self.unlock(),
            UnlockAll => {
                let holds = core::mem::take(&mut self.holds).into_iter();
                Hold::release_all(holds.map(|(hold, _)| hold).collect());
                perform("release");
            }
            WriteAgain => {
                let (hold, _) = self.last();
                self.begin(hold);
            }
            Downgrade => {
                self.change(Hold::downgrade);
                perform("downgrade");
            }
            TryUpgrade => {
                self.change(|hold| _ = hold.try_upgrade());
                perform("try-upgrade");
            }
            Upgrade => {
                self.change(Hold::upgrade);
                perform("upgrade");
            }
            AwaitUpgrade => {
                let (parker, mut waits) = (self.parker, false);
                self.change(|hold| {
                    while !hold.poll_upgrade(&mut waits, parker.waker()) {
                        parker.park_until(None);
                    }
                });
                perform("upgrade");
            }
            CancelUpgrade => {
                let (parker, mut waits) = (self.parker, false);
                self.change(|hold| {
                    assert!(!hold.poll_upgrade(&mut waits, parker.waker()) && waits);
                    hold.cancel_upgrade();
                });
                perform("cancel");
            }
            Shrink(keep) => {
                self.change(|hold| hold.shrink(span(keep.clone())));
                perform("shrink");
            }
            Split(at) => self.split(*at),
            Request(range, access) => {
                self.request = Some(Asked::new(lock, span(range.clone()), *access));
                self.poll();
                // Relaxed: the flag publishes nothing. Making the request visible to later tries is
                // the job of the lock under test, not of this flag.
                self.scene.waits.store(self.request.is_some(), Relaxed);
            }
            Await => {
                while self.request.is_some() {
                    self.parker.park_until(None);
                    self.poll();
                    perform("poll");
                }
            }
            Cancel => match self.request.take() {
                Some(request) => {
                    request.cancel();
                    perform("cancel");
                }
                None => self.unlock(),
            },
            Overtake(range) => self.overtake(range),
            Join => self.wait_for_others(),
            Reclaim => {
                let reclaim = lock.reclaim.as_ref();
                let freed = reclaim.expect("a lock with this capability")();
                perform("reclaim");
                note_as(self.me, if freed > 0 { "freed" } else { "in use" });
            }
        }
    }

    fn split(&mut self, at: u64) {
        let mut high = None;
        self.change(|hold| high = Some(hold.split(at)));
        perform("split");
        let high = high.expect("cut just now");
        let sum = self.scene.data.sum(&high.span().range());
        self.holds.push((high, sum));
    }

    fn lock_until(&mut self, range: &Range<u64>, access: Access) {
        let scene = self.scene;
        let wait = scene.lock.wait.as_ref();
        let wait = wait.expect("a lock with this capability");
        // An hour ahead: under a checker, a deadline passes only by fault injection.
        let deadline = Instant::now() + Duration::from_secs(3600);
        let taken = wait.lock_until(span(range.clone()), access, deadline, &mut || {
            self.touch(span(range.clone()), access);
            perform("release");
        });
        perform("deadline");
        if !taken.expect("in range") {
            note_as(self.me, "gave up");
        }
    }

    /// Appends one position. Moves the end under the hold, so that no two appends get the same
    /// position.
    fn append(&mut self) {
        let scene = self.scene;
        let split = scene.lock.split.as_ref();
        let split = split.expect("a lock with this capability");
        // Relaxed, for this load and the store below: the hold orders them. `append` calls `end`
        // once without the hold, and again under it.
        let end = || scene.end.load(Relaxed);
        let hold = split.append(1, end).expect("there is room");
        perform("append");
        let place = hold.span().expect("not empty");
        scene.end.store(place.end(), Relaxed);
        self.touch(place, Write);
        drop(hold);
        perform("release");
    }

    fn wait_for_others(&mut self) {
        self.written += self.join.take().map_or(0, |join| join());
    }

    fn poll(&mut self) {
        let request = self.request.as_mut();
        let polled = request.map(|it| it.poll_with(self.parker.waker()));
        if let Some(Ok(Some(hold))) = polled {
            self.request = None;
            self.begin(hold);
        }
    }

    fn begin(&mut self, hold: Hold<'a>) {
        let sum = self.touch(hold.span(), hold.access());
        self.holds.push((hold, sum));
    }

    /// Writes if the access is exclusive. Returns the sum of the data afterwards.
    fn touch(&mut self, held: Span, access: Access) -> u32 {
        let (data, range) = (&self.scene.data, held.range());
        if access == Write {
            data.add_one(&range);
            self.written += held.len() as u32;
        }
        let sum = data.sum(&range);
        note_as(self.me, format!("{access:?} {held:?}={sum}"));
        sum
    }

    /// Takes the last hold from the list, and asserts that no other thread has written to its
    /// range.
    fn last(&mut self) -> (Hold<'a>, u32) {
        let (hold, seen) = self.holds.pop().expect("the program holds something here");
        let sum = self.scene.data.sum(&hold.span().range());
        let me = self.me;
        assert_eq!(sum, seen, "T{me}: another thread wrote under {hold:?}");
        (hold, sum)
    }

    fn unlock(&mut self) {
        let (hold, _) = self.last();
        hold.release();
        perform("release");
    }

    fn change(&mut self, change: impl FnOnce(&mut Hold<'a>)) {
        let (mut hold, seen) = self.last();
        let before = (hold.span(), hold.access());
        change(&mut hold);
        if hold.span() == before.0 {
            let sum = self.scene.data.sum(&hold.span().range());
            let me = self.me;
            assert_eq!(
                sum, seen,
                "T{me}: another thread wrote during the change to {hold:?}"
            );
        }
        let sum = match (before.1, hold.access()) {
            (from, Write) if from != Write => self.touch(hold.span(), Write),
            _ => self.scene.data.sum(&hold.span().range()),
        };
        self.holds.push((hold, sum));
    }

    fn overtake(&mut self, range: &Range<u64>) {
        // Acquire: pairs with no Release, because the flag's store is Relaxed. Load before the try:
        // a try that begins before the request does not overtake the request.
        let waits = self.scene.waits.load(Acquire);
        let tried = Hold::try_lock(&self.scene.lock, span(range.clone()), Read);
        perform("try");
        if waits {
            self.passes += u32::from(tried.is_ok());
            overtake(tried.is_ok(), self.passes, self.scene.overtakes);
        }
        note_as(self.me, format!("passed {}", self.passes));
        if let Ok(hold) = tried {
            hold.release();
            perform("release");
        }
    }
}
