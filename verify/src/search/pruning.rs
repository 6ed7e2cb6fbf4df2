//! Sleep sets for loom: in programs of two threads, they omit executions that repeat earlier ones.
//!
//! Loom's own reduction only follows races (Flanagan and Godefroid's algorithm of 2005, without
//! sleep sets). So it explores many interleavings that differ only in the order of independent
//! steps. A few more races turn a search of milliseconds into one that does not end within a day.
//!
//! # The method
//!
//! Loom searches depth first. For each step, the facade's [`footprint`] reports the thread, and the
//! objects that the step touched. When an execution leaves the path of the previous one at a *node*
//! (a choice of the next thread), loom has explored everything below the step that it chose there
//! before. From there on, that step's thread sleeps until another thread makes a step on which that
//! step depends (`reduction.rs` explains sleep sets). If the sleeper makes its step before that,
//! everything below is explored already, and [`loom::skip_branch`] makes loom skip it. The
//! execution still runs to its end. Loom follows the races that it shows, at nodes nearer the root.
//!
//! # Why it is sound
//!
//! This module must know every choice between threads, every choice between the values that a load
//! may see, and which steps depend on each other. `docs/searches.md` argues that it does, for two
//! threads without condition variables; the harness does not prune other programs. If an assumption
//! is broken, a thread seems to make a step from a node twice, or a repeated step differs from the
//! first time. Both panic.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use spanlock_sync::footprint::{self, EVERYTHING, Part, Touch, dependent};

use super::NOT_REPEATABLE;

/// A step that need not be explored again until another thread makes a step that depends on it.
#[derive(Clone)]
struct Done {
    thread: usize,
    touched: Vec<Touch>,
}

/// A step of the current path.
#[derive(Default)]
struct Step {
    thread: usize,
    touched: Vec<Touch>,
    /// The objects that the step touched when its load saw other values.
    touched_before: Vec<Touch>,
    /// Steps of other threads from the same node, with everything below them explored.
    done: Vec<Done>,
}

#[derive(Default)]
struct Search {
    /// The previous execution's steps, replaced by the current one's once the path differs.
    steps: Vec<Step>,
    /// How many steps of the current execution have begun.
    at: usize,
    /// Whether the current execution has left the path of the previous one.
    left: bool,
    /// Whether a sleeper has made its step, so that the rest of the execution does not count.
    over: bool,
    asleep: Vec<Done>,
    /// The objects that the running step has touched so far.
    touched: Vec<Touch>,
    /// The number of loads so far.
    loads: usize,
    /// The load that sees a different value than in the previous execution.
    changed: Option<usize>,
    /// The file to which loom writes its path.
    path: PathBuf,
    /// Whether some step's footprint is unknown, so that loom searches without pruning.
    unknown: bool,
    /// Whether a part of the search was left out.
    left_out: bool,
    /// Whether a thread is between its last operation and its exit.
    ending: bool,
}

thread_local! { static SEARCH: RefCell<Search> = RefCell::default(); }

/// Prunes the unbounded search of two threads that loom is about to begin in this system thread.
/// `path` is the checkpoint file that loom writes before every execution.
pub(crate) fn begin(path: PathBuf) {
    SEARCH.set(Search {
        path,
        ..Search::default()
    });
    footprint::watch(watch);
}

/// Begins an execution.
pub(crate) fn begin_execution() {
    SEARCH.with_borrow_mut(Search::begin_execution);
}

fn watch(thread: usize, touch: Touch, part: Part) {
    SEARCH.with_borrow_mut(|search| match part {
        Part::Operation { reads } => {
            if search.begin_step(thread, touch, reads) {
                search.over = true;
                search.left_out = true;
                loom::skip_branch();
            }
        }
        Part::Behind => {
            search.touched.push(touch);
            if touch.object == EVERYTHING && !search.unknown {
                assert!(!search.left_out, "unknown footprint, too late: {touch:?}");
                search.unknown = true;
            }
        }
        Part::End => {
            search.touched.push(touch);
            search.ending = true;
            loom::stop_exploring();
        }
        // A thread that panics exits without `Part::End`.
        Part::Exit if std::mem::take(&mut search.ending) => loom::explore(),
        Part::Exit => {}
    });
}

impl Search {
    fn begin_execution(&mut self) {
        self.end_step();
        *self = Search {
            steps: std::mem::take(&mut self.steps),
            path: std::mem::take(&mut self.path),
            unknown: self.unknown,
            left_out: self.left_out,
            ..Search::default()
        };
        let path = fs::read(&self.path).expect("loom has written its path");
        // An array of `{"Schedule":…}` and `{"Load":…}`. The last element is the new choice.
        let strings = path.split(|&byte| byte == b'"');
        let choices = strings.filter(|string| [&b"Schedule"[..], b"Load"].contains(string));
        let mut loads = 0;
        for choice in choices {
            let is_load = choice == b"Load";
            self.changed = is_load.then_some(loads);
            loads += usize::from(is_load);
        }
    }

    /// Ends the running step: its footprint is complete. Finds the threads asleep at the next node.
    fn end_step(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        if self.over || self.unknown || self.at == 0 {
            return;
        }
        touched.sort_unstable();
        touched.dedup();
        let step = &mut self.steps[self.at - 1];
        if self.left {
            step.touched = touched;
        } else {
            assert_eq!(
                step.touched, touched,
                "step {} touches other objects when it is repeated. {NOT_REPEATABLE}",
                self.at
            );
        }
        let sleepers = self.asleep.iter().chain(&step.done);
        self.asleep = sleepers
            .filter(|done| done.thread != step.thread && !dependent(&done.touched, &step.touched))
            .cloned()
            .collect();
    }

    /// Begins a step with an operation of `thread`. Returns whether the thread sleeps.
    fn begin_step(&mut self, thread: usize, touch: Touch, reads: bool) -> bool {
        self.end_step();
        if self.over || self.unknown {
            return false;
        }
        let load = reads.then_some(self.loads);
        self.loads += usize::from(reads);
        self.touched.push(touch);
        self.at += 1;
        let other_value = load.is_some() && load == self.changed;
        let before = self.steps.get(self.at - 1).filter(|_| !self.left);
        if before.is_some_and(|it| it.thread == thread && !other_value) {
            return false;
        }
        self.left = true;
        let mut step = Step {
            thread,
            ..Step::default()
        };
        // The step from this node in the previous execution.
        if let Some(before) = self.steps.drain(self.at - 1..).next() {
            let mut touched = before.touched_before;
            touched.extend(before.touched);
            step.done = before.done;
            if before.thread == thread {
                step.touched_before = touched;
            } else {
                let thread = before.thread;
                step.done.push(Done { thread, touched });
            }
        }
        assert!(
            step.done.iter().all(|done| done.thread != thread),
            "T{thread} makes step {} a second time: loom does not search as this module assumes",
            self.at
        );
        let asleep = self.asleep.iter().find(|done| done.thread == thread);
        if let Some(done) = asleep {
            step.touched.clone_from(&done.touched);
        }
        self.steps.push(step);
        asleep.is_some()
    }
}
