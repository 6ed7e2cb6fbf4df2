//! Crashes of the file core: every pair of operations in two threads, and sequences of operations,
//! with every image that a crash may leave.

mod store;

use std::process::ExitCode;
use std::sync::Arc;

use spanlock_testkit::crashes::{MakeMedium, sequences, threads};
use spanlock_verify::{Mode, Suite};

use store::{Files, KINDS, Kind, at_page_end, full, number, roomy};

fn main() -> ExitCode {
    spanlock_verify::main([
        suite("file-core", Arc::new(roomy), &BOTH, 3),
        suite("file-core-page-end", Arc::new(at_page_end), &BOTH, 2),
        suite("file-core-full", Arc::new(full), &[Mode::Cut], 2),
    ])
}

/// `cut` finds all images with the fewest executions. `global` must find the same.
const BOTH: [Mode; 2] = [Mode::Cut, Mode::Global];

const CLAIM: &str = "after a crash, every operation that returned is there, every other one is \
                     there as a whole or not at all, and the volume goes on working";

/// Returns the programs on one volume. Pairs run in `modes`; sequences have up to `length`
/// operations.
fn suite(name: &str, medium: MakeMedium, modes: &[Mode], length: u32) -> Suite {
    let files = Arc::new(Files);
    let mut suite = Suite::new(name).step_bound(2_000);
    for (at, one) in KINDS.iter().enumerate() {
        for other in &KINDS[at..] {
            let name = format!("{}-{}", one.name(), other.name());
            let operations: [&[u32]; 2] = [&[number(*one, 0)], &[number(*other, 1)]];
            let program = threads(&name, CLAIM, &files, &medium, &operations, modes);
            suite = suite.program(program);
        }
    }
    let name = "patch-append-create";
    let kinds = [Kind::Patch, Kind::Append, Kind::Create];
    let [one, two, three] = [0, 1, 2].map(|thread| [number(kinds[thread], thread as u32)]);
    let three: [&[u32]; 3] = [&one, &two, &three];
    suite = suite.program(threads(name, CLAIM, &files, &medium, &three, &[Mode::Cut]));
    for length in 1..=length {
        let name = format!("sequences-of-{length}");
        let operations = KINDS.map(|kind| number(kind, 0));
        let program = sequences(&name, CLAIM, &files, &medium, &operations, length);
        suite = suite.program(program);
    }
    suite
}
