//! `cargo verify known-bugs`: published bugs of other projects, each re-created at its smallest in
//! a buggy and a fixed form. The checkers must fail the one and pass the other.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use comfy_table::Cell;
use serde::Serialize;

use super::args::{Change, KnownBugsArgs};
use super::judge::verdict_on;
use super::kill::kill;
use super::models::{Task, models, tasks};
use super::output::{json_at, write_json};
use super::process::Ended;
use super::replay::replay;
use super::run::{Way, run_all};
use super::table::{Column, colored, number};
use super::workspace::KNOWN_BUGS;
use super::{exit_code, pool, retain_meant, table};
use crate::info::Form;
use crate::plan::Unrecorded;
use crate::rows::row::Verdict;

/// A row is stopped after this time.
const LIMIT: Duration = Duration::from_secs(900);

/// A form of a known bug, in one mode.
#[derive(Debug, Serialize)]
struct Line {
    bug: String,
    source: String,
    /// `buggy` or `fixed`.
    form: &'static str,
    verdict: Verdict,
    checker: &'static str,
    mode: &'static str,
    /// Of a failed search, the number of the execution that failed.
    executions: u64,
    failure: Option<String>,
    /// The command that shows the row again.
    replay: String,
    /// Of a bug that no mode here finds: the checker that would.
    not_found: Option<String>,
}

impl Line {
    fn is_found(&self) -> bool {
        self.form == "buggy" && self.verdict == Verdict::Failed
    }
}

/// Runs the command: exit code 0 if every buggy form fails where it must, and every fixed form
/// passes.
pub(super) fn known_bugs(args: &KnownBugsArgs) -> Result<ExitCode> {
    let common = &args.common;
    if let Some(name) = &args.replay {
        return replay(name, &common.scope, KNOWN_BUGS, &Change::default());
    }
    let file = json_at(common.json.as_deref())?;
    let (mut built, models) = models(&common.scope, KNOWN_BUGS)?;
    let mut tasks = tasks(&models, Unrecorded::Whole);
    tasks.retain(|task| {
        let job = &task.job;
        !job.long && job.faults == 0 && job.program.form.is_some()
    });
    let missing = "no known bug's name contains `{}`";
    retain_meant(
        &mut tasks,
        &common.filter,
        |it| it.job.program.suite.clone(),
        missing,
    )?;
    built.add(tasks.iter().map(|task| task.job.mode.checker()))?;
    let way = Way {
        workers: pool::workers(common.jobs),
        limit: LIMIT,
        measures: true,
    };
    let (mut lines, mut problems) = (Vec::new(), Vec::new());
    let ran = run_all(&tasks, &built, &way);
    let form = |task: &Task| {
        (
            task.job.program.suite.clone(),
            task.job.program.name.clone(),
        )
    };
    for forms in ran.chunk_by(|(a, _), (b, _)| form(a) == form(b)) {
        judge(forms, &mut lines, &mut problems);
    }
    show(&lines, &problems);
    write_json(file.as_ref(), "Rows", &lines)?;
    Ok(exit_code(problems.is_empty()))
}

/// Judges the rows of one form: a buggy one has a line for the first mode that finds it, a fixed
/// one a line for each mode.
fn judge(ran: &[(Task, Ended)], lines: &mut Vec<Line>, problems: &mut Vec<String>) {
    let mut of_form: Vec<Line> = ran.iter().map(|(task, ended)| line(task, ended)).collect();
    for ((task, _), line) in ran.iter().zip(&of_form) {
        let job = &task.job;
        let (name, verdict) = (job.name(), line.verdict.name());
        let must_fail = job.program.must_fail(job.mode);
        if must_fail && line.verdict != Verdict::Failed {
            problems.push(format!(
                "NOT FOUND: {name}: the buggy form must fail, and is {verdict}"
            ));
        }
        if !must_fail && !line.verdict.passes() {
            let failure = line.failure.as_deref().unwrap_or_default();
            problems.push(format!("{verdict}: {name} must pass: {failure}"));
        }
    }
    if of_form[0].form == "buggy" {
        let found = of_form.iter().position(Line::is_found);
        of_form = vec![of_form.swap_remove(found.unwrap_or(0))];
    }
    lines.extend(of_form);
}

fn line(task: &Task, ended: &Ended) -> Line {
    let (job, program) = (&task.job, &task.job.program);
    let (verdict, failure) = verdict_on(job, ended);
    let found = ended.found().map_or(0, |found| found.executions);
    let failed = kill(task, &ended.stderr).and_then(|kill| kill.executions);
    let form = program.form.map_or("fixed", Form::name);
    let not_found = task.suite().not_found.clone();
    Line {
        bug: program.suite.clone(),
        source: task.suite().known_bug.clone().unwrap_or_default(),
        form,
        verdict,
        checker: job.mode.checker().name(),
        mode: job.mode.name(),
        executions: failed.unwrap_or(found),
        failure,
        replay: format!("cargo verify known-bugs --replay {}", job.name()),
        not_found: not_found.filter(|_| form == "buggy"),
    }
}

fn show(lines: &[Line], problems: &[String]) {
    let columns: &[Column<Line>] = &[
        ("bug", |line| Cell::new(&line.bug)),
        ("form", |line| Cell::new(line.form)),
        ("verdict", |line| {
            let is_well = (line.verdict == Verdict::Failed) == (line.form == "buggy");
            colored(line.verdict.name(), is_well)
        }),
        ("checker", |line| Cell::new(line.checker)),
        ("mode", |line| Cell::new(line.mode)),
        ("executions", |line| number(line.executions)),
    ];
    println!("{}", table::of(columns, lines));
    for line in lines {
        if let Some(checker) = &line.not_found {
            println!("NOT FOUND HERE: {}: {checker}", line.bug);
        }
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    let found = lines.iter().filter(|line| line.is_found()).count();
    let buggy = lines.iter().filter(|line| line.form == "buggy").count();
    println!("{found} of {buggy} known bugs found.");
}
