//! `cargo compare`: see the package's README.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use spanlock_benches::args::OutputArgs;
use spanlock_benches::cli::{self, Args, Command};
use spanlock_benches::figures::args::FiguresArgs;
use spanlock_benches::recovery::heap::CountedHeap;
use spanlock_benches::report::{self, Findings, LOSS_MARK, Outputs, targets};
use spanlock_benches::terminal::Terminal;
use spanlock_benches::{
    compare, contention, failures, figures, file_core, journal, lines, micro, node_log, objects,
    papers, recovery, redraw, temporary,
};

/// Counts only in a child of `recovery`.
#[global_allocator]
static HEAP: CountedHeap = CountedHeap;

fn main() -> ExitCode {
    match run(&Args::of_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the exit status must do.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    match &args.command {
        Some(Command::FailuresChild(child)) => child.run(),
        Some(Command::RecoveryChild(child)) => child.run(),
        Some(Command::Figures(args)) => rewrite(args),
        Some(Command::Redraw(args)) => {
            let terminal = Terminal::default();
            terminal.say(&redraw::redraw(args)?);
            terminal.end()
        }
        Some(Command::Journal(args)) => compared(&args.outputs, None, |bar, say| {
            journal::run(&args.plan(), bar, say)
        }),
        Some(Command::Contention(args)) => compared(&args.outputs, None, |bar, _| {
            contention::run(&args.plan()?, bar)
        }),
        Some(Command::FileCore(args)) => compared(&args.outputs, None, |bar, say| {
            file_core::run(&args.plan(), bar, say)
        }),
        Some(Command::Recovery(args)) => compared(&args.outputs, None, |bar, say| {
            recovery::run(&args.plan(), bar, say)
        }),
        Some(Command::Objects(args)) => compared(&args.outputs, None, |bar, say| {
            objects::run(&args.plan(), bar, say)
        }),
        Some(Command::NodeLog(args)) => compared(&args.outputs, None, |bar, say| {
            node_log::run(&args.plan(), bar, say)
        }),
        Some(Command::Papers(args)) if args.list => list(&args.plan()),
        Some(Command::Papers(args)) => compared(&args.outputs, None, |bar, say| {
            papers::run(&args.plan(), bar, say)
        }),
        Some(Command::Lines(args)) if args.model => compared(&args.outputs, None, |bar, _| {
            lines::model::run(&args.model_plan(cli::project()?), bar)
        }),
        Some(Command::Lines(args)) => compared(&args.outputs, None, |bar, say| {
            lines::run(&args.plan(cli::project()?), bar, say)
        }),
        Some(Command::Failures(args)) => compared(&args.outputs, None, |bar, _| {
            failures::run(&args.task(), bar)
        }),
        None if args.micro => compared(&args.outputs, None, |bar, _| {
            micro::run(&args.micro_plan(), bar)
        }),
        None => compared(&args.outputs, args.volume.as_deref(), |bar, say| {
            compare::run(&args.plan()?, bar, say)
        }),
    }
}

/// Checks the output files, runs a command, and shows and writes what it has found. `run` receives
/// a progress bar, and a function that says something before the rows.
///
/// # Errors
/// An output file cannot be written, or the command fails. If something that it judges has failed,
/// that is an error after all output.
fn compared<F: Findings>(
    outputs: &OutputArgs,
    volume: Option<&Path>,
    run: impl FnOnce(&ProgressBar, &dyn Fn(&str)) -> Result<F>,
) -> Result<()> {
    let outputs = Outputs::check(&outputs.report, outputs.json.as_deref(), volume)?;
    temporary::remove_on_signals()?;
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}, {eta} left")
            .expect("the template is a valid constant"),
    );
    let terminal = Terminal::default();
    if cfg!(debug_assertions) && F::IS_MEASURED {
        terminal.say(
            "this build is not optimized, so its figures are meaningless: use `cargo compare`",
        );
    }
    let found = run(&bar, &|line| bar.suspend(|| terminal.say(line)));
    bar.finish_and_clear();
    let found = found?;
    show(&found, &terminal);
    terminal.say(&outputs.write(&found)?);
    terminal.end()?;
    let failed = found.failed();
    ensure!(failed.is_empty(), "not clean: {}", failed.join(", "));
    Ok(())
}

/// Shows the figures, then whether they can be trusted, then what follows from them.
fn show(found: &impl Findings, terminal: &Terminal) {
    let width = terminal.width();
    let mut parts = found.figures(width);
    if let Some(others) = found.others() {
        let mark = if others.too_much() { LOSS_MARK } else { "" };
        parts.push(width.wrapped(format!("{mark} {others}").trim_start()));
    }
    if let Some(all) = found.targets() {
        parts.push(targets::told(&all, width));
    }
    parts.extend(found.conclusions(width));
    for part in parts {
        terminal.show(&part);
        terminal.show("");
    }
}

/// Shows the papers' numbers.
fn list(plan: &papers::Plan) -> Result<()> {
    let terminal = Terminal::default();
    for part in report::papers::listed(&plan.said, terminal.width()) {
        terminal.show(&part);
        terminal.show("");
    }
    terminal.end()
}

/// Rewrites the figures of this project's documents.
fn rewrite(args: &FiguresArgs) -> Result<()> {
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
