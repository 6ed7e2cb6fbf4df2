//! Sleep sets for loom.
use std::cell::RefCell;
use std::path::PathBuf;

use spanlock_sync::footprint::{self, Access, EVERYTHING, Part, Touch};

#[derive(Clone, Debug)]
struct Slept {
    thread: usize,
    touched: Vec<Touch>,
}

#[derive(Debug)]
struct Step {
    thread: usize,
    touched: Vec<Touch>,
    /// What it touched when it read other values.
    before: Vec<Touch>,
    done: Vec<Slept>,
    loads: u32,
}

#[derive(Default)]
struct Pruner {
    steps: Vec<Step>,
    at: usize,
    diverged: bool,
    pruned: bool,
    asleep: Vec<Slept>,
    /// What the step that runs has touched.
    touched: Vec<Touch>,
    loads: u32,
    load_changes: Option<u32>,
    file: Option<PathBuf>,
    started: bool,
    pub(crate) prunes: u64,
    off: bool,
    ended: bool,
}

thread_local! { static PRUNER: RefCell<Pruner> = RefCell::default(); }

/// Begins.
pub fn begin(file: Option<PathBuf>) {
    PRUNER.with_borrow_mut(|p| p.file = file);
    footprint::watch(watch);
}

/// Statistics
pub fn prunes() -> u64 { PRUNER.with_borrow(|p| p.prunes) }

/// At each execution's start.
pub fn begin_execution() {
    PRUNER.with_borrow_mut(|p| p.begin_execution());
}

fn watch(thread: usize, touch: Touch, part: Part) {
    let skip = PRUNER.with_borrow_mut(|p| match part {
        Part::Operation { reads } => {
            if std::mem::take(&mut p.ended) { loom::explore(); }
            let skip = p.operation(thread, touch, reads);
            skip
        }
        Part::End => {
            p.touched.push(touch);
            if !p.ended { p.ended = true; loom::stop_exploring(); }
            false
        }
        Part::Behind => {
            if touch.object == EVERYTHING { p.off = true; }
            p.touched.push(touch);
            false
        }
    });
    if skip {
        loom::skip_branch();
    }
}

fn dependent(one: &[Touch], other: &[Touch]) -> bool {
    let clash = |a: &Touch, b: &Touch| {
        a.object == b.object && (a.access != Access::Read || b.access != Access::Read)
    };
    one.iter().any(|a| other.iter().any(|b| clash(a, b)))
}

impl Pruner {
    fn end_step(&mut self) {
        if self.pruned || self.at == 0 {
            self.touched.clear();
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        let diverged = self.diverged;
        let step = &mut self.steps[self.at - 1];
        if diverged {
            step.touched = touched;
        } else {
            assert_eq!(step.touched, touched, "step {} of T{}", self.at, step.thread);
        }
        let step = &self.steps[self.at - 1];
        self.asleep = self.asleep.iter().chain(&step.done)
            .filter(|s| s.thread != step.thread && !dependent(&s.touched, &step.touched))
            .cloned().collect();
    }

    fn operation(&mut self, thread: usize, touch: Touch, reads: bool) -> bool {
        self.end_step();
        if self.pruned { return false; }
        let i = self.at;
        self.at += 1;
        let load = self.loads;
        if std::env::var_os("PD").is_some() { eprintln!("  step {i} T{thread} {touch:?} reads {reads} load {load}"); }
        self.loads += u32::from(reads);
        self.touched.push(touch);
        if !self.diverged && i < self.steps.len() {
            let changes = reads && self.load_changes == Some(load);
            let step = &self.steps[i];
            if step.thread == thread && !changes {
                return false;
            }
            self.diverged = true;
            self.steps.truncate(i + 1);
            let old = self.steps.pop().expect("just seen");
            let mut step = Step { thread, touched: Vec::new(), before: Vec::new(), done: old.done, loads: load };
            let mut all = old.before;
            all.extend(old.touched);
            all.sort_unstable();
            all.dedup();
            if old.thread == thread {
                step.before = all;
            } else {
                step.done.push(Slept { thread: old.thread, touched: all });
            }
            assert!(!step.done.iter().any(|d| d.thread == thread), "T{thread} again at step {i}: loom does not search as it is taken for");
            self.steps.push(step);
        } else {
            self.diverged = true;
            self.steps.push(Step { thread, touched: Vec::new(), before: Vec::new(), done: Vec::new(), loads: load });
        }
        if let Some(s) = self.asleep.iter().find(|s| s.thread == thread) && !self.off {
            self.steps[i].touched = s.touched.clone();
            self.pruned = true;
            self.prunes += 1;
            return true;
        }
        false
    }

    fn begin_execution(&mut self) {
        self.end_step();
        if !self.pruned && self.started { self.steps.truncate(self.at); }
        self.started = true;
        self.at = 0;
        self.diverged = false;
        self.pruned = false;
        self.asleep.clear();
        self.touched.clear();
        self.loads = 0;
        self.ended = false;
        self.load_changes = None;
        if let Some(file) = &self.file {
            let text = std::fs::read(file).unwrap_or_default();
            // entries: {"Schedule":{..}} or {"Load":{..}} or vacant
            let (mut loads, mut last_is_load) = (0, false);
            let mut rest = &text[..];
            while let Some(at) = rest.iter().position(|&c| c == b'"') {
                rest = &rest[at..];
                if rest.starts_with(b"\"Load\"") { loads += 1; last_is_load = true; }
                else if rest.starts_with(b"\"Schedule\"") || rest.starts_with(b"\"Spurious\"") { last_is_load = false; }
                rest = &rest[1..];
            }
            if std::env::var_os("PD").is_some() { eprintln!("exec: loads {loads} last_is_load {last_is_load} {}", String::from_utf8_lossy(&text)); }
            if last_is_load { self.load_changes = Some(loads - 1); }
        }
    }
}
