//! When, where and of what a run is.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use super::Args;
use super::partition::Partition;
use crate::row::Circumstances;

/// Those of a run that begins now and was asked for `rows` rows.
pub(super) fn now(args: &Args, rows: usize) -> Circumstances {
    let part = args.partition.unwrap_or(Partition::WHOLE);
    of(selection(args), part, rows)
}

/// Those of mutants or defects that begin now; how many they are is known at their end.
pub(super) fn of_filter(filter: &[String]) -> Circumstances {
    of(filters(filter).join(" "), Partition::WHOLE, 0)
}

fn of(selection: String, part: Partition, rows: usize) -> Circumstances {
    Circumstances {
        selection,
        rows,
        partition: part.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(),
        rustc: first_line("rustc", &["--version"]).unwrap_or_else(unknown),
        machine: machine(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    }
}

/// The commit of these sources, with `-dirty` if they were changed since; `unknown` without git.
pub(super) fn commit() -> String {
    let git = [
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ];
    first_line("git", &git).unwrap_or_else(unknown)
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn selection(args: &Args) -> String {
    let depth = [
        ("--quick", args.quick),
        ("--full", args.full),
        ("--accept", args.accept),
    ];
    let depth = depth.into_iter().filter(|(_, is)| *is);
    let mut words: Vec<String> = depth.map(|(name, _)| name.to_owned()).collect();
    words.extend(filters(&args.filter));
    words.join(" ")
}

fn filters(filter: &[String]) -> Vec<String> {
    let mut words: Vec<_> = filter
        .iter()
        .map(|text| format!("--filter {text}"))
        .collect();
    words.sort();
    words
}

fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
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
