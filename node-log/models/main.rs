//! Models of whole volumes, with every image that a crash may leave, and of the parts that threads
//! share: the rendezvous, the flush of the data half, the log's segments, and the node cache.

mod cache;
mod crashes;
mod files;
mod loads;
mod media;
mod meetings;
mod segments;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut suites = vec![
        meetings::rendezvous(),
        meetings::flush(),
        segments::suite(),
        cache::suite(),
        loads::suite(),
    ];
    suites.extend(crashes::suites());
    spanlock_verify::main(suites)
}
