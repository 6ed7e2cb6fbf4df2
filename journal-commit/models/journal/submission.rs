//! A transaction: several threads write it, one thread seals it, and all see it acknowledged.

use std::ops::Range;
use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::medium::Operations;
use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_journal_commit::jbd2::raw::submission::{Steps, Submission};
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};
use spanlock_verify::{Suite, note_as, perform};

use super::ONE_COMMITS;
use crate::threads::{Cells, at_once, crowd, program};

pub(crate) fn suite() -> Suite {
    let main: &[&str] = &["prepare", "commit"];
    let failing: &[&str] = &["prepare", "commit", "fail"];
    let helper: &[&str] = &["help", "wait"];
    Suite::new("journal-submission")
        .step_bound(96)
        .operations(["fail", "prepare", "help", "commit", "wait"])
        .no_pair("prepare", "prepare", ONE_COMMITS)
        .no_pair("prepare", "commit", ONE_COMMITS)
        .no_pair("commit", "commit", ONE_COMMITS)
        .program(program("help", DURABLE, [main, &["help"]], || {
            works(scene(1, true), &[commit, help]);
        }))
        .program(program("help-among", DURABLE, [main, &["help"]], || {
            works(scene(1, false), &[commit, help]);
        }))
        .program(program("wait", DURABLE, [main, &["wait"]], || {
            works(scene(1, true), &[commit, wait]);
        }))
        .program(program(
            "help-fails",
            REFUSED,
            [failing, &["help", "fail"]],
            || fails(Fails::Write, &[commit, help]),
        ))
        .program(program(
            "flush-fails",
            REFUSED,
            [failing, &["wait"]],
            || {
                fails(Fails::Flush, &[commit, wait]);
            },
        ))
        .program(program(
            "write-fails",
            REFUSED,
            [failing, &["wait"]],
            || {
                fails(Fails::Write, &[commit, wait]);
            },
        ))
        .program(program(
            "beside-a-failure",
            "if a failure during the flush loses data, the transaction is not acknowledged and its \
             commit block is not written",
            [main, &["fail"]],
            || works(scene(1, true), &[commit, lose]),
        ))
        .program(program("help-3", DURABLE, [main, helper, helper], || {
            works(scene(1, true), &[commit, help_and_wait, help_and_wait]);
        }))
        .program(program(
            "wait-3",
            DURABLE,
            [main, &["wait"], &["wait"]],
            || {
                works(scene(1, true), &[commit, wait, wait]);
            },
        ))
        .program(crowd("crowd-4", DURABLE, 4, || {
            works(
                scene(2, true),
                &[commit, help_and_wait, help_and_wait, wait],
            );
        }))
        .program(crowd("crowd-8", DURABLE, 8, || {
            let mut all = [help_and_wait as Work; 8];
            (all[0], all[1]) = (commit, wait);
            works(scene(4, true), &all);
        }))
}

const DURABLE: &str = "an acknowledged transaction is durable, and its commit block became durable \
                       last; it is acknowledged once, no matter which threads help";
const REFUSED: &str = "if a step fails in any thread, the transaction is not acknowledged, and \
                       every waiter gets the error";

/// The step that fails, no matter which thread performs it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    Nothing,
    Flush,
    Write,
}

/// The work of a thread, given its number.
type Work = fn(usize, &Scene);

/// The most buffers of a transaction.
const MOST: usize = 4;

struct Scene {
    submission: Submission,
    medium: Operations<&'static str>,
    done: Arc<Signal>,
    acknowledged: AtomicBool,
    /// The state of each buffer: 1 when prepared, 2 when written, 3 when durable.
    buffers: Cells<MOST>,
    /// First: 1 when the commit block is durable. Second: how often the transaction was
    /// acknowledged.
    sealed: Cells<2>,
    /// Whether a failure of another operation has lost unflushed writes.
    lost: AtomicBool,
    fails: Fails,
}

fn scene(buffers: u32, is_sealed_apart: bool) -> Scene {
    let [sealed, done] = [(); 2].map(|()| Arc::new(Signal::new()));
    Scene {
        submission: Submission::new(buffers, 1, is_sealed_apart, sealed.clone()),
        medium: Operations::new("died", vec![sealed, done.clone()]),
        done,
        acknowledged: AtomicBool::new(false),
        buffers: Cells::new(),
        sealed: Cells::new(),
        lost: AtomicBool::new(false),
        fails: Fails::Nothing,
    }
}

/// Runs `works`, of which only [`lose`] may fail.
fn works(scene: Scene, works: &[Work]) {
    let scene = Arc::new(scene);
    at_once(&scene, works);
    let acknowledged = scene.sealed.get(1);
    // Relaxed: the threads are joined.
    let is_lost = scene.lost.load(Relaxed);
    assert!(
        acknowledged == 1 || is_lost,
        "acknowledged {acknowledged} times"
    );
    assert!(acknowledged <= 1, "acknowledged {acknowledged} times");
    assert_eq!(scene.medium.check().is_err(), is_lost);
}

/// Runs `works`, in which one step fails. Checks that nothing is acknowledged.
fn fails(fails: Fails, works: &[Work]) {
    let scene = Arc::new(Scene {
        fails,
        ..scene(1, true)
    });
    at_once(&scene, works);
    assert!(scene.medium.check().is_err());
    assert_eq!(scene.sealed.all(), [0, 0]);
}

/// The steps of a submission, performed by the thread with this number.
struct Store<'a>(&'a Scene, usize);

impl Store<'_> {
    fn fails(&self, what: Fails) -> Result<(), &'static str> {
        if self.0.fails != what {
            return Ok(());
        }
        perform("fail");
        Err("lost")
    }
}

impl Steps<&'static str> for Store<'_> {
    fn write(&self, run: Range<u32>) -> Result<(), &'static str> {
        self.fails(Fails::Write)?;
        let buffers = &self.0.buffers;
        for buffer in run.map(|it| it as usize) {
            assert_eq!(buffers.get(buffer), 1, "prepared, not yet written");
            buffers.add(buffer, 1);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), &'static str> {
        self.fails(Fails::Flush)?;
        let Store(scene, _) = self;
        // Relaxed: the check is about the loss itself, whether or not a thread knows of it.
        if !scene.lost.load(Relaxed) {
            for buffer in 0..scene.submission.total() as usize {
                assert_eq!(scene.buffers.get(buffer), 2, "flushed before it is written");
                scene.buffers.add(buffer, 1);
            }
        }
        Ok(())
    }

    fn write_commit_block(&self) -> Result<(), &'static str> {
        self.0.are_durable();
        self.0.sealed.add(0, 1);
        Ok(())
    }

    fn committed(&self, flushes: u64) {
        let Store(scene, me) = self;
        scene.are_durable();
        let apart = u32::from(scene.submission.is_sealed_apart());
        assert_eq!(
            (scene.sealed.get(0), flushes),
            (apart, u64::from(1 + apart))
        );
        scene.sealed.add(1, 1);
        note_as(*me, "acknowledges");
        // Relaxed: the signal orders it for the waiters, as in the journal.
        scene.acknowledged.store(true, Relaxed);
        scene.done.wake_all();
    }
}

impl Scene {
    fn are_durable(&self) {
        for buffer in 0..self.submission.total() as usize {
            assert_eq!(
                self.buffers.get(buffer),
                3,
                "committed before it is durable"
            );
        }
    }
}

/// The work of the thread that commits.
fn commit(me: usize, scene: &Scene) {
    for buffer in 0..scene.submission.total() {
        scene.buffers.add(buffer as usize, 1);
        scene.submission.publish();
    }
    perform("prepare");
    let result = scene.submission.complete(&scene.medium, &Store(scene, me));
    perform("commit");
    note_as(me, format!("{result:?}"));
    assert!(result.is_err() || scene.sealed.get(1) == 1);
}

/// The work of a thread that helps with the commit while it waits.
fn help(me: usize, scene: &Scene) {
    let helped = scene.submission.help(&scene.medium, &Store(scene, me));
    perform("help");
    note_as(me, format!("{helped}"));
}

fn wait(me: usize, scene: &Scene) {
    let outcome = scene.done.wait_until(|| {
        // Relaxed: only the flag itself counts.
        if scene.acknowledged.load(Relaxed) {
            return Some("there");
        }
        scene.medium.check().err()
    });
    perform("wait");
    note_as(me, outcome);
}

fn help_and_wait(me: usize, scene: &Scene) {
    help(me, scene);
    wait(me, scene);
}

/// Performs another operation, like a checkpoint's. The operation fails and loses all unflushed
/// writes.
fn lose(me: usize, scene: &Scene) {
    if let Ok(operation) = scene.medium.begin() {
        // Relaxed: as in `flush`.
        scene.lost.store(true, Relaxed);
        let _ = operation.end(Err("lost"));
        perform("fail");
        note_as(me, "lost");
    }
}
