//! The arguments of `compare`, and the checks on them before anything runs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::args::{
    ENVIRONMENT, OutputArgs, RedrawArgs, Size, names, seconds, selected, size, threads,
};
use crate::compare::Plan;
use crate::contention::args::ContentionArgs;
use crate::failures::args::{Child, FailuresArgs};
use crate::figures::args::FiguresArgs;
use crate::file_core::args::FileCoreArgs;
use crate::journal::args::JournalArgs;
use crate::lines::args::LinesArgs;
use crate::micro::{self, cases};
use crate::node_log::args::NodeLogArgs;
use crate::objects::args::ObjectsArgs;
use crate::papers::args::PapersArgs;
use crate::recovery::args::RecoveryArgs;
use crate::recovery::child::RecoveryChild;
use crate::{locks, measure, workloads};

/// Compares range locks on the same workloads: FxMark's on a shared file, and the import of a real
/// folder, after which every byte is recovered and checked. --micro measures only lock and unlock
#[derive(Clone, Debug, Parser)]
#[command(
    name = "compare",
    bin_name = "cargo compare",
    version,
    max_term_width = 100,
    after_help = ENVIRONMENT,
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    /// Compares something other than locks.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Measure only lock and unlock, without files, next to locks of other projects: uncontended,
    /// and with more threads than cores
    #[arg(long)]
    pub micro: bool,

    /// Thread counts to measure, separated by commas [default: 1 and the number of cores]
    #[arg(long, value_delimiter = ',', value_parser = threads, value_name = "N,…")]
    pub threads: Vec<usize>,

    /// Seconds to measure each combination of workload, lock and thread count; with --micro, each
    /// combination of case and lock
    #[arg(long, default_value = "1.8", value_parser = seconds, value_name = "S")]
    pub seconds: f64,

    /// Locks to compare, separated by commas; `ofd` and `parking_lot-fair` only with --micro
    /// [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(cases::names()), value_name = "LOCK,…")]
    pub locks: Vec<String>,

    /// Workloads to run, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(workloads::all()), value_name = "WORKLOAD,…")]
    pub workloads: Vec<String>,

    /// Folder to import [default: the sources of this project]
    #[arg(long, value_name = "FOLDER")]
    pub import: Option<PathBuf>,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,

    /// Volume to run on: created if it does not exist, otherwise its content is preserved [default:
    /// a temporary volume]
    #[arg(long, value_name = "FILE")]
    pub volume: Option<PathBuf>,

    /// Size of a new volume in bytes or with a unit: 64M, 1G [default: as large as the runs need]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub size: Option<Size>,
}

/// The comparisons that have a command of their own.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Compares durable commits of our block journal in each commit mode, our compact log, okaywal,
    /// raft-engine and wal-db. The devices are a modelled flush of 1 ms and a disk. Also runs the
    /// patterns of the thesis that introduced cooperative commit
    #[command(after_help = JournalArgs::lists())]
    Journal(JournalArgs),
    /// Makes every write and every flush of a run fail once, in our journals and in those of other
    /// projects. Eight threads append numbered records; after a simulated power cut, every
    /// acknowledged record must be found. Exits with an error if one of our journals is not clean
    #[command(after_help = ENVIRONMENT)]
    Failures(FailuresArgs),
    /// Compares the locks under contention, without files: throughput, waits, and processor time,
    /// for critical sections of different lengths, overlaps, shares of reads, and threads
    #[command(after_help = ENVIRONMENT)]
    Contention(ContentionArgs),
    /// Compares the file core's overwrites with the bare copy, flushes and fences of the same
    /// bytes, and two threads with one, under each lock. Also measures appends, truncations,
    /// creations, removals, renames and the longest stall by cleaning, and counts the flushes and
    /// fences of each operation
    #[command(after_help = FileCoreArgs::lists())]
    FileCore(FileCoreArgs),
    /// Measures the recovery of a volume with many files: files per second with each number of
    /// threads, and the most heap that it takes
    #[command(after_help = ENVIRONMENT)]
    Recovery(RecoveryArgs),
    /// Compares the object store with files, raw bytes and object_store's LocalFileSystem, and with
    /// the figures of the paper that it follows: creations, batches, writes, reads and puts, on
    /// persistent memory and on a disk
    #[command(after_help = ObjectsArgs::lists())]
    Objects(ObjectsArgs),
    /// Compares NVM node logging with nodes in blocks, as F2FS has them, with a whole-file lock and
    /// with a range lock, and with files: FxMark's DWOM and DWSL, Filebench's OLTP and Varmail,
    /// checkpoints, and lookups of direct nodes, beside the figures of the papers
    #[command(after_help = NodeLogArgs::lists())]
    NodeLog(NodeLogArgs),
    /// Shows every figure and table of the five papers that this project follows: what the paper
    /// has, what this machine has, and why they differ. Everything is measured twice, and a winner
    /// must win both times
    #[command(after_help = PapersArgs::lists())]
    Papers(PapersArgs),
    /// Counts the transfers of cache lines, and the read-modify-writes, of each lock and of the
    /// file core on simulated cores. The counts are exact, and it is an error if they differ from
    /// the committed ones. Also shows the hottest lines, and those that are falsely shared. With
    /// --model, shows a model of the throughput on many cores
    #[command(after_help = ENVIRONMENT)]
    Lines(LinesArgs),
    /// Rewrites the figures in documents from the result files in docs/figures, which the other
    /// commands write with --json
    #[command(after_help = FiguresArgs::lists())]
    Figures(FiguresArgs),
    /// Writes the report of a result file, which another command wrote with --json, perhaps on
    /// another machine: those of this project are in docs/figures
    #[command(after_help = ENVIRONMENT)]
    Redraw(RedrawArgs),
    /// The child processes that `failures` starts.
    #[command(hide = true, subcommand)]
    FailuresChild(Child),
    /// The child processes that `recovery` starts.
    #[command(hide = true)]
    RecoveryChild(RecoveryChild),
}

impl Args {
    /// Parses the arguments of this process. Exits if they are wrong or ask for help.
    pub fn of_process() -> Self {
        let args = Args::parse();
        if let Some(contradiction) = args.contradiction() {
            let error = Args::command().error(ErrorKind::ArgumentConflict, contradiction);
            error.exit();
        }
        args
    }

    /// Returns which arguments contradict each other, and how to fix that.
    fn contradiction(&self) -> Option<String> {
        match &self.command {
            Some(Command::Journal(args)) => return args.contradiction(),
            Some(Command::Papers(args)) => return args.contradiction(),
            _ => {}
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
                "--micro measures only lock and unlock, without files and with fixed thread counts: leave {option} out, or --micro"
            ));
        }
        let of_files = locks::contestants();
        let of_micro = |lock: &&String| of_files.iter().all(|it| it.name != **lock);
        let peer = self.locks.iter().find(of_micro)?;
        Some(format!(
            "--locks {peer}: this lock cannot protect files and is measured only with --micro: leave it out, or add --micro"
        ))
    }

    /// Returns the plan for `--micro`, with defaults filled in.
    pub fn micro_plan(&self) -> micro::Plan {
        micro::Plan {
            locks: selected(cases::names(), &self.locks),
            seconds: self.seconds,
        }
    }

    /// Returns the plan, with defaults filled in.
    ///
    /// # Errors
    /// Arguments contradict each other, or the default folder does not exist.
    pub fn plan(&self) -> Result<Plan> {
        let mut threads = self.threads.clone();
        if threads.is_empty() {
            threads = vec![1, measure::cores()];
        }
        threads.sort_unstable();
        threads.dedup();

        let contestants = locks::contestants().into_iter();
        let contestants = contestants.map(|it| (it.name, it.about)).collect();
        let locks = selected(contestants, &self.locks);
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

/// Returns the folder of this project.
///
/// # Errors
/// It no longer exists.
pub fn project() -> Result<PathBuf> {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    match benches.parent() {
        Some(project) if project.join("Cargo.toml").is_file() => Ok(project.to_owned()),
        _ => bail!(
            "the sources of this project are no longer in {}: use --import to choose a folder",
            benches.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_error_about_contradictions_names_the_option_to_leave_out() {
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
