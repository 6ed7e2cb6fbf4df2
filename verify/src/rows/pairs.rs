//! Tables of pairs: for each two operations, the programs that perform them in different threads.
//!
//! A cell lists the programs in which one thread performs one of the operations and another thread
//! the other. Programs that run under random schedules only do not count. A search fails if a
//! thread never performs an operation that its program declares. A cell without a program needs a
//! reason ([`Suite::no_pair`](crate::Suite::no_pair)).

use std::collections::BTreeSet;

use serde::Serialize;

use crate::info::{NoPair, ProgramInfo, SuiteInfo};

/// Two operations in alphabetical order.
pub type Pair<'a> = (&'a str, &'a str);

/// The table of a suite.
#[derive(Clone, Debug)]
pub struct Table {
    /// The primitive.
    pub primitive: String,
    /// Its operations, in the order of rows and columns.
    pub operations: Vec<String>,
    /// One cell for each pair of operations.
    pub cells: Vec<Cell>,
    reasons: Vec<NoPair>,
}

/// Two operations of a primitive.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The primitive.
    pub primitive: String,
    /// One operation.
    pub first: String,
    /// The other operation, or the same one.
    pub second: String,
    /// The programs, by property; those of another suite as `suite/property`.
    pub models: Vec<String>,
    /// Why no program is needed.
    pub reason: Option<String>,
}

fn ordered<'a>(a: &'a str, b: &'a str) -> Pair<'a> {
    if a <= b { (a, b) } else { (b, a) }
}

/// Returns the pairs that different threads of a program perform.
pub fn pairs_of(program: &ProgramInfo) -> BTreeSet<Pair<'_>> {
    let mut pairs = BTreeSet::new();
    for (i, mine) in program.performs.iter().enumerate() {
        for a in mine {
            let others = program.performs[i + 1..].iter().flatten();
            pairs.extend(others.map(|b| ordered(a, b)));
        }
    }
    pairs
}

/// Returns the table of each suite that has one.
pub fn tables(suites: &[SuiteInfo]) -> Vec<Table> {
    let with_pairs = suites.iter().filter(|it| it.has_pairs);
    with_pairs.map(|suite| Table::of(suite, suites)).collect()
}

/// Returns the problems of the suites' tables.
pub fn problems(suites: &[SuiteInfo]) -> Vec<String> {
    tables(suites).iter().flat_map(Table::problems).collect()
}

impl Table {
    fn of(suite: &SuiteInfo, suites: &[SuiteInfo]) -> Self {
        let is_whole = |it: &&SuiteInfo| suite.part_of.as_ref() == Some(&it.name);
        let mut programs = Vec::new();
        for its in std::iter::once(suite).chain(suites.iter().filter(is_whole)) {
            for program in its.programs.iter().filter(|it| it.is_searched()) {
                let name = match its.name == suite.name {
                    true => program.name.clone(),
                    false => format!("{}/{}", its.name, program.name),
                };
                programs.push((name, pairs_of(program)));
            }
        }
        let mut cells = Vec::new();
        for (i, first) in suite.operations.iter().enumerate() {
            for second in &suite.operations[i..] {
                let pair = ordered(first, second);
                let models = programs.iter().filter(|(_, pairs)| pairs.contains(&pair));
                let mut reasons = suite.no_pairs.iter();
                let reason = reasons.find(|it| ordered(&it.first, &it.second) == pair);
                cells.push(Cell {
                    primitive: suite.name.clone(),
                    first: pair.0.to_owned(),
                    second: pair.1.to_owned(),
                    models: models.map(|(name, _)| name.clone()).collect(),
                    reason: reason.map(|it| it.why.clone()),
                });
            }
        }
        Table {
            primitive: suite.name.clone(),
            operations: suite.operations.clone(),
            cells,
            reasons: suite.no_pairs.clone(),
        }
    }

    /// Returns the cell of two of its operations, in any order.
    pub fn cell(&self, a: &str, b: &str) -> Option<&Cell> {
        let pair = ordered(a, b);
        (self.cells.iter()).find(|cell| (&*cell.first, &*cell.second) == pair)
    }

    /// Returns the problems of the table: those of its cells, and reasons for pairs that do not
    /// exist in the suite.
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.cells.iter().filter_map(Cell::problem).collect();
        for NoPair { first, second, .. } in &self.reasons {
            if self.cell(first, second).is_none() {
                problems.push(format!(
                    "UNKNOWN PAIR: {}: {first} × {second} has a reason, but the suite does \
                     not have both operations",
                    self.primitive
                ));
            }
        }
        problems
    }
}

impl Cell {
    /// Returns the problem of a cell that has neither programs nor a reason, or has both.
    fn problem(&self) -> Option<String> {
        let (primitive, first, second) = (&self.primitive, &self.first, &self.second);
        match (&self.models[..], &self.reason) {
            ([], None) => Some(format!(
                "EMPTY CELL: {primitive}: {first} × {second}: no searched program performs both in \
                 different threads.\n  Add a program, or `.no_pair(\"{first}\", \"{second}\", \
                 \"why\")` to the suite `{primitive}`."
            )),
            ([model, ..], Some(_)) => Some(format!(
                "NEEDLESS REASON: {primitive}: {first} × {second}: {model} performs both. Remove \
                 the suite's `.no_pair`."
            )),
            _ => None,
        }
    }
}
