//! Models of whole journals and logs, through the public API. They run on a simulated device that
//! tracks which writes are durable, and check that everything acknowledged is there after a crash.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{GroupCommit, Log, Lsn, Options as LogOptions};
use spanlock_journal_commit::jbd2::{
    CommitWay, FormatOptions, Handle, Journal, Options, Place, format, recover,
};
use spanlock_journal_commit::testing::Recorded;
use spanlock_verify::{Program, Suite, finished, note_as, perform};

use crate::threads::{at_once, crowd, program};

pub(crate) fn journal() -> Suite {
    Suite::new("journal")
        .step_bound(320)
        .program(alone("open", || {
            let devices = devices();
            drop(open(&devices, CommitWay::Coalesced));
            assert_eq!(after_a_crash(&devices), ([0, 0, 0], 0));
        }))
        .program(alone("close", || {
            let devices = devices();
            let journal = open(&devices, CommitWay::Coalesced);
            change(&journal, 0).stop();
            finished();
            close(Arc::new(journal));
            assert_eq!(after_a_crash(&devices), ([1, 0, 0], 0));
        }))
        .program(alone("commit", || {
            let devices = devices();
            let journal = open(&devices, CommitWay::Coalesced);
            commit(0, &journal);
            assert_eq!(after_a_crash(&devices), ([1, 0, 0], 1));
        }))
        .program(
            alone("next", || {
                let devices = devices();
                let journal = open(&devices, CommitWay::Coalesced);
                ask(0, &journal);
                commit(1, &journal);
                assert_eq!(after_a_crash(&devices).0, [1, 2, 0]);
            })
            .unexplored("the critical sections of two transactions have too many orders"),
        )
        .program(crowd("crowd-4", DURABLE, 4, commit_each))
        .program(crowd("crowd-8", DURABLE, 8, commit_some))
}

const DURABLE: &str =
    "acknowledged changes are there after a crash, and a closed journal needs no recovery";

/// Returns a program with two threads: the main thread and the journal's own thread.
fn alone(name: &str, run: fn()) -> Program {
    program(name, DURABLE, [&[], &[]], run)
}

pub(crate) fn compact_log() -> Suite {
    let truncates: &[&str] = &["truncate"];
    Suite::new("compact-log")
        .step_bound(96)
        .operations(["commit", "truncate"])
        .program(program(
            "commit-each",
            RECORD,
            [&["commit"], &["commit"]],
            || records(&[append, append], 1..4),
        ))
        .program(program(
            "truncate",
            RECORD,
            [truncates, &["commit"]],
            || records(&[truncate, append], 2..3),
        ))
        .program(program("truncate-each", RECORD, [truncates; 2], || {
            records(&[truncate, truncate], 2..2);
        }))
        .program(program("truncate-3", RECORD, [truncates; 3], || {
            records(&[truncate, truncate, truncate], 2..2);
        }))
        .program(program(
            "fail-beside",
            "no operation on the storage begins after one has failed",
            [truncates, &["commit"]],
            fail_beside,
        ))
        .program(crowd("crowd-4", RECORD, 4, || {
            records(&[truncate, append, append, append], 2..5);
        }))
}

const RECORD: &str = "an acknowledged record is there after a crash, and a truncated one is not";

/// A storage that no checker sees, for use before the threads begin and after they have ended.
struct Plain(Mutex<Vec<u8>>);

impl Plain {
    fn new(bytes: Vec<u8>) -> Self {
        Plain(Mutex::new(bytes))
    }

    fn with<R>(&self, offset: u64, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> io::Result<R> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = offset as usize;
        let part = bytes.get_mut(from..from + len);
        part.map(f).ok_or(io::ErrorKind::InvalidInput.into())
    }
}

impl Storage for Plain {
    fn len(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(offset, buf.len(), |part| buf.copy_from_slice(part))
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.with(offset, data.len(), |part| part.copy_from_slice(data))
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)
    }
}

/// The size of a block of the journal.
const BLOCK: usize = 1024;

/// Returns the device of a new journal, and the device of the blocks that it protects. The journal
/// is formatted only once per process.
fn devices() -> [Arc<Recorded>; 2] {
    static FORMATTED: OnceLock<Vec<u8>> = OnceLock::new();
    let formatted = FORMATTED.get_or_init(|| {
        let log = Arc::new(Plain::new(vec![0; 34 * BLOCK]));
        format(log.clone(), &FormatOptions::new(BLOCK as u32)).expect("there is room");
        let bytes = log.0.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.clone()
    });
    [formatted.clone(), vec![0; 3 * BLOCK]].map(|image| Arc::new(Recorded::from_image(image)))
}

fn open([log, home]: &[Arc<Recorded>; 2], way: CommitWay) -> Journal {
    let options = Options::new(BLOCK as u32).way(way).run_bytes(1);
    Journal::open(log.clone(), home.clone(), options).expect("just formatted")
}

/// Returns a handle that has changed a block.
fn change(journal: &Journal, block: u8) -> Handle<'_> {
    let handle = journal.begin(1).expect("nothing fails");
    let mut copy = handle.get_write(block.into()).expect("it is there");
    copy[0] = 1 + block;
    copy.dirty().expect("there is a credit");
    handle
}

/// Recovers the devices as a crash now would leave them. Returns the first byte of each block, and
/// the number of transactions that were replayed.
fn after_a_crash([log, home]: &[Arc<Recorded>; 2]) -> ([u8; 3], u64) {
    let home = Arc::new(Plain::new(home.medium()));
    let log = Plain::new(log.medium());
    let recovery = recover(log, home.clone(), BLOCK as u32, &Place::whole());
    let recovery = recovery.expect("it is sound");
    let bytes = home.0.lock().unwrap_or_else(PoisonError::into_inner);
    (
        [0, 1, 2].map(|block| bytes[block * BLOCK]),
        recovery.transactions,
    )
}

/// Three threads commit, and help the fourth thread, which is the journal's own.
fn commit_each() {
    let devices = devices();
    let journal = Arc::new(open(&devices, CommitWay::Cooperative));
    finished();
    at_once(&journal, &[commit, commit, commit]);
    assert_eq!(after_a_crash(&devices).0, [1, 2, 3]);
    close(journal);
    assert_eq!(after_a_crash(&devices), ([1, 2, 3], 0));
}

/// Threads begin or join transactions while others are committed. Three threads request a commit
/// and wait for it, three request a commit and do not wait, and one thread does not request a
/// commit.
fn commit_some() {
    let devices = devices();
    let journal = Arc::new(open(&devices, CommitWay::Coalesced));
    finished();
    at_once(&journal, &[commit, ask, leave, commit, ask, commit, ask]);
    let ([first, _, third], _) = after_a_crash(&devices);
    assert_eq!([first, third], [1, 3], "these were waited for");
    close(journal);
    assert_eq!(after_a_crash(&devices), ([1, 2, 3], 0));
}

/// Returns the block that a thread changes.
fn block_of(me: usize) -> u8 {
    (me % 3) as u8
}

fn commit(me: usize, journal: &Journal) {
    let tid = change(journal, block_of(me)).stop_durable();
    note_as(me, format!("{:?}", tid.expect("nothing fails")));
    finished();
}

fn ask(me: usize, journal: &Journal) {
    let tid = change(journal, block_of(me)).stop();
    let asked = journal.commit(tid);
    note_as(me, format!("{tid:?} {}", asked.is_ok()));
    finished();
}

fn leave(me: usize, journal: &Journal) {
    let tid = change(journal, block_of(me)).stop();
    note_as(me, format!("{tid:?}"));
    finished();
}

fn close(journal: Arc<Journal>) {
    let journal = Arc::into_inner(journal).expect("all other threads have ended");
    journal.close().expect("nothing fails");
    finished();
}

/// A log, and its device.
type Scene = (Log<Arc<Recorded>>, Arc<Recorded>);

fn options() -> LogOptions {
    LogOptions::new().group_commit(GroupCommit::Plain)
}

/// Runs `works` on a log of one record. Checks that a crash at the end leaves the records `there`.
fn records(works: &[fn(usize, &Scene)], there: Range<u64>) {
    let device = Arc::new(Recorded::new(16 * 1024));
    let log = Log::create(device.clone(), &options()).expect("there is room");
    log.append_durable(b"a").expect("there is room");
    finished();
    let scene = Arc::new((log, device));
    at_once(&scene, works);
    let left = Plain::new(scene.1.medium());
    let left = Log::open(left, &options()).expect("it is sound");
    let records = left
        .records()
        .map(|record| record.expect("readable").lsn.get());
    assert_eq!(records.collect::<Vec<_>>(), there.collect::<Vec<_>>());
}

/// A storage whose next flush fails. It remembers whether an operation began after that.
struct Failing {
    device: Recorded,
    fails: AtomicBool,
    has_failed: AtomicBool,
    went_on: AtomicBool,
}

impl Failing {
    fn begin(&self) {
        // Relaxed, here and below: the log performs one operation at a time.
        if self.has_failed.load(Relaxed) {
            self.went_on.store(true, Relaxed);
        }
    }
}

impl Storage for Failing {
    fn len(&self) -> u64 {
        self.device.len()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.device.read_at(buf, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.begin();
        self.device.write_at(data, offset)
    }
    fn flush(&self) -> io::Result<()> {
        self.begin();
        if self.fails.load(Relaxed) {
            self.has_failed.store(true, Relaxed);
            return Err(io::ErrorKind::Other.into());
        }
        self.device.flush()
    }
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.begin();
        self.device.write_fua(data, offset)
    }
}

/// One thread commits, which fails, and another truncates.
fn fail_beside() {
    let storage = Arc::new(Failing {
        device: Recorded::new(16 * 1024),
        fails: AtomicBool::new(false),
        has_failed: AtomicBool::new(false),
        went_on: AtomicBool::new(false),
    });
    let log = Log::create(storage.clone(), &options()).expect("there is room");
    log.append_durable(b"a").expect("there is room");
    storage.fails.store(true, Relaxed);
    finished();
    let scene = Arc::new(log);
    let truncate = |me: usize, log: &Log<Arc<Failing>>| {
        let truncated = log.truncate(Lsn::new(2));
        perform("truncate");
        note_as(
            me,
            if truncated.is_ok() {
                "truncated"
            } else {
                "refused"
            },
        );
    };
    let commit = |_: usize, log: &Log<Arc<Failing>>| {
        assert!(log.append_durable(b"b").is_err());
        perform("commit");
    };
    at_once(&scene, &[truncate, commit]);
    assert!(!storage.went_on.load(Relaxed), "after a failure");
}

fn append(me: usize, (log, _): &Scene) {
    let lsn = log.append_durable(b"b").expect("there is room");
    perform("commit");
    assert!(log.durable() >= lsn);
    note_as(me, format!("{lsn:?}"));
}

/// Truncates the first record of the log.
fn truncate(_: usize, (log, _): &Scene) {
    log.truncate(Lsn::new(2)).expect("the first is durable");
    perform("truncate");
}
