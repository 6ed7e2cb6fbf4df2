//! What a search's findings mean for its row.

use std::collections::BTreeSet;

use super::row::{EVENTS, FAILURE, Found, Overtaking, Verdict};
use crate::mode::{Checker, Mode};
use crate::plan::Job;

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
    let runs_code = job.mode.checker() != Checker::Spin;
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
    let overtaking = found.overtaking.filter(|_| job.mode != Mode::Weak);
    unperformed(job, found)
        .or_else(|| overtaking.and_then(loose))
        .or_else(|| unexpected(job, found))
}

/// Returns what is wrong with a bound on overtaking that no execution exceeded, if anything is.
fn loose(seen: Overtaking) -> Option<String> {
    let (bound, most) = (seen.bound, seen.most);
    if most < bound {
        return Some(format!(
            "at most {most} arrivals overtake a waiter, and the stated bound is {bound}: state \
             the lowest one"
        ));
    }
    (!seen.refused).then(|| {
        format!("no arrival that tried to overtake was refused: is {bound} really a bound?")
    })
}

/// Returns an operation that a thread is said to perform and performs in no execution.
fn unperformed(job: &Job, found: &Found) -> Option<String> {
    let threads = job.program.performs.iter().enumerate();
    let mut all = threads.flat_map(|(thread, its)| its.iter().map(move |it| (thread, it.clone())));
    let (thread, operation) = all.find(|it| !found.performed.contains(it))?;
    Some(format!(
        "thread {thread} never performs `{operation}`, which the table of pairs counts on"
    ))
}

/// Returns what is wrong with the outcomes of a litmus program, if anything is.
fn unexpected(job: &Job, found: &Found) -> Option<String> {
    let wanted = job.program.expected.as_ref()?.shown_by(job.mode);
    let seen: BTreeSet<&str> = found.outcomes.iter().map(String::as_str).collect();
    let less = |a: &BTreeSet<&str>, b| Vec::from_iter(a.difference(b).copied()).join(", ");
    let (missing, surplus) = (less(&wanted, &seen), less(&seen, &wanted));
    (wanted != seen).then(|| {
        format!(
            "not the known outcomes: missing [{missing}], not expected [{surplus}]; has the \
             checker changed?"
        )
    })
}

/// Returns the failure that a row's process reports on standard error.
pub fn told(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines();
    let mut told: Vec<_> = lines.filter_map(|it| it.strip_prefix(FAILURE)).collect();
    // Later failures are the checker's unwinding of the first.
    if let Some(last) = told.iter().position(|line| line.starts_with(EVENTS)) {
        told.truncate(last + 1);
    }
    told
}

/// Returns the states that a search by Spin reports; none if it failed, or did not see all.
pub fn states(printed: &str) -> Option<u64> {
    // A search that runs out of memory or depth also reports no error, and ends with status 0.
    let stopped = ["search depth too small", "Search not completed"];
    let whole = printed.contains("errors: 0") && !stopped.iter().any(|why| printed.contains(why));
    let mut lines = printed.lines().filter(|_| whole);
    let states = lines.find(|line| line.contains("states, stored"))?;
    states.split_whitespace().next()?.parse().ok()
}
