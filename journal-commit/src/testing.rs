//! A device for tests of code that uses a [`Storage`]. It records every write and flush, yields the
//! images that a crash can leave, and fails as planned.
//!
//! # The device
//! A write is visible at once and durable later: when a flush that *began after* the write has
//! ended. A durable write is durable when it has ended itself. A crash keeps what is durable. Of
//! the rest it keeps any part, in any order, cut into sectors of 512 bytes ([`History::image`]).
//!
//! Do not use it in production: it keeps everything in memory, for ever.
//!
//! Not reached by models: the delay of a flush, which is real time.
//!
//! ```
//! use spanlock_journal_commit::Storage;
//! use spanlock_journal_commit::testing::{Loss, Recorded};
//!
//! let device = Recorded::new(4096);
//! device.write_at(&[1; 512], 0)?;
//! device.flush()?;
//! device.write_at(&[2; 1024], 512)?;
//!
//! let history = device.history();
//! let kept = history.image(history.len(), Loss::Nothing);
//! let lost = history.image(history.len(), Loss::Everything);
//! assert_eq!((kept[0], kept[512]), (1, 2));
//! assert_eq!((lost[0], lost[512]), (1, 0)); // The first write was flushed.
//! # Ok::<(), std::io::Error>(())
//! ```

mod history;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use spanlock_sync::{Mutex, MutexGuard};

use crate::storage::{Storage, check_bounds};
use history::Event;
pub use history::{History, Loss, SECTOR_BYTES};

/// The operation that a planned failure hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAt {
    /// The write with this number, counted from 0, durable writes included.
    Write(u64),
    /// The flush with this number, counted from 0.
    Flush(u64),
}

/// The form of a planned failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An error, and nothing is done.
    Error,
    /// An error after half of the write is done. A flush fails as with `Error`.
    Short,
    /// The calling thread panics, and nothing is done.
    Panic,
}

/// A planned failure.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The operation that fails.
    pub at: FaultAt,
    /// The form of the failure.
    pub kind: FaultKind,
    /// Whether everything after it fails too.
    pub for_ever: bool,
    /// Whether all writes that were not yet durable are lost from then on, as after a failed
    /// write-back on Linux: later flushes succeed, and prove nothing.
    pub drop_dirty: bool,
}

/// A device in memory that records. See the [module](self).
#[derive(Debug)]
pub struct Recorded {
    state: Mutex<State>,
    flush_takes: Duration,
    len: u64,
}

#[derive(Debug)]
struct State {
    /// The bytes that reads return.
    visible: Vec<u8>,
    /// The bytes that a crash is sure to leave.
    medium: Vec<u8>,
    /// The initial content.
    base: Arc<[u8]>,
    events: Vec<Event>,
    /// Writes that are not durable, by the number of their event.
    pending: Vec<(usize, u64, Arc<[u8]>)>,
    writes: u64,
    flushes: u64,
    faults: Vec<Fault>,
    broken: bool,
    /// The number of failures so far.
    failures: u64,
}

impl Recorded {
    /// Creates a device of `len` zero bytes.
    pub fn new(len: usize) -> Self {
        Self::from_image(vec![0; len])
    }

    /// Creates a device with this content, all of it durable.
    pub fn from_image(image: Vec<u8>) -> Self {
        Recorded {
            flush_takes: Duration::ZERO,
            len: image.len() as u64,
            state: Mutex::new(State {
                base: image.as_slice().into(),
                medium: image.clone(),
                visible: image,
                events: Vec::new(),
                pending: Vec::new(),
                writes: 0,
                flushes: 0,
                faults: Vec::new(),
                broken: false,
                failures: 0,
            }),
        }
    }

    /// Makes flushes and durable writes take `time`.
    pub fn flush_takes(mut self, time: Duration) -> Self {
        self.flush_takes = time;
        self
    }

    /// Plans a failure.
    pub fn plan(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    /// Returns the number of writes that began, durable ones included.
    pub fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// Returns the number of flushes that began.
    pub fn flushes(&self) -> u64 {
        self.state.lock().flushes
    }

    /// Returns the number of operations that failed as planned.
    pub fn failures(&self) -> u64 {
        self.state.lock().failures
    }

    /// Returns the number of events so far: the cut for [`History::image`] that means "now".
    pub fn now(&self) -> usize {
        self.state.lock().events.len()
    }

    /// Returns what has happened so far, except for dirty data that was dropped;
    /// [`medium`](Recorded::medium) shows that.
    pub fn history(&self) -> History {
        let state = self.state.lock();
        History::new(state.base.clone(), state.events.clone())
    }

    /// Returns what a crash now would be sure to leave.
    pub fn medium(&self) -> Vec<u8> {
        self.state.lock().medium.clone()
    }

    /// Returns what reads return now.
    pub fn visible(&self) -> Vec<u8> {
        self.state.lock().visible.clone()
    }

    fn wait(&self) {
        if !self.flush_takes.is_zero() {
            std::thread::sleep(self.flush_takes);
        }
    }

    /// Does the visible part of a write, and returns the number of its event.
    fn begin_write(&self, data: &[u8], offset: u64, durable: bool) -> io::Result<usize> {
        check_bounds(offset, data.len(), self.len)?;
        let mut state = self.state.lock();
        let at = FaultAt::Write(state.writes);
        state.writes += 1;
        if let Some(fault) = state.fault(at) {
            let half = data.len() / 2 / SECTOR_BYTES * SECTOR_BYTES;
            if fault.kind == FaultKind::Short && half > 0 {
                state.write(&data[..half], offset, false);
            }
            return Err(fail(state, fault, at));
        }
        Ok(state.write(data, offset, durable))
    }
}

impl State {
    /// Returns the failure planned for this operation.
    fn fault(&mut self, at: FaultAt) -> Option<Fault> {
        let planned = self
            .faults
            .iter()
            .find(|fault| self.broken && fault.for_ever || fault.at == at);
        let fault = planned.copied()?;
        self.broken |= fault.for_ever;
        Some(fault)
    }

    fn write(&mut self, data: &[u8], offset: u64, durable: bool) -> usize {
        let data: Arc<[u8]> = data.into();
        let number = self.events.len();
        copy(&mut self.visible, offset, &data);
        self.pending.push((number, offset, data.clone()));
        self.events.push(Event::Write {
            offset,
            data,
            durable,
        });
        number
    }

    /// Makes the selected writes durable.
    fn settle(&mut self, which: impl Fn(usize) -> bool) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|(number, offset, data)| {
            let settled = which(*number);
            if settled {
                copy(&mut self.medium, *offset, data);
            }
            !settled
        });
        self.pending = pending;
    }

    fn drop_dirty(&mut self) {
        for (_, offset, data) in std::mem::take(&mut self.pending) {
            let range = offset as usize..offset as usize + data.len();
            self.visible[range.clone()].copy_from_slice(&self.medium[range]);
        }
    }
}

impl Storage for Recorded {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        check_bounds(offset, buf.len(), self.len)?;
        let from = offset as usize;
        buf.copy_from_slice(&self.state.lock().visible[from..from + buf.len()]);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.begin_write(data, offset, false).map(|_| ())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let at = FaultAt::Flush(state.flushes);
        state.flushes += 1;
        if let Some(fault) = state.fault(at) {
            return Err(fail(state, fault, at));
        }
        let began = state.events.len();
        state.events.push(Event::FlushBegan);
        drop(state);
        self.wait();
        let mut state = self.state.lock();
        // A durable write that has not returned is not covered.
        let on_their_way = state.durable_in_flight();
        state.settle(|number| number < began && !on_their_way.contains(&number));
        state.events.push(Event::Ended { began });
        Ok(())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let began = self.begin_write(data, offset, true)?;
        self.wait();
        let mut state = self.state.lock();
        state.settle(|number| number == began);
        state.events.push(Event::Ended { began });
        Ok(())
    }
}

impl State {
    fn durable_in_flight(&self) -> Vec<usize> {
        let is_durable =
            |number: &usize| matches!(self.events[*number], Event::Write { durable: true, .. });
        let pending = self.pending.iter().map(|(number, ..)| *number);
        pending.filter(is_durable).collect()
    }
}

fn fail(mut state: MutexGuard<'_, State>, fault: Fault, at: FaultAt) -> io::Error {
    state.failures += 1;
    if fault.drop_dirty {
        state.drop_dirty();
    }
    drop(state);
    if fault.kind == FaultKind::Panic {
        panic!("planned: {at:?}");
    }
    io::Error::other(format!("planned: {at:?} fails"))
}

fn copy(image: &mut [u8], offset: u64, data: &[u8]) {
    image[offset as usize..][..data.len()].copy_from_slice(data);
}
