//! Judges rows by what their processes found.

use std::collections::BTreeSet;
use std::time::Duration;

use crc32c::crc32c;

use super::build::Built;
use super::explore::spin_version;
use super::models::Task;
use super::process::{End, Ended};
use crate::info::{Deviation, Form};
use crate::messages::Found;
use crate::mode::{Checker, Mode};
use crate::plan::Job;
use crate::rows::row::{Agreement, Circumstances, Known, Row, Verdict};
use crate::rows::verdict;

/// Judges each row by itself, and then compares the outcomes of the rows of each program.
pub(super) fn judge(ran: &[(Task, Ended)], built: &Built, run: &Circumstances) -> Vec<Row> {
    let rows = ran.iter().map(|(task, ended)| row(task, ended, built, run));
    let mut rows: Vec<Row> = rows.collect();
    for (i, (task, ended)) in ran.iter().enumerate() {
        let Some(others) = compared(task, ran) else {
            continue;
        };
        let failure = ended.found().and_then(|found| missing(found, &others));
        rows[i].agrees = failure.is_none() && rows[i].verdict.passes();
        if failure.is_some() {
            rows[i].verdict = Verdict::Failed;
            rows[i].failure = failure;
        }
    }
    rows
}

/// Returns what another checker has found in the program of a row of the explorer. The outcomes of
/// litmus programs are known instead.
fn compared<'a>(task: &Task, ran: &'a [(Task, Ended)]) -> Option<Vec<(&'a Task, &'a Found)>> {
    let is_compared = task.job.mode == Mode::Explorer && task.job.program.expected.is_none();
    let of_it = |it: &Task| it.job.mode != Mode::Explorer && is_same(&it.job, &task.job);
    let others = ran.iter().filter(|(it, _)| is_compared && of_it(it));
    let others = others.filter_map(|(it, ended)| Some((it, ended.found()?)));
    Some(Vec::from_iter(others)).filter(|others| !others.is_empty())
}

/// Reports the outcomes of `others` that the explorer does not show. It may show more.
fn missing(explorer: &Found, others: &[(&Task, &Found)]) -> Option<String> {
    let missing = others.iter().flat_map(|(task, found)| {
        let missing = found.outcomes.difference(&explorer.outcomes);
        missing.map(|outcome| format!("{outcome} ({})", task.job.name()))
    });
    let missing = Vec::from_iter(missing).join(", ");
    (!missing.is_empty()).then(|| {
        format!(
            "the explorer does not show these outcomes: {missing}\n  one of the checkers is wrong, \
             or a thread notes something that depends on time, addresses or earlier executions"
        )
    })
}

/// Whether two rows are of the same program.
fn is_same(other: &Job, job: &Job) -> bool {
    other.program.name == job.program.name && other.program.suite == job.program.suite
}

/// Returns the rows of `all` that a row is compared with. Only long rows get long ones.
pub(super) fn beside(task: &Task, all: &[Task]) -> Vec<Task> {
    let is_compared = task.job.mode == Mode::Explorer && task.job.program.expected.is_none();
    let others = all.iter().filter(|it| {
        let is_other = it.job.mode != Mode::Explorer && is_same(&it.job, &task.job);
        is_other && (task.job.long || !it.job.long)
    });
    others.filter(|_| is_compared).cloned().collect()
}

fn row(task: &Task, ended: &Ended, built: &Built, run: &Circumstances) -> Row {
    let job = &task.job;
    let checker = job.mode.checker();
    let program = &job.program;
    let (verdict, failure) = verdict_on(job, ended);
    let found = ended.found().cloned().unwrap_or_default();
    let version = match checker {
        Checker::Spin => spin_version(),
        Checker::Explorer => built.version_of("spanlock-explorer"),
        _ => built.version_of(checker.name()),
    };
    let version = version.unwrap_or_else(|| "unknown".to_owned());
    let outcomes = found.outcomes.len() as u64;
    let expected = program.expected.as_ref();
    let deviation = expected.and_then(|expected| expected.deviations.get(&job.mode));
    let unseen = match &program.form {
        Some(Form::Buggy) => task.suite().not_found.clone(),
        _ => deviation.map(deviating),
    };
    Row {
        name: job.name(),
        number: task.number,
        primitive: program.suite.clone(),
        property: program.name.clone(),
        claim: program.claim.clone(),
        known: (program.form.as_ref()).map(|form| Known {
            bug: program.suite.clone(),
            source: task.suite().known_bug.clone().unwrap_or_default(),
            form: form.name().to_owned(),
        }),
        checker: checker.name().to_owned(),
        checker_version: version,
        mode: job.mode,
        threads: program.threads,
        operations: program.operations,
        bound: job.bound,
        search: job.search().to_owned(),
        faults: faults(job),
        executions: ended.failed_execution().unwrap_or(found.executions),
        committed: task.recorded().map(|count| count.executions),
        seconds: ended.elapsed.as_secs_f64(),
        step_bound: job.step_bound(),
        longest: found.longest,
        overtakes: found.overtaking.map(|seen| seen.bound),
        overtaken: found.overtaking.map(|seen| seen.most),
        verdict,
        outcomes: found.explained.map_or(outcomes, |(_, histories)| histories),
        images: found.images.map(|it| it.count),
        images_during_recovery: found.images.map(|it| it.during_recovery),
        kills: found.images.and_then(|it| it.kills),
        scenarios: found.explained.map(|(scenarios, _)| scenarios),
        outcome_hash: hash(&found.outcomes),
        agreement: expected.map(|_| match deviation {
            Some(_) => Agreement::BlindSpot,
            None => Agreement::Agrees,
        }),
        agrees: false,
        blind_spot: unseen.unwrap_or_else(|| job.mode.blind_spot().to_owned()),
        replay: match program.form {
            Some(_) => format!("cargo verify known-bugs --replay {}", job.name()),
            None => format!("cargo verify --replay {}", job.name()),
        },
        failure,
        run: run.clone(),
    }
}

fn hash(outcomes: &BTreeSet<String>) -> String {
    let text = Vec::from_iter(outcomes.iter().map(String::as_str)).join("\n");
    format!("{:08x}", crc32c(text.as_bytes()))
}

/// Returns the verdict on a row, and its failure if it has one.
fn verdict_on(job: &Job, ended: &Ended) -> (Verdict, Option<String>) {
    let (verdict, why) = match &ended.end {
        End::Found(found) => return verdict::verdict(job, found),
        End::Failed(status) => match &ended.told()[..] {
            [] => (Verdict::Failed, format!("{status}: {}", ended.stderr)),
            told => (Verdict::Failed, told.join("\n")),
        },
        End::Stopped => (Verdict::Truncated, stopped(job, ended.elapsed)),
        // In CI, nobody reads the log of a job that passes, so a skipped row is a failure there.
        End::Skipped(why) if std::env::var_os("CI").is_none() => (Verdict::Skipped, why.clone()),
        End::Skipped(why) | End::Broken(why) => (Verdict::Failed, why.clone()),
    };
    (verdict, Some(why))
}

fn stopped(job: &Job, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let mut text = format!("stopped by its time limit (--limit) after {seconds:.0} s");
    if job.mode.is_counted() {
        text.push_str(
            "\n  If the program spins, call `spanlock_sync::hint::pause` in each round, so that \
             other threads run.\n  If it has too many executions, use fewer operations, or run \
             `cargo verify --accept`, which finds\n  what ends in time and records it.",
        );
    }
    text
}

/// Returns the faults in every execution, or the most that the explorer chooses.
fn faults(job: &Job) -> Vec<String> {
    match job.faults {
        0 => job.program.faults.iter().map(ToString::to_string).collect(),
        most => vec![format!("at most {most}")],
    }
}

/// Lists the outcomes of a litmus program that the mode misses or adds.
fn deviating(deviation: &Deviation) -> String {
    let both = [("misses", &deviation.misses), ("adds", &deviation.adds)].into_iter();
    let told = both.filter(|(_, outcomes)| !outcomes.is_empty());
    let told = told.map(|(what, outcomes)| {
        let outcomes: Vec<&str> = outcomes.iter().map(String::as_str).collect();
        format!("{what} {}", outcomes.join(", "))
    });
    Vec::from_iter(told).join("; ")
}
