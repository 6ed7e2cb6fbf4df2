//! `cargo compare`: see the package's README.

use std::cell::Cell;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use spanlock_benches::cli::{self, Args, Command};
use spanlock_benches::contention::args::ContentionArgs;
use spanlock_benches::failures::args::FailuresArgs;
use spanlock_benches::figures::args::FiguresArgs;
use spanlock_benches::file_core::args::FileCoreArgs;
use spanlock_benches::journal::args::JournalArgs;
use spanlock_benches::recovery::args::RecoveryArgs;
use spanlock_benches::recovery::heap::CountedHeap;
use spanlock_benches::report::command;
use spanlock_benches::{
    compare, contention, failures, figures, file_core, journal, micro, recovery, report, temporary,
};

/// Counts only in a child of `recovery`.
#[global_allocator]
static HEAP: CountedHeap = CountedHeap;

fn main() -> ExitCode {
    match run(&Args::of_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    match &args.command {
        Some(Command::FailuresChild(child)) => return child.run(),
        Some(Command::RecoveryChild(child)) => return child.run(),
        Some(Command::Figures(args)) => return run_figures(args),
        _ => {}
    }
    temporary::remove_on_signals()?;
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}, {eta} left")
            .expect("the template is a valid constant"),
    );
    let terminal = Terminal::default();
    let is_measured = !matches!(args.command, Some(Command::Failures(_)));
    if cfg!(debug_assertions) && is_measured {
        terminal.say(
            "this build is not optimized, so its figures are meaningless: use `cargo compare`",
        );
    }
    match &args.command {
        Some(Command::Journal(args)) => run_journal(args, &bar, &terminal)?,
        Some(Command::Contention(args)) => run_contention(args, &bar, &terminal)?,
        Some(Command::FileCore(args)) => run_file_core(args, &bar, &terminal)?,
        Some(Command::Recovery(args)) => run_recovery(args, &bar, &terminal)?,
        Some(Command::Failures(args)) => return run_failures(args, &bar, terminal),
        Some(Command::FailuresChild(_) | Command::RecoveryChild(_) | Command::Figures(_))
        | None => {
            let json = args.json.as_deref();
            let outputs = report::Outputs::check(&args.report, json, args.volume.as_deref())?;
            if args.micro {
                run_micro(args, &outputs, &bar, &terminal)?;
            } else {
                run_files(args, &outputs, &bar, &terminal)?;
            }
        }
    }
    terminal.end()
}

fn run_files(
    args: &Args,
    outputs: &report::Outputs,
    bar: &ProgressBar,
    terminal: &Terminal,
) -> Result<()> {
    let plan = args.plan()?;
    let outcome = compare::run(&plan, bar, |line| bar.suspend(|| terminal.say(line)))?;
    bar.finish_and_clear();
    terminal.say(&report::table(&outcome.rows));
    terminal.say(&report::targets(&outcome));
    terminal.say(&report::losses(&outcome.rows));
    if let Some(imported) = &outcome.imported {
        terminal.say(imported);
    }
    terminal.say(&outcome.others.to_string());
    outputs.medium(&outcome.volume);
    let page = report::page(&outcome, &command())?;
    terminal.say(&outputs.write(&outcome.rows, &page)?);
    Ok(())
}

fn run_micro(
    args: &Args,
    outputs: &report::Outputs,
    bar: &ProgressBar,
    terminal: &Terminal,
) -> Result<()> {
    let outcome = micro::run(&args.micro_plan(), bar)?;
    bar.finish_and_clear();
    terminal.say(&report::micro::table(&outcome.rows));
    if !outcome.absent.is_empty() {
        terminal.say(&report::micro::absent(&outcome.absent));
    }
    terminal.say(&report::micro::targets(&outcome));
    terminal.say(&report::micro::losses(&outcome));
    terminal.say(&outcome.others.to_string());
    let page = report::micro::page(&outcome, &command())?;
    terminal.say(&outputs.write(&outcome.rows, &page)?);
    Ok(())
}

fn run_journal(args: &JournalArgs, bar: &ProgressBar, terminal: &Terminal) -> Result<()> {
    let outputs = report::Outputs::check(&args.report, args.json.as_deref(), None)?;
    let outcome = journal::run(&args.plan(), bar, |line| {
        bar.suspend(|| terminal.say(line));
    })?;
    bar.finish_and_clear();
    terminal.say(&report::journal::told(&outcome));
    terminal.say(&outcome.others.to_string());
    outcome.devices.iter().for_each(|it| outputs.medium(it));
    let page = report::journal::page(&outcome, &command())?;
    terminal.say(&outputs.write(&outcome.rows, &page)?);
    Ok(())
}

fn run_contention(args: &ContentionArgs, bar: &ProgressBar, terminal: &Terminal) -> Result<()> {
    let plan = args.plan()?;
    let outputs = report::Outputs::check(&args.report, args.json.as_deref(), None)?;
    let outcome = contention::run(&plan, bar)?;
    bar.finish_and_clear();
    terminal.say(&report::contention::told(&outcome));
    terminal.say(&outcome.others.to_string());
    let page = report::contention::page(&outcome, &command())?;
    terminal.say(&outputs.write(&outcome.rows, &page)?);
    Ok(())
}

fn run_file_core(args: &FileCoreArgs, bar: &ProgressBar, terminal: &Terminal) -> Result<()> {
    let outputs = report::Outputs::check(&args.report, args.json.as_deref(), None)?;
    let outcome = file_core::run(&args.plan(), bar, |line| {
        bar.suspend(|| terminal.say(line));
    })?;
    bar.finish_and_clear();
    terminal.say(&report::file_core::told(&outcome));
    terminal.say(&outcome.others.to_string());
    outputs.medium(&outcome.volume);
    let page = report::file_core::page(&outcome, &command())?;
    terminal.say(&outputs.write(&outcome.rows, &page)?);
    Ok(())
}

fn run_recovery(args: &RecoveryArgs, bar: &ProgressBar, terminal: &Terminal) -> Result<()> {
    let outputs = report::Outputs::check(&args.report, args.json.as_deref(), None)?;
    let outcome = recovery::run(&args.plan(), bar, |line| {
        bar.suspend(|| terminal.say(line));
    })?;
    bar.finish_and_clear();
    terminal.say(&report::recovery::told(&outcome));
    terminal.say(&outcome.others.to_string());
    outputs.medium(&outcome.volume);
    let page = report::recovery::page(&outcome, &command())?;
    terminal.say(&outputs.write(&outcome.rows, &page)?);
    Ok(())
}

/// Runs the failure injection. Fails after writing all output if one of our contestants is not
/// clean.
fn run_failures(args: &FailuresArgs, bar: &ProgressBar, terminal: Terminal) -> Result<()> {
    let outputs = report::Outputs::check(&args.report, args.json.as_deref(), None)?;
    let rows = failures::run(&args.task(), bar)?;
    bar.finish_and_clear();
    terminal.say(&report::failures::table(&rows));
    terminal.say(&report::failures::unclean(&rows));
    let page = report::failures::page(&rows, &command())?;
    terminal.say(&outputs.write(&rows, &page)?);
    terminal.end()?;
    let failed = failures::failed(&rows);
    ensure!(failed.is_empty(), "not clean: {}", failed.join(", "));
    Ok(())
}

/// Rewrites the figures of this project's documents.
fn run_figures(args: &FiguresArgs) -> Result<()> {
    let terminal = Terminal::default();
    let project = cli::project()?;
    let dir = project.join(&args.dir);
    if let Some(names) = &args.measure {
        ensure!(
            !cfg!(debug_assertions),
            "this build is not optimized, so its figures are meaningless: use `cargo compare figures --measure`"
        );
        let program = std::env::current_exe().context("finding this program")?;
        let chosen = figures::runs::chosen(names);
        figures::measure::measure(&program, &chosen, &dir, |line| terminal.say(line))?;
    }
    let summary = figures::run(&project, &dir, args.check)?;
    terminal.say(&format!(
        "documents: {}, blocks: {}, rewritten: {}",
        summary.documents, summary.blocks, summary.rewritten
    ));
    terminal.end()
}

/// Standard output. If it is closed, for example by `head`, the run continues and writes its files.
/// The error is reported at the end.
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
                "writing to standard output; the report and the rows have been written completely",
            ),
        }
    }
}
