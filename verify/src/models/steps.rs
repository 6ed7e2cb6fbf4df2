//! What a thread of a model does with a lock, step by step: for every lock, through the powers that it has.
//!
//! A thread keeps its holds in a list, and a step is about the last of them. Whatever a thread holds, it has looked at: at each later
//! step nobody else may have written there.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_range_lock::Access::{self, Read, Upgradable, Write};
use spanlock_range_lock::{RangeLockExt, Span};
use spanlock_sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use spanlock_sync::{Park, Parker, thread};
use spanlock_testkit::Driven;
use spanlock_testkit::owner::{Asked, Hold, span};

use super::lock::Data;
use crate::pairs::Operation;
use crate::primitives::Primitive;
use crate::trace::{self, note, perform};

use Step::*;

#[derive(Debug)]
pub(super) enum Step {
    /// Blocks for a hold.
    Take(Range<u64>, Access),
    /// Blocks for several.
    TakeAll(&'static [(Range<u64>, Access)]),
    /// Tries for a hold, and gives it back.
    Try(Range<u64>, Access),
    /// Tries for several, and gives them back.
    TryAll(&'static [(Range<u64>, Access)]),
    /// Waits for a hold until a deadline, which passes if the fault plan says so, and gives it back.
    TakeUntil(Range<u64>, Access),
    /// Takes one position from the end on, which lies behind that then, and gives it back.
    Append,
    /// Gives the last hold back; no step if there is none.
    Give,
    /// Writes once more under the last hold: who was let in beside it is found out.
    Again,
    Downgrade,
    TryUpgrade,
    Upgrade,
    Shrink(Range<u64>),
    /// Cuts the last hold; the upper part is the last then.
    Split(u64),
    /// Begins a request, and polls it once.
    Ask(Range<u64>, Access),
    /// Polls the request until it is granted.
    Await,
    /// Gives the request up; what it was granted when it was asked is given back.
    Cancel,
    /// Tries to read, which passes the writer that waits, if one does.
    Pass(Range<u64>),
    /// Main waits for the others to end.
    Join,
    /// Gives memory back.
    Reclaim,
}

impl Step {
    /// What it does, in those executions in which all goes on: a request that is granted when it is asked is not cancelled, one that
    /// fails is not given back.
    fn operations(&self) -> &'static [Operation] {
        match self {
            Take(_, Read) => &[Operation::AcquireShared],
            Take(_, Upgradable) => &[Operation::AcquireUpgradable],
            Take(_, Write) => &[Operation::AcquireExclusive],
            TakeAll(_) => &[Operation::Batch],
            Try(..) | Pass(_) => &[Operation::Try, Operation::Release],
            TryAll(_) => &[Operation::TryBatch, Operation::Release],
            TakeUntil(..) => &[Operation::Deadline, Operation::Release],
            Append => &[Operation::Append, Operation::Release],
            Give => &[Operation::Release],
            Again => &[],
            Downgrade => &[Operation::Downgrade],
            TryUpgrade => &[Operation::TryUpgrade],
            Upgrade => &[Operation::Upgrade],
            Shrink(_) => &[Operation::Shrink],
            Split(_) => &[Operation::Split],
            // What comes of it, later steps say.
            Ask(..) | Join => &[],
            Await => &[Operation::Poll],
            Cancel => &[Operation::Cancel],
            Reclaim => &[Operation::Reclaim],
        }
    }
}

/// What each thread performs while the others may be at work: main has nobody beside it when it has waited for them.
pub(super) fn performs(threads: &[&[Step]]) -> Vec<Vec<Operation>> {
    let of = |steps: &&[Step]| {
        let beside = steps.iter().take_while(|step| !matches!(step, Join));
        beside.flat_map(Step::operations).copied().collect()
    };
    threads.iter().map(of).collect()
}

/// Where the file ends that [`Append`] writes to: so that two of them have room in a lock of four positions.
const END_OF_FILE: u64 = 2;

/// What the threads of an execution share.
struct Scene {
    lock: Driven,
    data: Data,
    /// Whether a request of main's waits. The door's own: who is told of it by this comes later than it, and passes it by the lock's bound.
    waits: AtomicBool,
    /// How many readers may pass it.
    overtakes: u32,
    /// Of the file that is appended to.
    end: AtomicU64,
}

/// Runs each worker's steps in a thread of its own, main being the first; then nobody holds anything, nobody waits, and the data is what the
/// writes add up to. What main does `first`, it does before the others begin.
pub(super) fn workers(primitive: &Primitive, first: &[&'static Step], threads: &[&'static [Step]]) {
    let scene = Arc::new(Scene {
        lock: (primitive.make)(),
        data: Data::new(),
        waits: AtomicBool::new(false),
        overtakes: primitive.overtakes,
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
            let written = others
                .into_iter()
                .map(|o| o.join().expect("a worker panicked"));
            written.sum()
        }));
        main.work(threads[0])
    });
    let everything = Hold::try_lock(&scene.lock, span(0..4), Write);
    let everything = everything.expect("all holds are gone, yet a try on everything fails");
    assert_eq!(scene.data.sum(&(0..4)), written, "a write was lost");
    everything.release();
}

/// One thread.
struct Worker<'a> {
    me: usize,
    scene: &'a Scene,
    parker: &'a Parker,
    /// Each with the sum of what was seen there.
    holds: Vec<(Hold<'a>, u32)>,
    asked: Option<Asked<'a>>,
    /// What it added to the data.
    written: u32,
    passes: u32,
    /// Of main: waits for the others, and says what they added.
    join: Option<Box<dyn FnOnce() -> u32>>,
}

impl<'a> Worker<'a> {
    fn new(me: usize, scene: &'a Scene, parker: &'a Parker) -> Self {
        Worker {
            me,
            scene,
            parker,
            holds: Vec::new(),
            asked: None,
            written: 0,
            passes: 0,
            join: None,
        }
    }

    /// Returns how much was added to the data by this thread, and those that it waited for.
    fn work(mut self, steps: &'static [Step]) -> u32 {
        for step in steps {
            self.step(step);
        }
        self.wait_for_others();
        assert!(
            self.holds.is_empty() && self.asked.is_none(),
            "a model that ends untidily"
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
            Take(range, access) => {
                let held = Hold::lock(lock, span(range.clone()), *access);
                perform(Operation::acquire(*access));
                self.begin(held.expect("in range"));
            }
            TakeAll(batch) => {
                let held = Hold::lock_all(lock, &all(batch)).expect("in range");
                perform(Operation::Batch);
                held.into_iter().for_each(|hold| self.begin(hold));
            }
            Try(range, access) => {
                perform(Operation::Try);
                match Hold::try_lock(lock, span(range.clone()), *access) {
                    Ok(held) => {
                        self.begin(held);
                        self.give();
                    }
                    Err(_) => note(self.me, "busy"),
                }
            }
            TryAll(batch) => {
                perform(Operation::TryBatch);
                match Hold::try_lock_all(lock, &all(batch)) {
                    Ok(held) => {
                        held.into_iter().for_each(|hold| self.begin(hold));
                        batch.iter().for_each(|_| self.give());
                    }
                    Err(_) => note(self.me, "busy"),
                }
            }
            TakeUntil(range, access) => self.take_until(range, *access),
            Append => self.append(),
            Give => self.give(),
            Again => {
                let (hold, _) = self.last();
                self.begin(hold);
            }
            Downgrade => {
                self.change(Hold::downgrade);
                perform(Operation::Downgrade);
            }
            TryUpgrade => {
                self.change(|hold| _ = hold.try_upgrade());
                perform(Operation::TryUpgrade);
            }
            Upgrade => {
                self.change(Hold::upgrade);
                perform(Operation::Upgrade);
            }
            Shrink(keep) => {
                self.change(|hold| hold.shrink(span(keep.clone())));
                perform(Operation::Shrink);
            }
            Split(at) => self.split(*at),
            Ask(range, access) => {
                self.asked = Some(Asked::new(lock, span(range.clone()), *access));
                self.poll();
                // Relaxed: a checker runs its threads on one system thread.
                self.scene.waits.store(self.asked.is_some(), Relaxed);
            }
            Await => {
                while self.asked.is_some() {
                    self.parker.park_until(None);
                    self.poll();
                    perform(Operation::Poll);
                }
            }
            Cancel => match self.asked.take() {
                Some(asked) => {
                    asked.cancel();
                    perform(Operation::Cancel);
                }
                None => self.give(),
            },
            Pass(range) => self.pass(range),
            Join => self.wait_for_others(),
            Reclaim => {
                let reclaim = lock.reclaim.as_ref().expect("a lock with this power");
                let freed = reclaim();
                perform(Operation::Reclaim);
                note(self.me, if freed > 0 { "freed" } else { "in use" });
            }
        }
    }

    fn split(&mut self, at: u64) {
        let mut high = None;
        self.change(|hold| high = Some(hold.split(at)));
        perform(Operation::Split);
        let high = high.expect("cut just now");
        let sum = self.scene.data.sum(&high.span().range());
        self.holds.push((high, sum));
    }

    fn take_until(&mut self, range: &Range<u64>, access: Access) {
        let scene = self.scene;
        let lock = scene.lock.wait.as_ref().expect("a lock with this power");
        // Never: under a checker it passes by plan.
        let deadline = Instant::now() + Duration::from_secs(3600);
        let taken = lock.lock_until(span(range.clone()), access, deadline, &mut || {
            self.touch(span(range.clone()), access);
            perform(Operation::Release);
        });
        perform(Operation::Deadline);
        if !taken.expect("in range") {
            note(self.me, "gave up");
        }
    }

    /// The end is moved under the hold, so that no two have the same place.
    fn append(&mut self) {
        let scene = self.scene;
        let lock = scene.lock.split.as_ref().expect("a lock with this power");
        // Relaxed, both: the hold orders them; without it a look that is too early is looked at again.
        let end = || scene.end.load(Relaxed);
        let hold = lock.append(1, end).expect("there is room");
        perform(Operation::Append);
        let place = hold.span().expect("not empty");
        scene.end.store(place.end(), Relaxed);
        self.touch(place, Write);
        drop(hold);
        perform(Operation::Release);
    }

    fn wait_for_others(&mut self) {
        self.written += self.join.take().map_or(0, |join| join());
    }

    fn poll(&mut self) {
        let polled = self
            .asked
            .as_mut()
            .map(|asked| asked.poll_with(self.parker.waker()));
        if let Some(Ok(Some(hold))) = polled {
            self.asked = None;
            self.begin(hold);
        }
    }

    fn begin(&mut self, hold: Hold<'a>) {
        let sum = self.touch(hold.span(), hold.access());
        self.holds.push((hold, sum));
    }

    /// Writes if it may; returns what is there then.
    fn touch(&mut self, held: Span, access: Access) -> u32 {
        let (data, range) = (&self.scene.data, held.range());
        if access == Write {
            data.add_one(&range);
            self.written += held.len() as u32;
        }
        let sum = data.sum(&range);
        note(self.me, format!("{access:?} {held:?}={sum}"));
        sum
    }

    /// The last hold, in which nobody has written since it was looked at.
    fn last(&mut self) -> (Hold<'a>, u32) {
        let (hold, seen) = self.holds.pop().expect("a model that holds something");
        let sum = self.scene.data.sum(&hold.span().range());
        assert_eq!(sum, seen, "T{}: somebody wrote under {hold:?}", self.me);
        (hold, sum)
    }

    fn give(&mut self) {
        let (hold, _) = self.last();
        hold.release();
        perform(Operation::Release);
    }

    fn change(&mut self, change: impl FnOnce(&mut Hold<'a>)) {
        let (mut hold, seen) = self.last();
        let before = (hold.span(), hold.access());
        change(&mut hold);
        if hold.span() == before.0 {
            let sum = self.scene.data.sum(&hold.span().range());
            assert_eq!(sum, seen, "T{}: somebody wrote before {hold:?}", self.me);
        }
        let sum = match (before.1, hold.access()) {
            (from, Write) if from != Write => self.touch(hold.span(), Write),
            _ => self.scene.data.sum(&hold.span().range()),
        };
        self.holds.push((hold, sum));
    }

    fn pass(&mut self, range: &Range<u64>) {
        // Asked before: a read that begins earlier passes nobody.
        let waits = self.scene.waits.load(Acquire);
        let tried = Hold::try_lock(&self.scene.lock, span(range.clone()), Read);
        perform(Operation::Try);
        if waits {
            self.passes += u32::from(tried.is_ok());
            trace::pass(tried.is_ok(), self.passes, self.scene.overtakes);
        }
        note(self.me, format!("passed {}", self.passes));
        if let Ok(hold) = tried {
            hold.release();
            perform(Operation::Release);
        }
    }
}
