//! The command: builds the models under each checker, runs each row in a process of its own, and
//! judges.
//!
//! Not explored under a checker: this process only starts those that are.

pub mod args;
mod bugs;
mod build;
mod circumstances;
mod evidence;
mod judge;
mod kill;
mod known_bugs;
mod merge;
mod models;
mod mutants;
mod output;
mod pairs;
mod partition;
mod pool;
mod process;
mod replay;
mod report;
mod run;
mod selection;
mod spin;
mod table;
mod verify;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use args::{Args, Subcommand};
use replay::{Replay, replay};

/// Runs the command. Its exit code is 0 if everything passes, and 1 if anything does not.
///
/// # Errors
/// A wrong argument, a file that cannot be read or written, a build that fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Some(Subcommand::Merge(args)) => return merge::merge(args),
        Some(Subcommand::Mutants(args)) => return mutants::mutants(args),
        Some(Subcommand::Bugs(args)) => return bugs::bugs(args),
        Some(Subcommand::Pairs(args)) => return pairs::pairs(args),
        Some(Subcommand::KnownBugs(args)) => return known_bugs::known_bugs(args),
        None => {}
    }
    match &args.replay {
        Some(name) => replay(&Replay {
            name,
            scope: &args.scope,
            target: workspace::MODELS,
            change: &args.change,
        }),
        None => verify::verify(args),
    }
}

fn exit_code(success: bool) -> ExitCode {
    match success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
