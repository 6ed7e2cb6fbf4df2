//! The file core under a checker: crashes of every pair of operations in two threads and of
//! sequences of operations, with every image that a crash may leave; races in memory; and histories
//! of concurrent operations.

mod beside;
mod cleaning;
mod format;
mod histories;
mod index;
mod inodes;
mod memory;
mod mixed;
mod names;
mod store;

use std::process::ExitCode;
use std::sync::Arc;

use spanlock_testkit::crashes::{MakeMedium, sequences, threads};
use spanlock_verify::{Mode, Program, Suite};

use store::{
    Files, KINDS, Kind, LARGEST, LONG, PAGE, SHORT, at_page_end, cleaned, full, full_but_for,
    number, roomy,
};

fn main() -> ExitCode {
    let volume = |name, make: fn() -> Vec<u8>, created, search: SearchOf| On {
        name,
        medium: Arc::new(make),
        files: Arc::new(Files {
            created,
            segment: PAGE,
        }),
        search,
    };
    let roomy = volume("file-core", roomy, LONG, |_| Search::Whole(&BOTH));
    let at_page_end = volume(
        "file-core-page-end",
        at_page_end,
        SHORT,
        |pair| match pair {
            _ if LONG_AT_PAGE_END.contains(&pair) => Search::Bounded { more: true },
            _ => Search::Whole(&[Mode::Cut]),
        },
    );
    let full = volume("file-core-full", full, SHORT, |pair| match pair {
        _ if LONG_FULL.contains(&pair) => Search::Bounded { more: true },
        _ => Search::Whole(&[Mode::Cut]),
    });
    let cleaned = volume("file-core-cleaning", cleaned, SHORT, |pair| match pair {
        _ if LONG_CLEANING.contains(&pair) => Search::Bounded { more: false },
        _ => Search::Whole(&[Mode::Cut]),
    });

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
    ]
    .into_iter();
    spanlock_verify::main(suites.chain(cleaning::suites()))
}

/// `cut` finds all images with the fewest executions. `global` must find the same, but its searches
/// take minutes where an operation adds a page to a log or cleans one.
const BOTH: [Mode; 2] = [Mode::Cut, Mode::Global];

const CLAIM: &str = "after a crash, every operation that returned is there, every other one is \
                     there as a whole or not at all, and the volume goes on working";

/// How the crashes of a pair of operations in two threads are searched.
enum Search {
    /// In these modes.
    Whole(&'static [Mode]),
    /// By `cut`, with at most one preemption. If `more`, the full run allows two; otherwise, that
    /// would take hours.
    Bounded { more: bool },
}

type SearchOf = fn((Kind, Kind)) -> Search;

type Pairs = &'static [(Kind, Kind)];

/// Pairs of operations whose search by `cut` without a bound takes longer than 20 seconds, most of
/// them minutes.
const LONG_AT_PAGE_END: Pairs = &[
    (Kind::Patch, Kind::Second),
    (Kind::Patch, Kind::Extend),
    (Kind::Patch, Kind::Append),
    (Kind::Patch, Kind::Truncate),
    (Kind::Patch, Kind::Punch),
    (Kind::Second, Kind::Extend),
    (Kind::Second, Kind::Create),
    (Kind::Extend, Kind::Append),
    (Kind::Extend, Kind::Create),
    (Kind::Truncate, Kind::Create),
    (Kind::Allocate, Kind::Create),
];

/// As [`LONG_AT_PAGE_END`], on the full volume.
const LONG_FULL: Pairs = &[
    (Kind::Patch, Kind::Second),
    (Kind::Patch, Kind::Append),
    (Kind::Patch, Kind::Truncate),
    (Kind::Patch, Kind::Punch),
    (Kind::Patch, Kind::Create),
    (Kind::Second, Kind::Create),
    (Kind::Append, Kind::Create),
    (Kind::Truncate, Kind::Punch),
    (Kind::Truncate, Kind::Create),
    (Kind::Punch, Kind::Create),
];

/// As [`LONG_AT_PAGE_END`], on a volume that cleans its logs all the time.
const LONG_CLEANING: Pairs = &[
    (Kind::Patch, Kind::Second),
    (Kind::Patch, Kind::Extend),
    (Kind::Patch, Kind::Append),
    (Kind::Patch, Kind::Truncate),
    (Kind::Patch, Kind::Punch),
    (Kind::Patch, Kind::Allocate),
    (Kind::Patch, Kind::Create),
    (Kind::Second, Kind::Extend),
    (Kind::Second, Kind::Append),
    (Kind::Second, Kind::Truncate),
    (Kind::Second, Kind::Allocate),
    (Kind::Second, Kind::Create),
    (Kind::Extend, Kind::Truncate),
    (Kind::Append, Kind::Truncate),
    (Kind::Truncate, Kind::Punch),
    (Kind::Truncate, Kind::Allocate),
    (Kind::Truncate, Kind::Create),
    (Kind::Punch, Kind::Allocate),
    (Kind::Punch, Kind::Create),
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
        on.threads(name, &[Kind::First, Kind::Other], &[Mode::Cut])
    });
    // The thread that writes takes the page that the other one frees: there is no other.
    let reused = On {
        medium: Arc::new(|| full_but_for(2)),
        files: full.files.clone(),
        ..*full
    };
    let reused = reused.threads("reused", &[Kind::First, Kind::Second], &[Mode::Cut]);
    suite.programs(both).program(reused)
}

/// The programs on one volume.
struct On {
    name: &'static str,
    medium: MakeMedium,
    files: Arc<Files>,
    search: SearchOf,
}

impl On {
    /// Returns a suite with a program for each pair of operations in two threads.
    fn pairs(&self) -> Suite {
        let why = "the search without a bound takes longer than 20 seconds, or minutes";
        let mut suite = Suite::new(self.name).step_bound(2_000);
        for (at, one) in KINDS.into_iter().enumerate() {
            for &other in &KINDS[at..] {
                let name = format!("{}-{}", one.name(), other.name());
                let (on, both) = (self.for_pair(one, other), [one, other]);
                let in_modes = |modes| on.threads(&name, &both, modes);
                suite = suite.program(match (self.search)((one, other)) {
                    Search::Whole(modes) => in_modes(modes),
                    Search::Bounded { more } => {
                        let program = in_modes(&[Mode::Cut]).bounded_in(Mode::Cut, 1, why);
                        match more {
                            true => program.more_in_full_run(),
                            false => program,
                        }
                    }
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
            let program = self.threads(&name, &kinds, &[Mode::Cut]);
            program.bounded_in(
                Mode::Cut,
                1,
                "the search without a bound takes minutes for most of them",
            )
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
