//! The locks under measurement: those of the registry and those of other projects, behind one
//! trait.
//!
//! Each lock is called through its concrete type and inlined, as in a program that uses it, and in
//! the way its documentation shows. Features that a lock lacks are not emulated; [`Subject::lacks`]
//! reports them with a reason.

use std::convert::Infallible;
use std::fs::File;
use std::hint::black_box;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use range_lock::{VecRangeLock, VecRangeLockGuard};
use range_mutex::{RangeMutex, RangeMutexGuard};
use spanlock_range_lock::{RangeLockExt, RawRangeLock, ReadHold, WriteHold};

use super::ranges::{SEGMENT, SEGMENTS};
use crate::temporary::{Choice, Place};

/// A feature that a case needs from a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Shared acquisitions.
    Sharing,
    /// Simultaneous acquisitions of disjoint ranges.
    Disjoint,
    /// A call that waits.
    Waiting,
}

/// Why a lock without ranges cannot run cases with disjoint ranges.
const EVERYTHING: &str = "locks everything: a second range waits for the first";

/// A lock with its concrete type. Ranges are in bytes and lie within its capacity.
pub(crate) trait Subject: Sized + Sync {
    /// An exclusive guard; dropping it releases the range.
    type Write<'a>
    where
        Self: 'a;

    /// A shared guard; dropping it releases the range.
    type Read<'a>
    where
        Self: 'a;

    /// Locks `range` exclusively. Waits, unless the lock lacks [`Need::Waiting`].
    fn write(&self, range: Range<u64>) -> Self::Write<'_>;

    /// Locks `range` shared. Not called if the lock lacks [`Need::Sharing`].
    fn read(&self, range: Range<u64>) -> Self::Read<'_>;

    /// Returns the reason that the lock lacks a feature; `None` if it has it.
    fn lacks(&self, need: Need) -> Option<&'static str>;

    /// Hides from the compiler which lock and range are used, in one step. A lock without ranges
    /// hides only itself.
    #[inline(always)]
    fn hidden(&self, range: Range<u64>) -> (&Self, Range<u64>) {
        black_box((self, range))
    }

    /// Returns another user's handle to the same lock, if each user needs a separate handle.
    ///
    /// # Errors
    /// The system has no more handles.
    fn other_user(&self) -> Result<Option<Self>> {
        Ok(None)
    }
}

/// A lock of the registry.
pub(super) struct Ours<L>(pub(super) L);

impl<L: RawRangeLock> Subject for Ours<L> {
    type Write<'a>
        = WriteHold<'a, L>
    where
        L: 'a;
    type Read<'a>
        = ReadHold<'a, L>
    where
        L: 'a;

    #[inline(always)]
    fn write(&self, range: Range<u64>) -> WriteHold<'_, L> {
        self.0.write(range).expect("in range")
    }

    #[inline(always)]
    fn read(&self, range: Range<u64>) -> ReadHold<'_, L> {
        self.0.read(range).expect("in range")
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        (need == Need::Disjoint && self.0.granularity() > SEGMENT).then_some(EVERYTHING)
    }
}

impl Subject for parking_lot::RwLock<()> {
    type Write<'a> = parking_lot::RwLockWriteGuard<'a, ()>;
    type Read<'a> = parking_lot::RwLockReadGuard<'a, ()>;

    #[inline(always)]
    fn write(&self, _range: Range<u64>) -> Self::Write<'_> {
        self.write()
    }

    #[inline(always)]
    fn read(&self, _range: Range<u64>) -> Self::Read<'_> {
        self.read()
    }

    #[inline(always)]
    fn hidden(&self, range: Range<u64>) -> (&Self, Range<u64>) {
        (black_box(self), range)
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        (need == Need::Disjoint).then_some(EVERYTHING)
    }
}

/// [`parking_lot::RwLock`] that is released fairly once every half millisecond, so that no thread
/// waits much longer while others pass it. Each release reads the clock.
pub(super) struct FairParkingLot {
    lock: parking_lot::RwLock<()>,
    began: Instant,
    /// The time of the next fair release, in nanoseconds since `began`.
    fair_at: AtomicU64,
}

impl FairParkingLot {
    const PERIOD: u64 = 500_000;

    pub(super) fn new() -> Self {
        FairParkingLot {
            lock: parking_lot::RwLock::new(()),
            began: Instant::now(),
            fair_at: AtomicU64::new(Self::PERIOD),
        }
    }

    /// Returns whether it is time for a fair release, and sets the next time if so.
    #[inline(always)]
    fn is_due(&self) -> bool {
        let now = self.began.elapsed().as_nanos() as u64;
        // Relaxed, both: if two readers race here, both release fairly, which is harmless.
        let due = now >= self.fair_at.load(Ordering::Relaxed);
        if due {
            self.fair_at.store(now + Self::PERIOD, Ordering::Relaxed);
        }
        due
    }
}

/// A hold of [`FairParkingLot`], exclusive if it has a `write` guard and shared if it has a `read`
/// guard.
pub(super) struct FairHold<'a> {
    lock: &'a FairParkingLot,
    write: Option<parking_lot::RwLockWriteGuard<'a, ()>>,
    read: Option<parking_lot::RwLockReadGuard<'a, ()>>,
}

impl Drop for FairHold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.lock.is_due() {
            if let Some(guard) = self.write.take() {
                parking_lot::RwLockWriteGuard::unlock_fair(guard);
            }
            if let Some(guard) = self.read.take() {
                parking_lot::RwLockReadGuard::unlock_fair(guard);
            }
        }
    }
}

impl Subject for FairParkingLot {
    type Write<'a> = FairHold<'a>;
    type Read<'a> = FairHold<'a>;

    #[inline(always)]
    fn write(&self, _range: Range<u64>) -> FairHold<'_> {
        FairHold {
            lock: self,
            write: Some(self.lock.write()),
            read: None,
        }
    }

    #[inline(always)]
    fn read(&self, _range: Range<u64>) -> FairHold<'_> {
        FairHold {
            lock: self,
            write: None,
            read: Some(self.lock.read()),
        }
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        (need == Need::Disjoint).then_some(EVERYTHING)
    }
}

impl Subject for std::sync::RwLock<()> {
    type Write<'a> = std::sync::RwLockWriteGuard<'a, ()>;
    type Read<'a> = std::sync::RwLockReadGuard<'a, ()>;

    #[inline(always)]
    fn write(&self, _range: Range<u64>) -> Self::Write<'_> {
        self.write().expect("no thread panics while holding it")
    }

    #[inline(always)]
    fn read(&self, _range: Range<u64>) -> Self::Read<'_> {
        self.read().expect("no thread panics while holding it")
    }

    #[inline(always)]
    fn hidden(&self, range: Range<u64>) -> (&Self, Range<u64>) {
        (black_box(self), range)
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        (need == Need::Disjoint).then_some(EVERYTHING)
    }
}

/// Why a lock cannot run cases with readers.
const EXCLUSIVE: &str = "exclusive locks only";

/// Converts bytes to elements of a vector, each of which stands for a segment. The cost of the two
/// locks that own a vector depends on the number of ranges, not on their lengths.
#[inline(always)]
fn elements(range: Range<u64>) -> Range<usize> {
    (range.start / SEGMENT) as usize..range.end.div_ceil(SEGMENT) as usize
}

/// `VecRangeLock` of crate `range-lock`.
pub(super) struct VecRange(VecRangeLock<u8>);

impl VecRange {
    pub(super) fn new() -> Self {
        VecRange(VecRangeLock::new(vec![0; SEGMENTS as usize]))
    }
}

impl Subject for VecRange {
    type Write<'a> = VecRangeLockGuard<'a, u8>;
    type Read<'a> = Infallible;

    #[inline(always)]
    fn write(&self, range: Range<u64>) -> Self::Write<'_> {
        self.0
            .try_lock(elements(range))
            .expect("no other thread uses it")
    }

    fn read(&self, _range: Range<u64>) -> Infallible {
        unreachable!("{EXCLUSIVE}")
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            Need::Sharing => Some(EXCLUSIVE),
            Need::Disjoint => None,
            Need::Waiting => Some("try-only: it has no call that waits"),
        }
    }
}

/// `RangeMutex` of crate `range-mutex`.
pub(super) struct SliceMutex(RangeMutex<u8, Vec<u8>>);

impl SliceMutex {
    pub(super) fn new() -> Self {
        SliceMutex(RangeMutex::new(vec![0; SEGMENTS as usize]))
    }
}

impl Subject for SliceMutex {
    type Write<'a> = RangeMutexGuard<'a, u8>;
    type Read<'a> = Infallible;

    #[inline(always)]
    fn write(&self, range: Range<u64>) -> Self::Write<'_> {
        self.0.lock(elements(range))
    }

    fn read(&self, _range: Range<u64>) -> Infallible {
        unreachable!("{EXCLUSIVE}")
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        (need == Need::Sharing).then_some(EXCLUSIVE)
    }
}

/// Linux's byte-range locks of open file descriptions (`F_OFD_SETLKW`), on a temporary file.
///
/// An open file description is one owner, whose ranges never conflict with each other. So each user
/// opens the file.
pub(super) struct Ofd(File);

impl Ofd {
    pub(super) fn new() -> Result<Self> {
        let file = Place::system(Choice::Tmpdir).empty_file()?;
        // Fails here if the file system has no such locks.
        set(&file, libc::F_WRLCK, 0..1)?;
        set(&file, libc::F_UNLCK, 0..1)?;
        Ok(Ofd(file))
    }

    #[inline(always)]
    fn take(&self, kind: libc::c_int, range: Range<u64>) -> OfdHold<'_> {
        set(&self.0, kind, range.clone()).expect("a lock that worked before");
        OfdHold {
            file: &self.0,
            range,
        }
    }
}

/// A range held by one owner.
pub(super) struct OfdHold<'a> {
    file: &'a File,
    range: Range<u64>,
}

impl Drop for OfdHold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        set(self.file, libc::F_UNLCK, self.range.clone()).expect("unlocking cannot fail");
    }
}

#[inline(always)]
fn set(file: &File, kind: libc::c_int, range: Range<u64>) -> Result<()> {
    let wanted = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: range.start as libc::off_t,
        l_len: (range.end - range.start) as libc::off_t,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLKW(&wanted)).context("locking bytes of a temporary file")?;
    Ok(())
}

impl Subject for Ofd {
    type Write<'a> = OfdHold<'a>;
    type Read<'a> = OfdHold<'a>;

    #[inline(always)]
    fn write(&self, range: Range<u64>) -> OfdHold<'_> {
        self.take(libc::F_WRLCK, range)
    }

    #[inline(always)]
    fn read(&self, range: Range<u64>) -> OfdHold<'_> {
        self.take(libc::F_RDLCK, range)
    }

    fn lacks(&self, _need: Need) -> Option<&'static str> {
        None
    }

    fn other_user(&self) -> Result<Option<Self>> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let mut options = File::options();
        let again = options.read(true).write(true).open(path);
        Ok(Some(Ofd(again.context("reopening a temporary file")?)))
    }
}
