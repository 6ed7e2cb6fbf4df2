//! The file core under a checker: crashes of every pair of operations in two threads and of
//! sequences of operations, with every image that a crash may leave; races in memory; and histories
//! of concurrent operations.

mod beside;
mod cleaning;
mod format;
mod histories;
mod index;
mod inodes;
mod lanes;
mod memory;
mod mixed;
mod names;
mod store;

use std::process::ExitCode;
use std::sync::Arc;

use spanlock_testkit::crashes::{MakeMedium, sequences, threads};
use spanlock_verify::{Program, Suite};

use store::{
    Files, KINDS, Kind, LARGEST, LONG, PAGE, SHORT, WHY_BOUNDED, at_page_end, cleaned, full,
    full_but_for, number, roomy,
};

fn main() -> ExitCode {
    let volume = |name, make: fn() -> Vec<u8>, created, bounded| On {
        name,
        medium: Arc::new(make),
        files: Arc::new(Files {
            created,
            segment: PAGE,
            lanes: &[],
        }),
        bounded,
    };
    let roomy = volume("file-core", roomy, LONG, &[]);
    let at_page_end = volume(
        "file-core-page-end",
        at_page_end,
        SHORT,
        &[(Kind::Truncate, Kind::Allocate)],
    );
    let full = volume("file-core-full", full, SHORT, BOUNDED_FULL);
    let cleaned = volume("file-core-cleaning", cleaned, SHORT, BOUNDED_CLEANING);

    let suites = [
        roomy
            .pairs()
            .programs(roomy.threes())
            .programs(roomy.sequences(3)),
        at_page_end.pairs().programs(at_page_end.sequences(2)),
        full.pairs().programs(full.sequences(2)),
        cleaned.pairs().programs(cleaned.sequences(2)),
        holes([&roomy, &at_page_end], &full),
        format::suite(),
        memory::suite(),
        index::suite(),
        inodes::suite(),
        histories::suite(),
        names::suite(),
        names::links(),
        mixed::suite(),
        mixed::file_page_end(),
        mixed::directory_page_end(),
        beside::suite(),
        lanes::suite(),
        lanes::crashes(),
    ]
    .into_iter();
    spanlock_verify::main(suites.chain(cleaning::suites()))
}

const CLAIM: &str = "after a crash, every operation that returned is there, every other one is \
                     there as a whole or not at all, and the volume goes on working";

type Pairs = &'static [(Kind, Kind)];

/// Pairs of operations on the full volume whose searches have not ended in 45 seconds.
const BOUNDED_FULL: Pairs = &[
    (Kind::Patch, Kind::Append),
    (Kind::Patch, Kind::Truncate),
    (Kind::Patch, Kind::Create),
    (Kind::Second, Kind::Create),
    (Kind::Append, Kind::Create),
    (Kind::Truncate, Kind::Allocate),
    (Kind::Truncate, Kind::Create),
];

/// As [`BOUNDED_FULL`], on a volume that cleans its logs all the time.
const BOUNDED_CLEANING: Pairs = &[
    (Kind::Patch, Kind::Second),
    (Kind::Patch, Kind::Truncate),
    (Kind::Truncate, Kind::Punch),
    (Kind::Truncate, Kind::Allocate),
];

/// Operations of three threads.
const THREES: [[Kind; 3]; 6] = [
    [Kind::Patch, Kind::Second, Kind::Create],
    [Kind::Patch, Kind::Extend, Kind::Create],
    [Kind::Second, Kind::Extend, Kind::Create],
    [Kind::Patch, Kind::Create, Kind::Append],
    [Kind::Patch, Kind::Create, Kind::Remove],
    [Kind::Second, Kind::Append, Kind::Create],
];

/// Those of [`THREES`] whose searches end.
const THREES_TO_THE_END: [[Kind; 3]; 2] = [
    [Kind::Second, Kind::Append, Kind::Create],
    [Kind::Patch, Kind::Create, Kind::Remove],
];

/// Returns the suite of holes. Two of them append to one log, and take no pages for data, so their
/// searches end soon, except on a full volume, where they clean it.
fn holes(volumes: [&On; 2], full: &On) -> Suite {
    let names = [Kind::First, Kind::Other, Kind::Second].map(Kind::name);
    let why = "the pair that has a page of each is searched";
    let same = "the two lock the same page; the suite `file-core` has such pairs";
    let suite = Suite::new("file-core-holes").step_bound(2_000);
    let suite = [(0, 0), (1, 1), (2, 2), (1, 2)]
        .into_iter()
        .fold(suite, |suite, (one, other)| {
            let why = if one == other { same } else { why };
            suite.no_pair(names[one], names[other], why)
        });
    let both = volumes.map(|on| {
        let name = on.name.strip_prefix("file-core-").unwrap_or("roomy");
        on.threads(name, &[Kind::First, Kind::Other])
    });
    // The thread that writes takes the page that the other one frees: there is no other.
    let reused = On {
        medium: Arc::new(|| full_but_for(2)),
        files: full.files.clone(),
        ..*full
    };
    let reused = reused.threads("reused", &[Kind::First, Kind::Second]);
    suite.programs(both).program(reused)
}

/// The programs on one volume.
struct On {
    name: &'static str,
    medium: MakeMedium,
    files: Arc<Files>,
    bounded: Pairs,
}

impl On {
    /// Returns a suite with a program for each pair of operations in two threads.
    fn pairs(&self) -> Suite {
        let mut suite = Suite::new(self.name).step_bound(2_000);
        for (at, one) in KINDS.into_iter().enumerate() {
            for &other in &KINDS[at..] {
                let name = format!("{}-{}", one.name(), other.name());
                let on = self.for_pair(one, other);
                let program = on.threads(&name, &[one, other]);
                suite = suite.program(match self.bounded.contains(&(one, other)) {
                    true => program.bounded(1, WHY_BOUNDED),
                    false => program,
                });
            }
        }
        suite
    }

    /// Returns the volume for a pair of operations. Two truncations lock the file as one segment:
    /// of more segments, one hands each to the other, in too many orders to search.
    fn for_pair(&self, one: Kind, other: Kind) -> On {
        let are_cuts = one == Kind::Truncate && other == Kind::Truncate;
        On {
            files: Arc::new(Files {
                segment: if are_cuts { LARGEST } else { PAGE },
                ..*self.files
            }),
            medium: self.medium.clone(),
            ..*self
        }
    }

    /// Returns programs of three threads.
    fn threes(&self) -> impl Iterator<Item = Program> {
        THREES.into_iter().map(|kinds| {
            let name = kinds.map(Kind::name).join("-");
            let program = self.threads(&name, &kinds);
            match THREES_TO_THE_END.contains(&kinds) {
                true => program,
                false => program.bounded(1, WHY_BOUNDED),
            }
        })
    }

    fn threads(&self, name: &str, kinds: &[Kind]) -> Program {
        let operations: Vec<[u32; 1]> = (0..)
            .zip(kinds)
            .map(|(at, kind)| [number(*kind, at)])
            .collect();
        let operations: Vec<&[u32]> = operations.iter().map(<[u32; 1]>::as_slice).collect();
        threads(name, CLAIM, &self.files, &self.medium, &operations)
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
