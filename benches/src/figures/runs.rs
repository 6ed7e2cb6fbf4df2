//! The comparisons whose results documents show.

/// A comparison, and how it is run for the figures of documents.
pub struct Run {
    /// The name, which is also that of the result file.
    pub name: &'static str,
    /// The arguments of `cargo compare`.
    pub arguments: &'static str,
    /// About how many seconds it takes on two cores.
    pub seconds: u64,
}

/// All comparisons, in the order in which they run.
#[rustfmt::skip] // A comparison is one line.
pub const RUNS: [Run; 10] = [
    Run { name: "micro", arguments: "--micro --seconds 0.5", seconds: 75 },
    Run { name: "compare", arguments: "--threads 1,2,8 --seconds 0.8", seconds: 140 },
    Run { name: "contention", arguments: "contention", seconds: 85 },
    Run { name: "journal", arguments: "journal --workload commit,blocks --device modelled-1ms,disk,disk-direct --threads 1,2,8,16 --think 0 --seconds 0.35", seconds: 150 },
    Run { name: "file-core", arguments: "file-core", seconds: 60 },
    Run { name: "recovery", arguments: "recovery --files 1000000 --large", seconds: 90 },
    Run { name: "objects", arguments: "objects --seconds 0.2", seconds: 375 },
    Run { name: "node-log", arguments: "node-log", seconds: 300 },
    Run { name: "papers", arguments: "papers", seconds: 530 },
    Run { name: "failures", arguments: "failures", seconds: 90 },
];

impl Run {
    /// Returns the command line.
    pub fn command(&self) -> String {
        format!("cargo compare {}", self.arguments)
    }
}

/// Returns the comparisons of these names, or all if there are none.
pub fn chosen(names: &[String]) -> Vec<&'static Run> {
    let is_chosen = |run: &&Run| names.is_empty() || names.iter().any(|it| it == run.name);
    RUNS.iter().filter(is_chosen).collect()
}
