//! The models of the whole-range reader-writer locks, and of their state word.

mod word;

use std::process::ExitCode;

use spanlock_range_lock::rw_word::MAX_READERS;
use spanlock_range_lock::words::MAX_PASSES;
use spanlock_range_lock::{RwCounter, RwDistributed};
use spanlock_testkit::models::unwinding::Sleepless;
use spanlock_testkit::{driven, models, primitive};
use spanlock_verify::Suite;

fn main() -> ExitCode {
    spanlock_verify::main([counter(), distributed(), word::suite()])
}

fn counter() -> Suite {
    let counter = primitive!(
        "rw-counter", RwCounter::new();
        wait, downgrade, upgrade, split, batch
    );
    let counter = counter.readers(MAX_READERS as usize).overtakes(MAX_PASSES);
    let counter = counter.unwinding(|| driven!(RwCounter::<Sleepless>::default(); batch));
    models::range_lock(counter, [])
}

/// How many random schedules the full run tries of each scenario of the distributed lock, in which
/// a thread performs up to three operations. A search would have millions of executions.
const SCHEDULES_OF_SCENARIOS: u64 = 100;

/// Overtaking is not modelled. While a writer waits at one slot, it does not matter how many
/// readers overtake it at the other slot, because they do not delay it.
fn distributed() -> Suite {
    let distributed = primitive!(
        "rw-distributed", RwDistributed::with_slots(2);
        wait, downgrade, upgrade, split, batch
    );
    let sleepless = || driven!(RwDistributed::with_slots(2).with_parking::<Sleepless>(); batch);
    let distributed = distributed.pieces().unwinding(sleepless);
    let distributed = distributed.readers(MAX_READERS as usize);
    let distributed = distributed.unexplored(&["exclusion-3"]);
    let distributed = distributed.schedules_of_scenarios(SCHEDULES_OF_SCENARIOS);
    models::range_lock(distributed, []).step_bound(64)
}
