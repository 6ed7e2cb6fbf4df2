//! Every command that a document shows works, and `commands.tsv` says what runs it.
//!
//! `cargo test` only checks that the table is complete: every command has an entry, every entry has
//! a command, and each step that an entry names exists. `.ci/run` also runs the commands, with
//! `--include-ignored --test-threads=1`. Each is a test of its own, and a list at the end shows how
//! long each took.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use libtest_mimic::{Arguments, Trial};

mod commands;
mod itself;
mod run;
mod table;

use run::Outcome;
use table::{How, Table};

fn project() -> &'static Path {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    project.expect("the project")
}

fn main() -> ExitCode {
    let table = Table::parse(include_str!("commands.tsv")).expect("a table");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();

    let mut trials = itself::trials();
    let complete = table.clone();
    trials.push(Trial::test("table_is_complete", move || {
        let documented = commands::documented(project());
        let problems = complete.problems(project(), &documented);
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems.join("\n").into()),
        }
    }));
    for entry in table.entries {
        let How::Run(script) = entry.how else {
            continue;
        };
        let (command, lines) = (entry.command, Arc::clone(&lines));
        let trial = Trial::test(format!("`{command}`"), move || {
            let start = Instant::now();
            let outcome = run::run(project(), &script);
            let seconds = start.elapsed().as_secs_f64();
            let verdict = match &outcome {
                Outcome::Passed { rows: 0 } => "passed".to_owned(),
                Outcome::Passed { rows } => format!("passed, {rows} rows of JSON"),
                Outcome::Skipped(reason) => format!("SKIPPED: {reason}"),
                Outcome::Failed(_) => "FAILED".to_owned(),
            };
            let line = format!("{seconds:6.1} s  {command}: {verdict}");
            lines.lock().expect("no panic").push(line);
            match outcome {
                Outcome::Failed(reason) => Err(format!("{script}\n{reason}").into()),
                Outcome::Skipped(reason) if std::env::var_os("CI").is_some() => {
                    Err(format!("{script}\n{reason}: under CI, nothing is skipped").into())
                }
                Outcome::Passed { .. } | Outcome::Skipped(_) => Ok(()),
            }
        });
        trials.push(trial.with_ignored_flag(true));
    }

    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    for line in lines.lock().expect("no panic").iter() {
        println!("{line}");
    }
    println!("{:6.1} s  in all", start.elapsed().as_secs_f64());
    conclusion.exit_code()
}
