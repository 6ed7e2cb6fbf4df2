//! The models of the segment range locks, and of the packed state word.

mod bare;
mod packed;
mod packed_word;
mod tree;

use std::process::ExitCode;

use spanlock_range_lock::rw_word::MAX_READERS;
use spanlock_range_lock::words::MAX_PASSES;
use spanlock_srl::SrlArray;
use spanlock_testkit::models::{self, Primitive};
use spanlock_testkit::primitive;
use spanlock_verify::{Mode, Suite};

/// Steps of a thread between two finished operations.
const STEP_BOUND: u64 = 96;

fn main() -> ExitCode {
    spanlock_verify::main([
        array(),
        packed::suite(),
        tree::suite(),
        gate(),
        packed_word::suite(),
    ])
}

fn array() -> Suite {
    let array = primitive!("srl-array", of_four(); wait, downgrade, upgrade, split, batch);
    let array = of_segments(array, MAX_READERS);
    models::range_lock(bounded_batches(array), []).step_bound(STEP_BOUND)
}

/// A lock in which two segments are already wide.
fn gate() -> Suite {
    let gate = primitive!(
        "srl-gate", of_four().wide_above(1);
        wait, downgrade, upgrade, split, batch
    );
    let gate = of_segments(gate, MAX_READERS).schedules_of_scenarios(SCHEDULES_OF_SCENARIOS);
    models::range_lock(gate, []).step_bound(STEP_BOUND)
}

fn of_four() -> SrlArray {
    SrlArray::with_segment_size(4, 1).expect("1 is a power of two")
}

/// Schedules of each scenario of three operations a thread, where a search of all of them would
/// take tens of millions of executions.
const SCHEDULES_OF_SCENARIOS: u64 = 100;

/// Declares the properties that all segment range locks share.
fn of_segments(lock: Primitive, readers: u32) -> Primitive {
    let lock = lock.granular().pieces();
    lock.readers(readers as usize).overtakes(MAX_PASSES)
}

/// Bounds the search that does not end in ten minutes.
fn bounded_batches(lock: Primitive) -> Primitive {
    lock.bounded_in(
        "batch-across",
        Mode::Weak,
        3,
        "two requests for two segments each wait for each other through words, gate and entries, \
         with all stale loads: the search does not end in ten minutes; loom's other mode and \
         shuttle search the program to its end",
    )
}
