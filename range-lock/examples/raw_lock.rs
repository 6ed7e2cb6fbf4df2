//! A user-defined raw lock: a list of all holds behind a mutex.
//!
//! The lock takes forty lines, and two capabilities twenty more. Guards, elements and `append` come
//! for free.
//!
//! ```text
//! cargo run -p spanlock-range-lock --example raw_lock
//! cargo test -p spanlock-range-lock --test raw_lock
//! ```
//!
//! The second command runs the tests that every lock must pass, through the one line in
//! `tests/raw_lock.rs`: random operations compared with a list of holds, random operations on real
//! threads, and the bugs that other locks had.

use std::thread;

use spanlock_range_lock::{
    Access, NoMemory, RangeError, RangeLock, RangeLockExt, RawRangeLock, RawRangeLockDowngrade,
    RawRangeLockSplit, Span, Token, TryLockError,
};
use spanlock_sync::{Condvar, Mutex};

/// A lock of exact ranges. It is slow with many holds. It is also unfair: arrivals overtake waiters
/// without bound, so it does not keep point 4 of the contract.
#[derive(Default)]
pub(crate) struct HoldList {
    holds: Mutex<Vec<(Span, Access)>>,
    released: Condvar,
}

impl HoldList {
    /// Adds the hold if it conflicts with none. Invariant **I1**: no two holds in the list
    /// conflict.
    fn add(holds: &mut Vec<(Span, Access)>, span: Span, access: Access) -> bool {
        let conflicts =
            |&(held, how): &(Span, Access)| held.overlaps(span) && how.conflicts_with(access);
        let free = !holds.iter().any(conflicts);
        if free {
            holds.push((span, access));
        }
        free
    }

    /// Replaces a hold by others that exclude no more, so I1 stays true. Wakes all waiters.
    fn replace(&self, old: (Span, Access), new: &[(Span, Access)]) {
        let mut holds = self.holds.lock();
        let mine = holds.iter().position(|hold| *hold == old);
        holds.swap_remove(mine.expect("the caller holds it"));
        holds.extend(new);
        self.released.notify_all();
    }
}

// SAFETY: 1: I1. 2: the mutex orders a release before all that comes later. 3, 4: a hold is an
// entry of the list, whichever thread added it.
unsafe impl RawRangeLock for HoldList {
    // The default granularity, 1, is right: nothing is rounded. A segment lock returns its segment
    // size.
    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        let mut holds = self.holds.lock();
        while !Self::add(&mut holds, span, access) {
            holds = self.released.wait(holds);
        }
        Ok(Token::NONE)
    }

    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let added = Self::add(&mut self.holds.lock(), span, access);
        added.then_some(Token::NONE).ok_or(TryLockError::WouldBlock)
    }

    unsafe fn unlock(&self, span: Span, access: Access, _token: Token) {
        self.replace((span, access), &[]);
    }
}

// SAFETY: the entry is replaced while the mutex is held, so no writer comes between.
unsafe impl RawRangeLockDowngrade for HoldList {
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, _: &mut Token) {
        self.replace((span, from), &[(span, to)]);
    }
}

// SAFETY: as above: the kept part is in the list before and after.
unsafe impl RawRangeLockSplit for HoldList {
    unsafe fn shrink(&self, span: Span, access: Access, _: &mut Token, keep: Span) {
        self.replace((span, access), &[(keep, access)]);
    }

    unsafe fn split(
        &self,
        span: Span,
        access: Access,
        _: &mut Token,
        at: u64,
        _: &mut Token,
    ) -> Result<(), NoMemory> {
        let part = |range| {
            (
                Span::new(range).ok().flatten().expect("within the span"),
                access,
            )
        };
        self.replace(
            (span, access),
            &[part(span.start()..at), part(at..span.end())],
        );
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Guards without data.
    let lock = HoldList::default();
    let middle = lock.write(10..20)?;
    assert!(lock.try_write(0..10).is_ok());
    assert_eq!(lock.try_read(19..30).err(), Some(TryLockError::WouldBlock));

    // The guards offer its capabilities: release the upper half, keep reading the lower one.
    let mut low = middle;
    drop(low.split_off(15)?);
    assert!(lock.try_write(15..20).is_ok());
    let reading = low.downgrade();
    assert!(lock.try_read(10..15).is_ok());
    drop(reading);
    println!(
        "a lock of exact ranges: capacity {}, granularity {}",
        lock.capacity(),
        lock.granularity()
    );

    // Elements behind the lock, written by eight threads in overlapping ranges.
    let counters = RangeLock::with_lock(vec![0_u32; 80], lock)?;
    thread::scope(|scope| {
        for worker in 0..8 {
            let counters = &counters;
            scope.spawn(move || {
                for round in 0..1000 {
                    let start = (worker * 10 + round) % 60;
                    let mut mine = counters.write(start..start + 20).expect("80 elements");
                    mine.iter_mut().for_each(|count| *count += 1);
                }
            });
        }
    });
    let sum: u32 = counters.into_inner().iter().sum();
    assert_eq!(sum, 8 * 1000 * 20);
    println!("eight threads added {sum} under it");
    Ok(())
}
