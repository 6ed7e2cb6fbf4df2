//! When, where and of what sources a run was made.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

use super::args::Common;
use super::partition::Partition;
use super::workspace::Workspace;
use crate::rows::row::Circumstances;

/// Returns the circumstances of an undivided run that begins now. Its `rows` are not yet known.
pub(super) fn now(common: &Common, options: &[&str], workspace: &Workspace) -> Circumstances {
    let mut words: Vec<String> = options.iter().map(ToString::to_string).collect();
    let filters = common.filter.iter().map(|text| format!("--filter {text}"));
    let packages = common
        .scope
        .package
        .iter()
        .map(|name| format!("--package {name}"));
    words.extend(filters.chain(packages));
    words[options.len()..].sort();
    let rustc = first_line(Command::new("rustc").arg("--version"));
    Circumstances {
        selection: words.join(" "),
        rows: 0,
        partition: Partition::WHOLE.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(workspace),
        rustc: rustc.unwrap_or_else(|| "unknown".to_owned()),
        machine: machine(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    }
}

/// Returns the commit of the workspace, with `-dirty` if files were changed since; `unknown`
/// without git.
pub(super) fn commit(workspace: &Workspace) -> String {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root)
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .arg("--exclude=*");
    first_line(&mut git).unwrap_or_else(|| "unknown".to_owned())
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
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
