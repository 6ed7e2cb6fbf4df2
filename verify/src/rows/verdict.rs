//! Derives a row's verdict from the findings of its search.

use std::collections::BTreeSet;

use super::row::Verdict;
use crate::messages::{Found, Overtaking};
use crate::mode::{Checker, Mode};
use crate::plan::Job;

/// Returns the verdict on a search in which no execution failed. If the row fails because of
/// another finding, also returns the reason.
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
            "no thread used the facade, so the checker explores nothing.\n  Let the code under \
             test take its atomics, mutexes, threads and parking from `spanlock_sync`, or call \
             `.without_facade()` on the suite if it uses the checker's types directly."
                .to_owned(),
        );
    }
    if !program.faults.is_empty() && found.injected == 0 {
        return Some("no execution reaches the program's fault: the row shows nothing".to_owned());
    }
    // Loom misses a writer that enqueues between a reader's check and its entry.
    let overtaking = found.overtaking.filter(|_| job.mode != Mode::Weak);
    unperformed(job, found)
        .or_else(|| overtaking.and_then(loose))
        .or_else(|| unexpected(job, found))
}

/// Reports a bound on overtaking that no execution reached or tested.
fn loose(seen: Overtaking) -> Option<String> {
    let (bound, most) = (seen.bound, seen.most);
    if most < bound {
        return Some(format!(
            "at most {most} arrivals overtake a waiter, but the stated bound is {bound}: lower \
             the bound to {most}"
        ));
    }
    (!seen.refused).then(|| {
        format!("no arrival was refused when it tried to overtake: nothing tests the bound {bound}")
    })
}

/// Reports an operation that a thread performs according to the program, but in no execution.
fn unperformed(job: &Job, found: &Found) -> Option<String> {
    let threads = job.program.performs.iter().enumerate();
    let mut all = threads.flat_map(|(thread, its)| its.iter().map(move |it| (thread, it.clone())));
    let (thread, operation) = all.find(|it| !found.performed.contains(it))?;
    Some(format!(
        "thread {thread} performs `{operation}` in no execution, but the program declares it"
    ))
}

/// Reports outcomes of a litmus program that differ from the known ones.
fn unexpected(job: &Job, found: &Found) -> Option<String> {
    let wanted = job.program.expected.as_ref()?.shown_by(job.mode);
    let seen: BTreeSet<&str> = found.outcomes.iter().map(String::as_str).collect();
    let less = |a: &BTreeSet<&str>, b| Vec::from_iter(a.difference(b).copied()).join(", ");
    let (missing, surplus) = (less(&wanted, &seen), less(&seen, &wanted));
    (wanted != seen).then(|| {
        format!(
            "the outcomes are not the known ones: missing [{missing}], unexpected [{surplus}]; has \
             the checker changed?"
        )
    })
}

/// Returns the states that Spin reports, or `None` if the search failed or was incomplete.
pub fn states(printed: &str) -> Option<u64> {
    // A search that runs out of memory or depth also reports `errors: 0`, and exits with 0.
    let stopped = ["search depth too small", "Search not completed"];
    let whole = printed.contains("errors: 0") && !stopped.iter().any(|why| printed.contains(why));
    let mut lines = printed.lines().filter(|_| whole);
    let states = lines.find(|line| line.contains("states, stored"))?;
    states.split_whitespace().next()?.parse().ok()
}
