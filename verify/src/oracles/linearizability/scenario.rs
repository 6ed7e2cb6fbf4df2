//! What the threads of an execution do.

use std::collections::BTreeSet;
use std::fmt;

use super::{Model, THREADS};

/// The operations of each thread, the main thread first. A person writes them with `|` between
/// threads: `write(0..1) release | try-read(0..1)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scenario<Op>(pub Vec<Vec<Op>>);

impl<Op: Copy> Scenario<Op> {
    /// Reads a scenario as it is displayed.
    ///
    /// # Errors
    /// It has too many threads, an operation that the model does not have, or a thread that is not
    /// well-formed.
    pub fn parse<M: Model<Op = Op>>(model: &M, text: &str) -> Result<Self, String> {
        let thread = |text: &str| -> Result<Vec<Op>, String> {
            let words = text.split_whitespace();
            let ops: Vec<Op> = words.map(|it| model.parse(it)).collect::<Result<_, _>>()?;
            match model.is_well_formed(&ops) {
                true => Ok(ops),
                false => Err(format!(
                    "`{text}`: a thread that can wait for what it holds, or does something in vain"
                )),
            }
        };
        let threads = text.split('|').map(thread);
        let threads: Vec<_> = threads.collect::<Result<_, _>>()?;
        match threads.len() > THREADS {
            true => Err(format!("{} threads, of at most {THREADS}", threads.len())),
            false => Ok(Scenario(threads)),
        }
    }

    /// Returns the scenarios that are one step smaller and still well-formed: without a thread, or
    /// without one or two operations.
    pub fn smaller<M: Model<Op = Op>>(&self, model: &M) -> Vec<Self> {
        let mut smaller = Vec::new();
        for (i, thread) in self.0.iter().enumerate() {
            let with = |instead: Option<Vec<Op>>| {
                let mut threads = self.0.clone();
                threads.splice(i..=i, instead);
                Scenario(threads)
            };
            if self.0.len() > 1 {
                smaller.push(with(None));
            }
            // Two, since an operation that acquires can often go only with its release.
            let ends = (0..thread.len()).flat_map(|at| (0..=at).map(move |first| (first, at)));
            for (first, second) in ends {
                let kept = thread.iter().enumerate();
                let kept = kept.filter(|&(at, _)| at != first && at != second);
                let less: Vec<Op> = kept.map(|(_, &op)| op).collect();
                if model.is_well_formed(&less) {
                    smaller.push(with(Some(less)));
                }
            }
        }
        smaller
    }

    /// Returns every scenario of one or two threads with at most `most` operations each, up to the
    /// names of threads.
    pub fn of_two<M: Model<Op = Op>>(model: &M, most: usize) -> impl Iterator<Item = Self> {
        let each = model.threads(most);
        // The first is the thread that does nothing.
        let pairs = (1..each.len()).flat_map(|i| (0..=i).map(move |j| (i, j)));
        pairs.map(move |(i, j)| {
            let mut threads = vec![each[i].clone(), each[j].clone()];
            threads.retain(|thread| !thread.is_empty());
            Scenario(threads)
        })
    }

    /// Returns how many those are.
    pub fn count_of_two<M: Model<Op = Op>>(model: &M, most: usize) -> usize {
        let each = model.threads(most).len();
        // The pairs of threads that do something, and each such thread alone.
        (each - 1) * each / 2 + (each - 1)
    }

    /// Draws distinct scenarios of full size, with random numbers from `number`: `how_many`, or a
    /// twentieth of all possible draws if that is fewer.
    pub fn drawn<M: Model<Op = Op>>(
        model: &M,
        (threads, operations): (usize, usize),
        how_many: usize,
        mut number: impl FnMut() -> u64,
    ) -> Vec<Self> {
        let mut each = model.threads(operations);
        each.retain(|thread| thread.len() == operations);
        let all = (each.len() as u64).saturating_pow(threads as u32);
        let mut drawn = BTreeSet::new();
        let mut scenarios = Vec::new();
        while (scenarios.len() as u64) < (how_many as u64).min(all / 20) {
            let draw = |_| (number() % each.len() as u64) as usize;
            let mut picked: Vec<usize> = (0..threads).map(draw).collect();
            // The names of threads do not count.
            picked.sort_unstable();
            if drawn.insert(picked.clone()) {
                let threads = picked.into_iter().map(|i| each[i].clone());
                scenarios.push(Scenario(threads.collect()));
            }
        }
        scenarios
    }
}

impl<Op: fmt::Display> fmt::Display for Scenario<Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = |ops: &Vec<Op>| Vec::from_iter(ops.iter().map(Op::to_string)).join(" ");
        f.write_str(&Vec::from_iter(self.0.iter().map(thread)).join(" | "))
    }
}
