//! The journal's thread: commits the running transaction.
//!
//! [`transaction`](super::transaction) describes the states of a transaction, which have JBD2's
//! names. The functions below take a transaction through these states:
//!
//! | states | function |
//! |---|---|
//! | LOCKED, FLUSH | `lock_running` |
//! | COMMIT | `prepare`, and the writes of [`submission`](super::raw::submission) |
//! | JFLUSH | `seal` of the submission |
//! | FINISHED | `committed` |

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use spanlock_sync::{Mutex, is_flush_left_out, thread};

use super::blocks::{Descriptor, Tag, commit, data_checksum, must_escape, revoke};
use super::buffers::{Content, Copies};
use super::checksum::{FIRST_SEED, crc32_be};
use super::committing::{Buffer, Committing};
use super::error::{Failure, failed};
use super::format::{Checksums, Flushes, MAGIC_AT, put32};
use super::inner::Inner;
use super::options::{CommitWay, Delay, Options};
use super::raw::submission::Steps;
use super::transaction::{Committed, Transaction};

/// Returns how many buffers of a transaction a thread of a cooperative commit writes together.
fn run_of(buffers: u32, options: &Options) -> u32 {
    let least = (options.run_bytes / options.block_bytes as usize).max(1);
    let least = u32::try_from(least).unwrap_or(u32::MAX);
    buffers.div_ceil((buffers / least).max(1))
}

/// A locked transaction, with its place in the log.
struct Locked {
    whole: Arc<Committed>,
    copies: Copies,
    /// The first block of the transaction in the log.
    start: u32,
    /// The time for the commit block.
    time: SystemTime,
}

impl Inner {
    /// Runs the journal's thread: commits the requested transactions until the journal is dropped
    /// or closed.
    pub(crate) fn run(&self) {
        while let Some(transaction) = self.next_wanted() {
            let commit = catch_unwind(AssertUnwindSafe(|| self.commit_one(&transaction)));
            if commit.is_err() {
                self.medium.fail(Failure {
                    doing: "the journal's thread panicked",
                    source: None,
                });
            }
        }
    }

    /// Blocks until the commit of the running transaction is requested, and returns that
    /// transaction. Returns `None` if the thread should stop.
    fn next_wanted(&self) -> Option<Arc<Transaction>> {
        self.work.wait_until(|| {
            let state = self.state.lock();
            if state.stopping {
                return Some(None);
            }
            let wanted = state.wanted;
            let running = (state.running.as_ref()).filter(|it| !wanted.is_before(it.tid));
            let running = running.cloned();
            drop(state);
            // A poisoned journal commits nothing; its thread only waits to be stopped.
            running.filter(|_| self.medium.check().is_ok()).map(Some)
        })
    }

    fn commit_one(&self, transaction: &Transaction) -> Result<(), Failure> {
        self.rendezvous();
        let Some(locked) = self.lock_running(transaction) else {
            return Ok(());
        };
        let one_flush = self.format.checksums == Checksums::First
            && self.format.async_commit
            && locked.whole.revokes.is_empty();
        let flushes = if one_flush {
            Flushes::One
        } else {
            Flushes::Two
        };
        let helpers = self.options.way == CommitWay::Cooperative;
        let run = match helpers {
            true => run_of(locked.whole.log_blocks, &self.options),
            false => 1,
        };
        let committing = Arc::new(Committing::new(
            locked.whole.clone(),
            flushes,
            run,
            self.sealed.clone(),
        ));
        if self.options.way == CommitWay::Coalesced {
            return self.commit_coalesced(&committing, &locked);
        }
        if helpers {
            *self.helpable.lock() = Some(committing.clone());
        }
        let mut published = 0;
        self.prepare(&locked, |buffer, is_commit_block| {
            if is_commit_block && committing.submission.is_sealed_apart() {
                committing.set_commit_block(buffer);
                return;
            }
            committing.publish(published, buffer);
            published += 1;
            if helpers && published == 1 {
                // One buffer is ready and the others follow soon. Wake as many helpers as are
                // useful beside this thread.
                let useful = (committing.submission.runs() as usize - 1).min(thread::cores() - 1);
                // equivalent(drop): helpers are not needed (J-C4).
                self.done.wake_some(useful);
            }
        });
        let steps = CommitSteps {
            inner: self,
            committing: &committing,
        };
        committing.submission.complete(&self.medium, &steps)
    }

    /// Waits, if the options say so, for the threads that the last commit woke.
    fn rendezvous(&self) {
        if self.options.delay != Delay::Rendezvous {
            return;
        }
        let is_over = || self.state.lock().stopping || self.medium.check().is_err();
        self.gathering.gather(is_over);
    }

    /// Locks the transaction and waits until all handles have left (LOCKED). Then fixes its blocks
    /// and its place in the log, and lets another transaction run (FLUSH). Returns `None` if the
    /// journal is being dropped while a handle has not left, because it was forgotten.
    fn lock_running(&self, transaction: &Transaction) -> Option<Locked> {
        let began = Instant::now();
        let is_over = || self.state.lock().stopping;
        if !transaction.updates.lock_and_drain(is_over) {
            return None;
        }
        let draining = began.elapsed();
        let changes = transaction.take();
        let blocks = self
            .format
            .blocks_for(changes.blocks.len(), changes.revokes.len());
        let log_blocks = u32::try_from(blocks).expect("bounded by the credits (U2)");

        let now = (self.options.clock)();
        let mut state = self.state.lock();
        let time = now.max(state.commit_time);
        state.commit_time = time;
        let start = state.head;
        state.head = self.log.after(start, log_blocks);
        state.free -= log_blocks;
        state.committing = Some(transaction.tid);
        state.running = None;
        self.gathering.shut();
        state.stats.draining += draining;
        let end = state.head;
        drop(state);
        self.joins.wake_all();

        let whole = Committed {
            tid: transaction.tid,
            log_blocks,
            end,
            blocks: Mutex::new(changes.blocks.clone()),
            revokes: changes.revokes.into_iter().collect(),
        };
        Some(Locked {
            whole: Arc::new(whole),
            copies: changes.blocks,
            start,
            time,
        })
    }

    /// Makes the blocks that the transaction writes to the log, one after the other. Passes each
    /// block to `emit` as soon as it is final. The second argument says whether it is the commit
    /// block, which comes before the last of the other blocks.
    fn prepare(&self, locked: &Locked, mut emit: impl FnMut(Buffer, bool)) {
        let format = &self.format;
        let tid = locked.whole.tid;
        let mut at = locked.start;
        let mut next = || {
            let block = at;
            at = self.log.after(at, 1);
            block
        };
        // Hold back the latest revoke or descriptor block: the last one must be emitted after the
        // commit block (J-C3).
        let mut held: Option<Buffer> = None;
        let mut sum = FIRST_SEED;
        for names in locked.whole.revokes.chunks(format.revokes_per_block()) {
            let block = Arc::new(revoke(format, tid, names));
            if let Some(before) = held.replace((next(), block)) {
                emit(before, false);
            }
        }
        let copies: Vec<(&u64, &Content)> = locked.copies.iter().collect();
        for group in copies.chunks(format.tags_per_descriptor()) {
            if let Some(before) = held.take() {
                emit(before, false);
            }
            let mut descriptor = Descriptor::new(format, tid);
            let place = next();
            let mut written = Vec::new();
            for (home, content) in group {
                let escaped = must_escape(content);
                let content = if escaped {
                    let mut copy = content.to_vec();
                    put32(&mut copy, MAGIC_AT, 0);
                    Arc::new(copy)
                } else {
                    Arc::clone(content)
                };
                let checksum = match format.checksums {
                    Checksums::Third => data_checksum(format, tid, &content),
                    _ => 0,
                };
                let home = **home;
                let tag = Tag {
                    home,
                    escaped,
                    checksum,
                };
                descriptor.push(format, &self.uuid, tag);
                if format.checksums == Checksums::First {
                    written.push(content.clone());
                }
                emit((next(), content), false);
            }
            let descriptor = descriptor.finish(format);
            if format.checksums == Checksums::First {
                sum = crc32_be(sum, &descriptor);
                sum = written.iter().fold(sum, |sum, data| crc32_be(sum, data));
            }
            held = Some((place, Arc::new(descriptor)));
        }
        let commit_block = commit(format, tid, locked.time, sum);
        emit((next(), Arc::new(commit_block)), true);
        if let Some(last) = held {
            emit(last, false);
        }
    }

    /// Commits a transaction from one buffer, and writes adjacent blocks of the log with one call.
    fn commit_coalesced(&self, committing: &Committing, locked: &Locked) -> Result<(), Failure> {
        let size = self.format.block_bytes;
        let count = committing.submission.total() as usize;
        let mut all = vec![0; count * size];
        self.prepare(locked, |(block, content), is_commit_block| {
            if is_commit_block && committing.submission.is_sealed_apart() {
                committing.set_commit_block((block, content));
                return;
            }
            let along = (block + self.log.len() - locked.start) % self.log.len();
            all[along as usize * size..][..size].copy_from_slice(&content);
        });
        let mut done = 0;
        while done < count {
            let block = self.log.after(locked.start, done as u32);
            let to_wrap = (self.log.end - block) as usize;
            let together = self
                .blocks
                .find(block)
                .map_or(1, |(_, count)| count as usize);
            let end = count.min(done + to_wrap.min(together));
            self.write_log(block, &all[done * size..end * size])?;
            done = end;
        }
        let steps = CommitSteps {
            inner: self,
            committing,
        };
        committing.submission.complete_alone(&self.medium, &steps)
    }

    /// Writes blocks of the log. Each stretch of blocks that are adjacent in the storage takes one
    /// write.
    fn write_together(&self, mut run: &[Buffer]) -> io::Result<()> {
        while let Some((first, content)) = run.first() {
            let (at, adjacent) = self.blocks.find(*first)?;
            let follows = |(along, (block, _)): (u64, &Buffer)| u64::from(block - first) == along;
            let count = (0..adjacent).zip(run).take_while(|it| follows(*it)).count();
            let (together, rest) = run.split_at(count);
            run = rest;
            if count == 1 {
                self.blocks.storage.write_at(content, at)?;
                continue;
            }
            let parts: Vec<&[u8]> = together.iter().map(|(_, content)| &content[..]).collect();
            self.blocks.storage.write_at(&parts.concat(), at)?;
        }
        Ok(())
    }

    /// Writes blocks of the log that are adjacent in the storage.
    fn write_log(&self, block: u32, content: &[u8]) -> Result<(), Failure> {
        self.on_medium("writing the log", || {
            let (at, _) = self.blocks.find(block)?;
            self.blocks.storage.write_at(content, at)
        })
    }

    /// Acknowledges a durable transaction (FINISHED, J-C2).
    pub(crate) fn committed(&self, committing: &Committing, flushes: u64) {
        self.forget_revoked(&committing.whole);
        let took = committing.began.elapsed();
        *self.helpable.lock() = None;
        let mut state = self.state.lock();
        state.committing = None;
        state.committed = committing.tid;
        self.gathering.committed();
        state.queue.push_back(committing.whole.clone());
        state.commit_takes = match state.commit_takes {
            Duration::ZERO => took,
            before => (took + 3 * before) / 4,
        };
        state.stats.commits += 1;
        state.stats.flushes += flushes;
        state.stats.blocks += u64::from(committing.whole.log_blocks);
        state.stats.committing += took;
        drop(state);
        self.done.wake_all();
    }

    /// Lets a waiting thread help with a commit.
    pub(crate) fn help(&self, committing: &Committing) {
        if self.options.way != CommitWay::Cooperative {
            return;
        }
        let steps = CommitSteps {
            inner: self,
            committing,
        };
        let helped = committing.submission.help(&self.medium, &steps);
        if helped > 0 {
            self.state.lock().stats.helped += helped;
        }
    }
}

/// The steps of a commit, performed on a journal.
struct CommitSteps<'a> {
    inner: &'a Inner,
    committing: &'a Committing,
}

impl Steps<Failure> for CommitSteps<'_> {
    fn write(&self, buffers: Range<u32>) -> Result<(), Failure> {
        let run = &self.committing.buffers[buffers.start as usize..buffers.end as usize];
        let take = |buffer: &Mutex<Option<Buffer>>| {
            let buffer = buffer.lock().take();
            buffer.expect("claimed once, after it was put in place (J-T1, J-T2)")
        };
        let mut run: Vec<Buffer> = run.iter().map(take).collect();
        // The last descriptor comes after the blocks that it describes.
        run.sort_unstable_by_key(|(block, _)| *block);
        failed("writing the log", self.inner.write_together(&run))
    }

    fn flush(&self) -> Result<(), Failure> {
        failed("flushing the log", self.inner.blocks.storage.flush())
    }

    fn write_commit_block(&self) -> Result<(), Failure> {
        // Clone the block: if this thread dies after the write, another thread writes it again.
        let commit_block = self.committing.commit_block.lock().clone();
        let (block, content) = commit_block.expect("in place before the last buffer (J-C3)");
        let blocks = &self.inner.blocks;
        let written = blocks.find(block).and_then(|(at, _)| {
            if is_flush_left_out() {
                return blocks.storage.write_at(&content, at);
            }
            blocks.storage.write_fua(&content, at)
        });
        failed("writing a commit block", written)
    }

    fn committed(&self, flushes: u64) {
        self.inner.committed(self.committing, flushes);
    }
}
