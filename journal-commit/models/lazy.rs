//! Crashes of a compact log that is opened lazily, as the journal of a volume is: in a part of a
//! region of persistent memory, new, with records, or as a crash has left it, and on a disk, where
//! a process goes on after a failed flush by opening the log again.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Error, Log, Lsn};
use spanlock_journal_commit::storage::PmemStorage;
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_sync::thread;
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::Suite;

use crate::crashes::{Content, Disk, FAILED, content, log, options, told};

/// Returns the suites: a log that is created by its first write, a log with two records, the same
/// after a crash, each in a part of a region, and a log on a disk that is opened again after a
/// failure.
pub(crate) fn suites() -> [Suite; 4] {
    [
        of_part("compact-log-new", 0),
        of_part("compact-log-part", 2),
        torn(),
        reopened(),
    ]
}

const CLAIM: &str = "a log that was opened lazily does the writes of opening before its first other \
                     write: after a crash at any moment, every acknowledged record is there";

/// The bytes of the region before the part, and after it.
const AROUND: usize = 512;
const PART: usize = 8192 + 8 * 512;
const OTHERS: u8 = 0xa5;
/// The distance of the superblocks, and the length of one.
const SLOT: usize = 4096;
const SUPERBLOCK: usize = 512;

fn of_part(name: &str, records: u8) -> Suite {
    let subject = Arc::new(Parts);
    let medium: MakeMedium = Arc::new(move || part(records));
    let mut suite = Suite::new(name).step_bound(4_000);
    let kinds = [Kind::Commit, Kind::Truncate];
    for (at, one) in kinds.iter().enumerate() {
        for other in &kinds[at..] {
            let name = format!("{}-{}", one.name(), other.name());
            let operations: [&[u32]; 2] = [&[number(*one, 0)], &[number(*other, 1)]];
            suite = suite.program(threads(&name, CLAIM, &subject, &medium, &operations));
        }
    }
    for length in 1..=3 {
        let name = format!("sequences-of-{length}");
        let operations = kinds.map(|kind| number(kind, 0));
        let program = sequences(&name, CLAIM, &subject, &medium, &operations, length);
        suite = suite.program(program);
    }
    suite
}

/// Returns the suite of logs of which a crash has torn one superblock, so that another crash may
/// leave none.
fn torn() -> Suite {
    let subject = Arc::new(Parts);
    let kinds = [Kind::Commit, Kind::Truncate];
    let operations = kinds.map(|kind| number(kind, 0));
    let mut suite = Suite::new("compact-log-torn").step_bound(4_000);
    for (slot, which) in [(0, "first"), (1, "second")] {
        let medium: MakeMedium = Arc::new(move || torn_part(slot));
        for length in 1..=2 {
            let name = format!("{which}-sequences-of-{length}");
            let program = sequences(&name, CLAIM, &subject, &medium, &operations, length);
            suite = suite.program(program);
        }
    }
    let alone = "one thread does the writes of opening, while the others wait; the pairs are in the \
                 suite `compact-log-part`";
    for (at, one) in kinds.iter().enumerate() {
        for other in &kinds[at..] {
            suite = suite.no_pair(one.name(), other.name(), alone);
        }
    }
    suite
}

fn reopened() -> Suite {
    let subject = Arc::new(Reopened);
    let medium: MakeMedium = Arc::new(|| log(2, 0));
    let kinds = [
        Kind::Commit,
        Kind::Truncate,
        Kind::CommitFails,
        Kind::Reopen,
    ];
    let operations = kinds.map(|kind| number(kind, 0));
    let mut suite = Suite::new("compact-log-reopened").step_bound(4_000);
    for length in 1..=4 {
        let name = format!("sequences-of-{length}");
        let program = sequences(&name, CLAIM, &subject, &medium, &operations, length);
        suite = suite.program(program);
    }
    let alone = "a log is opened again by one thread; pairs of the other operations are in the \
                 suites `compact-log-room`, `compact-log-part` and `compact-log-failure`";
    for (at, one) in kinds.iter().enumerate() {
        for other in &kinds[at..] {
            suite = suite.no_pair(one.name(), other.name(), alone);
        }
    }
    suite
}

/// The kinds of operations.
#[derive(Clone, Copy)]
enum Kind {
    Commit,
    /// Truncates the first record, or the first two.
    Truncate,
    /// Commits, with the flush failing.
    CommitFails,
    /// Opens the log again lazily.
    Reopen,
}

const COUNT: u32 = 4;

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Commit => "commit",
            Kind::Truncate => "truncate",
            Kind::CommitFails => "failing-commit",
            Kind::Reopen => "reopen",
        }
    }
}

fn number(kind: Kind, thread: u32) -> u32 {
    kind as u32 + thread * COUNT
}

fn kind(operation: u32) -> Kind {
    let all = [
        Kind::Commit,
        Kind::Truncate,
        Kind::CommitFails,
        Kind::Reopen,
    ];
    all[(operation % COUNT) as usize]
}

fn record(operation: u32) -> Vec<u8> {
    vec![b'A' + operation as u8; 16]
}

/// Returns the record before which `operation` truncates.
fn end(operation: u32) -> u64 {
    2 + u64::from(operation / COUNT)
}

/// Commits or truncates.
fn perform<S: Storage>(log: &Log<S>, operation: u32) -> String {
    let done = match kind(operation) {
        Kind::Truncate => log.truncate(Lsn::new(end(operation))),
        _ => match log.append_durable(&record(operation)) {
            Ok(lsn) => return format!("record {}", lsn.get()),
            Err(error) => Err(error),
        },
    };
    match done {
        Ok(()) => "done".to_owned(),
        Err(Error::NotYet { .. }) => "not yet".to_owned(),
        Err(Error::Poisoned { .. }) => FAILED.to_owned(),
        Err(error) => panic!("{error}"),
    }
}

fn apply(state: &Content, operation: u32, result: Option<&str>) -> Option<Content> {
    let mut state = state.clone();
    let next = state.first + state.records.len() as u64;
    let expected = match kind(operation) {
        Kind::Reopen => "reopened".to_owned(),
        Kind::Truncate if end(operation) > next => "not yet".to_owned(),
        Kind::Truncate => {
            while state.first < end(operation) {
                state.records.remove(0);
                state.first += 1;
            }
            "done".to_owned()
        }
        Kind::Commit | Kind::CommitFails => {
            state.records.push(record(operation));
            format!("record {next}")
        }
    };
    result.is_none_or(|it| it == expected).then_some(state)
}

/// Uses a log until its ring has wrapped around.
fn go_on<S: Storage>(log: &Log<S>) -> Result<(), String> {
    for round in 0..6 {
        log.truncate(log.durable().next()).map_err(told)?;
        log.append_durable(&[round; 600]).map_err(told)?;
    }
    log.append_durable(b"next").map(|_| ()).map_err(told)
}

fn same(memory: &Content, medium: &Content) -> Result<(), String> {
    match memory == medium {
        true => Ok(()),
        false => Err(format!("memory has {memory:?}, the medium {medium:?}")),
    }
}

/// Logs in a part of a region. Recovery only reads: opening a region has made its contents durable.
struct Parts;

type PartLog = Log<PmemStorage<Arc<Simulated>>>;

fn part_of(region: &Arc<Simulated>) -> Result<PmemStorage<Arc<Simulated>>, String> {
    let range = AROUND as u64..(AROUND + PART) as u64;
    PmemStorage::part(region.clone(), range).map_err(|why| why.to_string())
}

fn open_part(region: &Arc<Simulated>) -> Result<PartLog, String> {
    let storage = part_of(region)?;
    Log::open_lazily(storage, &options().id(7)).map_err(|why| why.to_string())
}

impl Subject for Parts {
    type Store = (PartLog, Arc<Simulated>);
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Self::Store, String> {
        Ok((open_part(region)?, region.clone()))
    }

    fn state(&self, (log, region): &Self::Store) -> Result<Content, String> {
        let bytes = region.bytes();
        let mut around = bytes[..AROUND].iter().chain(&bytes[AROUND + PART..]);
        if !around.all(|&byte| byte == OTHERS) {
            return Err("bytes outside of the part have changed".to_owned());
        }
        content(log)
    }

    fn go_on(&self, store: &Self::Store) -> Result<(), String> {
        go_on(&store.0)?;
        let again = self.recover(&Simulated::new(&store.1.bytes()))?;
        same(&self.state(store)?, &self.state(&again)?)
    }

    fn apply(&self, state: &Content, operation: u32, result: Option<&str>) -> Option<Content> {
        apply(state, operation, result)
    }

    fn name(&self, operation: u32) -> String {
        kind(operation).name().to_owned()
    }
}

impl Crashable for Parts {
    fn perform(&self, (log, _): &Self::Store, operation: u32) -> String {
        perform(log, operation)
    }
}

/// Returns a region whose part has a log of so many records; without records, it is all zero.
fn part(records: u8) -> Vec<u8> {
    let mut bytes = vec![OTHERS; AROUND];
    bytes.resize(AROUND + PART, 0);
    bytes.resize(2 * AROUND + PART, OTHERS);
    let region = Simulated::new(&bytes);
    if records > 0 {
        let storage = part_of(&region).expect("it lies inside the region");
        let log = Log::create(storage, &options().id(7)).expect("there is room");
        for record in 0..records {
            log.append_durable(&[record; 16]).expect("there is room");
        }
    }
    region.bytes()
}

/// Returns the region of a log with two records, as a crash may leave it while another opening
/// writes a superblock: a part of that write has persisted.
fn torn_part(slot: usize) -> Vec<u8> {
    let mut torn = part(2);
    let region = Simulated::new(&torn);
    let log = open_part(&region).expect("it is sound");
    log.finish_opening().expect("the region does not fail");
    drop(log);
    let written = region.bytes();
    let superblock = |slot: usize| AROUND + slot * SLOT..AROUND + slot * SLOT + SUPERBLOCK;
    if slot == 1 {
        // The first one is written already.
        torn[superblock(0)].copy_from_slice(&written[superblock(0)]);
    }
    // The checksum is in the first 16 bytes, which have not persisted.
    let persisted = superblock(slot).start + 16..superblock(slot).end;
    torn[persisted.clone()].copy_from_slice(&written[persisted]);
    torn
}

/// Logs on a disk that loses what a failed flush had to write.
struct Reopened;

struct Open {
    /// The log, and the threads whose next flush fails. `None` while the log is opened again.
    log: Mutex<Option<(Log<Disk>, Arc<AtomicU64>)>>,
    region: Arc<Simulated>,
}

impl Open {
    fn with<R>(&self, run: impl FnOnce(&Log<Disk>, &AtomicU64) -> R) -> R {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let (log, failing) = log.as_ref().expect("it was opened again");
        run(log, failing)
    }

    fn reopen(&self) -> Result<(), String> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        *log = None;
        let disk = Disk::new(&self.region);
        let failing = disk.failing.clone();
        let opened = Log::open_lazily(disk, &options()).map_err(|why| why.to_string())?;
        *log = Some((opened, failing));
        Ok(())
    }
}

impl Subject for Reopened {
    type Store = Open;
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Open, String> {
        let open = Open {
            log: Mutex::new(None),
            region: region.clone(),
        };
        open.reopen()?;
        // A disk may lose what this process can read, so the store relies on it only after this.
        open.with(|log, _| log.finish_opening().map_err(told))?;
        Ok(open)
    }

    fn state(&self, open: &Open) -> Result<Content, String> {
        open.with(|log, _| content(log))
    }

    fn go_on(&self, open: &Open) -> Result<(), String> {
        open.with(|log, _| go_on(log))?;
        let again = self.recover(&Simulated::new(&open.region.bytes()))?;
        same(&self.state(open)?, &self.state(&again)?)
    }

    fn apply(&self, state: &Content, operation: u32, result: Option<&str>) -> Option<Content> {
        apply(state, operation, result)
    }

    fn is_unknown(&self, result: &str) -> bool {
        result == FAILED
    }

    fn name(&self, operation: u32) -> String {
        kind(operation).name().to_owned()
    }
}

impl Crashable for Reopened {
    fn perform(&self, open: &Open, operation: u32) -> String {
        match kind(operation) {
            Kind::Reopen => {
                open.reopen().expect("the log is sound");
                "reopened".to_owned()
            }
            Kind::CommitFails => open.with(|log, failing| {
                // Relaxed: each thread uses its own bit only.
                failing.fetch_or(1 << thread::index(), Relaxed);
                perform(log, operation)
            }),
            Kind::Commit | Kind::Truncate => open.with(|log, _| perform(log, operation)),
        }
    }
}
