//! Call sites of the facade, and the site that is weakened.

use std::collections::BTreeMap;
use std::panic::Location;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{config, locked, step};
use crate::atomic::Ordering;

/// The operation of a call site.
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
    /// A fence that waits for flushes of persistent memory.
    Drain,
}

/// A place in the source that calls the facade, and that an execution has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The file, as the compiler names it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; distinguishes two calls in one line.
    pub column: u32,
    /// The operation that it calls.
    pub op: Op,
    /// The name of the operation's ordering; empty for a wake, a flush or a drain.
    pub ordering: &'static str,
}

/// The change to the operation at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Uses this ordering instead of the one in the source.
    Order(Ordering),
    /// Leaves the operation out.
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
            "drain" => Op::Drain,
            _ => {
                return Err(wrong(
                    "the operation must be load, store, rmw, failure, fence, wake, flush or drain",
                ));
            }
        };
        let column = part("no column")?
            .parse()
            .map_err(|_| wrong("the column is not a number"))?;
        let line = part("no line")?
            .parse()
            .map_err(|_| wrong("the line is not a number"))?;
        let file = part("no file")?.to_owned();
        let mutation = match (mutation, op) {
            ("drop", Op::Fence | Op::Wake | Op::Flush | Op::Drain) => Mutation::Drop,
            ("drop", _) => {
                return Err(wrong("only a fence, wake, flush or drain can be dropped"));
            }
            (_, Op::Wake | Op::Flush | Op::Drain) => {
                return Err(wrong("a wake, a flush or a drain has no ordering"));
            }
            ("Relaxed", _) => Mutation::Order(Ordering::Relaxed),
            ("Acquire", _) => Mutation::Order(Ordering::Acquire),
            ("Release", _) => Mutation::Order(Ordering::Release),
            ("AcqRel", _) => Mutation::Order(Ordering::AcqRel),
            _ => {
                return Err(wrong(
                    "the mutation must be Relaxed, Acquire, Release, AcqRel or drop",
                ));
            }
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

/// Every site that was reached, by the address of its location: the compiler may have several
/// locations for a site, but comparing addresses is fast.
static SITES: Mutex<BTreeMap<(usize, Op), Site>> = Mutex::new(BTreeMap::new());
static WEAKENED: AtomicUsize = AtomicUsize::new(0);

/// Returns every site that was reached, in order of file, line and column.
pub fn sites() -> Vec<Site> {
    let mut sites: Vec<Site> = locked(&SITES).values().copied().collect();
    sites.sort();
    sites.dedup();
    sites
}

/// Returns how often the weakened site was reached. 0 after a search means that no execution
/// reaches it, or that the weakening names no site.
pub fn weakened() -> usize {
    WEAKENED.load(Relaxed)
}

/// Records the site, and returns its mutation if the configuration weakens this site.
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
    let key = (std::ptr::from_ref(at).addr(), op);
    let mut sites = locked(&SITES);
    if !sites.contains_key(&key) {
        super::outside(|| sites.insert(key, site));
    }
    drop(sites);
    let weaken = config().weaken.as_ref()?;
    let same = weaken.line == site.line
        && weaken.column == site.column
        && weaken.op == op
        && site.file.ends_with(&weaken.file);
    if same {
        WEAKENED.fetch_add(1, Relaxed);
    }
    same.then_some(weaken.mutation)
}

/// Returns the ordering to use at this site.
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

/// Returns the ordering to use for the fence at this site, or `None` if it is left out.
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

/// Returns whether the wake at this site is left out.
pub(crate) fn drop_wake(at: &'static Location<'static>) -> bool {
    visit(at, Op::Wake, "") == Some(Mutation::Drop)
}

/// Returns whether the flush at this site is left out.
pub(crate) fn drop_flush(at: &'static Location<'static>) -> bool {
    visit(at, Op::Flush, "") == Some(Mutation::Drop)
}

/// Returns whether the drain at this site is left out.
pub(crate) fn drop_drain(at: &'static Location<'static>) -> bool {
    visit(at, Op::Drain, "") == Some(Mutation::Drop)
}
