//! Threads that meet: the rendezvous, and the flush of the data half.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_node_log::Error;
use spanlock_node_log::raw::{DataDevice, Rendezvous};
use spanlock_sync::atomic::{AtomicU32, Ordering::Relaxed};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;
use spanlock_verify::{Program, Suite, finished, note, note_as};

/// The bytes of a block of the data half.
const BLOCK_BYTES: usize = 4096;

const COVERED: &str = "a call returns only after a run that began after the call, and runs exclude \
                       each other";

pub(crate) fn rendezvous() -> Suite {
    Suite::new("node-log-rendezvous")
        .program(
            Program::new("two", COVERED)
                .scene(Meeting::new)
                .thread(["pass"], |meeting| meeting.pass(0))
                .thread(["pass"], |meeting| meeting.pass(1)),
        )
        .program(
            Program::new("again", COVERED)
                .scene(Meeting::new)
                .thread(["pass"], |meeting| meeting.pass(0))
                .thread(["pass", "pass"], |meeting| {
                    meeting.pass(1);
                    meeting.pass(2);
                }),
        )
        .program(
            Program::new("three", COVERED)
                .scene(Meeting::new)
                .thread(["pass"], |meeting| meeting.pass(0))
                .thread(["pass"], |meeting| meeting.pass(1))
                .thread(["pass"], |meeting| meeting.pass(2)),
        )
        .program(
            Program::new(
                "fails",
                "a call succeeds only if a run that began after the call did",
            )
            .scene(Meeting::new)
            .thread(["pass"], |meeting| meeting.fail(0))
            .thread(["pass"], |meeting| meeting.try_pass(1))
            .thread(["pass"], |meeting| meeting.try_pass(2)),
        )
        .program(
            Program::new(
                "unwinds",
                "if a run unwinds, a call that waits for it runs itself",
            )
            .threads(2)
            .operations(2)
            .unwinds()
            .run(unwinds),
        )
}

/// What threads have written, and what a run has seen of it.
struct Meeting {
    rendezvous: Rendezvous,
    written: [AtomicU32; 3],
    durable: [AtomicU32; 3],
    /// Changed by each run.
    runs: UnsafeCell<u32>,
}

// SAFETY: the rendezvous orders the accesses to `runs`, and the checkers check that it does.
unsafe impl Sync for Meeting {}

impl Meeting {
    fn new() -> Self {
        let none = || std::array::from_fn(|_| AtomicU32::new(0));
        Meeting {
            rendezvous: Rendezvous::new(),
            written: none(),
            durable: none(),
            runs: UnsafeCell::new(0),
        }
    }

    // Relaxed, everywhere below: the programs show that the rendezvous orders the accesses.
    fn run(&self) -> Result<(), Error> {
        // SAFETY: as above.
        self.runs.with_mut(|runs| unsafe { *runs += 1 });
        for (written, durable) in self.written.iter().zip(&self.durable) {
            durable.store(written.load(Relaxed), Relaxed);
        }
        Ok(())
    }

    fn pass(&self, which: usize) {
        self.written[which].store(1, Relaxed);
        self.rendezvous.pass(|| self.run()).expect("no run fails");
        assert_eq!(self.durable[which].load(Relaxed), 1);
        finished();
    }

    /// Passes with a run that does nothing but fail.
    fn fail(&self, which: usize) {
        self.written[which].store(1, Relaxed);
        let failure = || Err(Error::NotAVolume { half: "data half" });
        let passed = self.rendezvous.pass(failure);
        assert!(passed.is_err() || self.durable[which].load(Relaxed) == 1);
        finished();
    }

    fn try_pass(&self, which: usize) {
        self.written[which].store(1, Relaxed);
        let passed = self.rendezvous.pass(|| self.run());
        assert!(passed.is_err() || self.durable[which].load(Relaxed) == 1);
        note(if passed.is_ok() { "passed" } else { "failed" });
        finished();
    }
}

struct OnPurpose;

fn unwinds() {
    let meeting = Arc::new(Meeting::new());
    let other = meeting.clone();
    let other = thread::spawn(move || {
        other.pass(1);
    });
    let panics = || {
        let run = || {
            // A step, before which the other thread may come.
            meeting.written[0].store(1, Relaxed);
            resume_unwind(Box::new(OnPurpose))
        };
        meeting.rendezvous.pass(run)
    };
    match catch_unwind(AssertUnwindSafe(panics)) {
        Ok(passed) => {
            passed.expect("the other thread's run");
            note_as(0, "shared");
        }
        Err(payload) if payload.is::<OnPurpose>() => note_as(0, "unwound"),
        Err(payload) => resume_unwind(payload),
    }
    finished();
    other.join().expect("no panic");
}

pub(crate) fn flush() -> Suite {
    Suite::new("node-log-flush")
        .program(
            Program::new(
                "two",
                "a flush that returns has made durable what its thread wrote before",
            )
            .scene(device)
            .thread(["flush"], |device| flushes(device, 0))
            .thread(["flush"], |device| flushes(device, 1)),
        )
        .program(
            Program::new("fails", "once a flush has failed, no later one succeeds")
                .scene(|| {
                    let device = device();
                    device.storage().fails.store(1, Relaxed);
                    device
                })
                .thread(["flush"], |device| assert!(device.flush().is_err()))
                .thread(["flush"], |device| {
                    assert!(device.flush().is_err());
                    assert!(device.flush().is_err());
                }),
        )
}

fn device() -> DataDevice<Medium> {
    let none = || std::array::from_fn(|_| AtomicU32::new(0));
    DataDevice::new(Medium {
        written: none(),
        durable: none(),
        fails: AtomicU32::new(0),
    })
}

fn flushes(device: &DataDevice<Medium>, block: usize) {
    let written = device.write(block as u32, &[1; BLOCK_BYTES]);
    written.expect("the medium is in order");
    let _ = device.flush().expect("no flush fails");
    // Relaxed: the flush orders it.
    assert_eq!(device.storage().durable[block].load(Relaxed), 1);
    finished();
}

/// Two blocks, of which only the first byte counts.
struct Medium {
    written: [AtomicU32; 2],
    durable: [AtomicU32; 2],
    /// How many flushes fail.
    fails: AtomicU32,
}

impl Storage for Medium {
    fn len(&self) -> u64 {
        2 * BLOCK_BYTES as u64
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        unreachable!("nobody reads")
    }

    // Relaxed, everywhere below: the programs show that the device orders the accesses.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let block = offset as usize / BLOCK_BYTES;
        self.written[block].store(data[0].into(), Relaxed);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let fails = self.fails.load(Relaxed);
        if fails > 0 {
            self.fails.store(fails - 1, Relaxed);
            return Err(io::Error::other("on purpose"));
        }
        for (written, durable) in self.written.iter().zip(&self.durable) {
            durable.store(written.load(Relaxed), Relaxed);
        }
        Ok(())
    }

    fn write_fua(&self, _: &[u8], _: u64) -> io::Result<()> {
        unreachable!("the data half has no such writes")
    }
}
