//! The models of the segment range locks, and of the packed state word.

mod array;
mod bare;
mod packed;
mod packed_word;
mod tree;

use std::process::ExitCode;

use spanlock_range_lock::rw_word::MAX_READERS;
use spanlock_range_lock::words::MAX_PASSES;
use spanlock_srl::SrlArray;
use spanlock_testkit::models::unwinding::Sleepless;
use spanlock_testkit::models::{self, Primitive};
use spanlock_testkit::{driven, primitive};
use spanlock_verify::Suite;

/// The most steps that a thread may take between two finished operations.
const STEP_BOUND: u64 = 96;

fn main() -> ExitCode {
    spanlock_verify::main([
        array::suite(),
        packed::suite(),
        tree::suite(),
        gate(),
        packed_word::suite(),
    ])
}

/// A lock in which a request for two segments is already wide, so it goes through the gate.
fn gate() -> Suite {
    let gate = primitive!(
        "srl-gate", of_four().wide_above(1);
        wait, downgrade, upgrade, split, batch
    );
    let sleepless = || driven!(of_four().wide_above(1).with_parking::<Sleepless>(); batch);
    let gate = of_segments(gate, MAX_READERS).unwinding(sleepless);
    models::range_lock(gate, []).step_bound(STEP_BOUND)
}

fn of_four() -> SrlArray {
    SrlArray::with_segment_size(4, 1).expect("1 is a power of two")
}

/// How many random schedules the full run tries of each scenario, in which a thread performs up to
/// three operations. A search of them would have tens of millions of executions.
const SCHEDULES_OF_SCENARIOS: u64 = 100;

/// Declares the properties that all segment range locks share.
fn of_segments(lock: Primitive, readers: u32) -> Primitive {
    let lock = lock.granular().pieces();
    let lock = lock.schedules_of_scenarios(SCHEDULES_OF_SCENARIOS);
    lock.readers(readers as usize).overtakes(MAX_PASSES)
}
