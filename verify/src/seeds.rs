//! The seed of random programs and scenarios.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::execution::{SEED, refuse};

/// Returns the seed of random programs and scenarios.
pub(crate) fn seed() -> u64 {
    let refused = |given: &str| refuse(&format!("{SEED}={given}: not a number"));
    let parse = |given: String| given.parse().unwrap_or_else(|_| refused(&given));
    std::env::var(SEED).map_or(1, parse)
}

/// Returns a runner that draws the same values for the same seed.
pub(crate) fn runner(seed: u64, cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        // In milliseconds.
        max_shrink_time: 5_000,
        ..Config::default()
    };
    let mut bytes = [0x5A; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    // The cheapest generator, because each choice between strategies creates another one.
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &bytes))
}
