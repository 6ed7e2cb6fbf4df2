//! Litmus tests of the checkers: small programs whose outcomes are known, so that errors in a
//! checker are noticed.
//!
//! A model states which outcomes C++20, and so Rust, allows. It also states how each mode of a
//! checker deviates: which allowed outcomes it **misses**, and which other outcomes it **adds**.
//! Each deviation names its [`BlindSpot`], with the consequence for our locks. A row (one model in
//! one mode) passes only if the mode deviates exactly as stated. So if a checker improves, the row
//! fails until the deviation is removed.
//!
//! - [`memory`]: programs of loads, stores, read-modify-writes and fences, written as data. Each
//!   program lists its allowed outcomes. [`axioms`] derives them a second time from the definitions
//!   of the standard, and a check compares the two.
//! - [`facade`]: mutexes, condition variables, parking, the wait queue of `spanlock-sync`, and
//!   fault plans, which list the faults to inject.
//! - [`page`]: generates `docs/checkers.md` from the models.

mod axioms;
mod blind;
mod coherence;
mod facade;
mod memory;
mod page;
mod passing;
mod rmw;
mod sc;

use std::collections::BTreeSet;
use std::sync::Arc;

use blind::{ALL as BLIND_SPOTS, BlindSpot};
use memory::Memory;

use spanlock_verify::{Expected, Fault, Mode, Program, Suite};

/// How one mode deviates from what is allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deviation {
    /// The mode.
    pub mode: Mode,
    /// Allowed outcomes that the mode does not show, in the form of [`Litmus::allowed`].
    pub misses: &'static str,
    /// Outcomes that the mode shows although they are not allowed.
    pub adds: &'static str,
    /// The reason for the deviation, and its consequence.
    pub spot: &'static BlindSpot,
}

/// Returns the deviation of a mode that does not show these outcomes.
const fn misses(mode: Mode, misses: &'static str, spot: &'static BlindSpot) -> Deviation {
    Deviation {
        mode,
        misses,
        adds: "",
        spot,
    }
}

/// Returns the deviation of a mode that also shows these outcomes.
const fn adds(mode: Mode, adds: &'static str, spot: &'static BlindSpot) -> Deviation {
    Deviation {
        mode,
        misses: "",
        adds,
        spot,
    }
}

/// The statement of a litmus model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Litmus {
    /// Its name.
    pub name: &'static str,
    /// Its claim, in one line.
    pub claim: &'static str,
    /// Why exactly these outcomes are allowed: a rule of C++20 (with the paragraph of N4861, its
    /// last draft), or the documentation of a function.
    pub reason: &'static str,
    /// The allowed outcomes, separated by spaces. Each has one character per value, in the order of
    /// [`pattern`](Model::pattern).
    pub allowed: &'static str,
    /// How modes deviate. A mode without a deviation shows exactly the allowed outcomes.
    pub deviations: &'static [Deviation],
}

/// A model: a statement, and the program that it is about.
#[derive(Clone)]
pub(crate) struct Model {
    /// The statement.
    pub litmus: Litmus,
    /// The form of an outcome, with a `_` for each value: `T0:y=_ T1:x=_`.
    pub pattern: String,
    /// The program, as text.
    pub text: String,
    threads: u32,
    operations: u32,
    faults: &'static [Fault],
    /// Whether the program uses the checker's own mutexes, condition variables or `park`, not the
    /// facade's.
    is_bare: bool,
    run: Arc<dyn Fn() + Send + Sync>,
}

/// The models of atomic operations.
const MEMORY: [&[Memory]; 4] = [passing::ALL, sc::ALL, coherence::ALL, rmw::ALL];

/// Every model.
pub(crate) fn models() -> Vec<Model> {
    let memory = MEMORY.into_iter().flatten();
    let mut models: Vec<_> = memory.map(Memory::model).collect();
    models.extend(facade::models());
    models
}

/// Every litmus program.
pub(crate) fn suite() -> Suite {
    Suite::new("litmus")
        .programs(models().iter().map(Model::program))
        .check(
            "models-are-stated-soundly",
            checks::models_are_stated_soundly,
        )
        .check(
            "the-axioms-allow-the-same",
            checks::the_axioms_allow_the_same,
        )
        .check(
            "each-blind-spot-has-a-model",
            checks::each_blind_spot_has_a_model,
        )
        .check("the-page-says-what-the-models-say", page::check)
}

impl Model {
    /// Returns the program that the rows of this model run.
    fn program(&self) -> Program {
        let outcomes = |values: &str| -> BTreeSet<_> {
            let values = values.split_whitespace();
            values.map(|values| self.outcome(values)).collect()
        };
        let mut expected = Expected {
            allowed: outcomes(self.litmus.allowed),
            ..Expected::default()
        };
        for deviation in self.litmus.deviations {
            let known = expected.deviations.entry(deviation.mode).or_default();
            known.misses.append(&mut outcomes(deviation.misses));
            known.adds.append(&mut outcomes(deviation.adds));
        }
        let run = self.run.clone();
        let program = Program::new(self.litmus.name, self.litmus.claim)
            .threads(self.threads as usize)
            .operations(self.operations as usize)
            .expects(expected)
            .run(move || run());
        let program = if self.is_bare {
            program.without_facade()
        } else {
            program
        };
        self.faults
            .iter()
            .fold(program, |it, &fault| it.fault(fault))
    }

    /// Fills values into the pattern, as a row prints an outcome.
    fn outcome(&self, values: &str) -> String {
        let mut values = values.chars();
        let fill = |c| {
            if c == '_' {
                values.next().expect("a value for each `_`")
            } else {
                c
            }
        };
        let outcome: String = self.pattern.chars().map(fill).collect();
        assert_eq!(
            values.next(),
            None,
            "{}: more values than `_`",
            self.litmus.name
        );
        outcome
    }
}

mod checks {
    use super::*;

    fn set(values: &str) -> BTreeSet<&str> {
        let set: BTreeSet<_> = values.split_whitespace().collect();
        assert_eq!(
            set.len(),
            values.split_whitespace().count(),
            "{values}: an outcome is listed twice"
        );
        set
    }

    pub(super) fn models_are_stated_soundly() {
        let models = models();
        assert!(models.len() >= 25, "{}", models.len());
        let mut names = BTreeSet::new();
        for model in &models {
            let litmus = &model.litmus;
            assert!(
                names.insert(litmus.name),
                "two models are named {}",
                litmus.name
            );
            assert!(!litmus.reason.is_empty(), "{}", litmus.name);
            let allowed = set(litmus.allowed);
            for deviation in litmus.deviations {
                let (misses, adds) = (set(deviation.misses), set(deviation.adds));
                assert!(misses.is_subset(&allowed), "{} {deviation:?}", litmus.name);
                assert!(adds.is_disjoint(&allowed), "{} {deviation:?}", litmus.name);
                assert!(
                    !(misses.is_empty() && adds.is_empty()),
                    "{} {deviation:?}",
                    litmus.name
                );
            }
            // Every outcome fits the pattern.
            model.program();
        }
    }

    /// Compares the outcomes that each program states with those that the axioms derive.
    pub(super) fn the_axioms_allow_the_same() {
        let mut wrong = Vec::new();
        for memory in MEMORY.into_iter().flatten() {
            let derived = axioms::allowed(memory);
            let derived: BTreeSet<_> = derived.iter().map(String::as_str).collect();
            if derived != set(memory.litmus.allowed) {
                let derived = derived.into_iter().collect::<Vec<_>>().join(" ");
                wrong.push(format!("{}: {derived}", memory.litmus.name));
            }
        }
        assert!(
            wrong.is_empty(),
            "the axioms derive other outcomes:\n{}",
            wrong.join("\n")
        );
    }

    /// Checks that each blind spot is shown by at least one model.
    pub(super) fn each_blind_spot_has_a_model() {
        let models = models();
        for spot in BLIND_SPOTS {
            let shown = models.iter().flat_map(|model| model.litmus.deviations);
            assert!(
                shown.into_iter().any(|deviation| deviation.spot == *spot),
                "{}",
                spot.name
            );
        }
    }
}
