//! Storages that act in the middle of an operation, to show what an order of steps protects.

#![cfg(all(feature = "jbd2", feature = "compact"))]

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Error, GroupCommit, Log, Lsn, Options as LogOptions};
use spanlock_journal_commit::jbd2::{FormatOptions, Journal, Options, format};
use spanlock_journal_commit::testing::Recorded;

/// An operation on a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// After the bytes have been read.
    Read,
    Write,
    Flush,
    DurableWrite,
}

type Hook = Box<dyn Fn(Step, u64) + Send + Sync>;

/// A storage that calls a hook in each operation, with the offset.
struct Hooked {
    device: Recorded,
    hook: OnceLock<Hook>,
}

impl Hooked {
    fn new(len: usize) -> Arc<Hooked> {
        let (device, hook) = (Recorded::new(len), OnceLock::new());
        Arc::new(Hooked { device, hook })
    }

    fn set(&self, hook: impl Fn(Step, u64) + Send + Sync + 'static) {
        assert!(self.hook.set(Box::new(hook)).is_ok());
    }

    fn call(&self, step: Step, at: u64) {
        if let Some(hook) = self.hook.get() {
            hook(step, at);
        }
    }
}

impl Storage for Hooked {
    fn len(&self) -> u64 {
        self.device.len()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.device.read_at(buf, offset)?;
        self.call(Step::Read, offset);
        Ok(())
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.call(Step::Write, offset);
        self.device.write_at(data, offset)
    }
    fn flush(&self) -> io::Result<()> {
        self.call(Step::Flush, 0);
        self.device.flush()
    }
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.call(Step::DurableWrite, offset);
        self.device.write_fua(data, offset)
    }
}

fn plain() -> LogOptions {
    LogOptions::new().group_commit(GroupCommit::Plain)
}

/// A medium below a page cache. A flush writes only what was written since the cache was filled:
/// Linux marks pages clean that it failed to write.
struct Cached {
    cache: Mutex<Vec<u8>>,
    medium: Mutex<Vec<u8>>,
    dirty: Mutex<Vec<(usize, usize)>>,
}

impl Storage for Cached {
    fn len(&self) -> u64 {
        self.cache.lock().unwrap().len() as u64
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.copy_from_slice(&self.cache.lock().unwrap()[offset as usize..][..buf.len()]);
        Ok(())
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.cache.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        let bytes = (offset as usize, data.len());
        self.dirty.lock().unwrap().push(bytes);
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        let (cache, mut medium) = (self.cache.lock().unwrap(), self.medium.lock().unwrap());
        for (at, len) in self.dirty.lock().unwrap().drain(..) {
            medium[at..at + len].copy_from_slice(&cache[at..at + len]);
        }
        Ok(())
    }
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)?;
        self.flush()
    }
}

/// The last batch of a compact log is in the page cache only, because its write-back has failed. A
/// record that opening returns must survive a power cut nevertheless (C-R4).
#[test]
fn a_last_batch_in_the_cache_only_becomes_durable() {
    let device = Recorded::new(1 << 15);
    let log = Log::create(&device, &plain()).unwrap();
    log.append_durable(b"first").unwrap();
    let medium = device.visible();
    log.append_durable(&[7; 2000]).unwrap();
    drop(log);
    let storage = Cached {
        cache: Mutex::new(device.visible()),
        medium: Mutex::new(medium),
        dirty: Mutex::default(),
    };
    let log = Log::open(&storage, &plain()).unwrap();
    assert_eq!(log.records().count(), 2);
    drop(log);
    let left = Recorded::from_image(storage.medium.into_inner().unwrap());
    assert_eq!(Log::open(&left, &plain()).unwrap().records().count(), 2);
}

/// A full log is truncated. While the superblocks are being written, no record may take the freed
/// room, because a crash may bring the old head back.
#[test]
fn freed_room_is_not_used_before_both_superblocks_say_so() {
    let storage = Hooked::new(8192 + 8 * 512);
    let log = Arc::new(Log::create(storage.clone(), &plain()).unwrap());
    for _ in 0..8 {
        log.append_durable(&[1; 400]).unwrap();
    }
    let (weak, seen) = (Arc::downgrade(&log), Arc::new(Mutex::new(Vec::new())));
    let results = seen.clone();
    storage.set(move |step, at| {
        if let (Step::DurableWrite, Some(log)) = (step, weak.upgrade()) {
            let full = matches!(log.append(&[2; 400]), Err(Error::Full { .. }));
            results.lock().unwrap().push((at, full));
        }
    });
    log.truncate(Lsn::new(5)).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(0, true), (4096, true)]);
    log.append_durable(&[2; 400]).unwrap();
}

/// Returns the operations that another thread begins while this thread waits in the middle of its
/// own. It waits a while, because no event shows that a thread begins nothing.
fn meanwhile(begun: &mpsc::Receiver<Step>) -> Vec<Step> {
    begun
        .recv_timeout(Duration::from_millis(200))
        .into_iter()
        .collect()
}

/// A superblock and a batch of a compact log are never written at the same time: if one failed, the
/// success of the other would prove nothing.
#[test]
fn a_batch_waits_for_the_superblock_being_written() {
    let storage = Hooked::new(1 << 15);
    let log = Arc::new(Log::create(storage.clone(), &plain()).unwrap());
    log.append_durable(b"first").unwrap();
    let (begins, begun) = mpsc::channel();
    let (starts, started) = mpsc::channel();
    let begun = Mutex::new(begun);
    let found = Arc::new(Mutex::new(None));
    let result = found.clone();
    storage.set(move |step, at| match step {
        Step::DurableWrite if at == 0 => {
            starts.send(()).unwrap();
            *result.lock().unwrap() = Some(meanwhile(&begun.lock().unwrap()));
        }
        Step::Write | Step::Flush => begins.send(step).unwrap(),
        _ => {}
    });
    std::thread::scope(|scope| {
        let log = &log;
        scope.spawn(move || {
            started.recv().unwrap();
            log.append_durable(b"second").unwrap();
        });
        log.truncate(Lsn::new(2)).unwrap();
    });
    assert_eq!(*found.lock().unwrap(), Some(Vec::new()));
    assert_eq!(log.records().count(), 1);
}

const BLOCK: usize = 1024;

fn journal(home: &Arc<Hooked>) -> Journal {
    let log = Arc::new(Recorded::new(64 * BLOCK));
    format(log.clone(), &FormatOptions::new(BLOCK as u32)).unwrap();
    Journal::open(log, home.clone(), Options::new(BLOCK as u32)).unwrap()
}

fn fill(journal: &Journal, block: u64, byte: u8) {
    let handle = journal.begin(1).unwrap();
    let mut block = handle.get_write(block).unwrap();
    block.fill(byte);
    block.dirty().unwrap();
    handle.stop_durable().unwrap();
}

/// A handle changes a block and revokes it. Once that is committed, the block may hold other data,
/// which no checkpoint may overwrite.
#[test]
fn a_block_revoked_in_its_own_transaction_is_not_written_home() {
    let home = Hooked::new(16 * BLOCK);
    let journal = journal(&home);
    let handle = journal.begin(3).unwrap();
    for number in [4, 5] {
        let mut block = handle.get_write(number).unwrap();
        block.fill(7);
        block.dirty().unwrap();
    }
    handle.revoke(5).unwrap();
    handle.stop_durable().unwrap();
    home.write_at(&[0xEE; BLOCK], 5 * BLOCK as u64).unwrap();
    journal.close().unwrap();
    let bytes = home.device.visible();
    assert_eq!((bytes[4 * BLOCK], bytes[5 * BLOCK]), (7, 0xEE));
}

/// While a thread reads a block at home, another thread changes the block, and a checkpoint writes
/// it home. The reader must not return what it read before.
#[test]
fn a_read_returns_no_content_that_was_replaced_meanwhile() {
    let home = Hooked::new(16 * BLOCK);
    let journal = Arc::new(journal(&home));
    let (weak, reads) = (Arc::downgrade(&journal), Mutex::new(0));
    home.set(move |step, at| {
        let Some(journal) = weak
            .upgrade()
            .filter(|_| step == Step::Read && at == 5 * BLOCK as u64)
        else {
            return;
        };
        *reads.lock().unwrap() += 1;
        if *reads.lock().unwrap() > 1 {
            return;
        }
        fill(&journal, 5, 9);
        let before = journal.stats().checkpoints;
        while journal.stats().checkpoints == before {
            fill(&journal, 6, 1);
        }
    });
    let mut found = vec![0; BLOCK];
    journal.read(5, &mut found).unwrap();
    assert_eq!(found, [9; BLOCK]);
}
