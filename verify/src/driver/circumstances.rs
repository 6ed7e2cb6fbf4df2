//! When, where and of what sources a run was made.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use super::args::{Args, Scope};
use super::partition::Partition;
use super::workspace::Workspace;
use crate::rows::row::Circumstances;

/// Returns those of a run that begins now and was asked for `rows` rows.
pub(super) fn now(args: &Args, workspace: &Workspace, rows: usize) -> Circumstances {
    let part = args.partition.unwrap_or(Partition::WHOLE);
    of(selection(args), part, workspace, rows)
}

/// Returns those of mutants or bugs that begin now; their number is known at the end.
pub(super) fn of_filter(filter: &[String], scope: &Scope, workspace: &Workspace) -> Circumstances {
    let selection = filters(filter, scope).join(" ");
    of(selection, Partition::WHOLE, workspace, 0)
}

fn of(selection: String, part: Partition, workspace: &Workspace, rows: usize) -> Circumstances {
    let rustc = first_line("rustc", &["--version"], &workspace.root);
    Circumstances {
        selection,
        rows,
        partition: part.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(workspace),
        rustc: rustc.unwrap_or_else(unknown),
        machine: machine(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    }
}

/// Returns the commit of the workspace, with `-dirty` if files were changed since; `unknown`
/// without git.
pub(super) fn commit(workspace: &Workspace) -> String {
    let git = [
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ];
    first_line("git", &git, &workspace.root).unwrap_or_else(unknown)
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Whether a run of this selection has every row of its depth.
pub(super) fn is_whole(run: &Circumstances) -> bool {
    !run.selection.contains("--filter") && !run.selection.contains("--package")
}

fn selection(args: &Args) -> String {
    let depth = [
        ("--quick", args.quick),
        ("--full", args.full),
        ("--accept", args.accept),
    ];
    let depth = depth.into_iter().filter(|(_, is)| *is);
    let mut words: Vec<String> = depth.map(|(name, _)| name.to_owned()).collect();
    words.extend(filters(&args.filter, &args.scope));
    words.join(" ")
}

fn filters(filter: &[String], scope: &Scope) -> Vec<String> {
    let filters = filter.iter().map(|text| format!("--filter {text}"));
    let packages = scope.package.iter().map(|name| format!("--package {name}"));
    let mut words: Vec<_> = filters.chain(packages).collect();
    words.sort();
    words
}

fn first_line(program: &str, args: &[&str], folder: &Path) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(args).current_dir(folder).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?;
    output.status.success().then(|| line.to_owned())
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let processor = model.and_then(|line| line.split_once(':'));
    let processor = processor.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    let system = match release {
        Ok(release) => format!("Linux {}", release.trim()),
        Err(_) => std::env::consts::OS.to_owned(),
    };
    format!("{processor}, {cores} cores, {system}")
}
