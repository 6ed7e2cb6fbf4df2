//! `cargo verify bugs`: injects each bug that the code under test defines by `injected_bug!`, one
//! at a time and at run time. A program in the bug's `killed_by` must fail.
//!
//! A bug is judged in each suite in which a program of its `killed_by` reaches it. Those programs
//! run first, in order of cost. If none of them fails, the suite's other programs run. A failure
//! among these does not count as finding the bug, but says where to look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;

use super::build::Built;
use super::change::Change;
use super::models::{Plan, Task};
use super::mutants::sources;
use super::reached::{Candidate, Candidates, Reached, searches};
use crate::info::{BugSite, Kind, ProgramInfo};

/// Returns each bug once for every suite that must find it, and the errors in the definitions.
pub(super) fn candidates<'a>(
    built: &Built,
    plan: &'a Plan,
    reached: &Reached<'a>,
) -> Result<Candidates<'a>> {
    let mut errors = Vec::new();
    let mut found: BTreeMap<(&str, &str), Change> = BTreeMap::new();
    for (site, tasks) in &reached.bugs {
        errors.extend(unknown_programs(site, plan));
        // Only a program that reaches the bug can find it.
        let programs = tasks.iter().map(|task| &task.job.program);
        let is_right = |it: &&Arc<ProgramInfo>| site.is_killed_by(&it.suite, &it.name);
        let mut right = programs.clone().filter(is_right).peekable();
        if right.peek().is_none() {
            let suites: BTreeSet<&str> = programs.map(|it| &*it.suite).collect();
            errors.push(format!(
                "NOT JUDGED: {}: programs of {} reach the injected bug `{}`, but none of \
                 them is in its `killed_by`",
                site.place,
                Vec::from_iter(suites).join(", "),
                site.name
            ));
        }
        for program in right {
            let bug = found.entry((&site.name, &program.suite));
            let bug = bug.or_insert_with(|| change(&site.name, &program.suite, &site.what));
            bug.expected.insert(program.name.clone());
        }
    }
    errors.extend(unreached(built, reached)?);
    let of_code = found.into_iter();
    let of_code = of_code.map(|((_, suite), change)| candidate(plan, suite, change));
    Ok((of_code.chain(of_promela(plan)).collect(), errors))
}

fn change(bug: &str, suite: &str, what: &str) -> Change {
    Change::new(&format!("{bug}/{suite}"), what, ["--bug", bug])
}

/// Returns an error for each program in `killed_by` that does not exist.
fn unknown_programs(site: &BugSite, plan: &Plan) -> Vec<String> {
    let is_unknown = |entry: &&String| {
        let (suite, program) = match entry.split_once('/') {
            Some((suite, program)) => (Some(suite), program),
            None => (None, &***entry),
        };
        !plan.has(suite, program)
    };
    let unknown = site.killed_by.iter().filter(is_unknown).map(|entry| {
        format!(
            "NO SUCH PROGRAM: {}: `killed_by` of the injected bug `{}` lists `{entry}`, but no \
             suite has that program",
            site.place, site.name
        )
    });
    unknown.collect()
}

/// Returns an error for each bug in the sources that no program reaches.
fn unreached(built: &Built, reached: &Reached) -> Result<Vec<String>> {
    const SITE: &str = "injected_bug!(";
    let mut errors = Vec::new();
    for (file, text) in sources(built)? {
        for (at, _) in text.match_indices(SITE) {
            let is_code = !text[..at].lines().last().unwrap_or_default().contains("//");
            let rest = text[at + SITE.len()..].trim_start();
            let name = rest.strip_prefix('"').and_then(|it| it.split('"').next());
            let is_reached = |name| reached.bugs.keys().any(|site| site.name == name);
            if let Some(name) = name.filter(|name| is_code && !is_reached(*name)) {
                let line = text[..at].matches('\n').count() + 1;
                errors.push(format!(
                    "UNREACHED: {file}:{line}: no program reaches the injected bug `{name}`"
                ));
            }
        }
    }
    Ok(errors)
}

/// Returns a candidate for each macro that injects a bug into a Promela model.
fn of_promela(plan: &Plan) -> Vec<Candidate<'_>> {
    let mut candidates = Vec::new();
    for task in &plan.tasks {
        let program = &task.job.program;
        let Kind::Promela { file, bugs } = &program.kind else {
            continue;
        };
        for bug in bugs {
            let mut change = change(bug, &program.suite, &format!("a macro of {file}"));
            change.expected.insert(program.name.clone());
            candidates.push((change, vec![(task, false)]));
        }
    }
    candidates
}

/// Returns a bug and the searches of its suite. Programs that must find the bug come first.
fn candidate<'a>(plan: &'a Plan, suite: &str, change: Change) -> Candidate<'a> {
    let of_suite = plan.tasks.iter().filter(|it| it.job.program.suite == suite);
    let is_right = |task: &Task| change.expected.contains(&task.job.program.name);
    let main = of_suite.filter(|it| it.job.is_main());
    let (models, others): (Vec<_>, Vec<_>) = main.partition(|it| is_right(it));
    let searches = [models, others].map(|its| searches(plan, &its, false));
    (change, searches.concat())
}
