//! Random histories on several threads: real threads, or a checker's threads through
//! `spanlock_sync`, the facade over std and the checkers.
//!
//! Each thread plays several owners of holds and requests. A thread cannot predict its results, so
//! the test checks these properties instead:
//!
//! - **Exclusion**: each gap between neighbouring points has a count of its holders. Threads raise
//!   the count after locking and lower it before unlocking, so the count never exceeds the actual
//!   number of holders. A hold stays counted while its access changes. So the test detects a writer
//!   that is granted the range meanwhile.
//! - **Visibility**: each gap has data without any synchronization of its own. Threads write the
//!   data under exclusive holds only, and read it twice under shared holds. At the end, the sum of
//!   the data must equal the number of writes.
//! - **No lost wakeup and no deadlock**: the history ends.
//!
//! Whatever the order in which the lock grants requests, a history must end. So a thread releases
//! everything before it blocks; only a blocking upgrade keeps the hold that it upgrades. A thread
//! may hold ranges during a try, a poll or a wait that gives up.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use spanlock_range_lock::{Access, Span};
use spanlock_sync::{Park, Parker, Wakeup, thread};

use crate::Driven;
use crate::op::{Op, Pick, Points, Program};
use crate::owner::{Asked, Hold};

const UPGRADER: u64 = 1 << 16;
const WRITER: u64 = 1 << 32;

/// A thread with at least this many holds and requests releases or cancels one of them before each
/// operation. A try of several ranges may exceed this number.
const CROWD: usize = 4;

/// Returns what one hold adds to the count of a gap.
fn weight(access: Access) -> u64 {
    match access {
        Access::Read => 1,
        Access::Upgradable => UPGRADER,
        Access::Write => WRITER,
    }
}

/// The state shared by all threads of a history. Its atomics are std's even under a checker: they
/// only observe the lock, and must not add steps to the executions.
struct Scene {
    lock: Driven,
    points: Points,
    /// The count of holders of each gap.
    inside: Vec<AtomicU64>,
    data: Vec<UnsafeCell<u64>>,
    /// The first violation. All threads stop after it.
    wrong: Mutex<Option<String>>,
    stop: AtomicBool,
}

// SAFETY: threads access the data only under holds. The test checks that the accesses do not race.
unsafe impl Sync for Scene {}
// SAFETY: the cells hold plain numbers.
unsafe impl Send for Scene {}

impl Scene {
    fn new(lock: Driven) -> Self {
        let points = Points::of(&lock);
        let gaps = points.gaps();
        Scene {
            lock,
            points,
            inside: (0..gaps).map(|_| AtomicU64::new(0)).collect(),
            data: (0..gaps).map(|_| UnsafeCell::new(0)).collect(),
            wrong: Mutex::new(None),
            stop: AtomicBool::new(false),
        }
    }

    fn expect(&self, right: bool, what: impl FnOnce() -> String) {
        if !right {
            let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            wrong.get_or_insert_with(what);
            // Relaxed: the flag is only a hint.
            self.stop.store(true, Relaxed);
        }
    }

    fn enter(&self, hold: &Hold<'_>) {
        let access = hold.access();
        for gap in self.points.gaps_of(hold.span()) {
            // Relaxed, here and in `recount`: the lock under test must provide the ordering.
            let before = self.inside[gap].fetch_add(weight(access), Relaxed);
            let right = match access {
                Access::Read => before < WRITER,
                Access::Upgradable => before < UPGRADER,
                Access::Write => before == 0,
            };
            self.expect(right, || {
                format!("{hold:?} was granted while gap {gap} had holders {before:#x}")
            });
        }
    }

    fn leave(&self, gaps: std::ops::Range<usize>, access: Access) {
        for gap in gaps {
            // Relaxed: the lock under test must provide the ordering.
            self.inside[gap].fetch_sub(weight(access), Relaxed);
        }
    }

    /// Changes the counted access of a hold in one step, so that the hold stays counted throughout.
    fn recount(&self, span: Span, from: Access, to: Access) {
        for gap in self.points.gaps_of(span) {
            let change = weight(to).wrapping_sub(weight(from));
            let before = self.inside[gap].fetch_add(change, Relaxed);
            let right = to != Access::Write || before == weight(from);
            self.expect(right, || {
                format!("{span:?} was upgraded while gap {gap} had holders {before:#x}")
            });
        }
    }

    /// Writes if the hold is exclusive, otherwise reads twice. Returns the number of writes.
    fn touch(&self, hold: &Hold<'_>, pause: bool) -> u64 {
        let mut written = 0;
        for gap in self.points.gaps_of(hold.span()) {
            let data = self.data[gap].get();
            // SAFETY: the hold covers the gap with the access needed.
            unsafe {
                if hold.access() == Access::Write {
                    data.write_volatile(data.read_volatile() + 1);
                    written += 1;
                } else {
                    let before = data.read_volatile();
                    if pause {
                        thread::yield_now();
                    }
                    let same = before == data.read_volatile();
                    self.expect(same, || {
                        format!("{hold:?}: another thread wrote gap {gap} during this hold")
                    });
                }
            }
        }
        written
    }
}

/// Runs each of the program's lists of operations in its own thread, and waits for all threads.
/// Returns how many operations ran. [`Op::Odd`] is skipped and not counted. An operation that finds
/// no hold or request to act on is counted.
///
/// # Errors
/// The first violation of the contract. On real threads, a lost wakeup is not reported: the program
/// hangs.
pub fn run(lock: Driven, program: &Program) -> Result<u64, String> {
    let scene = Arc::new(Scene::new(lock));
    let threads: Vec<_> = program
        .iter()
        .map(|ops| {
            let (scene, ops) = (scene.clone(), ops.clone());
            thread::spawn(move || Worker::live(&scene, &ops))
        })
        .collect();
    let (mut done, mut written) = (0, 0);
    for thread in threads {
        let (ops, writes) = thread.join().map_err(|_| "a thread panicked")?;
        done += ops;
        written += writes;
    }
    let all = Hold::try_lock(
        &scene.lock,
        crate::owner::span(0..scene.lock.raw.capacity()),
        Access::Write,
    );
    scene.expect(all.is_ok(), || {
        "all threads have finished, yet a try of the whole range fails".to_owned()
    });
    // SAFETY: the other threads have finished.
    let found = (scene.data.iter()).map(|data| unsafe { data.get().read_volatile() });
    let found: u64 = found.sum();
    scene.expect(found == written, || {
        format!("{written} writes were made, but the data shows {found}")
    });
    // Relaxed: all threads have finished.
    let empty = (scene.inside.iter()).all(|inside| inside.load(Relaxed) == 0);
    scene.expect(empty, || {
        "holders are still counted after all threads have finished".to_owned()
    });
    let mut wrong = scene.wrong.lock().unwrap_or_else(PoisonError::into_inner);
    wrong.take().map_or(Ok(done), Err)
}

/// Tells the checker that an operation has finished. The checker bounds the steps of each
/// operation.
fn finished() {
    #[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::finished();
}

/// A thread, with its holds and requests.
struct Worker<'a> {
    scene: &'a Scene,
    parker: &'a Parker,
    holds: Vec<Hold<'a>>,
    asked: Vec<Asked<'a>>,
    written: u64,
    done: u64,
}

impl<'a> Worker<'a> {
    fn live(scene: &'a Scene, ops: &[Op]) -> (u64, u64) {
        Parker::with(|parker| {
            let mut worker = Worker {
                scene,
                parker,
                holds: Vec::new(),
                asked: Vec::new(),
                written: 0,
                done: 0,
            };
            for &op in ops {
                if scene.stop.load(Relaxed) {
                    break;
                }
                worker.step(op);
                finished();
            }
            worker.end();
            (worker.done, worker.written)
        })
    }

    fn step(&mut self, op: Op) {
        self.done += 1;
        let (lock, points) = (&self.scene.lock, &self.scene.points);
        if self.holds.len() + self.asked.len() >= CROWD {
            self.release_one();
        }
        match op {
            Op::Try(extent) => {
                let tried = Hold::try_lock(lock, points.span(extent), extent.access);
                self.begin(tried.ok());
            }
            Op::Lock(extent) => {
                self.let_go();
                let held = Hold::lock(lock, points.span(extent), extent.access);
                self.begin(Some(held.expect("a valid range")));
            }
            Op::TryAll(extents) => {
                let batch = points.batch(lock, extents);
                let tried = Hold::try_lock_all(lock, &batch);
                self.begin(tried.into_iter().flatten());
            }
            Op::LockAll(extents) => {
                self.let_go();
                let batch = points.batch(lock, extents);
                let held = Hold::lock_all(lock, &batch);
                self.begin(held.expect("valid ranges"));
            }
            Op::Ask(extent) => {
                let asked = Asked::new(lock, points.span(extent), extent.access);
                self.asked.push(asked);
                self.poll(self.asked.len() - 1);
            }
            Op::Poll(pick) => _ = pick.among(&self.asked, |_| true).map(|i| self.poll(i)),
            Op::Cancel(pick) => {
                let i = pick.among(&self.asked, |_| true);
                i.into_iter().for_each(|i| self.asked.remove(i).cancel());
            }
            Op::Within(extent, looks) => {
                let asked = Asked::new(lock, points.span(extent), extent.access);
                let held = self.within(asked, looks);
                self.begin(held);
            }
            Op::Unlock(pick) => {
                let i = pick.among(&self.holds, |_| true);
                i.into_iter().for_each(|i| self.release(i));
            }
            Op::Odd(_) => self.done -= 1,
            Op::Downgrade(pick) => self.downgrade(pick),
            Op::TryUpgrade(pick) => self.try_upgrade(pick),
            Op::Upgrade(pick) => self.upgrade(pick),
            Op::Shrink(pick, a, b) => self.shrink(pick, a, b),
            Op::Split(pick, at) => self.split(pick, at),
        }
    }

    fn begin(&mut self, holds: impl IntoIterator<Item = Hold<'a>>) {
        for hold in holds {
            self.scene.enter(&hold);
            self.written += self.scene.touch(&hold, self.done.is_multiple_of(8));
            self.holds.push(hold);
        }
    }

    fn release(&mut self, i: usize) {
        let hold = self.holds.remove(i);
        self.written += self.scene.touch(&hold, self.done.is_multiple_of(8));
        let gaps = self.scene.points.gaps_of(hold.span());
        self.scene.leave(gaps, hold.access());
        hold.release();
        finished();
    }

    fn release_one(&mut self) {
        if self.holds.is_empty() {
            self.asked.remove(0).cancel();
        } else {
            self.release(0);
        }
    }

    /// Releases every hold and cancels every request, so that no thread waits for this one.
    fn let_go(&mut self) {
        while !(self.holds.is_empty() && self.asked.is_empty()) {
            self.release_one();
        }
    }

    fn poll(&mut self, i: usize) {
        let polled = self.asked[i].poll_with(self.parker.waker());
        if let Some(hold) = polled.expect("a valid range") {
            drop(self.asked.remove(i));
            self.begin([hold]);
        }
    }

    /// Polls at most `looks` times. After each poll, sleeps, or yields under a checker.
    fn within(&mut self, mut asked: Asked<'a>, looks: u8) -> Option<Hold<'a>> {
        for look in 0..looks {
            let polled = asked.poll_with(self.parker.waker());
            if let Some(hold) = polled.expect("a valid range") {
                return Some(hold);
            }
            if cfg!(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)) {
                // Under a checker, a deadline passes only by fault injection.
                thread::yield_now();
            } else {
                let deadline = Instant::now() + Duration::from_micros(10 << look);
                let (Wakeup::Woken | Wakeup::TimedOut) = self.parker.park_until(Some(deadline));
            }
        }
        asked.cancel();
        None
    }

    fn pick(&self, pick: Pick, suitable: impl Fn(Access) -> bool) -> Option<usize> {
        pick.among(&self.holds, |hold| suitable(hold.access()))
    }

    fn downgrade(&mut self, pick: Pick) {
        let Some(i) = self.pick(pick, |access| access != Access::Read) else {
            return;
        };
        let (scene, hold) = (self.scene, &mut self.holds[i]);
        // Change the count first, so that a writer granted during the downgrade finds the reader
        // counted.
        scene.recount(hold.span(), hold.access(), Access::Read);
        hold.downgrade();
        self.written += scene.touch(hold, false);
    }

    fn try_upgrade(&mut self, pick: Pick) {
        let Some(i) = self.pick(pick, |access| access != Access::Write) else {
            return;
        };
        let (scene, hold) = (self.scene, &mut self.holds[i]);
        let from = hold.access();
        if hold.try_upgrade() {
            scene.recount(hold.span(), from, Access::Write);
            self.written += scene.touch(hold, false);
        }
    }

    fn upgrade(&mut self, pick: Pick) {
        let Some(i) = self.pick(pick, |access| access == Access::Upgradable) else {
            return;
        };
        let mut hold = self.holds.remove(i);
        self.let_go();
        hold.upgrade();
        let scene = self.scene;
        scene.recount(hold.span(), Access::Upgradable, Access::Write);
        self.written += scene.touch(&hold, false);
        self.holds.push(hold);
    }

    fn shrink(&mut self, pick: Pick, a: u8, b: u8) {
        let Some(i) = self.pick(pick, |_| true) else {
            return;
        };
        let (scene, hold) = (self.scene, &mut self.holds[i]);
        let keep = scene.points.part(hold.span(), a, b);
        let (all, kept) = (
            scene.points.gaps_of(hold.span()),
            scene.points.gaps_of(keep),
        );
        scene.leave(all.start..kept.start, hold.access());
        scene.leave(kept.end..all.end, hold.access());
        hold.shrink(keep);
        self.written += scene.touch(hold, false);
    }

    fn split(&mut self, pick: Pick, at: u8) {
        let Some(i) = self.pick(pick, |_| true) else {
            return;
        };
        let unit = self.scene.lock.raw.granularity();
        let whole = self.holds[i].span();
        if let Some(at) = self.scene.points.cut(whole, at, unit) {
            let high = self.holds[i].split(at);
            self.holds.push(high);
        }
    }

    /// Releases every hold and waits for every request, in whatever order the lock grants them.
    fn end(&mut self) {
        loop {
            while !self.holds.is_empty() {
                self.release(0);
            }
            (0..self.asked.len()).rev().for_each(|i| self.poll(i));
            match (self.holds.is_empty(), self.asked.is_empty()) {
                (true, true) => return,
                (true, false) => _ = self.parker.park_until(None),
                (false, _) => {}
            }
        }
    }
}
