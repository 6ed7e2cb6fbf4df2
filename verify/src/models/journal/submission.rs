//! A transaction written by several, sealed by one, acknowledged to all.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::medium::Medium;
use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_journal_commit::jbd2::raw::submission::{Steps, Submission};
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Cells, at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::Program;
use crate::trace::{note, perform};

const NAME: &str = "journal-submission";

pub(super) fn programs() -> Vec<Program> {
    let durable = "what is acknowledged is durable, commit block last; it is acknowledged once, whoever helps, and however far";
    let refused =
        "a transaction that fails, in whosever hands, is not acknowledged; all who wait are told";
    let main: &[Op] = &[Op::Prepare, Op::Commit];
    let failing: &[Op] = &[Op::Prepare, Op::Commit, Op::Fail];
    vec![
        program(NAME, "help", durable, [main, &[Op::Help]], || {
            works(scene(1, true), &[commit, help]);
        }),
        program(NAME, "help-among", durable, [main, &[Op::Help]], || {
            works(scene(1, false), &[commit, help]);
        }),
        program(NAME, "wait", durable, [main, &[Op::Wait]], || {
            works(scene(1, true), &[commit, wait]);
        }),
        program(
            NAME,
            "help-fails",
            refused,
            [failing, &[Op::Help, Op::Fail]],
            || fails(Fails::Write, &[commit, help]),
        ),
        program(NAME, "flush-fails", refused, [failing, &[Op::Wait]], || {
            fails(Fails::Flush, &[commit, wait]);
        }),
        program(NAME, "write-fails", refused, [failing, &[Op::Wait]], || {
            fails(Fails::Write, &[commit, wait]);
        }),
        program(
            NAME,
            "beside-a-failure",
            "what a failure beside its flush has lost is not acknowledged, nor is its commit block written",
            [main, &[Op::Fail]],
            || works(scene(1, true), &[commit, lose]),
        ),
        program(
            NAME,
            "help-3",
            durable,
            [main, &[Op::Help, Op::Wait], &[Op::Help, Op::Wait]],
            || works(scene(1, true), &[commit, help_and_wait, help_and_wait]),
        ),
        program(
            NAME,
            "wait-3",
            durable,
            [main, &[Op::Wait], &[Op::Wait]],
            || works(scene(1, true), &[commit, wait, wait]),
        ),
        crowd(NAME, "crowd-4", durable, 4, || {
            works(
                scene(2, true),
                &[commit, help_and_wait, help_and_wait, wait],
            );
        }),
        crowd(NAME, "crowd-8", durable, 8, || {
            let mut all = [help_and_wait as Work; 8];
            (all[0], all[1]) = (commit, wait);
            works(scene(4, true), &all);
        }),
    ]
}

/// What fails, whoever does it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    Nothing,
    Flush,
    Write,
}

/// What a thread does, by its number.
type Work = fn(usize, &Scene);

/// Room for blocks.
const MOST: usize = 4;

struct Scene {
    submission: Submission,
    medium: Medium<&'static str>,
    done: Arc<Signal>,
    acknowledged: AtomicBool,
    /// By buffer: 1 when prepared, 2 when written, 3 when durable.
    buffers: Cells<MOST>,
    /// 1 when the commit block is durable; and how often it was acknowledged.
    sealed: Cells<2>,
    /// What was not flushed is gone, by a failure beside the transaction.
    lost: AtomicBool,
    fails: Fails,
}

fn scene(buffers: u32, is_sealed_apart: bool) -> Scene {
    let [sealed, done] = [(); 2].map(|()| Arc::new(Signal::new()));
    Scene {
        submission: Submission::new(buffers, is_sealed_apart, sealed.clone()),
        medium: Medium::new("died", vec![sealed, done.clone()]),
        done,
        acknowledged: AtomicBool::new(false),
        buffers: Cells::new(),
        sealed: Cells::new(),
        lost: AtomicBool::new(false),
        fails: Fails::Nothing,
    }
}

/// Nothing fails but by a thread that says so.
fn works(scene: Scene, works: &[Work]) {
    let scene = Arc::new(scene);
    at_once(&scene, works);
    let acknowledged = scene.sealed.get(1);
    let is_lost = scene.lost.load(Relaxed);
    assert!(
        acknowledged == 1 || is_lost,
        "acknowledged {acknowledged} times"
    );
    assert!(acknowledged <= 1, "acknowledged {acknowledged} times");
    assert_eq!(scene.medium.check().is_err(), is_lost);
}

/// One step fails: nothing is acknowledged.
fn fails(fails: Fails, works: &[Work]) {
    let scene = Arc::new(Scene {
        fails,
        ..scene(1, true)
    });
    at_once(&scene, works);
    assert!(scene.medium.check().is_err());
    assert_eq!(scene.sealed.all(), [0, 0]);
}

/// What the commit writes to.
struct Store<'a>(&'a Scene, usize);

impl Store<'_> {
    fn fails(&self, what: Fails) -> Result<(), &'static str> {
        if self.0.fails != what {
            return Ok(());
        }
        perform(Op::Fail);
        Err("lost")
    }
}

impl Steps<&'static str> for Store<'_> {
    fn write(&self, buffer: u32) -> Result<(), &'static str> {
        self.fails(Fails::Write)?;
        let buffers = &self.0.buffers;
        assert_eq!(buffers.get(buffer as usize), 1, "prepared, not yet written");
        buffers.add(buffer as usize, 1);
        Ok(())
    }

    fn flush(&self) -> Result<(), &'static str> {
        self.fails(Fails::Flush)?;
        let Store(scene, _) = self;
        // Relaxed: what is lost by then, whoever is told of it.
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
        note(*me, "acknowledges");
        // Relaxed: as for the journal, who waits is told by what orders it, here its signal.
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

/// The one that commits.
fn commit(me: usize, scene: &Scene) {
    for buffer in 0..scene.submission.total() {
        scene.buffers.add(buffer as usize, 1);
        scene.submission.publish();
    }
    perform(Op::Prepare);
    let result = scene.submission.complete(&scene.medium, &Store(scene, me));
    perform(Op::Commit);
    note(me, format!("{result:?}"));
    assert!(result.is_err() || scene.sealed.get(1) == 1);
}

/// One that waits, and does what it can meanwhile.
fn help(me: usize, scene: &Scene) {
    let helped = scene.submission.help(&scene.medium, &Store(scene, me));
    perform(Op::Help);
    note(me, format!("{helped}"));
}

fn wait(me: usize, scene: &Scene) {
    let outcome = scene.done.wait_until(|| {
        // Relaxed: only whether it is.
        if scene.acknowledged.load(Relaxed) {
            return Some("there");
        }
        scene.medium.check().err()
    });
    perform(Op::Wait);
    note(me, outcome);
}

fn help_and_wait(me: usize, scene: &Scene) {
    help(me, scene);
    wait(me, scene);
}

/// An operation of another kind, a checkpoint's, that fails and loses what was not flushed.
fn lose(me: usize, scene: &Scene) {
    if let Ok(operation) = scene.medium.begin() {
        scene.lost.store(true, Relaxed);
        let _ = operation.end(Err("lost"));
        perform(Op::Fail);
        note(me, "lost");
    }
}
