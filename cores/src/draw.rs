//! Numbers that look random and are the same in each run.

use std::cell::Cell;

/// Returns the state of a generator. Of layout 0 or without a number, it draws nothing but 0.
pub(crate) fn seeded(seed: u64, number: u64) -> u64 {
    let mixed =
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03);
    if seed == 0 && number == 0 {
        0
    } else {
        mixed | 1
    }
}

/// Draws a number of 32 bits. This is Marsaglia's xorshift64*.
pub(crate) fn next(state: &Cell<u64>) -> u64 {
    let mut x = state.get();
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    state.set(x);
    x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
}
