//! The models of the interval tree.

mod passes;
mod sharded;

use std::process::ExitCode;

use spanlock_interval_lock::IntervalLock;
use spanlock_testkit::models::unwinding::Sleepless;
use spanlock_testkit::{driven, models, primitive};
use spanlock_verify::Program;

/// The Promela model of the ticket protocol, which decides the order of grants.
const PROMELA: &str = "models/promela/ticket.pml";
const BUGS: &[&str] = &[
    "NO_RECHECK",
    "NO_WAKE",
    "WAKE_FIRST",
    "HOLDERS_ONLY",
    "CANCEL_ALL",
    "CLAIM_PART",
    "WAKER_IN_READY",
    "NO_LIMIT",
    "NO_REVOKE",
];

fn main() -> ExitCode {
    // All positions of the programs are in one stripe, hence in one shard.
    let tree = primitive!(
        "interval-tree", IntervalLock::new();
        wait, downgrade, upgrade, upgrade_wait, split, batch
    );
    let sleepless =
        || driven!(IntervalLock::new().with_parking::<Sleepless>(); batch, upgrade_wait);
    let tree = tree.granular().overtakes(0).unwinding(sleepless);
    let suite = models::range_lock(tree, [granted(), passes::program()]);
    spanlock_verify::main([
        suite.check("promela", || models::promela::check(PROMELA, BUGS)),
        sharded::suite(),
    ])
}

/// Checks the protocol with threads that may run for ever.
fn granted() -> Program {
    Program::new(
        "granted",
        "every request is granted in its turn, even if other threads request ranges for ever, \
         provided that every thread keeps running until its operation is complete",
    )
    .threads(3)
    .promela(PROMELA, BUGS)
}
