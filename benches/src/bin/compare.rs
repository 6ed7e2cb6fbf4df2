//! `cargo compare`: see the package's README.

use std::cell::Cell;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use spanlock_benches::cli::Args;
use spanlock_benches::{compare, report};

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let plan = args.plan()?;
    let outputs = report::Outputs::check(args)?;
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}, {eta} left")
            .expect("a constant template"),
    );
    let terminal = Terminal::default();
    if cfg!(debug_assertions) {
        terminal
            .say("a build without optimisation: these figures mean nothing, use `cargo compare`");
    }
    let outcome = compare::run(&plan, &bar, |line| bar.suspend(|| terminal.say(line)))?;
    bar.finish_and_clear();
    terminal.say(&report::table(&outcome.rows));
    terminal.say(&report::losses(&outcome.rows));
    if let Some(imported) = &outcome.imported {
        terminal.say(imported);
    }
    terminal.say(&outcome.others.to_string());
    // Paths may be other than UTF-8: those are only shown.
    let command: Vec<_> = std::env::args_os()
        .skip(1)
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    let command = format!("cargo compare {}", command.join(" "));
    terminal.say(&outputs.write(&outcome, command.trim_end())?);
    terminal.end()
}

/// Standard output. It may be closed, say by `head`: the run goes on, its files are written, and the
/// error comes last.
#[derive(Default)]
struct Terminal(Cell<Option<io::Error>>);

impl Terminal {
    fn say(&self, line: &str) {
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            self.0.set(Some(error));
        }
    }

    fn end(self) -> Result<()> {
        match self.0.into_inner() {
            None => Ok(()),
            Some(error) => Err(error).context(
                "writing to the standard output; report and rows are written whole nevertheless",
            ),
        }
    }
}
