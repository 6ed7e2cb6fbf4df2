//! Handles that need more credits than they began with: they extend their reservation, or restart
//! in the next transaction.

#![cfg(feature = "jbd2")]

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{Error, FormatOptions, Handle, Journal, Options, format};
use spanlock_journal_commit::testing::{Loss, Recorded};

const BLOCK: usize = 1024;

struct Devices {
    log: Arc<Recorded>,
    home: Arc<Recorded>,
}

impl Devices {
    fn new() -> Devices {
        let log = Arc::new(Recorded::new(64 * BLOCK));
        format(log.clone(), &FormatOptions::new(BLOCK as u32)).unwrap();
        let home = Arc::new(Recorded::new(256 * BLOCK));
        Devices { log, home }
    }

    fn open(&self) -> Journal {
        let options = Options::new(BLOCK as u32);
        Journal::open(self.log.clone(), self.home.clone(), options).unwrap()
    }

    /// Opens what a power cut would leave now.
    fn after_crash(&self) -> Journal {
        let left = |device: &Recorded| {
            let history = device.history();
            Recorded::from_image(history.image(history.len(), Loss::Everything))
        };
        let options = Options::new(BLOCK as u32);
        Journal::open(left(&self.log), left(&self.home), options).unwrap()
    }
}

fn change(handle: &mut Handle<'_>, block: u64) -> Result<(), Error> {
    let mut block = handle.get_write(block)?;
    block[0] += 1;
    block.dirty()
}

fn first_byte(journal: &Journal, block: u64) -> u8 {
    let mut bytes = vec![0; BLOCK];
    journal.read(block, &mut bytes).unwrap();
    bytes[0]
}

/// Changes blocks of a number that is not known in advance. Every early return is by `?`.
fn change_all(journal: &Journal, blocks: std::ops::Range<u64>) -> Result<u32, Error> {
    let mut restarts = 0;
    let mut handle = journal.begin(1)?;
    for block in blocks {
        if handle.credits() == 0 && !handle.extend(1)? {
            handle.restart(1)?;
            restarts += 1;
        }
        change(&mut handle, block)?;
    }
    handle.stop_durable()?;
    Ok(restarts)
}

#[test]
fn a_handle_without_credits_continues() {
    let devices = Devices::new();
    let journal = devices.open();
    // Several threads, so that transactions become full at any time.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let journal = &journal;
            let blocks = thread * 60..(thread + 1) * 60;
            // A handle has at most as many credits as a transaction, so 60 blocks need several.
            scope.spawn(move || assert!(change_all(journal, blocks).unwrap() > 0));
        }
    });
    journal.check().unwrap();
    drop(journal);
    let journal = devices.after_crash();
    assert!((0..240).all(|block| first_byte(&journal, block) == 1));
}

#[test]
fn an_extended_handle_is_one_atomic_change() {
    let devices = Devices::new();
    let journal = devices.open();
    let mut handle = journal.begin(1).unwrap();
    let tid = handle.tid();
    change(&mut handle, 4).unwrap();
    let error = change(&mut handle, 5).unwrap_err();
    assert!(
        matches!(
            error,
            Error::NoCredits {
                credits: 1,
                block: 5
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("extend or restart it"),
        "{error}"
    );
    assert!(handle.extend(2).unwrap());
    assert_eq!((handle.credits(), handle.tid()), (2, tid));
    change(&mut handle, 5).unwrap();
    handle.revoke(6).unwrap();
    let error = handle.revoke(7).unwrap_err();
    assert!(
        matches!(
            error,
            Error::NoCredits {
                credits: 3,
                block: 7
            }
        ),
        "{error}"
    );
    assert_eq!(handle.stop_durable().unwrap(), tid);
    let crashed = devices.after_crash();
    assert_eq!([4, 5].map(|block| first_byte(&crashed, block)), [1, 1]);
}

#[test]
fn a_full_transaction_grants_no_more_credits() {
    let devices = Devices::new();
    let journal = devices.open();
    let most = journal.most_credits();
    let mut handle = journal.begin(2).unwrap();
    let error = handle.extend(most + 1).unwrap_err();
    assert!(matches!(error, Error::TooManyCredits { .. }), "{error}");
    assert!(!handle.extend(most - 1).unwrap());
    let other = journal.begin(most - 2).unwrap();
    assert!(!handle.extend(1).unwrap());
    assert_eq!(handle.credits(), 2);
    // The other handle's unused credits are free again once it has ended.
    drop(other);
    assert!(handle.extend(1).unwrap());
    drop(handle);
    journal.check().unwrap();
}

#[test]
fn a_restarted_handle_continues_in_another_transaction() {
    let devices = Devices::new();
    let journal = devices.open();
    let mut handle = journal.begin(1).unwrap();
    let first = handle.tid();
    change(&mut handle, 4).unwrap();
    let error = handle.restart(journal.most_credits() + 1).unwrap_err();
    assert!(matches!(error, Error::TooManyCredits { .. }), "{error}");
    assert_eq!(handle.tid(), first, "unchanged");
    handle.restart(2).unwrap();
    assert_eq!((handle.tid(), handle.credits()), (first.next(), 2));
    // The restart has requested the commit of the first part.
    journal.wait(first).unwrap();
    change(&mut handle, 4).unwrap();
    let crashed = devices.after_crash();
    assert_eq!(first_byte(&crashed, 4), 1, "the first part alone");
    handle.stop_durable().unwrap();
    assert_eq!(first_byte(&devices.after_crash(), 4), 2);

    // After a restart, the handle has changed nothing, so dropping it is harmless.
    let mut handle = journal.begin(1).unwrap();
    change(&mut handle, 5).unwrap();
    handle.restart(1).unwrap();
    drop(handle);
    journal.check().unwrap();
    journal.close().unwrap();
    assert_eq!(first_byte(&devices.open(), 5), 1);
}

/// A transaction that is being committed waits for its handles, and gives them no more credits.
#[test]
fn a_handle_in_a_locked_transaction_restarts() {
    let devices = Devices::new();
    let journal = devices.open();
    let mut handle = journal.begin(1).unwrap();
    change(&mut handle, 4).unwrap();
    let first = handle.tid();
    journal.commit(first).unwrap();
    while handle.extend(0).unwrap() {
        std::thread::yield_now();
    }
    handle.restart(1).unwrap();
    assert_eq!(handle.tid(), first.next());
    change(&mut handle, 5).unwrap();
    handle.stop_durable().unwrap();
    assert_eq!([4, 5].map(|block| first_byte(&journal, block)), [1, 1]);
}

/// A log whose next flush waits until it is told to go on, and fails.
struct Failing {
    device: Arc<Recorded>,
    goes_on: Mutex<Option<Receiver<()>>>,
}

impl Storage for Failing {
    fn len(&self) -> u64 {
        self.device.len()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.device.read_at(buf, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_at(data, offset)
    }
    fn flush(&self) -> io::Result<()> {
        let Some(goes_on) = self.goes_on.lock().unwrap().take() else {
            return self.device.flush();
        };
        goes_on.recv().unwrap();
        Err(io::Error::other("planned"))
    }
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_fua(data, offset)
    }
}

/// In a poisoned journal, a restart fails, and so does the handle from then on.
#[test]
fn a_poisoned_journal_restarts_no_handle() {
    let devices = Devices::new();
    let log = Arc::new(Failing {
        device: devices.log.clone(),
        goes_on: Mutex::new(None),
    });
    let options = Options::new(BLOCK as u32);
    let journal = Journal::open(log.clone(), devices.home.clone(), options).unwrap();
    let (go_on, goes_on) = mpsc::channel();
    *log.goes_on.lock().unwrap() = Some(goes_on);
    let mut first = journal.begin(1).unwrap();
    change(&mut first, 7).unwrap();
    let tid = first.stop();
    journal.commit(tid).unwrap();
    // The first transaction is being committed, so this handle is in the second one.
    let mut handle = journal.begin(1).unwrap();
    while handle.tid() == tid {
        drop(handle);
        handle = journal.begin(1).unwrap();
    }
    go_on.send(()).unwrap();
    assert!(matches!(journal.wait(tid), Err(Error::Poisoned(_))));
    for _ in 0..2 {
        assert!(matches!(handle.restart(1), Err(Error::Poisoned(_))));
        assert!(matches!(handle.extend(1), Err(Error::Poisoned(_))));
        assert!(matches!(change(&mut handle, 4), Err(Error::Poisoned(_))));
    }
    assert!(matches!(handle.stop_durable(), Err(Error::Poisoned(_))));
}
