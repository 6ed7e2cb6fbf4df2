//! A raw lock of one's own: the list of all holds, behind a mutex. The guards and the elements come for free.
//!
//! ```text
//! cargo run -p spanlock --example raw_lock
//! ```

use std::thread;

use spanlock::{
    Access, RangeError, RangeLock, RangeLockExt, RawRangeLock, Span, Token, TryLockError,
};
use spanlock_sync::{Condvar, Mutex};

/// Conflicts by overlap alone, whatever the ranges. Slow with many holds, and unfair: arrivals go past waiters
/// as they come.
#[derive(Default)]
struct HoldList {
    holds: Mutex<Vec<(Span, Access)>>,
    released: Condvar,
}

impl HoldList {
    /// Adds the hold if it conflicts with none: **I1**, no two holds in the list exclude each other.
    fn add(holds: &mut Vec<(Span, Access)>, span: Span, access: Access) -> bool {
        let conflicts =
            |&(held, how): &(Span, Access)| held.overlaps(span) && how.conflicts_with(access);
        let free = !holds.iter().any(conflicts);
        if free {
            holds.push((span, access));
        }
        free
    }
}

// SAFETY: 1: I1. 2: the mutex orders a release before all that comes later. 3, 4: a hold is an entry
// of the list, whoever put it there.
unsafe impl RawRangeLock for HoldList {
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
        let mut holds = self.holds.lock();
        let mine = holds.iter().position(|hold| *hold == (span, access));
        holds.swap_remove(mine.expect("the caller holds it"));
        drop(holds);
        self.released.notify_all();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Guards without data.
    let lock = HoldList::default();
    let middle = lock.write(10..20)?;
    assert!(lock.try_write(0..10).is_ok());
    assert_eq!(lock.try_read(19..30).err(), Some(TryLockError::WouldBlock));
    drop(middle);
    assert!(lock.try_read(19..30).is_ok());

    // Elements behind it, written by eight threads in ranges that overlap.
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
    println!("eight threads added {sum} under a lock of forty lines");
    Ok(())
}
