//! How much a test does. `.ci/full` lets the longest tests do more, and slow sanitizers less.

use std::env;
use std::str::FromStr;

/// The environment variable that multiplies the number of operations, images or cases.
pub const ROUNDS: &str = "SPANLOCK_ROUNDS";

/// Returns the number in an environment variable, or `otherwise` if it is not set.
///
/// # Panics
/// If the variable is not a number.
pub fn number<N: FromStr>(variable: &str, otherwise: N) -> N {
    let given = env::var(variable).ok();
    given.map_or(otherwise, |given| {
        given
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={given} is not a number"))
    })
}

/// Returns the factor in [`ROUNDS`].
///
/// # Panics
/// If it is not a number.
pub fn factor() -> f64 {
    number(ROUNDS, 1.0)
}

/// Multiplies a number by [`ROUNDS`], and rounds up.
///
/// # Panics
/// If the variable is not a number.
pub fn scaled(number: usize) -> usize {
    (number as f64 * factor()).ceil() as usize
}
