//! Sleeping until a condition holds.

use std::sync::Arc;
use std::time::Instant;

use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};
use spanlock_verify::{Suite, note_as, perform};

use crate::threads::{at_once, crowd, program};

pub(crate) fn suite() -> Suite {
    Suite::new("journal-signal")
        .operations(["deadline", "sleep", "wake", "wake-some"])
        .program(program(
            "wake-each",
            "two threads that wait for each other's change are both woken",
            [&["wake", "sleep"], &["wake", "sleep"]],
            || ends(&[in_turn, in_turn]),
        ))
        .program(program(
            "deadline-each",
            "a waiter whose deadline passes takes no wake from another thread, and may wait again",
            [&["wake-some", "deadline"], &["wake-some", "deadline"]],
            || ends(&[in_time, in_time]),
        ))
        .program(program(
            "wake-deadline",
            "a waiter with a deadline and a waiter without one wait for each other and are woken",
            [&["wake", "sleep"], &["wake-some", "deadline"]],
            || ends(&[in_turn, in_time]),
        ))
        .program(program(
            "wake-3",
            WOKEN,
            [&["wake"], &["sleep"], &["sleep"]],
            || ends(&[wake_all, sleep, sleep]),
        ))
        .program(program(
            "wake-some-3",
            "two calls of `wake_some(1)` together wake two threads",
            [&["wake-some"], &["sleep"], &["sleep"]],
            || ends(&[wake_two, sleep, sleep]),
        ))
        .program(crowd("crowd-4", WOKEN, 4, || {
            ends(&[wake_all, sleep, sleep, sleep]);
        }))
}

const WOKEN: &str = "a thread that sleeps until a condition holds is woken once it holds";

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
    fn change(&self, which: usize) {
        // Relaxed: these programs show that the signal's own lock orders this store.
        self.changed[which].store(true, Relaxed);
    }

    fn look(&self, which: usize) -> Option<()> {
        // Relaxed: as in `change`.
        self.changed[which].load(Relaxed).then_some(())
    }

    fn sleep(&self, which: usize) {
        self.signal.wait_until(|| self.look(which));
        perform("sleep");
    }
}

/// Changes its own condition, and waits for the other's.
fn in_turn(me: usize, scene: &Scene) {
    scene.change(me);
    scene.signal.wake_all();
    perform("wake");
    scene.sleep(1 - me);
}

fn in_time(me: usize, scene: &Scene) {
    scene.change(me);
    scene.signal.wake_some(1);
    perform("wake-some");
    let look = || scene.look(1 - me);
    let found = scene.signal.wait_until_deadline(Instant::now(), look);
    perform("deadline");
    note_as(me, if found.is_some() { "in time" } else { "late" });
    scene.signal.wait_until(look);
}

fn wake_all(_: usize, scene: &Scene) {
    scene.change(0);
    scene.signal.wake_all();
    perform("wake");
}

fn wake_two(_: usize, scene: &Scene) {
    scene.change(0);
    scene.signal.wake_some(1);
    scene.signal.wake_some(1);
    perform("wake-some");
}

fn sleep(_: usize, scene: &Scene) {
    scene.sleep(0);
}
