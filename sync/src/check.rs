//! What a model can ask of the door: the mode, faults, one weakened site, and one [injected bug](crate::injected_bug). Only under a checker.
//!
//! A process runs one model: [`configure`] once, then [`begin_execution`] at the start of every execution. Faults may be [set](set_faults) anew for each search.
//! Everything here is plain std state: both checkers run all threads of an execution on one system thread. So
//! every ordering in this file is Relaxed: there is nobody to synchronise with.

use std::panic::Location;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::atomic::Ordering;

mod faults;

pub use faults::{Fault, FaultPlan, Occasion, faults, injected, occasions, set_faults};
pub(crate) use faults::{fault, injected_wakeup};

/// How atomic loads are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As written. Stock loom then misses executions in which a store races with a load-then-store.
    #[default]
    Weak,
    /// A load is a read-modify-write that changes nothing, a store is a swap: restores those executions, loses stale
    /// reads and the breaking of release sequences. A model runs in both modes.
    RmwLoad,
}

/// What a call site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A read-modify-write, or a compare-exchange that succeeds.
    Rmw,
    /// A compare-exchange that fails.
    Failure,
    /// A fence.
    Fence,
    /// A wake of a queue's head.
    Wake,
    /// A flush of a medium.
    Flush,
}

/// A place in the source where the door is used, as seen in the executions so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The file, as the compiler names it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; tells apart two calls in one line.
    pub column: u32,
    /// What it does.
    pub op: Op,
    /// Its ordering, by name; empty for a wake or a flush.
    pub ordering: &'static str,
}

/// A place in the source where a bug can be injected: see [`injected_bug!`](crate::injected_bug).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BugSite {
    /// The bug's name: `no-recheck`. Several sites can have the same name.
    pub name: &'static str,
    /// What is done wrong.
    pub what: &'static str,
    /// The properties of which one must fail: comma-separated, each `property` or `suite/property`.
    pub killed_by: &'static str,
    /// The file, as the compiler names it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
}

/// What to do to one site instead of what is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Use this ordering.
    Order(Ordering),
    /// Leave the fence, the wake or the flush out.
    Drop,
}

/// One weakened site: `file:line:column:op=mutation`, for example
/// `srl/src/some_lock.rs:120:15:rmw=Relaxed`, or `…:wake=drop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weakening {
    file: String,
    line: u32,
    column: u32,
    op: Op,
    mutation: Mutation,
}

impl FromStr for Weakening {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("weakening `{text}`: {what}; write file:line:column:op=ordering, or =drop")
        };
        let (site, mutation) = text.split_once('=').ok_or_else(|| wrong("no `=`"))?;
        let mut parts = site.rsplitn(4, ':');
        let mut part = |what| parts.next().ok_or_else(|| wrong(what));
        let op = match part("no operation")? {
            "load" => Op::Load,
            "store" => Op::Store,
            "rmw" => Op::Rmw,
            "failure" => Op::Failure,
            "fence" => Op::Fence,
            "wake" => Op::Wake,
            "flush" => Op::Flush,
            _ => {
                return Err(wrong(
                    "the operation is none of load, store, rmw, failure, fence, wake, flush",
                ));
            }
        };
        let column = part("no column")?
            .parse()
            .map_err(|_| wrong("the column is no number"))?;
        let line = part("no line")?
            .parse()
            .map_err(|_| wrong("the line is no number"))?;
        let file = part("no file")?.to_owned();
        let mutation = match (mutation, op) {
            ("drop", Op::Fence | Op::Wake | Op::Flush) => Mutation::Drop,
            ("drop", _) => return Err(wrong("only a fence, a wake or a flush can be dropped")),
            (_, Op::Wake | Op::Flush) => return Err(wrong("a wake and a flush have no ordering")),
            ("Relaxed", _) => Mutation::Order(Ordering::Relaxed),
            ("Acquire", _) => Mutation::Order(Ordering::Acquire),
            ("Release", _) => Mutation::Order(Ordering::Release),
            ("AcqRel", _) => Mutation::Order(Ordering::AcqRel),
            _ => return Err(wrong("the mutation is no ordering, and not `drop`")),
        };
        Ok(Weakening {
            file,
            line,
            column,
            op,
            mutation,
        })
    }
}

/// A model's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How loads are executed.
    pub mode: Mode,
    /// The site to weaken, if any.
    pub weaken: Option<Weakening>,
    /// The name of the [bug](crate::injected_bug) to inject, if any.
    pub bug: Option<String>,
    /// Whether to keep what each thread does, for [`steps`].
    pub trace: bool,
    /// Threads of the model, main included, if it says: there are counters of [sections](crate::section) for so many. Else 4.
    pub threads: Option<usize>,
}

static CONFIG: OnceLock<Config> = OnceLock::new();
static SITES: Mutex<Vec<Site>> = Mutex::new(Vec::new());
static BUGS: Mutex<Vec<&'static BugSite>> = Mutex::new(Vec::new());
static STEPS: Mutex<Vec<Step>> = Mutex::new(Vec::new());
static THREADS: AtomicUsize = AtomicUsize::new(0);
static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
static WEAKENED: AtomicUsize = AtomicUsize::new(0);
#[cfg(spanlock_shuttle)]
static FINISHED: AtomicUsize = AtomicUsize::new(0);
#[cfg(spanlock_shuttle)]
static LONGEST: AtomicUsize = AtomicUsize::new(0);
static BUG_FIRED: AtomicUsize = AtomicUsize::new(0);

/// What a thread did, one step of an execution.
#[derive(Clone, Debug)]
pub struct Step {
    /// The thread's [index](crate::thread::index).
    pub thread: usize,
    /// What it did.
    pub what: String,
    /// Where, as `file:line`; empty for a [`remark`].
    pub place: String,
}

/// Sets the configuration of this process.
///
/// # Errors
/// It is set already, or has been used: a process runs one model.
pub fn configure(config: Config) -> Result<(), Config> {
    CONFIG.set(config)
}

/// Starts an execution: counts of occasions and thread numbers begin anew.
pub fn begin_execution() {
    faults::begin_execution();
    THREADS.store(0, StdOrdering::Relaxed);
    #[cfg(spanlock_shuttle)]
    FINISHED.store(0, StdOrdering::Relaxed);
    locked(&STEPS).clear();
    crate::footprint::begin_execution();
    crate::freed::begin_execution();
    EXECUTIONS.fetch_add(1, StdOrdering::Relaxed);
}

/// Executions begun so far.
pub fn executions() -> usize {
    EXECUTIONS.load(StdOrdering::Relaxed)
}

/// Counts the operations on the facade's atomics, cells and mutexes so far. 0 at the end means that
/// the code under test does not use the facade.
pub fn operations() -> u64 {
    crate::footprint::operations()
}

/// How often the weakened site was reached with its weaker ordering. 0 at the end means that the
/// model never gets there, or that the weakening names no site.
pub fn weakened() -> usize {
    WEAKENED.load(StdOrdering::Relaxed)
}

/// An operation of the model has been finished: the steps until the next one count anew, under shuttle, where they may be bounded
/// (`MaxSteps::FailAfter`). So the bound is on how long *nobody* gets on.
pub fn finished() {
    #[cfg(spanlock_shuttle)]
    {
        let now = shuttle::current::context_switches();
        let steps = now - FINISHED.swap(now, StdOrdering::Relaxed);
        LONGEST.fetch_max(steps, StdOrdering::Relaxed);
        shuttle::current::reset_step_count();
    }
}

/// The most steps so far, of all threads together, that lay between two [finished](finished) operations.
#[cfg(spanlock_shuttle)]
pub fn longest() -> usize {
    LONGEST.load(StdOrdering::Relaxed)
}

/// Counts how often the configured bug was injected. 0 at the end means that no execution reaches
/// one of its sites.
pub fn bug_fired() -> usize {
    BUG_FIRED.load(StdOrdering::Relaxed)
}

/// Returns the sites of injected bugs that were reached so far, in order of their names.
pub fn bugs() -> Vec<BugSite> {
    let mut bugs: Vec<BugSite> = locked(&BUGS).iter().map(|&site| *site).collect();
    bugs.sort();
    bugs.dedup();
    bugs
}

/// Every site that was reached, in order of file, line and column.
pub fn sites() -> Vec<Site> {
    let mut sites = locked(&SITES).clone();
    sites.sort();
    sites
}

/// What the threads did in the execution so far, in order, if the configuration asks for it.
pub fn steps() -> Vec<Step> {
    locked(&STEPS).clone()
}

/// Adds a remark of the model to the [`steps`].
pub fn remark(thread: usize, what: &str) {
    step(thread, what, String::new);
}

fn step(thread: usize, what: &str, place: impl FnOnce() -> String) {
    if config().trace {
        locked(&STEPS).push(Step {
            thread,
            what: what.to_owned(),
            place: place(),
        });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config() -> &'static Config {
    CONFIG.get_or_init(Config::default)
}

/// Notes a site of an injected bug, and returns whether the configuration asks for its bug.
#[doc(hidden)]
pub fn is_injected(site: &'static BugSite) -> bool {
    let mut bugs = locked(&BUGS);
    if !bugs.iter().any(|&known| std::ptr::eq(known, site)) {
        bugs.push(site);
    }
    drop(bugs);
    let is_injected = config().bug.as_deref() == Some(site.name);
    if is_injected {
        BUG_FIRED.fetch_add(1, StdOrdering::Relaxed);
        if config().trace && !std::thread::panicking() {
            step(
                crate::thread::index(),
                &format!("BUG {}", site.name),
                || format!("{}:{}", site.file, site.line),
            );
        }
    }
    is_injected
}

/// Adds what the calling thread does to the [`steps`], where that is no [site](Site).
#[track_caller]
pub(crate) fn trace(what: &str) {
    // While a failure unwinds the checker may have nothing left to ask.
    if config().trace && !std::thread::panicking() {
        let at = Location::caller();
        step(crate::thread::index(), what, || {
            format!("{}:{}", at.file(), at.line())
        });
    }
}

pub(crate) fn next_thread_index() -> usize {
    1 + THREADS.fetch_add(1, StdOrdering::Relaxed)
}

/// Threads of the model.
pub(crate) fn threads() -> usize {
    config().threads.unwrap_or(4)
}

pub(crate) fn rmw_loads() -> bool {
    config().mode == Mode::RmwLoad
}

/// The mutation for this site, if it is the one to weaken. Notes the site.
fn visit(at: &'static Location<'static>, op: Op, ordering: &'static str) -> Option<Mutation> {
    let site = Site {
        file: at.file(),
        line: at.line(),
        column: at.column(),
        op,
        ordering,
    };
    // The failing side of a compare-exchange is the same step as the succeeding one.
    if config().trace && op != Op::Failure {
        let what = format!("{op:?} {ordering}");
        step(crate::thread::index(), &what, || {
            format!("{}:{}", at.file(), at.line())
        });
    }
    let mut sites = locked(&SITES);
    if !sites.contains(&site) {
        sites.push(site);
    }
    let weaken = config().weaken.as_ref()?;
    let same = weaken.line == site.line
        && weaken.column == site.column
        && weaken.op == op
        && site.file.ends_with(&weaken.file);
    if same {
        WEAKENED.fetch_add(1, StdOrdering::Relaxed);
    }
    same.then_some(weaken.mutation)
}

/// The ordering to use at this site.
pub(crate) fn ordering(at: &'static Location<'static>, op: Op, written: Ordering) -> Ordering {
    match visit(at, op, name(written)) {
        Some(Mutation::Order(weaker)) => weaker,
        _ => written,
    }
}

fn name(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Relaxed => "Relaxed",
        Ordering::Acquire => "Acquire",
        Ordering::Release => "Release",
        Ordering::AcqRel => "AcqRel",
        _ => "SeqCst",
    }
}

/// The ordering to use for the fence at this site, or none if it is left out.
pub(crate) fn fence_ordering(
    at: &'static Location<'static>,
    written: Ordering,
) -> Option<Ordering> {
    match visit(at, Op::Fence, name(written)) {
        Some(Mutation::Drop) => None,
        // A relaxed fence is no fence.
        Some(Mutation::Order(Ordering::Relaxed)) => None,
        Some(Mutation::Order(weaker)) => Some(weaker),
        None => Some(written),
    }
}

/// Whether the wake at this site is left out.
pub(crate) fn drop_wake(at: &'static Location<'static>) -> bool {
    visit(at, Op::Wake, "") == Some(Mutation::Drop)
}

/// Whether the flush at this site is left out.
pub(crate) fn drop_flush(at: &'static Location<'static>) -> bool {
    visit(at, Op::Flush, "") == Some(Mutation::Drop)
}
