//! What a search's findings mean for its row.

use std::collections::BTreeSet;

use super::row::{EVENTS, FAILURE, Found, Overtaking, Verdict};
use crate::mode::Mode;
use crate::plan::Job;
use crate::trace::performed_by;

/// Returns the verdict on a search in which no execution failed, and what is wrong if it fails all
/// the same.
pub fn verdict(job: &Job, found: &Found) -> (Verdict, Option<String>) {
    match problem(job, found) {
        Some(why) => (Verdict::Failed, Some(why)),
        None if job.bound.is_some() => (Verdict::Bounded, None),
        None => (Verdict::Exhausted, None),
    }
}

fn problem(job: &Job, found: &Found) -> Option<String> {
    let program = &job.program;
    let runs_code = job.mode.checker().cfg().is_some();
    if runs_code && program.has_facade && program.threads > 1 && !found.uses_facade {
        return Some(
            "no thread used the facade: what runs here is not explored.\n  Let the code under test \
             take its atomics, mutexes, threads and parking from `spanlock_sync`, or call \
             `.without_facade()` on the suite if it takes them from the checker itself."
                .to_owned(),
        );
    }
    if !program.faults.is_empty() && found.injected == 0 {
        return Some("no execution comes to the program's fault: it shows nothing".to_owned());
    }
    // Loom's weak mode misses readers that look, then enter, while the writer enqueues.
    let sees_all = job.mode != Mode::Weak;
    let loose = || found.overtaking.filter(|_| sees_all).and_then(loose);
    unperformed(job, found)
        .or_else(loose)
        .or_else(|| unexpected(job, found))
}

/// Returns what is wrong with a bound on overtaking that is kept, if anything is.
fn loose(seen: Overtaking) -> Option<String> {
    let Overtaking {
        bound,
        most,
        refused,
    } = seen;
    if most < bound {
        return Some(format!(
            "at most {most} arrivals overtake a waiter, and the stated bound is {bound}: state \
             the lowest one"
        ));
    }
    (!refused).then(|| {
        format!("no arrival that tried to overtake was refused: is {bound} really a bound?")
    })
}

/// Returns an operation that a thread is said to perform and performs in no execution.
fn unperformed(job: &Job, found: &Found) -> Option<String> {
    for (thread, operations) in job.program.performs.iter().enumerate() {
        for operation in operations {
            let performed = performed_by(thread, operation);
            if !found.performed.contains(&performed) {
                return Some(format!(
                    "thread {thread} never performs `{operation}`, which the table of pairs \
                     counts on"
                ));
            }
        }
    }
    None
}

/// Returns what is wrong with the outcomes of a litmus program, if anything is.
fn unexpected(job: &Job, found: &Found) -> Option<String> {
    let expected = job.program.expected.as_ref()?;
    let wanted = expected.shown_by(job.mode);
    let seen: BTreeSet<&str> = found.outcomes.iter().map(String::as_str).collect();
    let list = |set: Vec<&str>| set.join(", ");
    let missing = list(wanted.difference(&seen).copied().collect());
    let surplus = list(seen.difference(&wanted).copied().collect());
    (wanted != seen).then(|| {
        format!(
            "not the known outcomes: missing [{missing}], not expected [{surplus}]; has the \
             checker changed?"
        )
    })
}

/// Returns what a row's process says that failed, from its standard error.
pub fn told(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines();
    let mut told: Vec<_> = lines.filter_map(|it| it.strip_prefix(FAILURE)).collect();
    // Later failures are the checker's unwinding of the first.
    if let Some(last) = told.iter().position(|line| line.starts_with(EVENTS)) {
        told.truncate(last + 1);
    }
    told
}
