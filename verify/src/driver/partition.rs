//! One part of the rows, for machines that share them: `--partition 2/3`, as in cargo-nextest.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::models::Task;

/// The `index`-th of `count` parts, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    index: usize,
    count: usize,
}

impl Partition {
    /// Everything in one part.
    pub(super) const WHOLE: Partition = Partition { index: 1, count: 1 };
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.strip_prefix("slice:").unwrap_or(text).split_once('/');
        let numbers = parts.and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, count)) if 1 <= index && index <= count => Ok(Partition { index, count }),
            Some((index, count)) => Err(format!(
                "there is no part {index} of {count}: parts count from 1"
            )),
            None => Err("write K/N: the K-th of N parts, 1/3 for example".to_owned()),
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// Returns the indices of the rows of this part, in order.
///
/// The rows of a program stay together, since they are compared. Programs are dealt in turns, the
/// costly ones first.
pub(super) fn part(tasks: &[Task], partition: Partition) -> Vec<usize> {
    let mut programs: BTreeMap<(&str, &str), (u64, Vec<usize>)> = BTreeMap::new();
    for (i, task) in tasks.iter().enumerate() {
        let program = &task.job.program;
        let (cost, rows) = programs.entry((&program.suite, &program.name)).or_default();
        *cost = cost.saturating_add(task.cost());
        rows.push(i);
    }
    let mut programs: Vec<_> = programs.into_values().collect();
    programs.sort_by_key(|&(cost, _)| Reverse(cost));
    let mine = programs.iter().skip(partition.index - 1);
    let mine = mine.step_by(partition.count).flat_map(|(_, rows)| rows);
    let mut rows: Vec<usize> = mine.copied().collect();
    rows.sort_unstable();
    rows
}
