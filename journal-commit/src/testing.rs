//! A simulated device for tests of code that uses a [`Storage`]. It records every write and flush,
//! generates images that a crash can leave, and injects planned failures.
//!
//! # The device
//! Reads see a write at once. The write becomes durable later, when a flush ends that *began after*
//! the write. A *durable write* (FUA) is durable when it ends. A crash keeps everything durable. Of
//! the other writes it keeps any part, in any order, cut into sectors of 512 bytes
//! ([`History::image`]).
//!
//! Do not use the device in production: it keeps all writes in memory, for ever.
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

/// The operation that fails as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAt {
    /// The write with this number, counted from 0. Durable writes count too.
    Write(u64),
    /// The flush with this number, counted from 0.
    Flush(u64),
}

/// The form of a planned failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The operation returns an error and does nothing.
    Error,
    /// A write returns an error after half of it is done. A flush fails as with `Error`.
    Short,
    /// The operation panics and does nothing.
    Panic,
}

/// A planned failure.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The operation that fails.
    pub at: FaultAt,
    /// The form of the failure.
    pub kind: FaultKind,
    /// Whether all later writes and flushes fail too.
    pub for_ever: bool,
    /// Whether the failure loses all writes that were not yet durable. A failed write-back on Linux
    /// has this effect: later flushes succeed although data is lost.
    pub drop_dirty: bool,
}

/// A device in memory that records its operations. See the [module](self).
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
    /// The durable bytes, which every crash leaves.
    medium: Vec<u8>,
    /// The initial content.
    base: Arc<[u8]>,
    events: Vec<Event>,
    /// Writes that are not durable: the number of the event, the offset, and the data.
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

    /// Returns the number of events so far. Passed to [`History::image`], it stands for a crash
    /// now.
    pub fn now(&self) -> usize {
        self.state.lock().events.len()
    }

    /// Returns the events so far. The history does not show that a failure dropped dirty data;
    /// [`medium`](Recorded::medium) does.
    pub fn history(&self) -> History {
        let state = self.state.lock();
        History::new(state.base.clone(), state.events.clone())
    }

    /// Returns the durable content, which every crash would leave.
    pub fn medium(&self) -> Vec<u8> {
        self.state.lock().medium.clone()
    }

    /// Returns the content that reads see now.
    pub fn visible(&self) -> Vec<u8> {
        self.state.lock().visible.clone()
    }

    fn wait(&self) {
        if !self.flush_takes.is_zero() {
            std::thread::sleep(self.flush_takes);
        }
    }

    /// Makes a write visible to reads, and returns the number of its event.
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
        // The flush does not cover durable writes that have not returned yet.
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
