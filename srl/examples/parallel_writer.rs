//! Threads write one file at the same time, each by `pwrite` under a hold of what it writes.
//!
//! `pwrite` takes the place to write at, so threads can share a file. But it does not say who may
//! write where: two writers of one block mix, and who copies a block meanwhile copies half of each.
//! Here a range lock says it. Four kinds of threads:
//!
//! - *writers* overwrite a block, under a hold of the block;
//! - *movers* copy a block to its backup, under one call's holds of both: one to read, one to
//!   write;
//! - *auditors* look at a block with its backup;
//! - *loggers* append lines at the end, which is looked at, and moved, under the hold.
//!
//! ```text
//! cargo run -p spanlock-srl --example parallel_writer
//! ```

use std::error::Error;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use spanlock_range_lock::{Access, RangeLockExt};
use spanlock_srl::SrlTree;

const BLOCK: u64 = 4096;
/// The file: so many blocks, their backups in the same order, and then the log.
const BLOCKS: u64 = 64;
const STEPS: u64 = 2000;
const PAIRS: u64 = 2; // Of each kind of thread.

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Volume {
    file: File,
    /// Of the file's bytes, in segments of a block.
    lock: SrlTree,
    /// Where the log ends. Relaxed: moved by who holds the position that it names, and looked at
    /// again under such a hold.
    end: AtomicU64,
}

fn home(block: u64) -> Range<u64> {
    block * BLOCK..(block + 1) * BLOCK
}

fn backup(block: u64) -> Range<u64> {
    home(BLOCKS + block)
}

impl Volume {
    /// Overwrites a block with the number that follows the one it is full of.
    fn write(&self, block: u64) -> Result<()> {
        let hold = self.lock.write(home(block))?;
        let next = self.number_at(home(block))? + 1;
        // Two steps, so that a mover that did not wait for the hold would find half a block.
        let half = next.to_le_bytes().repeat(BLOCK as usize / 16);
        self.file.write_all_at(&half, home(block).start)?;
        self.file
            .write_all_at(&half, home(block).start + BLOCK / 2)?;
        drop(hold);
        Ok(())
    }

    /// Copies a block to its backup. Both ranges in one call: taken one after the other, two movers
    /// in opposite directions could wait for each other for ever.
    fn back_up(&self, block: u64) -> Result<()> {
        let both = [(home(block), Access::Read), (backup(block), Access::Write)];
        let holds = self.lock.lock_all(both)?;
        let mut bytes = [0; BLOCK as usize];
        self.file.read_exact_at(&mut bytes, home(block).start)?;
        self.file.write_all_at(&bytes, backup(block).start)?;
        drop(holds);
        Ok(())
    }

    /// The numbers of a block and of its backup, which is never newer.
    fn audit(&self, block: u64) -> Result<(u64, u64)> {
        let both = [(home(block), Access::Read), (backup(block), Access::Read)];
        let _holds = self.lock.lock_all(both)?;
        let (now, before) = (self.number_at(home(block))?, self.number_at(backup(block))?);
        assert!(before <= now, "the backup of {block} comes from the future");
        Ok((now, before))
    }

    /// Appends to the log. Who reads the end first and locks then writes where another has just
    /// written. (`append` asks for everything behind the end, for a moment: in a tree there is
    /// nothing to look at.)
    fn append(&self, line: &str) -> Result<()> {
        let hold = self
            .lock
            .append(line.len() as u64, || self.end.load(Relaxed))?;
        if let Some(place) = hold.span() {
            self.file.write_all_at(line.as_bytes(), place.start())?;
            // Only now: after a failed write the next one gets the same place.
            self.end.store(place.end(), Relaxed);
        }
        Ok(())
    }

    /// The number that a block is full of. The caller holds it.
    fn number_at(&self, range: Range<u64>) -> io::Result<u64> {
        let mut bytes = [0; BLOCK as usize];
        self.file.read_exact_at(&mut bytes, range.start)?;
        let numbers = bytes.as_chunks::<8>().0;
        assert!(numbers.iter().all(|n| *n == numbers[0]), "half a block");
        Ok(u64::from_le_bytes(numbers[0]))
    }
}

/// What one thread does: the kind is its number, modulo four.
fn work(volume: &Volume, thread: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(thread);
    for step in 0..STEPS {
        let block = random.u64(0..BLOCKS);
        match thread % 4 {
            0 => volume.write(block)?,
            1 => volume.back_up(block)?,
            2 => drop(volume.audit(block)?),
            _ => volume.append(&format!("line {step:>4} of thread {thread}\n"))?,
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let file = tempfile::tempfile()?;
    file.set_len(2 * BLOCKS * BLOCK)?;
    let volume = Volume {
        file,
        lock: SrlTree::new(1 << 40)?,
        end: AtomicU64::new(2 * BLOCKS * BLOCK),
    };
    thread::scope(|scope| {
        let volume = &volume;
        let threads =
            Vec::from_iter((0..4 * PAIRS).map(|thread| scope.spawn(move || work(volume, thread))));
        let mut results = threads.into_iter().map(|t| t.join().expect("no panic"));
        results.try_for_each(|result| result)
    })?;

    // No write was lost, and each backup is a whole block as it once was.
    let (mut written, mut backed_up) = (0, 0);
    for block in 0..BLOCKS {
        let (now, before) = volume.audit(block)?;
        (written, backed_up) = (written + now, backed_up + before);
    }
    assert_eq!(written, PAIRS * STEPS);
    println!(
        "{written} blocks written by {PAIRS} threads; the backups hold {backed_up} of those writes"
    );

    // The log has every line once, no gaps, and the lines of a thread in its order.
    let start = 2 * BLOCKS * BLOCK;
    let mut log = vec![0; (volume.end.load(Relaxed) - start) as usize];
    volume.file.read_exact_at(&mut log, start)?;
    let log = String::from_utf8(log)?;
    for thread in (3..4 * PAIRS).step_by(4) {
        let mine = log
            .lines()
            .filter(|line| line.ends_with(&format!("thread {thread}")));
        assert!(
            mine.enumerate()
                .all(|(i, line)| line.starts_with(&format!("line {i:>4} ")))
        );
    }
    assert_eq!(log.lines().count() as u64, PAIRS * STEPS);
    println!(
        "{} lines appended, none lost; the last: {}",
        log.lines().count(),
        log.lines().last().unwrap_or_default()
    );
    Ok(())
}
