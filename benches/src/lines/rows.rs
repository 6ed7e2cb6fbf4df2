//! The results of cells.

use serde::{Deserialize, Serialize};

use crate::target::Target;

/// The result of a cell. Figures are for each acquisition, or for each operation of the file core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name of the case.
    pub case: String,
    /// The name of the lock.
    pub lock: String,
    /// The number of simulated cores.
    pub cores: usize,
    /// Which accesses are seen: `atomics` of the facade, or `all`.
    pub accesses: String,
    /// How many layouts of the heap were tried. The figures are those of the worst.
    pub layouts: u64,
    /// How many of them had transfers.
    pub layouts_with_transfers: u64,
    /// Accesses for which a line moved from another core.
    pub transfers: f64,
    /// Read-modify-writes.
    pub rmw: f64,
    /// Transfers that the word of the access did not need: no other core had used it meanwhile.
    pub false_transfers: f64,
    /// The hottest lines.
    pub lines: Vec<Line>,
    /// The targets of this row.
    #[serde(skip_deserializing)]
    pub targets: Vec<Target>,
}

/// A line that moved between cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Where it is.
    pub place: String,
    /// Its transfers.
    pub transfers: f64,
    /// Those of them that are false.
    pub false_transfers: f64,
    /// Its bytes, with how many cores read and wrote them.
    pub words: String,
}

impl Row {
    /// Adds the targets.
    pub fn judged(mut self) -> Row {
        let (case, lock) = (&*self.case, &*self.lock);
        let is_disjoint = case.contains("-disjoint");
        let asked = match lock {
            _ if is_disjoint && lock.starts_with("srl-") => 0.0,
            "rw-counter" if case == "read-same" => 2.0,
            "interval-tree" if is_disjoint && self.cores <= 8 => 1.2,
            "srl-tree" if case == "file-overwrite" && self.cores <= 8 => 0.2,
            _ => return self,
        };
        let target = Target::at_most(self.name(), "transfers", asked, Some(self.transfers));
        self.targets = vec![target];
        self
    }

    /// Returns the name of the cell.
    pub(super) fn name(&self) -> String {
        let Row {
            case, lock, cores, ..
        } = self;
        format!("{case}/{lock}/{cores}")
    }
}
