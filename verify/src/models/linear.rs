//! Linearizability of generated scenarios: all of two threads, and a sample of those with more operations and of three threads.

use std::collections::BTreeSet;

use crate::linear::scenario::{Alphabet, Scenario, Thread, threads};
use crate::linear::spec::Rules;
use crate::primitives::{PRIMITIVES, Primitive};
use crate::program::{Program, Run};

/// Operations of each of two threads, at most, of which every scenario is searched but in the full run.
pub const FEW: usize = 2;

/// Locks whose scenarios of three operations each are too many to be searched: tens of millions of executions. Each runs under [`OF_EACH`] random schedules instead.
pub const ENDLESS: &[&str] = &["srl-tree", "srl-gate"];

/// Random schedules of a row of scenarios that are drawn.
pub const SCHEDULES: u64 = 20_000;

/// The same in the full run.
pub const MANY_SCHEDULES: u64 = 100_000;

/// Schedules of each scenario that is not searched.
pub const OF_EACH: u64 = 100;

/// The variable that names the one scenario to run instead of a row's.
pub const SCENARIO: &str = "SPANLOCK_SCENARIO";

/// Which scenarios a row is about.
#[derive(Clone, Copy)]
pub struct Scenarios {
    /// The lock.
    pub primitive: &'static Primitive,
    /// What its threads may do.
    pub alphabet: Alphabet,
    /// How many threads there are.
    pub threads: usize,
    /// Operations of each, at most.
    pub operations: usize,
}

impl Scenarios {
    /// What of the contract depends on the lock.
    pub fn rules(&self) -> Rules {
        Rules {
            granular: self.primitive.granular,
            pieces: self.primitive.pieces,
            readers: self.primitive.readers,
        }
    }

    fn each(&self, most: usize) -> Vec<Thread> {
        threads(&self.alphabet.ops(self.primitive), most)
    }

    /// All scenarios of one or two threads with at most so many operations each, but for the names of threads.
    pub fn of_two(&self, most: usize) -> impl Iterator<Item = Scenario> {
        let each = self.each(most);
        // The first is the thread that does nothing.
        let pairs = (1..each.len()).flat_map(|i| (0..=i).map(move |j| (i, j)));
        pairs.map(move |(i, j)| {
            let idle = each[j].is_empty();
            let both = [each[i].clone(), each[j].clone()];
            Scenario(both.into_iter().take(if idle { 1 } else { 2 }).collect())
        })
    }

    /// How many those are.
    pub fn count(&self, most: usize) -> usize {
        let each = self.each(most).len();
        // Of those that do something, as many pairs as there are, and each alone.
        (each - 1) * each / 2 + (each - 1)
    }

    /// So many different ones of full size, drawn by `number`, or all that there are.
    pub fn drawn(&self, how_many: usize, mut number: impl FnMut() -> u64) -> Vec<Scenario> {
        let mut each = self.each(self.operations);
        each.retain(|thread| thread.len() == self.operations);
        let all = (each.len() as u64).saturating_pow(self.threads as u32);
        let mut drawn = BTreeSet::new();
        let mut scenarios = Vec::new();
        // Half of them at most: the names of threads do not count.
        while (scenarios.len() as u64) < (how_many as u64).min(all / 20) {
            let draw = |_| (number() % each.len() as u64) as usize;
            let mut picked: Vec<usize> = (0..self.threads).map(draw).collect();
            picked.sort_unstable();
            if drawn.insert(picked.clone()) {
                let threads = picked.into_iter().map(|i| each[i].clone());
                scenarios.push(Scenario(threads.collect()));
            }
        }
        scenarios
    }
}

/// Every lock's scenarios.
pub fn programs() -> Vec<Program> {
    let core = "what callers see of locks, tries, releases and downgrades has an explanation by a list of holds";
    let all = "the same of all operations, in scenarios that are drawn";
    let sizes = [
        ("linearizable", core, Alphabet::Core, 2, 3),
        ("linearizable-2", all, Alphabet::All, 2, 3),
        ("linearizable-3", all, Alphabet::All, 3, 2),
    ];
    let of = |primitive: &'static Primitive| {
        sizes.map(|(property, claim, alphabet, threads, operations)| Program {
            primitive: primitive.name,
            property,
            claim,
            threads: threads as u32,
            operations: (threads * operations) as u32,
            performs: Vec::new(),
            faults: &[],
            expected: None,
            run: Run::Scenarios(Scenarios {
                primitive,
                alphabet,
                threads,
                operations,
            }),
        })
    };
    PRIMITIVES.iter().flat_map(of).collect()
}
