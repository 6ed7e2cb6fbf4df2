//! The command `cargo verify`: builds the models under each checker, runs each row (one program in
//! one mode of a checker) in its own process, and judges the results.
//!
//! Not reached by models: this code only starts the processes that run models.

mod args;
mod bugs;
mod build;
mod change;
mod explore;
mod judge;
mod kill;
mod merge;
mod models;
mod mutants;
mod output;
mod outputs;
mod partition;
mod process;
mod reached;
mod report;
mod run;
mod table;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use args::{Args, Subcommand};
use change::Kind;
use output::warn;

/// Runs the command with this process's arguments. Returns exit code 0 if everything passes, 1 if
/// anything fails, and 2 if the command cannot run.
pub fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    // Cargo passes the subcommand's name as the first argument.
    if words.get(1).is_some_and(|word| word == "verify") {
        words.remove(1);
    }
    run(&Args::parse_from(words)).unwrap_or_else(|error| {
        warn(format_args!("cargo verify: {error:#}"));
        ExitCode::from(2)
    })
}

fn run(args: &Args) -> Result<ExitCode> {
    match (&args.command, &args.replay) {
        (Some(Subcommand::Merge(args)), _) => merge::merge(args),
        (Some(Subcommand::Mutants(args)), _) => kill::command(Kind::Mutants, args),
        (Some(Subcommand::Bugs(args)), _) => kill::command(Kind::Bugs, args),
        (Some(Subcommand::Pairs(args)), _) => report::pairs(args),
        (Some(Subcommand::KnownBugs(args)), _) => verify::known_bugs(args),
        (None, Some(name)) => verify::replay(name, &args.common.scope, build::MODELS, &args.change),
        (None, None) => verify::verify(args),
    }
}
