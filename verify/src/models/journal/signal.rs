//! Sleeping until something is so.

use std::sync::Arc;
use std::time::Instant;

use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::Program;
use crate::trace::{note, perform};

const NAME: &str = "journal-signal";

pub(super) fn programs() -> Vec<Program> {
    let woken = "who sleeps until something is so is woken when it has become so";
    vec![
        program(
            NAME,
            "wake-each",
            "two who wait for each other's change are both woken",
            [&[Op::Wake, Op::Sleep], &[Op::Wake, Op::Sleep]],
            || ends(&[in_turn, in_turn]),
        ),
        program(
            NAME,
            "deadline-each",
            "who gives up at a deadline spends no wake that another needs, and may wait again",
            [&[Op::WakeSome, Op::Deadline], &[Op::WakeSome, Op::Deadline]],
            || ends(&[in_time, in_time]),
        ),
        program(
            NAME,
            "wake-deadline",
            "one with a deadline and one without wait for each other's change, and are woken",
            [&[Op::Wake, Op::Sleep], &[Op::WakeSome, Op::Deadline]],
            || ends(&[in_turn, in_time]),
        ),
        program(
            NAME,
            "wake-3",
            woken,
            [&[Op::Wake], &[Op::Sleep], &[Op::Sleep]],
            || ends(&[wake_all, sleep, sleep]),
        ),
        program(
            NAME,
            "wake-some-3",
            "two wakes for one each reach two",
            [&[Op::WakeSome], &[Op::Sleep], &[Op::Sleep]],
            || ends(&[wake_two, sleep, sleep]),
        ),
        crowd(NAME, "crowd-4", woken, 4, || {
            ends(&[wake_all, sleep, sleep, sleep]);
        }),
    ]
}

struct Scene {
    signal: Signal,
    changed: [AtomicBool; 2],
}

fn ends(works: &[fn(usize, &Scene)]) {
    let scene = Scene {
        signal: Signal::new(),
        changed: [AtomicBool::new(false), AtomicBool::new(false)],
    };
    at_once(&Arc::new(scene), works);
}

impl Scene {
    // Relaxed, here and below: the signal's own lock orders it, which is what this shows.
    fn change(&self, which: usize) {
        self.changed[which].store(true, Relaxed);
    }

    fn look(&self, which: usize) -> Option<()> {
        self.changed[which].load(Relaxed).then_some(())
    }

    fn sleep(&self, which: usize) {
        self.signal.wait_until(|| self.look(which));
        perform(Op::Sleep);
    }
}

/// Changes its own, and waits for the other's.
fn in_turn(me: usize, scene: &Scene) {
    scene.change(me);
    scene.signal.wake_all();
    perform(Op::Wake);
    scene.sleep(1 - me);
}

fn in_time(me: usize, scene: &Scene) {
    scene.change(me);
    scene.signal.wake_some(1);
    perform(Op::WakeSome);
    let look = || scene.look(1 - me);
    let found = scene.signal.wait_until_deadline(Instant::now(), look);
    perform(Op::Deadline);
    note(me, if found.is_some() { "in time" } else { "late" });
    scene.signal.wait_until(look);
}

fn wake_all(_: usize, scene: &Scene) {
    scene.change(0);
    scene.signal.wake_all();
    perform(Op::Wake);
}

fn wake_two(_: usize, scene: &Scene) {
    scene.change(0);
    scene.signal.wake_some(1);
    scene.signal.wake_some(1);
    perform(Op::WakeSome);
}

fn sleep(_: usize, scene: &Scene) {
    scene.sleep(0);
}
