//! Crash images of runs that go around a small log many times, with checkpoints. After recovery,
//! acknowledged changes are there, and the changes of each handle are all there or none of them is.
//! Some tests also crash the recovery.

#![cfg(feature = "jbd2")]

use std::io;
use std::sync::{Arc, Mutex};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{
    CommitWay, Extent, Flushes, FormatOptions, Handle, Journal, Options, Place, format, recover,
};
use spanlock_journal_commit::testing::{Fault, FaultAt, FaultKind, History, Loss, Recorded};

use crate::rounds::scaled;

const BLOCK: usize = 1024;
const LOG_BLOCKS: u64 = 48;
const BLOCKS: u64 = 64;
const THREADS: u64 = 4;
const ROUNDS: u8 = 24;

/// Returns the place of the log. Log and home blocks share one device.
fn place() -> Place {
    Place::extents([
        Extent {
            first: BLOCKS + 20,
            blocks: LOG_BLOCKS - 20,
        },
        Extent {
            first: BLOCKS,
            blocks: 20,
        },
    ])
}

struct Run {
    history: History,
    first_cut: usize,
    /// For each thread: pairs of a cut and the round that was acknowledged by then.
    acknowledged: Vec<Vec<(usize, u8)>>,
}

fn run(flushes: Flushes, way: CommitWay) -> Run {
    let device = Arc::new(Recorded::new((BLOCKS + LOG_BLOCKS) as usize * BLOCK));
    let new = FormatOptions::new(BLOCK as u32).place(place());
    format(device.clone(), &new.flushes(flushes)).unwrap();
    let options = Options::new(BLOCK as u32)
        .place(place())
        .way(way)
        .run_bytes(4 * BLOCK);
    let journal = Journal::open(device.clone(), device.clone(), options).unwrap();
    let first_cut = device.now();
    let acknowledged = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (journal, device) = (&journal, &device);
            move || {
                let mut acknowledged = Vec::new();
                for round in 1..=ROUNDS {
                    let handle = journal.begin(5).unwrap();
                    for half in 0..2 {
                        let mut block = handle.get_write(thread * 2 + half).unwrap();
                        block.fill(round);
                        block.dirty().unwrap();
                    }
                    // Every third round revokes a third block; the other rounds write it.
                    let guest = 40 + thread;
                    if round % 3 == 0 {
                        handle.revoke(guest).unwrap();
                    } else {
                        let mut block = handle.get_write(guest).unwrap();
                        block.fill(round);
                        block.dirty().unwrap();
                    }
                    let tid = handle.stop();
                    if round % 4 != 1 {
                        journal.wait(tid).unwrap();
                        acknowledged.push((device.now(), round));
                    }
                }
                acknowledged
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|it| scope.spawn(work(it))).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(journal.stats().checkpoints > 2, "{journal:?}");
    journal.close().unwrap();
    Run {
        history: device.history(),
        first_cut,
        acknowledged,
    }
}

fn check(run: &Run, cut: usize, image: &[u8], what: &str) {
    for (thread, acknowledged) in run.acknowledged.iter().enumerate() {
        let block = |number: usize| &image[number * BLOCK..][..BLOCK];
        let (one, two) = (block(thread * 2), block(thread * 2 + 1));
        // Slices are compared as a whole, which is fast even in unoptimized builds.
        assert!(one == [one[0]; BLOCK], "torn: {what}");
        assert!(one == two, "half of a handle: {what}");
        let told = acknowledged
            .iter()
            .filter(|(at, _)| *at <= cut)
            .map(|(_, round)| *round);
        let told = told.max().unwrap_or(0);
        assert!(
            one[0] >= told,
            "thread {thread} was told {told}, found {}: {what}",
            one[0]
        );
        // The guest block has the round that wrote it. If a later round revoked the block, its
        // content is undefined.
        let guest = block(40 + thread);
        let is_of_this = one[0].is_multiple_of(3) || guest == [one[0]; BLOCK];
        assert!(is_of_this, "guest block of thread {thread}: {what}");
    }
}

fn recovered(image: Vec<u8>, what: &str) -> Arc<Recorded> {
    let device = Arc::new(Recorded::from_image(image));
    let done = recover(device.clone(), device.clone(), BLOCK as u32, &place());
    done.unwrap_or_else(|error| panic!("{what}: {error}"));
    device
}

fn all_images(flushes: Flushes, way: CommitWay) {
    let run = run(flushes, way);
    let (mut images, every) = (0, crash_again_every());
    for cut in run.first_cut..=run.history.len() {
        let seed = cut as u64;
        let mut losses = vec![Loss::Nothing];
        if run.history.in_flight(cut) > 0 {
            losses.extend([Loss::Everything, Loss::Writes(seed), Loss::Writes(!seed)]);
            losses.extend([Loss::Sectors(seed), Loss::Sectors(!seed)]);
        }
        for loss in losses {
            let what = format!("{flushes:?} {way:?}, cut {cut}, {loss:?}");
            let device = recovered(run.history.image(cut, loss), &what);
            check(&run, cut, &device.visible(), &what);
            images += 1;
            if cut % every == 0 {
                crash_again(&run, cut, &device.history(), &what);
            }
        }
    }
    println!("{flushes:?} {way:?}: {images} images");
    assert!(images > 1000, "{images}");
}

/// Returns how many cuts come to one whose recovery crashes too: 20, divided by `SPANLOCK_ROUNDS`.
fn crash_again_every() -> usize {
    (20 / scaled(1)).max(1)
}

/// Crashes a recovery, and then repeats it.
fn crash_again(run: &Run, cut: usize, recovery: &History, what: &str) {
    for second in 0..=recovery.len() {
        for loss in [Loss::Nothing, Loss::Sectors(second as u64)] {
            let what = format!("{what}, then {second}, {loss:?}");
            let device = recovered(recovery.image(second, loss), &what);
            check(run, cut, &device.visible(), &what);
        }
    }
}

#[test]
fn serial() {
    all_images(Flushes::Two, CommitWay::Serial);
}

#[test]
fn coalesced() {
    all_images(Flushes::Two, CommitWay::Coalesced);
}

#[test]
fn cooperative() {
    all_images(Flushes::Two, CommitWay::Cooperative);
}

#[test]
fn one_flush() {
    all_images(Flushes::One, CommitWay::Coalesced);
}

#[test]
fn one_flush_cooperative() {
    all_images(Flushes::One, CommitWay::Cooperative);
}

/// A torn revoke block is detected. In the format with one flush no checksum covers it, so its
/// transaction takes two flushes.
#[test]
fn a_torn_revoke_block_is_detected() {
    for flushes in [Flushes::Two, Flushes::One] {
        let log = Arc::new(Recorded::new(512 * BLOCK));
        let home = Arc::new(Recorded::new(128 * BLOCK));
        format(
            log.clone(),
            &FormatOptions::new(BLOCK as u32).flushes(flushes),
        )
        .unwrap();
        let options = Options::new(BLOCK as u32).way(CommitWay::Serial);
        let journal = Journal::open(log.clone(), home.clone(), options).unwrap();
        let put = |handle: &mut Handle<'_>, number: u64, byte: u8| {
            let mut block = handle.get_write(number).unwrap();
            block.fill(byte);
            block.dirty().unwrap();
        };
        let mut handle = journal.begin(101).unwrap();
        (0..=100).for_each(|number| put(&mut handle, number, 1));
        handle.stop_durable().unwrap();
        let first_cut = log.now();
        let mut handle = journal.begin(101).unwrap();
        (0..100).for_each(|number| handle.revoke(number).unwrap());
        put(&mut handle, 100, 2);
        handle.stop_durable().unwrap();
        drop(journal);

        let history = log.history();
        let mut seen = [0; 3];
        for cut in first_cut..=history.len() {
            for seed in 0..40 {
                let log = Recorded::from_image(history.image(cut, Loss::Sectors(seed)));
                let home = Recorded::new(128 * BLOCK);
                recover(log, &home, BLOCK as u32, &Place::whole()).unwrap();
                let home = home.visible();
                let found = home[100 * BLOCK];
                let expected = if found == 2 { 0 } else { 1 };
                let all = home[..100 * BLOCK].iter().all(|byte| *byte == expected);
                assert!(all, "{flushes:?}, cut {cut}, seed {seed}: {found}");
                seen[usize::from(found)] += 1;
            }
        }
        assert!(seen[1] > 40 && seen[2] > 40, "{seen:?}");
    }
}

/// A commit reaches the cache but not the medium, and the recovery then crashes. After the next
/// recovery, all of the commit is there or nothing.
#[test]
fn a_commit_in_the_cache_only_is_all_or_nothing() {
    for flushes in [Flushes::Two, Flushes::One] {
        // With two flushes, the last operation is the write of the commit block. With one flush,
        // that flush is the last operation.
        let (writes, flushed) = {
            let device = commit_of_two(flushes, None);
            (device.writes(), device.flushes())
        };
        let at = match flushes {
            Flushes::Two => FaultAt::Write(writes - 1),
            _ => FaultAt::Flush(flushed - 1),
        };
        let device = commit_of_two(flushes, Some(at));
        // In this case the cached data is marked clean, and is never written.
        let clean = Arc::new(Clean {
            seen: Mutex::new(device.visible()),
            medium: Recorded::from_image(device.medium()),
        });
        opened(clean.clone());
        all_or_nothing(&clean.medium.history(), 0);
        // In this case the cached data is still dirty, and may be written at any time.
        let reopened = device.now();
        opened(device.clone());
        all_or_nothing(&device.history(), reopened);
    }
}

fn opened(device: Arc<impl Storage + 'static>) {
    let options = Options::new(BLOCK as u32).place(place());
    let journal = Journal::open(device.clone(), device, options).unwrap();
    assert_eq!(
        journal.recovery().transactions,
        1,
        "the commit is in the cache"
    );
}

fn all_or_nothing(history: &History, from: usize) {
    for cut in from..=history.len() {
        for seed in 0..32 {
            let image = history.image(cut, Loss::Writes(seed));
            let device = recovered(image, "after the second crash").visible();
            let found = [device[0], device[BLOCK]];
            assert!(
                found == [0, 0] || found == [7, 7],
                "half of a commit: {found:?}, cut {cut}, seed {seed}"
            );
        }
    }
}

/// A device whose reads return cached data that is not on its medium.
struct Clean {
    seen: Mutex<Vec<u8>>,
    medium: Recorded,
}

impl Clean {
    fn see(&self, data: &[u8], offset: u64) {
        self.seen.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
    }
}

impl Storage for Clean {
    fn len(&self) -> u64 {
        self.medium.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.copy_from_slice(&self.seen.lock().unwrap()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.see(data, offset);
        self.medium.write_at(data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.medium.flush()
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.see(data, offset);
        self.medium.write_fua(data, offset)
    }
}

/// Fills blocks 0 and 1 with sevens through one handle, on a new device. If the commit fails, the
/// cache keeps what was written.
fn commit_of_two(flushes: Flushes, fault: Option<FaultAt>) -> Arc<Recorded> {
    let device = Arc::new(Recorded::new((BLOCKS + LOG_BLOCKS) as usize * BLOCK));
    let new = FormatOptions::new(BLOCK as u32).place(place());
    format(device.clone(), &new.flushes(flushes)).unwrap();
    let options = Options::new(BLOCK as u32).place(place());
    let journal = Journal::open(device.clone(), device.clone(), options).unwrap();
    if let Some(at) = fault {
        device.plan(Fault {
            at,
            // The first half of the commit block, which contains all its fields, is written.
            kind: FaultKind::Short,
            for_ever: false,
            drop_dirty: false,
        });
    }
    let handle = journal.begin(2).unwrap();
    for number in 0..2 {
        let mut block = handle.get_write(number).unwrap();
        block.fill(7);
        block.dirty().unwrap();
    }
    assert_eq!(handle.stop_durable().is_err(), fault.is_some());
    drop(journal);
    device
}
