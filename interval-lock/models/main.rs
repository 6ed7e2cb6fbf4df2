//! What the checkers show of the interval tree.

use std::process::ExitCode;

use spanlock_interval_lock::IntervalLock;
use spanlock_testkit::{models, primitive};
use spanlock_verify::Program;

fn main() -> ExitCode {
    let tree = primitive!(
        "interval-tree", IntervalLock::new();
        wait, downgrade, upgrade, upgrade_wait, split, batch
    );
    spanlock_verify::main([models::range_lock(
        tree.granular().overtakes(0),
        [granted()],
    )])
}

/// The ticket protocol with threads that go on for ever.
fn granted() -> Program {
    Program::new(
        "granted",
        "every request is granted in its turn, whatever the other threads do for ever, if no \
         thread stops",
    )
    .threads(3)
    .promela(
        "models/promela/ticket.pml",
        &[
            "NO_RECHECK",
            "NO_WAKE",
            "WAKE_FIRST",
            "HOLDERS_ONLY",
            "CANCEL_ALL",
        ],
    )
}
