//! The functions of `kernel/spanlock.h`, for each family of locks.

use core::ffi::{c_int, c_ulong};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::pin::pin;
use core::task::Poll;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{
    Access, RangeError, RawRangeLock, RawRangeLockDowngrade, RawRangeLockUpgrade,
    RawRangeLockUpgradeWait, RawRangeLockWait, Span, Token, TryLockError,
};
use spanlock_srl::{SegmentError, SrlArray, SrlPacked, SrlTree};
use spanlock_sync::{Park, Parker};

const EINTR: c_int = -4;
const ENOMEM: c_int = -12;
const EBUSY: c_int = -16;
const EINVAL: c_int = -22;
const ERANGE: c_int = -34;

/// A hold, in the memory of its caller: `struct range_hold`.
#[repr(C)]
pub struct Hold {
    start: u64,
    end: u64,
    token: c_ulong,
    access: Access,
    pad: [u8; 7],
}

const _: () = assert!(size_of::<Access>() == 1 && size_of::<Hold>() == 32);

impl Hold {
    /// Returns the hold's span, access and token, or `None` if the hold is empty.
    #[inline]
    fn parts(&self) -> Option<(Span, Access, Token)> {
        let span = Span::new(self.start..self.end).ok().flatten()?;
        Some((span, self.access, Token::new(self.token as usize)))
    }

    #[inline]
    fn of(range: &Range<u64>, access: Access, token: Token) -> Hold {
        Hold {
            start: range.start,
            end: range.end,
            token: token.into_word() as c_ulong,
            access,
            pad: [0; 7],
        }
    }
}

#[cold]
fn errno(error: RangeError) -> c_int {
    match error {
        RangeError::PastCapacity { .. } => ERANGE,
        RangeError::Memory { .. } => ENOMEM,
        _ => EINVAL,
    }
}

/// How a request may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Sleep,
    Killable,
    Never,
}

/// Acquires a range, and fills in the hold. The hold of an empty range is empty, and so is the hold
/// after an error.
#[inline(always)]
fn acquire<L: RawRangeLock + RawRangeLockWait>(
    lock: &L,
    hold: &mut MaybeUninit<Hold>,
    range: Range<u64>,
    access: Access,
    wait: Wait,
) -> c_int {
    let span = Span::new(range.clone());
    // First, so that only the token and the address of the hold are needed after a wait.
    let hold = hold.write(Hold::of(&range, access, Token::NONE));
    let taken = match span {
        Ok(None) => Ok(Token::NONE),
        Err(error) => Err(errno(error)),
        Ok(Some(span)) => match wait {
            Wait::Sleep => lock.lock(span, access).map_err(errno),
            Wait::Killable => lock_killable(lock, span, access),
            Wait::Never => lock.try_lock(span, access).map_err(try_errno),
        },
    };
    match taken {
        Ok(token) => {
            hold.token = token.into_word() as c_ulong;
            0
        }
        Err(errno) => {
            hold.end = hold.start;
            errno
        }
    }
}

#[cold]
fn try_errno(error: TryLockError) -> c_int {
    match error {
        TryLockError::Range(error) => errno(error),
        _ => EBUSY,
    }
}

/// Acquires a range unless a fatal signal comes first.
#[inline(always)]
fn lock_killable<L: RawRangeLockWait>(
    lock: &L,
    span: Span,
    access: Access,
) -> Result<Token, c_int> {
    match lock.try_lock(span, access) {
        Ok(token) => Ok(token),
        Err(TryLockError::Range(error)) => Err(errno(error)),
        Err(_) => wait_killable(lock, span, access),
    }
}

#[cold]
#[inline(never)]
fn wait_killable<L: RawRangeLockWait>(
    lock: &L,
    span: Span,
    access: Access,
) -> Result<Token, c_int> {
    Parker::with(|parker| {
        let mut request = pin!(L::Request::default());
        loop {
            // SAFETY: the request is used for this lock, span and access only. It is granted, or is
            // cancelled below, before it is dropped.
            let polled = unsafe { lock.poll_lock(span, access, request.as_mut(), parker.waker()) };
            match polled {
                Poll::Ready(Ok(token)) => return Ok(token),
                Poll::Ready(Err(error)) => return Err(errno(error)),
                Poll::Pending if parker.park_killable() => {}
                Poll::Pending => {
                    // SAFETY: as above.
                    unsafe { lock.cancel(span, access, request.as_mut()) };
                    return Err(EINTR);
                }
            }
        }
    })
}

#[inline(always)]
unsafe fn release<L: RawRangeLock>(lock: &L, hold: &Hold) {
    if let Some((span, access, token)) = hold.parts() {
        // SAFETY: the hold is of this lock, and ends here: the caller's promise.
        unsafe { lock.unlock(span, access, token) };
    }
}

unsafe fn downgrade<L: RawRangeLockDowngrade>(lock: &L, hold: &mut Hold) {
    let Some((span, access, mut token)) = hold.parts() else {
        return;
    };
    if access != Access::Read {
        // SAFETY: the hold is of this lock, and excludes more than a reader does.
        unsafe { lock.downgrade(span, access, Access::Read, &mut token) };
        *hold = Hold::of(&span.range(), Access::Read, token);
    }
}

unsafe fn upgrade<L: RawRangeLockUpgrade>(lock: &L, hold: &mut Hold) -> c_int {
    let Some((span, access, token)) = hold.parts() else {
        return 0;
    };
    if access == Access::Write {
        return 0;
    }
    // SAFETY: the hold is of this lock, and is not exclusive.
    match unsafe { lock.try_upgrade(span, access, token) } {
        Ok(token) => {
            *hold = Hold::of(&span.range(), Access::Write, token);
            0
        }
        Err(token) => {
            *hold = Hold::of(&span.range(), access, token);
            EBUSY
        }
    }
}

fn segment_errno(error: &SegmentError) -> c_int {
    match error {
        SegmentError::Memory { .. } => ENOMEM,
        _ => EINVAL,
    }
}

/// Defines the functions of one family, whose locks lie in the C type of the same size.
macro_rules! family {
    ($lock:ty, $words:literal, $destroy:ident,
     [$($name:ident: $access:ident, $wait:ident;)*],
     $unlock:ident, $downgrade:ident, $upgrade:ident) => {
        const _: () = assert!(size_of::<$lock>() <= $words * 8 && align_of::<$lock>() <= 8);

        $(
            /// See `kernel/spanlock.h`.
            ///
            /// # Safety
            /// `lock` is initialized, and `hold` is writable.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                lock: &$lock,
                hold: &mut MaybeUninit<Hold>,
                start: u64,
                end: u64,
            ) -> c_int {
                acquire(lock, hold, start..end, Access::$access, Wait::$wait)
            }
        )*

        /// See `kernel/spanlock.h`.
        ///
        /// # Safety
        /// `hold` is a hold of this lock, and ends here.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $unlock(lock: &$lock, hold: &Hold) {
            // SAFETY: the caller's promise.
            unsafe { release(lock, hold) }
        }

        /// See `kernel/spanlock.h`.
        ///
        /// # Safety
        /// `hold` is a hold of this lock.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $downgrade(lock: &$lock, hold: &mut Hold) {
            // SAFETY: the caller's promise.
            unsafe { downgrade(lock, hold) }
        }

        /// See `kernel/spanlock.h`.
        ///
        /// # Safety
        /// `hold` is a hold of this lock.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $upgrade(lock: &$lock, hold: &mut Hold) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { upgrade(lock, hold) }
        }

        /// See `kernel/spanlock.h`.
        ///
        /// # Safety
        /// `lock` is initialized, and nobody uses it any more.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $destroy(lock: *mut $lock) {
            // SAFETY: the caller's promise.
            unsafe { lock.drop_in_place() }
        }
    };
}

/// Defines the function that initializes a segment lock. `reserve` allocates what would be
/// allocated later, where no error can be returned.
macro_rules! segments {
    ($init:ident, $lock:ty, $reserve:expr) => {
        /// See `kernel/spanlock.h`.
        ///
        /// # Safety
        /// `lock` is memory for a lock.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init(
            lock: *mut $lock,
            capacity: u64,
            segment: u64,
            wide: u64,
        ) -> c_int {
            let reserve: fn(&$lock) -> Result<(), SegmentError> = $reserve;
            let new = <$lock>::with_segment_size(capacity, segment);
            match new.and_then(|new| reserve(&new).map(|()| new)) {
                Ok(new) => {
                    let new = if wide > 0 { new.wide_above(wide) } else { new };
                    // SAFETY: the caller's promise.
                    unsafe { lock.write(new) };
                    0
                }
                Err(error) => segment_errno(&error),
            }
        }
    };
}

segments!(srl_init, SrlArray, |lock| lock.try_reserve());
segments!(srl_packed_init, SrlPacked, |lock| lock.try_reserve());
segments!(srl_tree_init, SrlTree, |_| Ok(()));

family!(SrlArray, 48, srl_destroy, [
    srl_read_lock: Read, Sleep;
    srl_read_lock_killable: Read, Killable;
    srl_read_trylock: Read, Never;
    srl_upgradable_lock: Upgradable, Sleep;
    srl_upgradable_lock_killable: Upgradable, Killable;
    srl_upgradable_trylock: Upgradable, Never;
    srl_write_lock: Write, Sleep;
    srl_write_lock_killable: Write, Killable;
    srl_write_trylock: Write, Never;
], srl_unlock, srl_downgrade, srl_upgrade);

family!(SrlPacked, 48, srl_packed_destroy, [
    srl_packed_read_lock: Read, Sleep;
    srl_packed_read_lock_killable: Read, Killable;
    srl_packed_read_trylock: Read, Never;
    srl_packed_upgradable_lock: Upgradable, Sleep;
    srl_packed_upgradable_lock_killable: Upgradable, Killable;
    srl_packed_upgradable_trylock: Upgradable, Never;
    srl_packed_write_lock: Write, Sleep;
    srl_packed_write_lock_killable: Write, Killable;
    srl_packed_write_trylock: Write, Never;
], srl_packed_unlock, srl_packed_downgrade, srl_packed_upgrade);

family!(SrlTree, 48, srl_tree_destroy, [
    srl_tree_read_lock: Read, Sleep;
    srl_tree_read_lock_killable: Read, Killable;
    srl_tree_read_trylock: Read, Never;
    srl_tree_upgradable_lock: Upgradable, Sleep;
    srl_tree_upgradable_lock_killable: Upgradable, Killable;
    srl_tree_upgradable_trylock: Upgradable, Never;
    srl_tree_write_lock: Write, Sleep;
    srl_tree_write_lock_killable: Write, Killable;
    srl_tree_write_trylock: Write, Never;
], srl_tree_unlock, srl_tree_downgrade, srl_tree_upgrade);

family!(IntervalLock, 48, interval_destroy, [
    interval_read_lock: Read, Sleep;
    interval_read_lock_killable: Read, Killable;
    interval_read_trylock: Read, Never;
    interval_upgradable_lock: Upgradable, Sleep;
    interval_upgradable_lock_killable: Upgradable, Killable;
    interval_upgradable_trylock: Upgradable, Never;
    interval_write_lock: Write, Sleep;
    interval_write_lock_killable: Write, Killable;
    interval_write_trylock: Write, Never;
], interval_unlock, interval_downgrade, interval_upgrade);

/// The number of shards, and of positions in a stripe, if the caller leaves the choice to the lock.
const SHARDS: u32 = 8;
const STRIPE: u64 = 1 << 16;
/// The greatest number of shards that an interval lock can have.
const MOST_SHARDS: u32 = 16;

/// See `kernel/spanlock.h`.
///
/// # Safety
/// `lock` is memory for a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interval_init(lock: *mut IntervalLock, shards: u32, stripe: u64) -> c_int {
    if shards > MOST_SHARDS {
        return EINVAL;
    }
    let shards = if shards == 0 { SHARDS } else { shards };
    let stripe = if stripe == 0 { STRIPE } else { stripe };
    let Ok(new) = IntervalLock::try_with_shards(shards as usize, stripe) else {
        return ENOMEM;
    };
    // SAFETY: the caller's promise.
    unsafe { lock.write(new) };
    0
}

/// See `kernel/spanlock.h`.
///
/// # Safety
/// `hold` is an upgradable hold of this lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interval_upgrade_wait(lock: &IntervalLock, hold: &mut Hold) -> c_int {
    match hold.parts() {
        None | Some((_, Access::Write, _)) => 0,
        Some((_, Access::Read, _)) => EINVAL,
        Some((span, Access::Upgradable, token)) => {
            // SAFETY: the caller's promise.
            let token = unsafe { lock.upgrade(span, token) };
            *hold = Hold::of(&span.range(), Access::Write, token);
            0
        }
    }
}

/// See `kernel/spanlock.h`.
///
/// # Safety
/// `lock` is initialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srl_tree_shrink(lock: &SrlTree, start: u64, end: u64) -> c_ulong {
    let end = end.min(lock.capacity());
    lock.shrink_range(start.min(end)..end).unwrap_or(0) as c_ulong
}

/// See `kernel/spanlock.h`.
///
/// # Safety
/// `lock` is initialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srl_tree_memory(lock: &SrlTree) -> c_ulong {
    lock.memory_usage() as c_ulong
}
