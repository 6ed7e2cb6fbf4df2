//! Which programs have which two operations of a primitive in different threads: the tables of
//! pairs.
//!
//! A cell names the programs in which one thread performs the one operation and another thread the
//! other. Only searched programs count, not random schedules. A search fails if a thread never
//! performs what its program says. A cell without a program needs a reason
//! ([`Suite::no_pair`](crate::Suite::no_pair)).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::info::{ProgramInfo, SuiteInfo};

/// Two operations, the lesser first.
pub type Pair<'a> = (&'a str, &'a str);

/// The pairs of a suite.
#[derive(Clone, Debug)]
pub struct Table {
    /// The primitive.
    pub primitive: String,
    /// Its operations, in the order of rows and columns.
    pub operations: Vec<String>,
    /// A cell for each two of them.
    pub cells: Vec<Cell>,
}

/// Two operations of a primitive.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The primitive.
    pub primitive: String,
    /// One operation.
    pub first: String,
    /// The other, or the same.
    pub second: String,
    /// The programs, by property; with their suite, if that is another.
    pub models: Vec<String>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// Returns each two of these operations, each with itself too.
pub fn pairs(operations: &[String]) -> impl Iterator<Item = Pair<'_>> {
    operations.iter().enumerate().flat_map(move |(i, first)| {
        let rest = operations[i..].iter();
        rest.map(move |second| ordered(first, second))
    })
}

/// Returns the table of each suite that has one.
pub fn tables(suites: &[SuiteInfo]) -> Vec<Table> {
    let mut models: BTreeMap<(&str, Pair), Vec<String>> = BTreeMap::new();
    for suite in suites {
        let parts = suites.iter();
        let parts = parts.filter(|it| it.part_of.as_deref() == Some(&*suite.name));
        for program in suite.programs.iter().filter(|it| it.is_searched()) {
            for pair in pairs_of(program) {
                let its = models.entry((&suite.name, pair)).or_default();
                its.push(program.name.clone());
                for part in parts.clone() {
                    let its = models.entry((&part.name, pair)).or_default();
                    its.push(format!("{}/{}", suite.name, program.name));
                }
            }
        }
    }
    let table = |suite: &SuiteInfo| {
        let cell = |pair: Pair| {
            let mut reasons = suite.no_pairs.iter();
            let reason = reasons.find(|it| ordered(&it.first, &it.second) == pair);
            let models = models.get(&(&*suite.name, pair)).cloned();
            Cell {
                primitive: suite.name.clone(),
                first: pair.0.to_owned(),
                second: pair.1.to_owned(),
                models: models.unwrap_or_default(),
                reason: reason.map(|it| it.why.clone()),
            }
        };
        Table {
            primitive: suite.name.clone(),
            operations: suite.operations.clone(),
            cells: pairs(&suite.operations).map(cell).collect(),
        }
    };
    (suites.iter().filter(|it| it.has_pairs).map(table)).collect()
}

impl Table {
    /// Returns the cell of two of its operations, in any order.
    pub fn cell(&self, a: &str, b: &str) -> Option<&Cell> {
        let pair = ordered(a, b);
        (self.cells.iter()).find(|cell| (&*cell.first, &*cell.second) == pair)
    }
}

impl Cell {
    /// Returns what is wrong with the cell and what to do, unless it names programs, or has a
    /// reason not to.
    pub fn problem(&self) -> Option<String> {
        let (primitive, first, second) = (&self.primitive, &self.first, &self.second);
        match (&self.models[..], &self.reason) {
            ([], None) => Some(format!(
                "EMPTY CELL: {primitive}: {first} × {second}: no searched program performs them in \
                 different threads.\n  Add a program, or `.no_pair(\"{first}\", \"{second}\", \
                 \"why\")` to the suite `{primitive}`."
            )),
            ([model, ..], Some(_)) => Some(format!(
                "NEEDLESS REASON: {primitive}: {first} × {second}: {model} performs them. Remove \
                 the suite's `.no_pair`."
            )),
            _ => None,
        }
    }
}

/// Returns what is wrong with the suites' tables: cells, and reasons for cells that do not exist.
pub fn problems(suites: &[SuiteInfo]) -> Vec<String> {
    let mut problems = Vec::new();
    let tables = tables(suites);
    for table in &tables {
        problems.extend(table.cells.iter().filter_map(Cell::problem));
        let suite = suites.iter().find(|it| it.name == table.primitive);
        for reason in suite.into_iter().flat_map(|it| &it.no_pairs) {
            if table.cell(&reason.first, &reason.second).is_none() {
                problems.push(format!(
                    "UNKNOWN PAIR: {}: {} × {} has a reason, and one of them is no operation of \
                     the suite",
                    table.primitive, reason.first, reason.second
                ));
            }
        }
    }
    problems
}
