//! Crashes of the compact log: every pair of operations in two threads, and sequences of
//! operations, with every image that a crash may leave on a disk with a volatile cache.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Error, GroupCommit, Log, Lsn, Options};
use spanlock_pmem::Pmem;
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_sync::thread;
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::Suite;

/// Returns the suites: a log with room, one whose next batches cross the end of the ring, one that
/// is full, and one whose disk fails.
pub(crate) fn suites() -> [Suite; 4] {
    [
        suite("compact-log-room", [3, 0], 5),
        suite("compact-log-wrap", [7, 5], 4),
        suite("compact-log-full", [8, 0], 4),
        failures(),
    ]
}

const CLAIM: &str = "after a crash, every record that was acknowledged and not truncated is there, \
                     every other operation is there as a whole or not at all, and the log goes on \
                     working";

/// Returns the programs on a log to which so many records were appended, and of which so many were
/// truncated. Sequences have up to `length` operations.
fn suite(name: &str, [appended, truncated]: [u8; 2], length: u32) -> Suite {
    let (records, medium) = log_of(appended, truncated);
    let mut suite = Suite::new(name).step_bound(4_000);
    for (at, one) in KINDS.iter().enumerate() {
        for other in &KINDS[at..] {
            let name = format!("{}-{}", one.name(), other.name());
            let operations: [&[u32]; 2] = [&[number(*one, 0)], &[number(*other, 1)]];
            let program = threads(&name, CLAIM, &records, &medium, &operations);
            suite = suite.program(program);
        }
    }
    let three = KINDS
        .iter()
        .zip(0..)
        .map(|(kind, thread)| [number(*kind, thread)]);
    let three: Vec<[u32; 1]> = three.collect();
    let three: Vec<&[u32]> = three.iter().map(<[u32; 1]>::as_slice).collect();
    let name = "commit-large-truncate";
    suite = suite.program(threads(name, CLAIM, &records, &medium, &three));
    for length in 1..=length {
        let name = format!("sequences-of-{length}");
        let operations = KINDS.map(|kind| number(kind, 0));
        let program = sequences(&name, CLAIM, &records, &medium, &operations, length);
        suite = suite.program(program);
    }
    suite
}

/// Returns the programs in which a flush of one thread's operation fails. The disk's cache then
/// takes all writes for durable that came before.
fn failures() -> Suite {
    let (records, medium) = log_of(3, 0);
    let mut suite = Suite::new("compact-log-failure").step_bound(4_000);
    for failing in FAILING {
        for other in KINDS.into_iter().chain(FAILING) {
            let name = format!("{}-{}", other.name(), failing.name());
            let operations: [&[u32]; 2] = [&[number(other, 0)], &[number(failing, 1)]];
            let program = threads(&name, CLAIM, &records, &medium, &operations);
            suite = suite.program(program);
        }
    }
    let all: Vec<u32> = KINDS
        .into_iter()
        .chain(FAILING)
        .map(|kind| number(kind, 0))
        .collect();
    for length in 1..=3 {
        let name = format!("sequences-of-{length}");
        suite = suite.program(sequences(&name, CLAIM, &records, &medium, &all, length));
    }
    let of_other_suites = "pairs of operations whose flushes succeed are in the suites \
                           `compact-log-room`, `compact-log-wrap` and `compact-log-full`";
    for (at, one) in KINDS.iter().enumerate() {
        for other in &KINDS[at..] {
            suite = suite.no_pair(one.name(), other.name(), of_other_suites);
        }
    }
    suite
}

/// Returns a log to which so many records were appended, and of which so many were truncated.
fn log_of(appended: u8, truncated: u8) -> (Arc<Records>, MakeMedium) {
    let truncated = u64::from(truncated);
    let medium: MakeMedium = Arc::new(move || log(appended, truncated));
    let first = 1 + truncated;
    (Arc::new(Records { first }), medium)
}

/// The kinds of operations.
#[derive(Clone, Copy)]
enum Kind {
    /// Commits a record that fits into a block.
    Commit,
    /// Commits a record of two blocks.
    Large,
    /// Truncates the first record, or the first two.
    Truncate,
    /// Commits a record that fits into a block, with the first flush failing.
    CommitFails,
    /// Truncates, with the first flush failing.
    TruncateFails,
}

const COUNT: u32 = 5;

const FAILING: [Kind; 2] = [Kind::CommitFails, Kind::TruncateFails];

const KINDS: [Kind; 3] = [Kind::Commit, Kind::Large, Kind::Truncate];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Commit => "commit",
            Kind::Large => "large",
            Kind::Truncate => "truncate",
            Kind::CommitFails => "failing-commit",
            Kind::TruncateFails => "failing-truncate",
        }
    }
}

/// Returns the number of an operation. What it writes, or how much it truncates, depends on
/// `thread`.
fn number(kind: Kind, thread: u32) -> u32 {
    kind as u32 + thread * COUNT
}

fn kind(operation: u32) -> Kind {
    let [commit, large, truncate] = KINDS;
    let [commit_fails, truncate_fails] = FAILING;
    let all = [commit, large, truncate, commit_fails, truncate_fails];
    all[(operation % COUNT) as usize]
}

fn record(operation: u32) -> Vec<u8> {
    let len = match kind(operation) {
        Kind::Large => 600,
        _ => 20,
    };
    vec![b'A' + operation as u8; len]
}

/// A simulated disk.
pub(crate) struct Disk {
    region: Arc<Simulated>,
    /// The threads whose next flush fails, one bit each.
    pub(crate) failing: Arc<AtomicU64>,
}

impl Disk {
    pub(crate) fn new(region: &Arc<Simulated>) -> Self {
        Disk {
            region: region.clone(),
            failing: Arc::default(),
        }
    }

    /// Returns an error if the calling thread's flush fails.
    #[track_caller]
    fn may_fail(&self) -> io::Result<()> {
        let me = 1 << thread::index();
        // Relaxed: each thread uses its own bit only.
        if self.failing.fetch_and(!me, Relaxed) & me != 0 {
            self.region.fail_flush(0..self.len());
            return Err(io::Error::other("the disk fails"));
        }
        Ok(())
    }
}

impl Storage for Disk {
    fn len(&self) -> u64 {
        Pmem::len(&*self.region)
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.region.read_bytes(offset, buf);
        Ok(())
    }
    #[track_caller]
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.region.write_sectors(offset, data);
        Ok(())
    }
    #[track_caller]
    fn flush(&self) -> io::Result<()> {
        self.may_fail()?;
        self.region.flush_sectors(0..self.len());
        Ok(())
    }
    #[track_caller]
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if self.failing.load(Relaxed) & 1 << thread::index() != 0 {
            self.region.write_sectors(offset, data);
            return self.may_fail();
        }
        self.region.write_sectors_through(offset, data);
        Ok(())
    }
}

/// The number of the first record, and the records.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) first: u64,
    pub(crate) records: Vec<Vec<u8>>,
}

/// The logs that crash.
struct Records {
    /// The first record of the log before the operations.
    first: u64,
}

/// A log, and its disk.
struct Open {
    log: Log<Disk>,
    region: Arc<Simulated>,
    failing: Arc<AtomicU64>,
}

pub(crate) fn options() -> Options {
    Options::new().group_commit(GroupCommit::Plain)
}

pub(crate) fn told(why: impl std::fmt::Display) -> String {
    format!("the log does not go on working: {why}")
}

impl Subject for Records {
    type Store = Open;
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Open, String> {
        let disk = Disk::new(region);
        let failing = disk.failing.clone();
        let log = Log::open(disk, &options()).map_err(|why| why.to_string())?;
        let region = region.clone();
        Ok(Open {
            log,
            region,
            failing,
        })
    }

    fn state(&self, Open { log, .. }: &Open) -> Result<Content, String> {
        content(log)
    }

    fn go_on(&self, open: &Open) -> Result<(), String> {
        let log = &open.log;
        for round in 0..3 {
            log.truncate(log.durable().next()).map_err(told)?;
            log.append_durable(&[round; 700]).map_err(told)?;
            log.append_durable(b"next").map_err(told)?;
        }
        let again = self.recover(&Simulated::new(&open.region.bytes()))?;
        let (memory, medium) = (self.state(open)?, self.state(&again)?);
        match memory == medium {
            true => Ok(()),
            false => Err(format!("memory has {memory:?}, the medium {medium:?}")),
        }
    }

    fn apply(&self, state: &Content, operation: u32, result: Option<&str>) -> Option<Content> {
        let mut state = state.clone();
        if result == Some("full") {
            return Some(state);
        }
        let expected = match kind(operation) {
            Kind::Truncate | Kind::TruncateFails => {
                let to = self.end(operation);
                if to > state.first + state.records.len() as u64 {
                    return result.is_none_or(|it| it == "not yet").then_some(state);
                }
                while state.first < to {
                    state.records.remove(0);
                    state.first += 1;
                }
                "done".to_owned()
            }
            Kind::Commit | Kind::Large | Kind::CommitFails => {
                state.records.push(record(operation));
                format!("record {}", state.first + state.records.len() as u64 - 1)
            }
        };
        result.is_none_or(|it| it == expected).then_some(state)
    }

    fn is_unknown(&self, result: &str) -> bool {
        result == FAILED
    }

    fn name(&self, operation: u32) -> String {
        kind(operation).name().to_owned()
    }
}

/// Returns what a log contains.
pub(crate) fn content<S: Storage>(log: &Log<S>) -> Result<Content, String> {
    let first = log.first().get();
    let mut records = Vec::new();
    for record in log.records() {
        let record = record.map_err(|why| why.to_string())?;
        let expected = first + records.len() as u64;
        if record.lsn.get() != expected {
            return Err(format!("{:?} in place of record {expected}", record.lsn));
        }
        records.push(record.data.to_vec());
    }
    match first + records.len() as u64 == log.durable().get() + 1 {
        true => Ok(Content { first, records }),
        false => Err(format!("{:?} is durable, but not there", log.durable())),
    }
}

impl Records {
    /// Returns the record before which `operation` truncates.
    fn end(&self, operation: u32) -> u64 {
        self.first + 1 + u64::from(operation / COUNT)
    }
}

impl Crashable for Records {
    fn perform(&self, Open { log, failing, .. }: &Open, operation: u32) -> String {
        if let Kind::CommitFails | Kind::TruncateFails = kind(operation) {
            failing.fetch_or(1 << thread::index(), Relaxed);
        }
        let done = match kind(operation) {
            Kind::Truncate | Kind::TruncateFails => log.truncate(Lsn::new(self.end(operation))),
            Kind::Commit | Kind::Large | Kind::CommitFails => {
                match log.append_durable(&record(operation)) {
                    Ok(lsn) => return format!("record {}", lsn.get()),
                    Err(error) => Err(error),
                }
            }
        };
        match done {
            Ok(()) => "done".to_owned(),
            Err(Error::Full { .. }) => "full".to_owned(),
            Err(Error::NotYet { .. }) => "not yet".to_owned(),
            Err(Error::Poisoned { .. }) => FAILED.to_owned(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The result of an operation on a log that has failed.
pub(crate) const FAILED: &str = "failed";

/// Returns a log with a ring of eight blocks, to which `records` were appended, and of which
/// `truncated` were truncated.
pub(crate) fn log(records: u8, truncated: u64) -> Vec<u8> {
    const BYTES: usize = 8192 + 8 * 512;
    let empty = Simulated::new(&[0; BYTES]);
    Log::create(Disk::new(&empty), &options().id(7)).expect("there is room");
    let region = Simulated::new(&empty.bytes());
    let log = Log::open(Disk::new(&region), &options()).expect("it is sound");
    for record in 0..records {
        log.append_durable(&[record; 20]).expect("there is room");
    }
    log.truncate(Lsn::new(1 + truncated))
        .expect("they are durable");
    region.bytes()
}
