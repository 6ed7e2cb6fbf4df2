//! Threads read and write one file in parallel, with `pread` and `pwrite`. Each thread holds the
//! range that it reads or writes. Both calls take an offset, so threads can share a file. But two
//! threads could write the same block at the same time, or a thread could read a block that is half
//! written. The range lock prevents both. There are four kinds of threads:
//!
//! - *Writers* overwrite a block, under a hold of the block.
//! - *Movers* copy a block to its backup. One call locks the block for reading and the backup for
//!   writing.
//! - *Auditors* compare a block with its backup.
//! - *Loggers* append lines at the end of the file. They read and move the end under a hold of it.
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

use spanlock_srl::{Access, RangeLockExt, SrlTree};

const BLOCK: u64 = 4096;
/// The number of blocks. The file contains the blocks, their backups in the same order, and the
/// log.
const BLOCKS: u64 = 64;
const STEPS: u64 = 2000;
const PAIRS: u64 = 2; // The number of threads of each kind.

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Volume {
    file: File,
    /// Locks the file's bytes, in segments of a block.
    lock: SrlTree,
    /// The end of the log. Relaxed: a thread moves the end only while it holds the position of the
    /// end, and rereads the end under this hold.
    end: AtomicU64,
}

fn home(block: u64) -> Range<u64> {
    block * BLOCK..(block + 1) * BLOCK
}

fn backup(block: u64) -> Range<u64> {
    home(BLOCKS + block)
}

impl Volume {
    /// Fills a block with the next number. A block contains one 8-byte number many times.
    fn write(&self, block: u64) -> Result<()> {
        let hold = self.lock.write(home(block))?;
        let next = self.number_at(home(block))? + 1;
        // Write in two steps, so that a mover that ignored the hold would find a torn block.
        let half = next.to_le_bytes().repeat(BLOCK as usize / 16);
        self.file.write_all_at(&half, home(block).start)?;
        self.file
            .write_all_at(&half, home(block).start + BLOCK / 2)?;
        drop(hold);
        Ok(())
    }

    /// Copies a block to its backup.
    ///
    /// One call locks both ranges. Threads that locked two ranges one after the other, in opposite
    /// orders, could deadlock.
    fn back_up(&self, block: u64) -> Result<()> {
        let both = [(home(block), Access::Read), (backup(block), Access::Write)];
        let holds = self.lock.lock_all(both)?;
        let mut bytes = [0; BLOCK as usize];
        self.file.read_exact_at(&mut bytes, home(block).start)?;
        self.file.write_all_at(&bytes, backup(block).start)?;
        drop(holds);
        Ok(())
    }

    /// Returns the numbers of a block and of its backup. The backup is never newer.
    fn audit(&self, block: u64) -> Result<(u64, u64)> {
        let both = [(home(block), Access::Read), (backup(block), Access::Read)];
        let _holds = self.lock.lock_all(both)?;
        let (now, before) = (self.number_at(home(block))?, self.number_at(backup(block))?);
        assert!(
            before <= now,
            "the backup of block {block} is newer than the block"
        );
        Ok((now, before))
    }

    /// Appends to the log.
    ///
    /// A thread that read the end first and locked it afterwards could overwrite another thread's
    /// line. So `append` briefly locks everything after the end, then reads the end again. In a
    /// tree this is cheap: after the end, there are no words to scan.
    fn append(&self, line: &str) -> Result<()> {
        let hold = self
            .lock
            .append(line.len() as u64, || self.end.load(Relaxed))?;
        if let Some(place) = hold.span() {
            self.file.write_all_at(line.as_bytes(), place.start())?;
            // Move the end only now, so that after a failed write the next line gets this place.
            self.end.store(place.end(), Relaxed);
        }
        Ok(())
    }

    /// Returns the number that a block is filled with. The caller holds the block.
    fn number_at(&self, range: Range<u64>) -> io::Result<u64> {
        let mut bytes = [0; BLOCK as usize];
        self.file.read_exact_at(&mut bytes, range.start)?;
        let (number, others) = bytes.split_first_chunk().expect("a block has eight bytes");
        assert!(others.chunks(8).all(|n| n == number), "a torn block");
        Ok(u64::from_le_bytes(*number))
    }
}

/// Runs one thread. Its number modulo four selects its kind.
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

    // No write was lost, and each backup is a whole block.
    let (mut written, mut backed_up) = (0, 0);
    for block in 0..BLOCKS {
        let (now, before) = volume.audit(block)?;
        (written, backed_up) = (written + now, backed_up + before);
    }
    assert_eq!(written, PAIRS * STEPS);
    println!(
        "{written} blocks written by {PAIRS} threads; the backups hold {backed_up} of those writes"
    );

    // The log has every line once, without gaps, and the lines of each thread in order.
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
