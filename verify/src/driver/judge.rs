//! Turns what the processes found into verdicts.

use std::collections::BTreeSet;
use std::process::ExitStatus;

use super::counts::Counts;
use super::{Built, End, Ended, Selection, set_of, spin};
use crate::plan::{Checker, Job, Mode};
use crate::row::{Agreement, Circumstances, EVENTS, FAILURE, Found, Overtaking, Row, Verdict};
use crate::trace;

/// Judges each row by itself, then the rows of a program against each other.
pub(super) fn judge(
    selection: &Selection,
    ended: &[Ended],
    built: &Built,
    counts: &Counts,
) -> Vec<Row> {
    let jobs = &selection.jobs;
    let mut rows: Vec<Row> = jobs
        .iter()
        .zip(ended)
        .map(|(job, ended)| row(job, ended, built, &selection.circumstances))
        .collect();
    for ((row, job), number) in rows.iter_mut().zip(jobs).zip(&selection.numbers) {
        row.number = *number;
        row.committed = counts.of(job);
    }
    for (i, job) in jobs
        .iter()
        .enumerate()
        // What a litmus program has to show in each mode is known exactly.
        .filter(|(_, job)| job.mode == Mode::Dfs && job.program.expected.is_none())
    {
        let of = |mode: Mode| {
            let at = jobs.iter().position(|other| is_beside(other, job, mode))?;
            ended[at].found().filter(|_| rows[at].verdict.passes())
        };
        if let (Some(weak), Some(rmw_load), Some(dfs)) =
            (of(Mode::Weak), of(Mode::RmwLoad), of(Mode::Dfs))
        {
            match disagreement(weak, rmw_load, dfs) {
                None => rows[i].agrees = rows[i].verdict.passes(),
                Some(failure) => {
                    rows[i].verdict = Verdict::Failed;
                    rows[i].failure = Some(failure);
                }
            }
        }
    }
    rows
}

/// Whether it is the same program in another mode, which an exhaustive search of interleavings is compared with.
fn is_beside(other: &Job, job: &Job, mode: Mode) -> bool {
    other.program.primitive == job.program.primitive
        && other.program.property == job.program.property
        && other.faults == job.faults
        && other.mode == mode
}

/// The rows that a row is compared with, of `all`: in the full run, if it is one of the full run.
pub(super) fn beside(job: &Job, all: &[Job]) -> Vec<Job> {
    let modes = [Mode::Weak, Mode::RmwLoad].into_iter();
    let modes = modes.filter(|_| job.mode == Mode::Dfs && job.program.expected.is_none());
    let of = |mode| {
        let its = all.iter().filter(move |other| is_beside(other, job, mode));
        let there = its.filter(|other| job.long || !other.long);
        there.max_by_key(|other| other.long).cloned()
    };
    modes.filter_map(of).collect()
}

/// Loom's two modes together must show every outcome that the exhaustive search of interleavings shows.
fn disagreement(weak: &Found, rmw_load: &Found, dfs: &Found) -> Option<String> {
    let mut loom = set_of(&weak.outcomes);
    loom.extend(set_of(&rmw_load.outcomes));
    let missing = list(set_of(&dfs.outcomes).difference(&loom).copied());
    (!missing.is_empty())
        .then(|| format!("neither mode of loom shows what this search shows: {missing}"))
}

fn row(job: &Job, ended: &Ended, built: &Built, circumstances: &Circumstances) -> Row {
    let checker = job.mode.checker();
    let (verdict, failure) = verdict(job, ended);
    let none = Found::default();
    let found = ended.found().unwrap_or(&none);
    Row {
        name: job.name(),
        number: 0,
        primitive: job.program.primitive.to_owned(),
        property: job.program.property.to_owned(),
        claim: job.program.claim.to_owned(),
        checker: checker.name().to_owned(),
        checker_version: match checker {
            Checker::Spin => spin::version().unwrap_or_else(|| "none".to_owned()),
            _ => built.version(checker).to_owned(),
        },
        mode: job.mode.name().to_owned(),
        threads: job.program.threads,
        operations: job.program.operations,
        bound: job.bound,
        spin_cap: job.spin_cap(),
        faults: faults(job, found),
        executions: found.executions,
        committed: None,
        seconds: ended.elapsed.as_secs_f64(),
        search: job.search().to_owned(),
        step_bound: job.step_bound(),
        longest: found.longest,
        overtakes: found.overtaking.map(|seen| seen.bound),
        overtaken: found.overtaking.map(|seen| seen.most),
        verdict,
        outcomes: (found.explained).map_or(found.outcomes.len() as u64, |(_, histories)| histories),
        scenarios: found.explained.map(|(scenarios, _)| scenarios),
        outcome_hash: format!(
            "{:08x}",
            crc32c::crc32c(found.outcomes.join("\n").as_bytes())
        ),
        agreement: agreement(job),
        agrees: false,
        blind_spot: blind_spot(job),
        replay: format!("cargo verify --replay {}", job.name()),
        failure,
        run: circumstances.clone(),
    }
}

fn verdict(job: &Job, ended: &Ended) -> (Verdict, Option<String>) {
    match &ended.end {
        End::Found(found) => judged(job, found),
        End::Failed(status) => (Verdict::Failed, Some(failure(*status, &ended.stderr))),
        End::Stopped => {
            let why = format!("stopped after {:.0} s", ended.elapsed.as_secs_f64());
            (Verdict::Truncated, Some(why))
        }
        End::Skipped(why) => {
            // Nobody reads the table of a CI job that succeeds.
            let verdict = match std::env::var_os("CI") {
                Some(_) => Verdict::Failed,
                None => Verdict::Skipped,
            };
            (verdict, Some(why.clone()))
        }
        End::Broken(why) => (Verdict::Failed, Some(why.clone())),
    }
}

/// What the process of a row says that failed.
fn failure(status: ExitStatus, stderr: &str) -> String {
    let mut told: Vec<_> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix(FAILURE))
        .collect();
    // Further failures are the checker's unwinding of the first.
    if let Some(last) = told.iter().position(|line| line.starts_with(EVENTS)) {
        told.truncate(last + 1);
    }
    match &told[..] {
        [] => format!("{status}: {}", stderr.trim()),
        told => told.join("\n"),
    }
}

/// Of a search in which no execution failed.
fn judged(job: &Job, found: &Found) -> (Verdict, Option<String>) {
    let failed = |why: String| (Verdict::Failed, Some(why));
    if !job.program.faults.is_empty() && found.injected == 0 {
        return failed("the fault is never reached: the plan says nothing".to_owned());
    }
    if let Some(why) = unperformed(job, found) {
        return failed(why);
    }
    // The other search misses readers that look, then come in, while the writer queues.
    let sees_all = job.mode != Mode::Weak;
    if let Some(why) = found.overtaking.filter(|_| sees_all).and_then(loose) {
        return failed(why);
    }
    if let Some(why) = unexpected(job, found) {
        return failed(why);
    }
    let verdict = if job.bound.is_some() {
        Verdict::Bounded
    } else {
        Verdict::Exhausted
    };
    (verdict, None)
}

/// The faults of every execution, or how many plans of them were run.
fn faults(job: &Job, found: &Found) -> Vec<String> {
    let plans = found.plans;
    match job.faults {
        0 => job.program.faults.iter().map(ToString::to_string).collect(),
        1 => vec![format!("all single ({plans} plans)")],
        _ => vec![format!("all single and double ({plans} plans)")],
    }
}

/// What is wrong with a bound on overtaking that is kept, if anything is: it is not the lowest, or nobody has tried to go beyond it.
fn loose(seen: Overtaking) -> Option<String> {
    let Overtaking {
        bound,
        most,
        refused,
    } = seen;
    if most < bound {
        return Some(format!(
            "{bound} may pass one that waits, and no more than {most} do: the bound is not the lowest"
        ));
    }
    (!refused).then(|| {
        format!("nobody who tried to pass one that waits was refused: is {bound} a bound?")
    })
}

/// An operation that a thread is said to perform, and that it performs in no execution.
fn unperformed(job: &Job, found: &Found) -> Option<String> {
    for (thread, operations) in job.program.performs.iter().enumerate() {
        for &operation in operations {
            if !found
                .performed
                .contains(&trace::performed_by(thread, operation))
            {
                return Some(format!(
                    "thread {thread} never performs `{operation}`, which the table of pairs counts on"
                ));
            }
        }
    }
    None
}

/// What is wrong with the outcomes of a litmus program, if anything is.
fn unexpected(job: &Job, found: &Found) -> Option<String> {
    let expected = job.program.expected.as_ref()?;
    let wanted = expected.shown_by(job.mode);
    let seen = set_of(&found.outcomes);
    let missing = list(wanted.difference(&seen).copied());
    let surplus = list(seen.difference(&wanted).copied());
    (wanted != seen).then(|| {
        format!(
            "not the known outcomes: missing [{missing}], not expected [{surplus}]; has the checker changed?"
        )
    })
}

/// How a mode is known to deviate from what is allowed, if the program says what is.
fn agreement(job: &Job) -> Option<Agreement> {
    let expected = job.program.expected.as_ref()?;
    Some(match expected.deviations.contains_key(&job.mode) {
        true => Agreement::BlindSpot,
        false => Agreement::Agrees,
    })
}

/// What a row cannot see: what its mode cannot, or, in a litmus row, which outcomes exactly.
fn blind_spot(job: &Job) -> String {
    let expected = job.program.expected.as_ref();
    let Some(deviation) = expected.and_then(|expected| expected.deviations.get(&job.mode)) else {
        return job.mode.blind_spot().to_owned();
    };
    let told = |what: &str, outcomes: &BTreeSet<String>| {
        let outcomes = list(outcomes.iter().map(String::as_str));
        (!outcomes.is_empty()).then(|| format!("{what} {outcomes}"))
    };
    let told = [
        told("misses", &deviation.misses),
        told("adds", &deviation.adds),
    ];
    told.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn list<'a>(outcomes: impl Iterator<Item = &'a str>) -> String {
    outcomes.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    #[test]
    fn what_is_claimed_and_never_performed_is_told() {
        let name = "srl-array/exclusion/loom/weak";
        let job = plan::job(name).expect("a row");
        let mut found = Found::default();
        let why = unperformed(&job, &found);
        assert!(why.is_some_and(|why| why.contains("thread 0 never performs `acquire-exclusive`")));
        for thread in ["0", "1"] {
            found.performed.push(format!("{thread}:acquire-exclusive"));
            found.performed.push(format!("{thread}:release"));
        }
        assert_eq!(unperformed(&job, &found), None);
    }
}
