//! The arguments of `compare`, and what can be wrong with them before anything runs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::failures::args::{Child, FailuresArgs};
use crate::journal::args::JournalArgs;
use crate::{locks, measure, micro, workloads};

/// Compares range locks on the same work: FxMark's workloads on a shared file, and the import of a
/// real folder with recovery and a check of every byte; with --micro, lock and unlock alone.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "compare",
    bin_name = "cargo compare",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    /// Something else to compare than locks.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Measure lock and unlock alone, without files, beside locks that others make: uncontended, and with more threads
    /// than cores
    #[arg(long)]
    pub micro: bool,

    /// Numbers of threads, separated by commas [default: 1 and the number of cores]
    #[arg(long, value_delimiter = ',', value_parser = threads, value_name = "N,…")]
    pub threads: Vec<usize>,

    /// Seconds that each combination of workload, lock and number of threads is measured for; with --micro,
    /// each combination of case and lock
    #[arg(long, default_value = "1.8", value_parser = seconds, value_name = "S")]
    pub seconds: f64,

    /// Locks to compare, separated by commas; from parking_lot on only with --micro [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(micro_locks()), value_name = "LOCK,…")]
    pub locks: Vec<String>,

    /// Workloads to run, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(workloads::all()), value_name = "WORKLOAD,…")]
    pub workloads: Vec<String>,

    /// Folder to import [default: the sources of this project]
    #[arg(long, value_name = "FOLDER")]
    pub import: Option<PathBuf>,

    /// Also write the rows of the table to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the report to this file, as one self-contained page of HTML
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    pub report: PathBuf,

    /// Volume to run on: made if it is not there, otherwise used as it is and left as it was
    /// [default: a temporary one]
    #[arg(long, value_name = "FILE")]
    pub volume: Option<PathBuf>,

    /// Size of a new volume in bytes, or with a unit: 64M, 1G [default: as much as the runs need]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub size: Option<Size>,
}

/// What else can be compared.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Compares durable commits: our journal of blocks in its ways to commit, our compact log, okaywal, raft-engine and wal-db, on a modelled flush of 1 ms and
    /// on a disk; and runs the patterns of the thesis that cooperative commit is from
    #[command(after_help = JournalArgs::lists())]
    Journal(JournalArgs),
    /// Makes every write and every flush of a run fail once, in our journals and those that others make: eight threads append numbered records, and what was acknowledged
    /// is looked for in what a power cut would leave. Fails if one of ours is not clean
    Failures(FailuresArgs),
    /// What `failures` starts.
    #[command(hide = true, subcommand)]
    FailuresChild(Child),
}

/// The size of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// Whole pages of 4 KiB, at least one.
    pub bytes: u64,
    /// As it was typed, for errors.
    pub typed: String,
}

/// What is to be run: the arguments, with the defaults in.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Ascending, each once.
    pub threads: Vec<usize>,
    /// For each cell.
    pub seconds: f64,
    /// In the order of the list of locks.
    pub locks: Vec<&'static str>,
    /// In the order of the list of workloads.
    pub workloads: Vec<&'static str>,
    /// The folder to import, and whether it is the project itself.
    pub import: PathBuf,
    /// Whether [`import`](Self::import) is the default.
    pub import_project: bool,
    /// The volume, if not a temporary one.
    pub volume: Option<PathBuf>,
    /// Of a new volume.
    pub size: Option<Size>,
}

impl Args {
    /// Reads the arguments of this process; ends it if they are wrong or ask for help.
    pub fn of_process() -> Self {
        let args = Args::parse();
        if let Some(contradiction) = args.contradiction() {
            let error = Args::command().error(ErrorKind::ArgumentConflict, contradiction);
            error.exit();
        }
        args
    }

    /// What contradicts what, and what to do.
    fn contradiction(&self) -> Option<String> {
        if let Some(Command::Journal(args)) = &self.command {
            return args.contradiction();
        }
        if self.micro {
            let of_files = [
                ("--threads", !self.threads.is_empty()),
                ("--workloads", !self.workloads.is_empty()),
                ("--import", self.import.is_some()),
                ("--volume", self.volume.is_some()),
                ("--size", self.size.is_some()),
            ];
            let (option, _) = of_files.into_iter().find(|(_, given)| *given)?;
            return Some(format!(
                "--micro measures lock and unlock, without files, by a thread or as many as a case says: leave {option} out, or --micro"
            ));
        }
        let of_registry = locks::all();
        let is_peer = |lock: &&String| of_registry.iter().all(|(name, _)| name != lock);
        let peer = self.locks.iter().find(is_peer)?;
        Some(format!(
            "--locks {peer}: no lock to put under files, measured with --micro only: leave it out, or add --micro"
        ))
    }

    /// Fills the defaults of `--micro` in.
    pub fn micro_plan(&self) -> micro::Plan {
        micro::Plan {
            locks: selected(micro_locks(), &self.locks),
            seconds: self.seconds,
        }
    }

    /// Fills the defaults in.
    ///
    /// # Errors
    /// Arguments that contradict each other; the default folder is gone.
    pub fn plan(&self) -> Result<Plan> {
        let mut threads = self.threads.clone();
        if threads.is_empty() {
            threads = vec![1, measure::cores()];
        }
        threads.sort_unstable();
        threads.dedup();

        let locks = selected(locks::all(), &self.locks);
        let mut workloads = self.workloads.clone();
        if self.import.is_some() && !workloads.is_empty() {
            workloads.push(workloads::IMPORT.to_owned());
        }
        let workloads = selected(workloads::all(), &workloads);
        let import = match &self.import {
            Some(folder) => folder.clone(),
            None if workloads.contains(&workloads::IMPORT) => project()?,
            None => PathBuf::new(),
        };
        Ok(Plan {
            threads,
            seconds: self.seconds,
            locks,
            workloads,
            import,
            import_project: self.import.is_none(),
            volume: self.volume.clone(),
            size: self.size.clone(),
        })
    }
}

/// The most threads that are accepted: more would only wait for each other.
fn most_threads() -> usize {
    (16 * measure::cores()).max(64)
}

pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let most = most_threads();
    match text.trim().parse() {
        Ok(threads) if (1..=most).contains(&threads) => Ok(threads),
        Ok(_) => Err(format!("between 1 and {most} threads are possible here")),
        Err(_) => Err("give numbers of threads, as in `--threads 1,2`".to_owned()),
    }
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.01 to 3600".to_owned()),
    }
}

/// A size, rounded up to whole pages of 4 KiB.
fn size(text: &str) -> Result<Size, String> {
    let typed = text.to_owned();
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        "t" | "tib" => Some(40),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    number
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(1 << unit))
        .and_then(|bytes| bytes.checked_next_multiple_of(4096))
        .filter(|&bytes| bytes > 0)
        .map(|bytes| Size { bytes, typed })
        .ok_or_else(|| "give a size above zero in bytes, or with a unit: 65536, 64M, 1G".to_owned())
}

/// The names of all locks that `--micro` measures, each with what it is.
fn micro_locks() -> Vec<(&'static str, &'static str)> {
    let all = micro::candidates().into_iter();
    all.map(|it| (it.name, it.about)).collect()
}

pub(crate) fn names(all: Vec<(&'static str, &'static str)>) -> PossibleValuesParser {
    PossibleValuesParser::new(all.into_iter().map(|(name, _)| name))
}

/// Those of `all` that are `chosen`, or all if none is.
pub(crate) fn selected(
    all: Vec<(&'static str, &'static str)>,
    chosen: &[String],
) -> Vec<&'static str> {
    let names = all.into_iter().map(|(name, _)| name);
    names
        .filter(|&name| chosen.is_empty() || chosen.iter().any(|it| it == name))
        .collect()
}

/// The folder of this project.
fn project() -> Result<PathBuf> {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    match benches.parent() {
        Some(project) if project.join("Cargo.toml").is_file() => Ok(project.to_owned()),
        _ => bail!(
            "the sources of this project are no longer in {}: say with --import which folder to import",
            benches.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (typed, bytes) in [("1", 4096), ("64M", 64 << 20), ("2 GiB", 2 << 30)] {
            let typed = typed.to_owned();
            assert_eq!(size(&typed), Ok(Size { bytes, typed }));
        }
        for wrong in ["", "0", "M", "-1", "1X", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_import_folder_adds_the_import() {
        let args = Args::parse_from(["compare", "--workloads", "dwom", "--import", "/"]);
        assert_eq!(args.plan().unwrap().workloads, ["dwom", "import"]);
        let args = Args::parse_from(["compare", "--workloads", "drbm,dwom", "--threads", "2,1,2"]);
        let plan = args.plan().unwrap();
        assert_eq!(plan.workloads, ["dwom", "drbm"]);
        assert_eq!(plan.threads, [1, 2]);
    }

    #[test]
    fn contradictions_say_what_to_leave_out() {
        let said = |args: &[&str]| {
            let args = Args::parse_from([&["compare"], args].concat());
            args.contradiction()
        };
        assert_eq!(
            said(&["--micro", "--locks", "ofd,srl-array", "--seconds", "1"]),
            None
        );
        assert_eq!(said(&["--threads", "1", "--locks", "srl-array"]), None);
        let peer = said(&["--locks", "srl-array,ofd"]).unwrap();
        assert!(
            peer.contains("--locks ofd") && peer.contains("add --micro"),
            "{peer}"
        );
        for args in [
            ["--threads", "2"],
            ["--workloads", "dwom"],
            ["--import", "/"],
            ["--volume", "v"],
            ["--size", "1G"],
        ] {
            let with = said(&["--micro", args[0], args[1]]).unwrap();
            assert!(with.contains(&format!("leave {} out", args[0])), "{with}");
        }
    }
}
