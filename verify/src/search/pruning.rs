//! Sleep sets for loom: its search of two threads without what it does more than once.
//!
//! # The problem
//! Loom reduces orders of steps, but by races alone (Flanagan and Godefroid's algorithm of 2005, without sleep sets). So it comes to the same class of
//! interleavings again and again, and with some races more a search of milliseconds does not end in a day.
//!
//! # How
//! From outside. Loom searches depth first, and its executions tell, by the door's [`footprint`], which thread made each step and what that touched: where one
//! leaves the way of the one before, a thread's steps from there are searched through, and another's begin. So the first thread sleeps from
//! there on, until somebody makes a step that its own depends on (`reduce.rs` tells more of sleep sets). If it makes its step
//! asleep, all that can follow has been seen, and loom is asked to search no further below ([`loom::skip_branch`]). The execution ends as it may; races that it shows are
//! loom's to follow, nearer to the root.
//!
//! # What must be known
//! - **Every choice between threads**, so every step has an operation of the door, or is made known otherwise: a thread's start, its going on after a yield. What is left of a thread
//!   behind its last operation is loom's (it tells who joins), and touches nothing: there loom does not search
//!   ([`loom::stop_exploring`] until it drops the thread's locals), which with *two* threads leaves out nothing. With more it would, so they are searched as loom does it.
//! - **Every choice between values** that a load may see: two of them can look alike from here, and still what was searched below one says nothing of
//!   the other. Loom does not tell, but it writes its way to a file before each execution, if it is asked to (`checkpoint_file`), and the number of loads on it says
//!   which one is to see another value. In the mode `rmw-load` there are no such choices, but for weak compare-exchanges that fail by plan.
//! - **Which steps depend on each other** by loom's memory model: those on one object, unless both only look; and all fences that are SeqCst, whose order loom lets every
//!   thread know. Of mutexes it did so once: `litmus/mutex-store-buffering` fails if it does so again.
//!
//! A model with a condition variable, whose waits are more than one step, is searched as loom does it.
//!
//! If it is not as this says, a thread seems to make a step from a node twice, or a step that is repeated is another: either panics.
//!
//! # What it does not mend
//! Loom's own blind spots stay: this only leaves out.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use spanlock_sync::footprint::{self, EVERYTHING, Part, Touch, dependent};

/// A step of a thread that need not be made again before one that it depends on.
#[derive(Clone)]
struct Done {
    thread: usize,
    touched: Vec<Touch>,
}

/// A step of the present way.
struct Step {
    thread: usize,
    touched: Vec<Touch>,
    /// What it touched when it saw other values.
    touched_before: Vec<Touch>,
    /// The steps of others from the same node, below which everything is searched.
    done: Vec<Done>,
}

#[derive(Default)]
struct Search {
    /// The steps of the last execution; of the present one, as far as it goes the same way.
    steps: Vec<Step>,
    /// How many steps of the present execution have begun.
    at: usize,
    /// It has left the way of the last one.
    left: bool,
    /// A sleeper has made its step: the rest of it is of no account.
    over: bool,
    asleep: Vec<Done>,
    /// By the step that runs.
    touched: Vec<Touch>,
    /// Loads so far.
    loads: usize,
    /// The load that sees another value than in the last execution.
    changed: Option<usize>,
    /// Where loom writes its way to.
    way: Option<PathBuf>,
    /// Some step's footprint is not known: everything is searched.
    unknown: bool,
    /// Something was not.
    left_out: bool,
    /// A thread is between its end and its exit.
    ending: bool,
}

thread_local! { static SEARCH: RefCell<Search> = RefCell::default(); }

/// Prunes the search that loom is about to begin in this system thread, of a model of two threads, without bound. `way` is its checkpoint file, written before every
/// execution; not needed where loads have no choice.
pub(crate) fn begin(way: Option<PathBuf>) {
    SEARCH.with_borrow_mut(|search| {
        *search = Search {
            way,
            ..Search::default()
        }
    });
    footprint::watch(watch);
}

/// To be called at the start of every execution.
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
        // (A thread that panics has no end before its exit.)
        Part::Exit if std::mem::take(&mut search.ending) => loom::explore(),
        Part::Exit => {}
    });
}

impl Search {
    fn begin_execution(&mut self) {
        self.end_step();
        *self = Search {
            steps: std::mem::take(&mut self.steps),
            way: self.way.take(),
            unknown: self.unknown,
            left_out: self.left_out,
            ..Search::default()
        };
        let Some(way) = &self.way else { return };
        let way = fs::read(way).expect("loom has written its way");
        // An array of `{"Schedule":…}` and `{"Load":…}`, the last of which is the choice that is new.
        let strings = way.split(|&byte| byte == b'"');
        let choices = strings.filter(|string| [&b"Schedule"[..], b"Load"].contains(string));
        let mut loads = 0;
        for choice in choices {
            let is_load = choice == b"Load";
            self.changed = is_load.then_some(loads);
            loads += usize::from(is_load);
        }
    }

    /// The step that ran has ended: now it is known what it touched, and who sleeps at the next node.
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
                "step {}: what else than loom's choices does the model depend on?",
                self.at
            );
        }
        let sleepers = self.asleep.iter().chain(&step.done);
        self.asleep = sleepers
            .filter(|done| done.thread != step.thread && !dependent(&done.touched, &step.touched))
            .cloned()
            .collect();
    }

    /// A thread has made an operation. Whether it sleeps.
    fn begin_step(&mut self, thread: usize, touch: Touch, reads: bool) -> bool {
        self.end_step();
        if self.over || self.unknown {
            return false;
        }
        let load = reads.then_some(self.loads);
        self.loads += usize::from(reads);
        self.touched.push(touch);
        self.at += 1;
        let same_way = !self.left && self.at <= self.steps.len();
        if same_way {
            let other_value = load.is_some() && load == self.changed;
            if self.steps[self.at - 1].thread == thread && !other_value {
                return false;
            }
        }
        self.left = true;
        let before = if same_way {
            self.steps.drain(self.at - 1..).next()
        } else {
            self.steps.truncate(self.at - 1);
            None
        };
        let mut step = Step {
            thread,
            touched: Vec::new(),
            touched_before: Vec::new(),
            done: Vec::new(),
        };
        if let Some(before) = before {
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
            "T{thread} again at step {}: loom does not search as it is taken to",
            self.at
        );
        let asleep = self.asleep.iter().find(|done| done.thread == thread);
        let asleep = asleep.map(|done| done.touched.clone());
        let is_asleep = asleep.is_some();
        step.touched = asleep.unwrap_or_default();
        self.steps.push(step);
        is_asleep
    }
}
