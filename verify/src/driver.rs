//! The command `cargo verify`: builds the models under each checker (loom and shuttle), runs each
//! row (one program in one mode of a checker) in its own process, and judges the results.
//!
//! Not reached by models: this code only starts the processes that run models.

// As the macros of std, which panic if the output cannot be written. Here, a reader that has closed
// the pipe keeps nothing from being judged and recorded.
macro_rules! print {
    ($($text:tt)*) => { $crate::driver::tell(format_args!($($text)*)) };
}
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::driver::warn(format_args!($($text)*)) };
}
macro_rules! println {
    () => { print!("\n") };
    ($($text:tt)*) => { print!("{}\n", format_args!($($text)*)) };
}

mod args;
mod bugs;
mod build;
mod judge;
mod kill;
mod merge;
mod models;
mod mutants;
mod process;
mod report;
mod run;
mod table;
mod verify;

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;

use args::{Args, Subcommand};

/// Runs the command with this process's arguments. Returns exit code 0 if everything passes, 1 if
/// anything fails, and 2 if the command cannot run.
pub fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    // Cargo passes the subcommand's name as the first argument.
    if words.get(1).is_some_and(|word| word == "verify") {
        words.remove(1);
    }
    run(&Args::parse_from(words)).unwrap_or_else(|error| {
        eprintln!("cargo verify: {error:#}");
        ExitCode::from(2)
    })
}

fn run(args: &Args) -> Result<ExitCode> {
    match (&args.command, &args.replay) {
        (Some(Subcommand::Merge(args)), _) => merge::merge(args),
        (Some(Subcommand::Mutants(args)), _) => kill::command(&kill::MUTANTS, args),
        (Some(Subcommand::Bugs(args)), _) => kill::command(&kill::BUGS, args),
        (Some(Subcommand::Pairs(args)), _) => report::pairs(args),
        (Some(Subcommand::KnownBugs(args)), _) => verify::known_bugs(args),
        (None, Some(name)) => verify::replay(name, &args.common.scope, build::MODELS, &args.change),
        (None, None) => verify::verify(args),
    }
}

/// Prints text. Reports any failure except that nobody reads it.
fn tell(text: fmt::Arguments<'_>) {
    if let Err(error) = io::stdout().write_fmt(text)
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("cargo verify: cannot print the results: {error}");
    }
}

/// Prints a line to the standard error, if that is possible.
fn warn(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn exit_code(success: bool) -> ExitCode {
    ExitCode::from(u8::from(!success))
}

/// Keeps the items whose names contain at least one text of `filter`; an empty filter keeps all. If
/// a text is in no name, returns the error `missing`, with the text in place of `{}`.
fn retain_meant<T>(
    items: &mut Vec<T>,
    filter: &[String],
    name: impl Fn(&T) -> String,
    missing: &str,
) -> Result<()> {
    let has = |item: &T, text: &String| name(item).contains(text);
    for text in filter {
        let is_there = items.iter().any(|item| has(item, text));
        ensure!(is_there, "{}", missing.replace("{}", text));
    }
    items.retain(|item| filter.is_empty() || filter.iter().any(|text| has(item, text)));
    Ok(())
}
