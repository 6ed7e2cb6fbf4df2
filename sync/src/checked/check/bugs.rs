//! Sites of injected bugs, and the bug that the configuration names.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{config, locked, step};

/// A place in the source where a bug can be injected: see [`injected_bug!`](crate::injected_bug).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BugSite {
    /// The bug's name: `no-recheck`. Several sites can have the same name.
    pub name: &'static str,
    /// The mistake that the code makes here.
    pub what: &'static str,
    /// A comma-separated list of properties, each `property` or `suite/property`. At least one of
    /// them must fail when the bug is injected.
    pub killed_by: &'static str,
    /// The file, as the compiler names it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
}

static BUGS: Mutex<Vec<&'static BugSite>> = Mutex::new(Vec::new());
static FIRED: AtomicUsize = AtomicUsize::new(0);

/// Returns the sites of injected bugs that were reached so far, in order of their names.
pub fn bugs() -> Vec<BugSite> {
    let mut bugs: Vec<BugSite> = locked(&BUGS).iter().map(|&site| *site).collect();
    bugs.sort();
    bugs.dedup();
    bugs
}

/// Returns how often the configured bug was injected. 0 after a search means that no execution
/// reaches a site of the bug.
pub fn bug_fired() -> usize {
    FIRED.load(Relaxed)
}

/// Notes a site of an injected bug, and returns whether the configuration names its bug.
#[doc(hidden)]
pub fn is_injected(site: &'static BugSite) -> bool {
    let mut bugs = locked(&BUGS);
    if !bugs.iter().any(|&known| std::ptr::eq(known, site)) {
        super::outside(|| bugs.push(site));
    }
    drop(bugs);
    let is_injected = config().bug.as_deref() == Some(site.name);
    if is_injected {
        FIRED.fetch_add(1, Relaxed);
        // While a failure unwinds, the checker may have no current thread.
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
