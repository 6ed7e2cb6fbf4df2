//! Whole logs, by the face that users see, over a device that knows what is durable: what is acknowledged is there after a crash.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{GroupCommit, Log, Lsn, Options as LogOptions};
use spanlock_journal_commit::jbd2::{
    CommitWay, FormatOptions, Handle, Journal, Options, Place, format, recover,
};
use spanlock_journal_commit::testing::Recorded;

use super::journal::{at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::Program;
use crate::trace::{finished, note, perform};

const JOURNAL: &str = "journal";
const LOG: &str = "compact-log";

/// Every program of these.
pub fn programs() -> Vec<Program> {
    let durable = "what is acknowledged is there after a crash; what is closed needs no recovery";
    let record =
        "a record that is acknowledged is there after a crash, and one that was truncated is not";
    vec![
        // The other thread is the journal's own. What follows is too long to be searched to its end: each of the machines it is made of is.
        program(JOURNAL, "open", durable, [&[], &[]], || {
            let devices = devices();
            drop(open(&devices, CommitWay::Coalesced));
            assert_eq!(after_a_crash(&devices), ([0, 0, 0], 0));
        }),
        program(JOURNAL, "close", durable, [&[], &[]], || {
            let devices = devices();
            let journal = open(&devices, CommitWay::Coalesced);
            change(&journal, 0).stop();
            finished();
            close(Arc::new(journal));
            assert_eq!(after_a_crash(&devices), ([1, 0, 0], 0));
        }),
        program(JOURNAL, "commit", durable, [&[], &[]], || {
            let devices = devices();
            let journal = open(&devices, CommitWay::Coalesced);
            commit(0, &journal);
            assert_eq!(after_a_crash(&devices), ([1, 0, 0], 1));
        }),
        program(JOURNAL, "next", durable, [&[], &[]], || {
            let devices = devices();
            let journal = open(&devices, CommitWay::Coalesced);
            ask(0, &journal);
            commit(1, &journal);
            assert_eq!(after_a_crash(&devices).0, [1, 2, 0]);
        }),
        crowd(JOURNAL, "crowd-4", durable, 4, commit_each),
        crowd(JOURNAL, "crowd-8", durable, 8, commit_some),
        program(
            LOG,
            "commit-each",
            record,
            [&[Op::Commit], &[Op::Commit]],
            || records(&[append, append], 1..4),
        ),
        program(
            LOG,
            "truncate",
            record,
            [&[Op::Truncate], &[Op::Commit]],
            || records(&[truncate, append], 2..3),
        ),
        program(
            LOG,
            "truncate-each",
            record,
            [&[Op::Truncate], &[Op::Truncate]],
            || records(&[truncate, truncate], 2..2),
        ),
        program(
            LOG,
            "truncate-3",
            record,
            [&[Op::Truncate], &[Op::Truncate], &[Op::Truncate]],
            || records(&[truncate, truncate, truncate], 2..2),
        ),
        crowd(LOG, "crowd-4", record, 4, || {
            records(&[truncate, append, append, append], 2..5);
        }),
    ]
}

/// Bytes that no checker sees: for what is done before the threads begin, and looked at when they have ended.
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

/// Bytes of a block of the journal.
const BLOCK: usize = 1024;

/// A journal that was formatted once, and blocks for it.
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
    let options = Options::new(BLOCK as u32).way(way);
    Journal::open(log.clone(), home.clone(), options).expect("just formatted")
}

/// A handle that has changed a block.
fn change(journal: &Journal, block: u8) -> Handle<'_> {
    let mut handle = journal.begin(1).expect("nothing fails");
    let mut copy = handle.get_write(block.into()).expect("it is there");
    copy[0] = 1 + block;
    copy.dirty().expect("there is a credit");
    handle
}

/// The blocks that a crash now would leave, recovered; and how many transactions that takes.
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

/// Three commit, and the journal's thread is the fourth, which they help.
fn commit_each() {
    let devices = devices();
    let journal = Arc::new(open(&devices, CommitWay::Cooperative));
    finished();
    at_once(&journal, &[commit, commit, commit]);
    assert_eq!(after_a_crash(&devices).0, [1, 2, 3]);
    close(journal);
    assert_eq!(after_a_crash(&devices), ([1, 2, 3], 0));
}

/// Transactions are committed while others begin, or join them: three ask for it and wait, three ask alone, and one gives its change to whoever commits next.
fn commit_some() {
    let devices = devices();
    let journal = Arc::new(open(&devices, CommitWay::Coalesced));
    finished();
    at_once(&journal, &[commit, ask, leave, commit, ask, commit, ask]);
    let ([first, _, third], _) = after_a_crash(&devices);
    assert_eq!([first, third], [1, 3], "what was waited for");
    close(journal);
    assert_eq!(after_a_crash(&devices), ([1, 2, 3], 0));
}

/// The block that a thread changes.
fn block_of(me: usize) -> u8 {
    (me % 3) as u8
}

fn commit(me: usize, journal: &Journal) {
    let tid = change(journal, block_of(me)).stop_durable();
    note(me, format!("{:?}", tid.expect("nothing fails")));
    finished();
}

fn ask(me: usize, journal: &Journal) {
    let tid = change(journal, block_of(me)).stop();
    let asked = journal.commit(tid);
    note(me, format!("{tid:?} {}", asked.is_ok()));
    finished();
}

fn leave(me: usize, journal: &Journal) {
    let tid = change(journal, block_of(me)).stop();
    note(me, format!("{tid:?}"));
    finished();
}

fn close(journal: Arc<Journal>) {
    let journal = Arc::into_inner(journal).expect("all others have ended");
    journal.close().expect("nothing fails");
    finished();
}

/// A log, and its device.
type Scene = (Log<Arc<Recorded>>, Arc<Recorded>);

fn options() -> LogOptions {
    LogOptions::new().group_commit(GroupCommit::Plain)
}

/// One record is there when the threads begin; these are, after a crash, when they have ended.
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

fn append(me: usize, (log, _): &Scene) {
    let lsn = log.append_durable(b"b").expect("there is room");
    perform(Op::Commit);
    assert!(log.durable() >= lsn);
    note(me, format!("{lsn:?}"));
}

/// Gives up the first record.
fn truncate(_: usize, (log, _): &Scene) {
    log.truncate(Lsn::new(2)).expect("the first is durable");
    perform(Op::Truncate);
}
