//! The file core under a checker: crashes of every pair of operations in two threads and of
//! sequences of operations, with every image that a crash may leave; races in memory; and histories
//! of concurrent operations.

mod format;
mod histories;
mod index;
mod memory;
mod store;

use std::process::ExitCode;
use std::sync::Arc;

use spanlock_testkit::crashes::{MakeMedium, sequences, threads};
use spanlock_verify::{Mode, Program, Suite};

use store::{Files, KINDS, Kind, LONG, SHORT, at_page_end, cleaned, full, number, roomy};

fn main() -> ExitCode {
    let volume = |name, make: fn() -> Vec<u8>, created| On {
        name,
        medium: Arc::new(make),
        files: Arc::new(Files { created }),
    };
    let roomy = volume("file-core", roomy, LONG);
    let at_page_end = volume("file-core-page-end", at_page_end, SHORT);
    let full = volume("file-core-full", full, SHORT);
    let cleaned = volume("file-core-cleaning", cleaned, SHORT);

    let both_clean = "both clean a log, and the order of their steps in the allocator makes the \
                      search longer than four minutes; the other volumes have this pair";
    let is_short = |one, other| {
        let is_other = one == Kind::Create || other != Kind::Create;
        is_other && (one != Kind::Patch || ![Kind::Second, Kind::Append].contains(&other))
    };
    let writes = KINDS.iter().take_while(|kind| **kind != Kind::Create);
    let suite_of_full = writes.fold(full.pairs(&[Mode::Cut], is_short), |suite, kind| {
        suite.no_pair(kind.name(), "create", both_clean)
    });
    let suite_of_full = suite_of_full
        .no_pair("patch", "second", both_clean)
        .no_pair("patch", "append", both_clean);
    spanlock_verify::main([
        roomy
            .pairs(&BOTH, |_, _| true)
            .program(roomy.three())
            .programs(roomy.more_threes())
            .programs(roomy.sequences(3)),
        at_page_end
            .pairs(&[Mode::Cut], |_, _| true)
            .programs(at_page_end.more_threes())
            .programs(at_page_end.sequences(2)),
        suite_of_full.programs(full.sequences(2)),
        Suite::new("file-core-cleaning")
            .step_bound(2_000)
            .programs(cleaned.sequences(2)),
        format::suite(),
        memory::suite(),
        index::suite(),
        histories::suite(),
    ])
}

/// `cut` finds all images with the fewest executions. `global` must find the same, but its searches
/// take minutes where an operation adds a page to a log or cleans one.
const BOTH: [Mode; 2] = [Mode::Cut, Mode::Global];

const CLAIM: &str = "after a crash, every operation that returned is there, every other one is \
                     there as a whole or not at all, and the volume goes on working";

/// The programs on one volume.
struct On {
    name: &'static str,
    medium: MakeMedium,
    files: Arc<Files>,
}

impl On {
    /// Returns a suite with a program for each pair of operations in two threads that `is_wanted`.
    fn pairs(&self, modes: &[Mode], is_wanted: impl Fn(Kind, Kind) -> bool) -> Suite {
        let mut suite = Suite::new(self.name).step_bound(2_000);
        for (at, one) in KINDS.into_iter().enumerate() {
            for other in KINDS[at..]
                .iter()
                .copied()
                .filter(|other| is_wanted(one, *other))
            {
                let name = format!("{}-{}", one.name(), other.name());
                suite = suite.program(self.threads(&name, &[one, other], modes));
            }
        }
        suite
    }

    /// Returns a program of three threads. It creates a file with a short name, because with a long
    /// one the search takes nine times as long.
    fn three(&self) -> Program {
        let short = On {
            files: Arc::new(Files { created: SHORT }),
            medium: self.medium.clone(),
            name: self.name,
        };
        let kinds = [Kind::Patch, Kind::Append, Kind::Create];
        short.threads("patch-append-create", &kinds, &[Mode::Cut])
    }

    /// Returns programs of three threads for the full run, with a million images together.
    fn more_threes(&self) -> impl Iterator<Item = Program> {
        let all = [
            [Kind::Patch, Kind::Second, Kind::Create],
            [Kind::Patch, Kind::Extend, Kind::Create],
            [Kind::Second, Kind::Extend, Kind::Create],
            [Kind::Patch, Kind::Create, Kind::Append],
            [Kind::Patch, Kind::Create, Kind::Remove],
            [Kind::Second, Kind::Append, Kind::Create],
        ];
        all.into_iter().map(|kinds| {
            let name = kinds.map(Kind::name).join("-");
            let program = self.threads(&name, &kinds, &[Mode::Cut]);
            program.whole_in_full_run()
        })
    }

    fn threads(&self, name: &str, kinds: &[Kind], modes: &[Mode]) -> Program {
        let operations: Vec<[u32; 1]> = (0..)
            .zip(kinds)
            .map(|(at, kind)| [number(*kind, at)])
            .collect();
        let operations: Vec<&[u32]> = operations.iter().map(<[u32; 1]>::as_slice).collect();
        threads(name, CLAIM, &self.files, &self.medium, &operations, modes)
    }

    /// Returns programs of one thread: all sequences of one operation, of two, and so on.
    fn sequences(&self, longest: u32) -> impl Iterator<Item = Program> {
        (1..=longest).map(|length| {
            let name = format!("sequences-of-{length}");
            let operations = KINDS.map(|kind| number(kind, 0));
            sequences(&name, CLAIM, &self.files, &self.medium, &operations, length)
        })
    }
}
