//! Random programs: the explorer must visit exactly the executions that an oracle finds.
//!
//! For 100,000 programs of each seed against each oracle:
//!
//! ```text
//! SPANLOCK_ROUNDS=200 cargo test --release -p spanlock-explorer --lib random
//! ```

use super::execution::Executions;
use super::program::{Program, Sizes};
use super::{MODELS, axioms, explored, naive};
use crate::Model;

/// Programs that the axioms can judge.
pub(super) const SMALL: Sizes = Sizes {
    statements: [4, 3, 2],
    locations: 3,
};

/// Programs most of which the naive search can judge.
const LARGE: Sizes = Sizes {
    statements: [5, 4, 3],
    locations: 3,
};

/// The most graphs of the naive search for a program. Programs that have more are skipped.
const GRAPHS: usize = 3_000;

/// The programs that are drawn with each seed; `SPANLOCK_ROUNDS` multiplies them.
const PROGRAMS: usize = 500;

fn compare(seed: u64, sizes: Sizes, oracle: fn(&Program, Model) -> Option<Executions>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let programs = scaled(PROGRAMS);
    let mut compared = 0;
    for number in 0..programs {
        let program = Program::random(&mut random, sizes);
        let model = MODELS[number % MODELS.len()];
        let difference = |program: &Program| {
            let expected = oracle(program, model)?;
            Some(explored::difference(program, model, &expected))
        };
        let Some(found) = difference(&program) else {
            continue;
        };
        compared += 1;
        if !found.is_empty() {
            let program = program.shrink(|it| difference(it).is_some_and(|it| !it.is_empty()));
            let found = difference(&program).unwrap_or_default();
            panic!("{model:?}\n{program}{found}");
        }
    }
    assert!(
        compared * 10 > programs * 9,
        "{compared} of {programs} programs compared"
    );
}

/// Multiplies a number by `SPANLOCK_ROUNDS`, which `.ci/full` sets, and rounds up.
fn scaled(number: usize) -> usize {
    let given = std::env::var("SPANLOCK_ROUNDS").ok();
    let factor = given.map_or(1.0, |it| it.parse().expect("SPANLOCK_ROUNDS is a number"));
    (number as f64 * factor).ceil() as usize
}

macro_rules! seeds {
    ($($axioms:ident, $naive:ident: $seed:literal;)*) => {$(
        #[test]
        fn $axioms() {
            compare($seed, SMALL, |program, model| Some(axioms::executions(program, model)));
        }

        #[test]
        fn $naive() {
            compare($seed, LARGE, |program, model| naive::executions(program, model, GRAPHS));
        }
    )*};
}

seeds! {
    axioms_agree_1, naive_search_agrees_1: 1;
    axioms_agree_2, naive_search_agrees_2: 2;
    axioms_agree_3, naive_search_agrees_3: 3;
    axioms_agree_4, naive_search_agrees_4: 4;
}
