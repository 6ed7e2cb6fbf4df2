//! The arguments of `compare file-core`.

use std::path::PathBuf;

use clap::Args;
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RwCounter;

use super::Plan;
use super::operations::operations;
use crate::args::{OutputArgs, help, names, seconds, selected, threads};
use crate::locks;

/// The locks that are measured by default: ours, and the usual whole-file locks.
const DEFAULT_LOCKS: [&str; 7] = [
    "rw-counter",
    "srl-array",
    "srl-packed",
    "srl-tree",
    "interval-tree",
    "parking_lot",
    "std",
];

/// The arguments of `compare file-core`.
#[derive(Args, Clone, Debug)]
pub struct FileCoreArgs {
    /// Cases to run, separated by commas [default: all]; a target or ratio needs all rows that it
    /// compares
    #[arg(long, value_delimiter = ',', value_parser = names(cases()), value_name = "CASE,…")]
    pub case: Vec<String>,

    /// Locks to compare, separated by commas [default: all but rw-distributed, range-mutex and
    /// range-lock]
    #[arg(long, value_delimiter = ',', value_parser = names(all_locks()), value_name = "LOCK,…")]
    pub locks: Vec<String>,

    /// Thread counts of the overwrites, separated by commas; the other cases run on one thread
    #[arg(long, value_delimiter = ',', value_parser = threads, default_value = "1,2", value_name = "N,…")]
    pub threads: Vec<usize>,

    /// Seconds to measure each row, in several rounds
    #[arg(long, default_value = "0.5", value_parser = seconds, value_name = "S")]
    pub seconds: f64,

    /// Folder for the temporary volume [default: /dev/shm if that is a tmpfs with enough room,
    /// otherwise the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

impl FileCoreArgs {
    /// Returns a list of the cases and locks, with descriptions.
    pub(crate) fn lists() -> String {
        help(&[("Cases", cases()), ("Locks", all_locks())])
    }

    /// Returns the plan, with defaults filled in.
    pub fn plan(&self) -> Plan {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        let chosen = if self.locks.is_empty() {
            &DEFAULT_LOCKS.map(str::to_owned)[..]
        } else {
            &self.locks
        };
        Plan {
            cases: selected(cases(), &self.case),
            locks: selected(all_locks(), chosen),
            threads,
            seconds: self.seconds,
            dir: self.dir.clone(),
        }
    }
}

/// Returns the names of all cases, each with a description.
pub(crate) fn cases() -> Vec<(&'static str, &'static str)> {
    let all = operations::<MappedFile, RwCounter>().into_iter();
    all.map(|it| (it.name, it.about)).collect()
}

fn all_locks() -> Vec<(&'static str, &'static str)> {
    let all = locks::contestants().into_iter();
    all.map(|it| (it.name, it.about)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: FileCoreArgs,
    }

    #[test]
    fn the_default_is_all_cases_and_the_usual_locks() {
        let plan = |args: &[&str]| Alone::parse_from([&["compare"], args].concat()).args.plan();
        let all = plan(&[]);
        assert_eq!(all.locks, DEFAULT_LOCKS);
        assert_eq!((all.cases.len(), &all.threads[..]), (9, &[1, 2][..]));
        let some = plan(&["--locks", "range-lock,srl-tree", "--threads", "2,1,2"]);
        assert_eq!(some.locks, ["srl-tree", "range-lock"]);
        assert_eq!(some.threads, [1, 2]);
    }
}
