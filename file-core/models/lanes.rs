//! Threads that have log pages of their own: what recovery finds has the order in which the changes
//! of a page took effect. Also crashes of such changes.
//!
//! The main thread's page comes first in the log. So if its change is the later one, it belongs
//! into the other thread's page.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use spanlock_file_core::{File, FormatOptions};
use spanlock_pmem::simulated::Simulated;
use spanlock_srl::SrlArray;
use spanlock_testkit::crashes::{MakeMedium, threads};
use spanlock_verify::{Program, Scene, Suite};

use crate::memory::wide;
use crate::store::{self, FILE, Files, Kind, PAGE, SHORT, Volume, content, number, roomy};

const CLAIM: &str = "recovery finds what memory has, if threads append to log pages of their own";

/// The operations beside a write. All of them concern its page.
const OTHERS: [Operation; 5] = [
    Operation::Write,
    Operation::Hole,
    Operation::Truncate,
    Operation::Time,
    Operation::Allocate,
];

pub(crate) fn suite() -> Suite {
    let mut suite = Suite::new("file-core-lanes").step_bound(4_000);
    let others = OTHERS.map(Operation::name);
    for (at, one) in others.iter().enumerate().skip(1) {
        for other in &others[at..] {
            suite = suite.no_pair(one, other, "as the pair of each with a write");
        }
    }
    for other in OTHERS {
        let name = format!("write-{}", other.name());
        suite = suite.program(both(&name, [Operation::Write, other]));
    }
    for one in [Operation::Hole, Operation::Truncate, Operation::Time] {
        let name = format!("{}-write", one.name());
        suite = suite.program(both(&name, [one, Operation::Write]));
    }
    for one in others.iter().chain(&["open-lanes"]) {
        if *one != "write" {
            suite = suite.no_pair("open-lanes", one, "as the pair with a write");
        }
    }
    for other in others.iter().chain(&["poison"]) {
        suite = suite.no_pair(
            "poison",
            other,
            "a log that is poisoned only refuses changes",
        );
    }
    suite.program(opening()).program(poisoning())
}

/// An operation that changes the file's second page or its attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Write,
    Hole,
    Truncate,
    Time,
    Allocate,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::Hole => "hole",
            Operation::Truncate => "truncate",
            Operation::Time => "time",
            Operation::Allocate => "allocate",
        }
    }
}

/// An open volume and its file, of which the second page is mapped.
struct Open {
    volume: Volume,
    file: File<Arc<Simulated>, SrlArray>,
}

impl Open {
    /// Opens a volume, and gives these threads pages of the file's log, in this order.
    fn with_lanes(threads: &[usize]) -> Open {
        let region = Simulated::new(&[0; 24 * PAGE as usize]);
        let options = FormatOptions::new().clock(|| 1_000);
        let options = options.inodes(8).max_file_size(16 * PAGE);
        let options = options.data_checksums(true);
        let volume = Volume::format(region, &options, wide).expect("there is room");
        let file = volume.create(FILE).expect("there is room");
        let open = Open { volume, file };
        (open.file.write_at(b"content.", PAGE)).expect("there is room");
        open.file.give_lanes(threads).expect("there is room");
        open
    }

    /// Performs an operation of this thread.
    fn perform(&self, operation: Operation, thread: u8) {
        let file = &self.file;
        let done = match operation {
            Operation::Write => file.write_at(&[b'A' + thread; 8], PAGE),
            Operation::Hole => file.punch_hole(PAGE..2 * PAGE),
            Operation::Truncate => file.truncate(0),
            // Before the clock's time.
            Operation::Time => file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(1)),
            // The record also has the second page, which stays.
            Operation::Allocate => file.allocate(0..3 * PAGE),
        };
        done.expect("there is room");
    }

    /// Asserts that recovery would find what memory has.
    fn assert_sound(&self) {
        let region = Simulated::new(&self.volume.pmem().bytes());
        let again = store::open(region).expect("the volume is sound");
        let modified = |it: &Volume| {
            let file = it.open_file(FILE).expect("it is there");
            file.metadata().modified
        };
        let [now, again] = [&self.volume, &again].map(|it| (content(it), modified(it)));
        assert_eq!(now, again, "memory differs from what recovery finds");
    }
}

/// Two threads, which have log pages of their own, perform an operation each, the main thread's
/// first. Its page comes first in the log.
fn both(name: &str, operations: [Operation; 2]) -> Scene<Open> {
    let [one, other] = operations;
    Program::new(name, CLAIM)
        .scene(|| Open::with_lanes(&[0, 1]))
        .thread([one.name()], move |open: &Open| open.perform(one, 0))
        .thread([other.name()], move |open| open.perform(other, 1))
        .at_end(Open::assert_sound)
}

/// A thread opens the lanes of the file's log while another one writes.
fn opening() -> Scene<Open> {
    let claim = "a writer finds lanes whole that another thread opens, and loses no slot";
    Program::new("opening", claim)
        .scene(|| Open::with_lanes(&[]))
        .thread(["open-lanes"], |open: &Open| {
            open.file.give_lanes(&[1]).expect("there is room");
        })
        .thread(["write"], |open| open.perform(Operation::Write, 1))
        .at_end(Open::assert_sound)
}

/// A thread opens the lanes of the file's log, with a page for itself, while another one poisons
/// the log.
fn poisoning() -> Scene<Open> {
    let claim = "a poisoned log refuses changes in lanes that another thread opens meanwhile";
    Program::new("poisoning", claim)
        .scene(|| Open::with_lanes(&[]))
        .thread(["open-lanes"], |open: &Open| {
            // It fails if the log is poisoned already.
            let _ = open.file.give_lanes(&[0]);
        })
        .thread(["poison"], |open| open.file.poison_log())
        .at_end(|open| {
            let changed = open.file.write_at(b"too late", PAGE);
            assert!(changed.is_err(), "the log is poisoned");
        })
}

/// The kinds of operations that crash in lanes, beside an overwrite or another one of their kind.
const KINDS: [Kind; 4] = [Kind::Patch, Kind::Append, Kind::Truncate, Kind::Punch];

pub(crate) fn crashes() -> Suite {
    let subject = Arc::new(Files {
        created: SHORT,
        segment: PAGE,
        lanes: &[0, 1],
    });
    let medium: MakeMedium = Arc::new(roomy);
    let claim = "after a crash, every operation that returned is there, every other one is there \
                 as a whole or not at all, and the volume goes on working";
    let mut suite = Suite::new("file-core-lanes-crashes").step_bound(2_000);
    for (at, one) in KINDS.into_iter().enumerate() {
        for other in KINDS.into_iter().skip(at.max(1)) {
            if one == Kind::Patch {
                continue;
            }
            let why = "both append to the newest page, as in the suite `file-core`";
            suite = suite.no_pair(one.name(), other.name(), why);
        }
    }
    let pairs = KINDS.map(|other| [Kind::Patch, other]);
    let reversed = [[Kind::Truncate, Kind::Patch], [Kind::Punch, Kind::Patch]];
    for [one, other] in pairs.into_iter().chain(reversed) {
        let name = format!("{}-{}", one.name(), other.name());
        let operations: [&[u32]; 2] = [&[number(one, 0)], &[number(other, 1)]];
        let program = threads(&name, claim, &subject, &medium, &operations);
        suite =
            suite.program(program.bounded(1, "each execution recovers all of its crash images"));
    }
    suite
}
