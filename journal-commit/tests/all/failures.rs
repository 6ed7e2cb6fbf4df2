//! Fails every write and every flush of a run once. The tests check that everything acknowledged is
//! on the medium, that no thread hangs, and that every thread gets the error until the journal is
//! opened again.

#![cfg(feature = "jbd2")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::Duration;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{
    CommitWay, Delay, Error, Extent, Flushes, FormatOptions, Journal, Options, Place, Tid, format,
};
use spanlock_journal_commit::testing::{Fault, FaultAt, FaultKind, Recorded};

const BLOCK: usize = 1024;
const LOG_BLOCKS: usize = 64;
const BLOCKS: usize = 128;
const THREADS: u64 = 8;
const ROUNDS: u8 = 4;

/// Log and blocks share a device, so one failure affects both.
fn options() -> Options {
    Options::new(BLOCK as u32).place(place())
}

fn place() -> Place {
    Place::extents([Extent {
        first: BLOCKS as u64,
        blocks: LOG_BLOCKS as u64,
    }])
}

fn device(flushes: Flushes) -> Vec<u8> {
    let device = Arc::new(Recorded::new((BLOCKS + LOG_BLOCKS) * BLOCK));
    let options = FormatOptions::new(BLOCK as u32).place(place());
    format(device.clone(), &options.flushes(flushes)).unwrap();
    device.visible()
}

fn open(device: &Arc<Recorded>, way: CommitWay) -> Result<Journal, Error> {
    // Use the rendezvous, because its wait could hang too.
    let options = options().way(way).run_bytes(1).delay(Delay::Rendezvous);
    Journal::open(device.clone(), device.clone(), options)
}

/// The results that a thread got.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The last acknowledged round.
    acknowledged: u8,
    errors: u32,
}

/// In each round, a thread writes the round's number to its own blocks, durably. It continues after
/// an error, to check that nothing is acknowledged afterwards.
fn thread(journal: &Journal, thread: u64) -> Told {
    let mut told = Told::default();
    for round in 1..=ROUNDS {
        match one_round(journal, thread, round) {
            Ok(_) => told.acknowledged = round,
            Err(error) => {
                assert!(matches!(error, Error::Poisoned(_)), "{error}");
                told.errors += 1;
            }
        }
    }
    told
}

fn one_round(journal: &Journal, thread: u64, round: u8) -> Result<Tid, Error> {
    let handle = journal.begin(4)?;
    for number in [thread * 2, thread * 2 + 1] {
        let mut block = handle.get_write(number)?;
        block.fill(round);
        block.dirty()?;
    }
    if round == ROUNDS / 2 {
        handle.revoke(64 + thread)?;
    }
    handle.stop_durable()
}

/// Runs the threads with one planned failure. A panic of the device counts as an error of the
/// thread that called it.
fn run(image: &[u8], way: CommitWay, fault: Option<Fault>) -> (Arc<Recorded>, Vec<Told>) {
    let device = Arc::new(Recorded::from_image(image.to_vec()));
    let journal = open(&device, way).unwrap();
    if let Some(fault) = fault {
        device.plan(fault);
    }
    let told = std::thread::scope(|scope| {
        let journal = &journal;
        let threads: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || thread(journal, number)))
            .collect();
        let joined = threads.into_iter().map(|it| it.join());
        joined.map(Result::unwrap_or_default).collect::<Vec<_>>()
    });
    if device.failures() > 0 {
        assert!(matches!(journal.begin(1), Err(Error::Poisoned(_))));
        assert!(matches!(journal.check(), Err(Error::Poisoned(_))));
    }
    // `close` itself may fail or panic.
    let closed = catch_unwind(AssertUnwindSafe(|| journal.close()));
    let well = matches!(closed, Ok(Ok(())));
    assert_eq!(well, device.failures() == 0, "{closed:?}");
    (device, told)
}

/// Checks that every acknowledged round survives a crash of the machine now.
fn check(device: &Recorded, told: &[Told], what: &str) {
    let after = Arc::new(Recorded::from_image(device.medium()));
    let journal = open(&after, CommitWay::Serial).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut block = vec![0; BLOCK];
    for (thread, told) in told.iter().enumerate() {
        let mut rounds = [0; 2];
        for (half, round) in rounds.iter_mut().enumerate() {
            journal
                .read((thread * 2 + half) as u64, &mut block)
                .unwrap();
            assert!(block.iter().all(|byte| *byte == block[0]), "{what}: torn");
            *round = block[0];
        }
        assert_eq!(rounds[0], rounds[1], "{what}: half of a handle");
        assert!(
            rounds[0] >= told.acknowledged,
            "{what}: {thread} was told {told:?}, found {rounds:?}"
        );
    }
}

/// Suppresses the output of planned panics.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_planned = |text: &String| text.starts_with("planned");
            if !panic.payload().downcast_ref().is_some_and(is_planned) {
                loud(panic);
            }
        }));
    });
}

fn each_failure(flushes: Flushes, way: CommitWay) {
    quiet();
    let image = device(flushes);
    let (clean, told) = run(&image, way, None);
    assert!(
        told.iter()
            .all(|it| it.acknowledged == ROUNDS && it.errors == 0),
        "{told:?}"
    );
    check(&clean, &told, "no failure");
    let mut failed = 0;
    // The number of operations varies between runs. If a run is shorter than this one, a fault
    // beyond its end has no effect.
    let at = (2..clean.writes()).map(FaultAt::Write);
    for at in at.chain((1..clean.flushes()).map(FaultAt::Flush)) {
        for (kind, for_ever, drop_dirty) in [
            (FaultKind::Error, false, false),
            (FaultKind::Error, false, true),
            (FaultKind::Short, false, true),
            (FaultKind::Error, true, false),
            (FaultKind::Panic, false, true),
        ] {
            let fault = Fault {
                at,
                kind,
                for_ever,
                drop_dirty,
            };
            let what = format!("{flushes:?} {way:?} {fault:?}");
            // A thread that is not woken hangs here.
            let (device, told) = run(&image, way, Some(fault));
            check(&device, &told, &what);
            if device.failures() > 0 {
                failed += 1;
                let errors: u32 = told.iter().map(|it| it.errors).sum();
                let all = told.iter().map(|it| it.acknowledged).sum::<u8>();
                let of_all = THREADS as u8 * ROUNDS;
                assert!(
                    errors > 0 || all == of_all || kind == FaultKind::Panic,
                    "{what}: {told:?}"
                );
            }
        }
    }
    println!("{flushes:?} {way:?}: {failed} failures");
    assert!(failed > 50, "{failed}");
}

#[test]
fn serial() {
    each_failure(Flushes::Two, CommitWay::Serial);
}

#[test]
fn coalesced() {
    each_failure(Flushes::Two, CommitWay::Coalesced);
}

#[test]
fn cooperative() {
    each_failure(Flushes::Two, CommitWay::Cooperative);
}

#[test]
fn one_flush() {
    each_failure(Flushes::One, CommitWay::Coalesced);
}

#[test]
fn one_flush_cooperative() {
    each_failure(Flushes::One, CommitWay::Cooperative);
}

/// If opening fails, it returns an error, and the journal can be opened again.
#[test]
fn opening() {
    for flushes in [Flushes::Two, Flushes::One] {
        let image = {
            let device = Arc::new(Recorded::from_image(device(flushes)));
            let journal = open(&device, CommitWay::Serial).unwrap();
            one_round(&journal, 0, 1).unwrap();
            device.medium()
        };
        let writes = {
            let device = Arc::new(Recorded::from_image(image.clone()));
            drop(open(&device, CommitWay::Serial).unwrap());
            device.writes()
        };
        assert!(writes > 2);
        let at = (0..writes).map(FaultAt::Write);
        for at in at.chain([FaultAt::Flush(0)]) {
            let device = Arc::new(Recorded::from_image(image.clone()));
            device.plan(Fault {
                at,
                kind: FaultKind::Short,
                for_ever: false,
                drop_dirty: true,
            });
            let error = open(&device, CommitWay::Serial).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error}");
            let told = [Told {
                acknowledged: 1,
                errors: 0,
            }];
            check(&device, &told, &format!("{at:?}"));
            let journal = open(&device, CommitWay::Serial).unwrap();
            assert_eq!(journal.recovery().transactions, 1);
        }
    }
}

/// A device on which a write home fails while a commit writes its data, flushes, or writes its
/// commit block. The failure loses all dirty data, but the commit's operation succeeds, and the
/// failed write returns only later. A thread must therefore not trust the success of its own
/// operation alone.
struct LateNews {
    device: Arc<Recorded>,
    during: During,
    /// Writes to the log since the device was armed.
    log_writes: AtomicU32,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum During {
    /// The writes of data. Some of them are lost. The others are kept, and so is the descriptor,
    /// which is written last.
    Data,
    Flush,
    CommitBlock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Stage {
    Off,
    Armed,
    /// The commit has reached the point at which it loses its writes.
    Reached,
    /// The failed write home has lost these writes.
    Lost,
    /// The commit was told that its operation succeeded.
    Told,
}

impl LateNews {
    fn reach(&self, stage: Stage) {
        *self.stage.lock().unwrap() = stage;
        self.changed.notify_all();
    }

    fn wait_for(&self, stage: Stage) {
        let guard = self.stage.lock().unwrap();
        drop(self.changed.wait_while(guard, |now| *now < stage).unwrap());
    }

    fn is_at(&self, stage: Stage) -> bool {
        *self.stage.lock().unwrap() == stage
    }

    /// Performs the commit's `operation`, but first waits until the commit's writes are lost.
    fn lose_beside(&self, operation: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.reach(Stage::Reached);
        self.wait_for(Stage::Lost);
        let well = operation();
        self.reach(Stage::Told);
        well
    }
}

impl Storage for LateNews {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.device.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let is_home = offset < (BLOCKS * BLOCK) as u64;
        if !is_home
            && self.during == During::Data
            && self.is_at(Stage::Armed)
            && self.log_writes.fetch_add(1, Relaxed) == 4
        {
            return self.lose_beside(|| self.device.write_at(data, offset));
        }
        if !is_home || self.is_at(Stage::Off) {
            return self.device.write_at(data, offset);
        }
        self.wait_for(Stage::Reached);
        self.device.plan(Fault {
            at: FaultAt::Write(self.device.writes()),
            kind: FaultKind::Error,
            for_ever: false,
            drop_dirty: true,
        });
        let lost = self.device.write_at(data, offset);
        self.reach(Stage::Lost);
        self.wait_for(Stage::Told);
        // Give the commit time to continue, which it would do if it trusted its success.
        std::thread::sleep(Duration::from_millis(50));
        lost
    }

    fn flush(&self) -> io::Result<()> {
        if self.during == During::Flush && self.is_at(Stage::Armed) {
            return self.lose_beside(|| self.device.flush());
        }
        self.device.flush()
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if self.during == During::CommitBlock && self.is_at(Stage::Armed) {
            self.device.write_at(data, offset)?;
            return self.lose_beside(|| Ok(()));
        }
        self.device.write_fua(data, offset)
    }
}

#[test]
fn success_beside_a_failure_is_not_trusted() {
    for during in [During::Data, During::Flush, During::CommitBlock] {
        let device = Arc::new(Recorded::from_image(device(Flushes::Two)));
        let late = Arc::new(LateNews {
            device: device.clone(),
            during,
            log_writes: AtomicU32::new(0),
            stage: Mutex::new(Stage::Off),
            changed: Condvar::new(),
        });
        let options = options().way(CommitWay::Serial);
        let journal = Journal::open(late.clone(), late.clone(), options).unwrap();
        // Each transaction takes ten blocks of the log. After five of them, the next transaction
        // has no room, so its thread writes blocks home.
        let eight = |byte| {
            let handle = journal.begin(8).unwrap();
            for number in 0..8 {
                let mut block = handle.get_write(number).unwrap();
                block.fill(byte);
                block.dirty().unwrap();
            }
            handle.stop()
        };
        (1..=4).for_each(|round| journal.wait(eight(round)).unwrap());
        assert_eq!(journal.stats().checkpoints, 0);
        let fifth = eight(5);
        late.reach(Stage::Armed);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| journal.wait(fifth));
            let joiner = scope.spawn(|| {
                late.wait_for(Stage::Reached);
                journal.begin(0).map(|handle| handle.stop())
            });
            let told = waiter.join().unwrap();
            assert!(matches!(told, Err(Error::Poisoned(_))), "{told:?}");
            assert!(
                joiner.join().unwrap().is_err(),
                "no room for another transaction"
            );
        });
        let told = [Told {
            acknowledged: 4,
            errors: 0,
        }];
        check(&device, &told, &format!("late news {during:?}"));
    }
}
