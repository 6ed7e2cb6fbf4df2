//! How much a test does.

/// Multiplies a number by `SPANLOCK_ROUNDS`, which `.ci/full` sets, and rounds up.
pub(crate) fn scaled(number: usize) -> usize {
    let given = std::env::var("SPANLOCK_ROUNDS").ok();
    let factor = given.map_or(1.0, |it| it.parse().expect("SPANLOCK_ROUNDS is a number"));
    (number as f64 * factor).ceil() as usize
}
