//! `cargo compare`: see the package's README.

use std::process::ExitCode;

use anyhow::Result;
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
    if cfg!(debug_assertions) {
        println!("a build without optimisation: these figures mean nothing, use `cargo compare`");
    }
    let outcome = compare::run(&plan, &bar, |line| bar.suspend(|| println!("{line}")))?;
    bar.finish_and_clear();
    println!("{}", report::table(&outcome.rows));
    println!("{}", report::losses(&outcome.rows));
    if let Some(imported) = &outcome.imported {
        println!("{imported}");
    }
    println!("{}", outcome.others);
    let command: Vec<String> = std::env::args().skip(1).collect();
    let command = format!("cargo compare {}", command.join(" "));
    println!("{}", outputs.write(&outcome, command.trim_end())?);
    Ok(())
}
