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
        if let Some(failure) = other_images(task, ended, ran) {
            rows[i].verdict = Verdict::Failed;
            rows[i].failure = Some(failure);
        }
        if let Some(failure) = unexplored(task, ended, ran) {
            rows[i].verdict = Verdict::Failed;
            rows[i].failure = Some(failure);
        }
        if !is_compared(&task.job) {
            continue;
        }
        let of = |mode| {
            let at = (ran.iter()).position(|(it, _)| is_beside(&it.job, &task.job, mode))?;
            ran[at].1.found().filter(|_| rows[at].verdict.passes())
        };
        let found = (of(Mode::Weak), of(Mode::RmwLoad), of(Mode::Dfs));
        if let (Some(weak), Some(rmw_load), Some(dfs)) = found {
            let failure = disagreement(weak, rmw_load, dfs);
            rows[i].agrees = failure.is_none();
            if failure.is_some() {
                rows[i].verdict = Verdict::Failed;
                rows[i].failure = failure;
            }
        }
    }
    rows
}

/// Reports that a program has other crash images in one mode than in its first. With a bound, a
/// mode finds only some of them.
fn other_images(task: &Task, ended: &Ended, ran: &[(Task, Ended)]) -> Option<String> {
    let first = *task.job.program.crashes.first()?;
    let of_first = |(it, _): &&(Task, Ended)| is_beside(&it.job, &task.job, first);
    let (beside, other) = ran.iter().find(of_first)?;
    if task.job.bound.or(beside.job.bound).is_some() {
        return None;
    }
    let [images, others] = [ended, other].map(|it| it.found().and_then(|it| it.images));
    let (images, others) = (images?, others?);
    // Happens-before orders less than the modes that search interleavings do.
    let has_more = task.job.mode == Mode::Explorer && images.count > others.count;
    (images != others && !has_more).then(|| {
        let (count, many) = (images.count, others.count);
        format!("{count} images, but {many} others in mode {}", first.name())
    })
}

/// Reports the outcomes that other rows of a program show, with as many faults or fewer, and that
/// the explorer does not show. The explorer may show more than loom and shuttle together.
fn unexplored(task: &Task, ended: &Ended, ran: &[(Task, Ended)]) -> Option<String> {
    let job = &task.job;
    // The outcomes of litmus programs are known.
    if job.mode != Mode::Explorer || job.program.expected.is_some() {
        return None;
    }
    let shown = &ended.found()?.outcomes;
    let others = ran.iter().filter(|(it, _)| {
        is_beside(&it.job, job, it.job.mode) || it.job.faults < job.faults && is_same(&it.job, job)
    });
    let missing = others.flat_map(|(it, ended)| {
        let outcomes = ended.found().into_iter().flat_map(|it| &it.outcomes);
        let missing = outcomes.filter(|it| !shown.contains(*it));
        missing.map(|outcome| format!("{outcome} ({})", it.job.name()))
    });
    let missing = Vec::from_iter(missing).join(", ");
    (!missing.is_empty()).then(|| {
        format!(
            "the explorer does not show these outcomes: {missing}\n  one of the checkers is wrong"
        )
    })
}

/// Whether a row's outcomes are compared with those of loom's modes. Litmus programs are not
/// compared, because their outcomes in each mode are known. Loom does not run all programs.
fn is_compared(job: &Job) -> bool {
    job.mode == Mode::Dfs && job.program.expected.is_none() && !job.program.unwinds
}

/// Whether `other` is the row in `mode` with which `job` is compared.
fn is_beside(other: &Job, job: &Job, mode: Mode) -> bool {
    other.mode == mode && other.faults == job.faults && is_same(other, job)
}

/// Whether two rows are of the same program.
fn is_same(other: &Job, job: &Job) -> bool {
    other.program.name == job.program.name && other.program.suite == job.program.suite
}

/// Returns the rows of `all` that a row is compared with. Only long rows get long ones.
pub(super) fn beside(task: &Task, all: &[Task]) -> Vec<Task> {
    let modes = [Mode::Weak, Mode::RmwLoad].into_iter();
    let modes = modes.filter(|_| is_compared(&task.job));
    let of = |mode| {
        let its = (all.iter()).filter(move |it| is_beside(&it.job, &task.job, mode));
        let there = its.filter(|it| task.job.long || !it.job.long);
        there.max_by_key(|it| it.job.long).cloned()
    };
    modes.filter_map(of).collect()
}

/// Reports the outcomes of shuttle's search that neither mode of loom shows.
fn disagreement(weak: &Found, rmw_load: &Found, dfs: &Found) -> Option<String> {
    let loom = weak.outcomes.iter().chain(&rmw_load.outcomes);
    let loom: BTreeSet<&String> = loom.collect();
    let missing = dfs.outcomes.iter().filter(|it| !loom.contains(it));
    let missing = Vec::from_iter(missing.map(String::as_str)).join(", ");
    (!missing.is_empty()).then(|| {
        format!(
            "neither mode of loom shows these outcomes of this search: {missing}\n  loom misses \
             executions, or a thread notes something that depends on time, addresses or earlier \
             executions"
        )
    })
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
        search: job.search(),
        faults: faults(job, found.plans),
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
             other threads run.\n  If it has too many executions, use fewer operations, or state a \
             bound on the program: `.bounded(3, \"why\")`.",
        );
    }
    text
}

/// Returns the faults in every execution, or the number of fault plans that ran.
fn faults(job: &Job, plans: u64) -> Vec<String> {
    match job.faults {
        most if job.mode == Mode::Explorer && most > 0 => vec![format!("at most {most}")],
        0 => job.program.faults.iter().map(ToString::to_string).collect(),
        1 => vec![format!("all single ({plans} plans)")],
        _ => vec![format!("all single and double ({plans} plans)")],
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
