//! Models of the parts that threads share: the rendezvous, the flush of the data half, the log's
//! segments, and the node cache.

mod cache;
mod meetings;
mod segments;

use std::process::ExitCode;

fn main() -> ExitCode {
    spanlock_verify::main([
        meetings::rendezvous(),
        meetings::flush(),
        segments::suite(),
        cache::suite(),
    ])
}
