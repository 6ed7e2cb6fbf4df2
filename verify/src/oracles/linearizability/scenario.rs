//! Scenarios: the operations that the threads of an execution perform.

use std::collections::BTreeSet;
use std::fmt;

use super::history::THREADS;
use super::model::Model;

/// Which scenarios a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenarios {
    /// Every scenario of at most two threads. Each is searched.
    All {
        /// The most operations per thread in the normal run.
        operations: usize,
        /// The most operations per thread in the full run.
        in_full_run: usize,
        /// If set, the full run draws this many schedules of each scenario instead of a search.
        schedules: Option<u64>,
    },
    /// Random scenarios of exactly this size, each under 100 random schedules.
    Sampled {
        /// The number of threads.
        threads: usize,
        /// The number of operations per thread.
        operations: usize,
    },
}

/// The operations of each thread, the main thread first. In its text form, `|` separates the
/// threads: `write(0..1) release | try-read(0..1)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scenario<Op>(pub Vec<Vec<Op>>);

impl<Op: Copy> Scenario<Op> {
    /// Parses the text form of a scenario.
    ///
    /// # Errors
    /// Fails if the scenario has too many threads, an operation that the model does not have, or a
    /// thread that is not well-formed.
    pub fn parse<M: Model<Op = Op>>(model: &M, text: &str) -> Result<Self, String> {
        let thread = |text: &str| -> Result<Vec<Op>, String> {
            let words = text.split_whitespace();
            let ops: Vec<Op> = words.map(|it| model.parse(it)).collect::<Result<_, _>>()?;
            match model.is_well_formed(&ops) {
                true => Ok(ops),
                false => Err(format!(
                    "`{text}`: this thread could wait for itself, or performs a useless operation"
                )),
            }
        };
        let threads = text.split('|').map(thread);
        let threads: Vec<_> = threads.collect::<Result<_, _>>()?;
        match threads.len() > THREADS {
            true => Err(format!("{} threads; the limit is {THREADS}", threads.len())),
            false => Ok(Scenario(threads)),
        }
    }

    /// Returns the well-formed scenarios that lack a thread, or one or two operations of a thread.
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
            // Two, because an acquisition can often be removed only together with its release.
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

    /// Returns every scenario of one or two threads with at most `most` operations each. Those
    /// that differ only in the order of the threads count once.
    pub fn of_two<M: Model<Op = Op>>(model: &M, most: usize) -> impl Iterator<Item = Self> {
        let each = model.threads(most);
        // `each[0]` is the thread without operations.
        let pairs = (1..each.len()).flat_map(|i| (0..=i).map(move |j| (i, j)));
        pairs.map(move |(i, j)| {
            let mut threads = vec![each[i].clone(), each[j].clone()];
            threads.retain(|thread| !thread.is_empty());
            Scenario(threads)
        })
    }

    /// Returns the number of scenarios that [`of_two`](Self::of_two) returns.
    pub fn count_of_two<M: Model<Op = Op>>(model: &M, most: usize) -> usize {
        let each = model.threads(most).len();
        // All pairs of threads with operations, and each such thread alone.
        (each - 1) * each / 2 + (each - 1)
    }

    /// Draws `how_many` different scenarios in which each of `threads` threads has exactly
    /// `operations` operations, or a twentieth of all possible draws if that is fewer. `number`
    /// returns random numbers.
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
            // The order of the threads does not matter.
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
