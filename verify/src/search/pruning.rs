//! Sleep sets for loom: its search of two threads, without what it explores more than once.
//!
//! Loom reduces the orders of steps by races alone (Flanagan and Godefroid's algorithm of 2005,
//! without sleep sets). So it visits the same class of interleavings again and again. A few more
//! races turn a search of milliseconds into one that does not end within a day.
//!
//! # The method
//!
//! The sleep sets are added from outside. Loom searches depth first, and the facade's [`footprint`]
//! tells which thread made each step and what the step touched. Where an execution leaves the path
//! of the one before, one thread's steps from that node are searched through, and another's begin.
//! From there on the first thread sleeps until another makes a step that its own step depends on
//! (`reduction.rs` explains sleep sets). If it makes its step asleep, everything that can follow
//! has been seen, and loom is told to search no further below ([`loom::skip_branch`]). The
//! execution still ends, and the races that it shows are loom's to follow, closer to the root.
//!
//! # Why it is sound
//!
//! Every choice between threads, every choice between values that a load may see, and which steps
//! depend on each other must be known here. `docs/searches.md` argues that they are, for programs
//! of two threads without condition variables; the others are searched as loom does. If an
//! assumption is broken, a thread seems to make a step from a node twice, or a repeated step
//! differs from the first time. Both panic.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use spanlock_sync::footprint::{self, EVERYTHING, Part, Touch, dependent};

use super::NOT_REPEATABLE;

/// A step of a thread that need not be made again before one that it depends on.
#[derive(Clone)]
struct Done {
    thread: usize,
    touched: Vec<Touch>,
}

/// A step of the present path.
#[derive(Default)]
struct Step {
    thread: usize,
    touched: Vec<Touch>,
    /// What it touched when its load saw other values.
    touched_before: Vec<Touch>,
    /// Steps of other threads from the same node, below which everything is searched.
    done: Vec<Done>,
}

#[derive(Default)]
struct Search {
    /// The steps of the last execution, and of the present one as far as its path is the same.
    steps: Vec<Step>,
    /// How many steps of the present execution have begun.
    at: usize,
    /// The execution has left the path of the last one.
    left: bool,
    /// A sleeper has made its step: the rest of the execution does not count.
    over: bool,
    asleep: Vec<Done>,
    /// What the running step has touched.
    touched: Vec<Touch>,
    /// Loads so far.
    loads: usize,
    /// The load that sees another value than in the last execution.
    changed: Option<usize>,
    /// The file to which loom writes its path.
    path: Option<PathBuf>,
    /// Some step's footprint is not known, so everything is searched.
    unknown: bool,
    /// Something was left out.
    left_out: bool,
    /// A thread is between its end and its exit.
    ending: bool,
}

thread_local! { static SEARCH: RefCell<Search> = RefCell::default(); }

/// Prunes the search that loom is about to begin in this system thread: of two threads, without
/// bound. `path` is its checkpoint file, written before every execution; it is not needed where
/// loads have no choice.
pub(crate) fn begin(path: Option<PathBuf>) {
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
                assert!(!search.left_out, "too late: {touch:?}");
                search.unknown = true;
            }
        }
        Part::End => {
            search.touched.push(touch);
            search.ending = true;
            loom::stop_exploring();
        }
        // A thread that panics has no end before its exit.
        Part::Exit if std::mem::take(&mut search.ending) => loom::explore(),
        Part::Exit => {}
    });
}

impl Search {
    fn begin_execution(&mut self) {
        self.end_step();
        *self = Search {
            steps: std::mem::take(&mut self.steps),
            path: self.path.take(),
            unknown: self.unknown,
            left_out: self.left_out,
            ..Search::default()
        };
        let Some(path) = &self.path else { return };
        let path = fs::read(path).expect("loom has written its way");
        // An array of `{"Schedule":…}` and `{"Load":…}`; the last one is the new choice.
        let strings = path.split(|&byte| byte == b'"');
        let choices = strings.filter(|string| [&b"Schedule"[..], b"Load"].contains(string));
        let mut loads = 0;
        for choice in choices {
            let is_load = choice == b"Load";
            self.changed = is_load.then_some(loads);
            loads += usize::from(is_load);
        }
    }

    /// Ends the step that ran: what it touched is known now, and which threads sleep at the next
    /// node.
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
                "step {}: it touches something else when it is repeated. {NOT_REPEATABLE}",
                self.at
            );
        }
        let sleepers = self.asleep.iter().chain(&step.done);
        self.asleep = sleepers
            .filter(|done| done.thread != step.thread && !dependent(&done.touched, &step.touched))
            .cloned()
            .collect();
    }

    /// Begins the step of a thread that has made an operation. Returns whether the thread sleeps.
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
        // The step that was made here before.
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
            "T{thread} again at step {}: loom does not search as this module assumes",
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
