//! Cleaning in the background: a thread that cleans logs when free space runs short.
//!
//! # The problem
//! An operation that needs a log page cleans the log first if that is due, and so takes longer than
//! others. A log that no operation extends any more keeps its garbage.
//!
//! # Properties
//! - The thread sleeps, and checks the number of free pages at intervals. Writers do no work for
//!   it. Stopping it wakes it.
//! - It cleans the logs of all directories, and of the files in memory: to read the logs of other
//!   files would usually cost more than it frees. [`FileCore::clean`] cleans those, too. It cleans
//!   one log after the other, as on demand, but copies groups only if that frees a quarter of the
//!   pages that are copied.
//! - It cleans again only once the number of free pages has fallen since. So it does not read the
//!   same logs over and over on a volume that is full of data.
//! - A panic of the region ends the thread. It holds no mutex of the volume then, and the log that
//!   it has cleaned is poisoned, as by a panic in any other operation. With group durability, the
//!   panic may come in a sync, and poisons the logs of the files whose changes are lost. In either
//!   case, no thread waits for the one that has ended.

use core::any::Any;
use core::time::Duration;
use std::panic::resume_unwind;
use std::task::Waker;
use std::time::Instant;

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::thread::{self, JoinHandle};
use spanlock_sync::{Arc, Mutex, Park, Parker};

use crate::file::File;
use crate::file_core::FileCore;
use crate::options::{CleanReport, CleanerOptions};
use crate::volume::Volume;

/// Groups are copied if that frees at least one page in this many.
const SHARE: u64 = 4;

/// A handle to a thread that cleans the logs of a volume while few pages are free. The thread keeps
/// the volume open.
///
/// Dropping the handle stops the thread and waits until the thread has ended, which takes at most
/// as long as cleaning one log. If the thread has panicked, only [`stop`](Self::stop) reports it.
///
/// ```
/// # use spanlock_range_lock::RwCounter;
/// # use spanlock_pmem::{MappedFile, Options};
/// use spanlock_file_core::{CleanerOptions, FileCore, FormatOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let region = MappedFile::create(folder.path().join("volume"), 1 << 20, Options::default())?;
/// let volume = FileCore::format(region, &FormatOptions::new(), |_| RwCounter::new())?;
/// let cleaner = volume.start_cleaner(&CleanerOptions::new().free_below(100));
/// volume.create("file")?.append(b"content")?;
/// println!("{:?}", cleaner.stop());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it stops the thread"]
pub struct Cleaner {
    control: Arc<Control>,
    /// `None` once the thread has been joined.
    thread: Option<JoinHandle<CleanReport>>,
}

impl<P: Pmem + 'static, L: RawRangeLock + 'static> FileCore<P, L> {
    /// Starts a thread that cleans logs while few pages are free: the logs of all directories, and
    /// of the files in memory. It runs concurrently with readers and writers, and blocks them only
    /// where [`clean`](Self::clean) does. On a read-only volume, the thread does nothing.
    ///
    /// If the region panics in this thread, the thread ends, and the log that it was cleaning is
    /// poisoned. If the panic occurs during a [sync](Self::sync) by this thread, the logs of the
    /// files whose changes are lost are poisoned, too. In neither case do operations of other
    /// threads hang.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn start_cleaner(&self, options: &CleanerOptions) -> Cleaner {
        let control = Arc::new(Control::default());
        let (volume, options) = (Arc::clone(self.volume()), options.clone());
        let of_thread = Arc::clone(&control);
        Cleaner {
            control,
            thread: Some(thread::spawn(move || {
                Volume::clean_while_needed(&volume, &options, &of_thread)
            })),
        }
    }
}

impl Cleaner {
    /// Stops the thread, and waits until it has ended. Returns the sum of its cleanings.
    ///
    /// # Panics
    /// With the payload of the thread's panic, if the thread has panicked.
    pub fn stop(mut self) -> CleanReport {
        match self.join() {
            Some(Ok(report)) => report,
            Some(Err(payload)) => resume_unwind(payload),
            None => CleanReport::default(),
        }
    }

    fn join(&mut self) -> Option<Result<CleanReport, Box<dyn Any + Send>>> {
        self.control.stop();
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // `stop` reports a panic; a panic in a destructor would abort an unwinding process.
        let _ = self.join();
    }
}

/// What the handle and the thread share.
#[derive(Debug, Default)]
struct Control(Mutex<Orders>);

#[derive(Debug, Default)]
struct Orders {
    is_stopped: bool,
    /// Wakes the thread, if it sleeps.
    waker: Option<Waker>,
}

impl Control {
    fn stop(&self) {
        let mut orders = self.0.lock();
        orders.is_stopped = true;
        let waker = orders.waker.take();
        drop(orders);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_stopped(&self) -> bool {
        self.0.lock().is_stopped
    }

    /// Sleeps until the thread is stopped, or the time is over; it may also wake early. Returns
    /// whether the thread is to go on.
    fn sleep(&self, time: Duration) -> bool {
        Parker::with(|place| {
            let mut orders = self.0.lock();
            orders.waker = Some(place.waker().clone());
            let is_stopped = orders.is_stopped;
            drop(orders);
            if !is_stopped {
                // A deadline that the clock cannot represent is none.
                place.park_until(Instant::now().checked_add(time));
            }
        });
        !self.is_stopped()
    }
}

impl<P: Pmem, L: RawRangeLock> Volume<P, L> {
    /// Cleans logs whenever fewer pages are free than the options say, until it is stopped.
    fn clean_while_needed(
        this: &Arc<Self>,
        options: &CleanerOptions,
        control: &Control,
    ) -> CleanReport {
        let pages = u64::from(this.medium.geometry.data_pages());
        let free_below = options.free_below.unwrap_or(pages / 8);
        let mut report = CleanReport::default();
        // The most pages that were free since the last cleaning.
        let mut most = u64::MAX;
        while control.sleep(options.interval) {
            let (free, _) = this.medium.space.alloc.free_pages();
            most = most.max(free);
            if free < free_below && free < most && !this.is_read_only {
                Self::clean_in_memory(this, control, &mut report);
                (most, _) = this.medium.space.alloc.free_pages();
            }
        }
        report
    }

    /// Cleans the logs of all directories and of the files in memory, until it is stopped. Poisoned
    /// logs stay as they are.
    fn clean_in_memory(this: &Arc<Self>, control: &Control, report: &mut CleanReport) {
        for directory in this.tree.all() {
            if control.is_stopped() {
                return;
            }
            if let Some(Ok(cleaned)) = this.clean_directory(&directory, SHARE) {
                report.add(cleaned);
            }
        }
        for (number, generation) in this.inodes.here() {
            if control.is_stopped() {
                return;
            }
            let (found, evicted) = this.inodes.get(number, generation);
            drop(evicted);
            let Some(inode) = found else {
                // It was removed, or has left memory.
                continue;
            };
            if let Ok(cleaned) = File::new(Arc::clone(this), inode).clean_for(SHARE) {
                report.add(cleaned);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spanlock_range_lock::RwCounter;

    use super::*;
    use crate::FormatOptions;
    use crate::recover::forged::region;

    #[test]
    fn a_thread_that_is_stopped_cleans_no_further_directory() {
        let (_folder, region) = region(128);
        let volume = FileCore::format(region, &FormatOptions::new(), |_| RwCounter::new()).unwrap();
        volume.create("a").unwrap();
        volume.remove("a").unwrap();
        let (control, mut report) = (Control::default(), CleanReport::default());
        control.stop();
        Volume::clean_in_memory(volume.volume(), &control, &mut report);
        assert_eq!(report, CleanReport::default());
        // There is something to clean.
        assert!(volume.clean().unwrap().pages_freed > 0);
    }
}
