//! Real threads that do everything at once, on fewer cores; counts at each position tell who is there.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

mod common;

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use common::{Asked, Rng, Taken};
use spanlock::Access::{self, Read, Upgradable, Write};
use spanlock_interval::IntervalLock;
use spanlock_sync::{Park, Parker};

const THREADS: u64 = 8;
const ROUNDS: u64 = 4000;
const POSITIONS: u64 = 32;

const UPGRADER: u64 = 1 << 16;
const WRITER: u64 = 1 << 32;

/// What is held at each position, as the holders say, and data that only the lock protects.
struct Places {
    inside: Vec<AtomicU64>,
    data: Vec<UnsafeCell<u64>>,
}

// SAFETY: the data is accessed under holds only; that they suffice is what is tested.
unsafe impl Sync for Places {}

fn weight(access: Access) -> u64 {
    match access {
        Read => 1,
        Upgradable => UPGRADER,
        Write => WRITER,
    }
}

impl Places {
    fn enter(&self, taken: &Taken<'_>) {
        for at in taken.span.range() {
            // Relaxed: the lock has to do.
            let before = self.inside[at as usize].fetch_add(weight(taken.access), Relaxed);
            let alone = match taken.access {
                Read => before < WRITER,
                Upgradable => before < UPGRADER,
                Write => before == 0,
            };
            assert!(alone, "{:?} beside {before:x} at {at}", taken.access);
        }
    }

    fn leave(&self, range: Range<u64>, access: Access) {
        for at in range {
            self.inside[at as usize].fetch_sub(weight(access), Relaxed);
        }
    }

    /// Writes if it may, else reads twice.
    fn touch(&self, taken: &Taken<'_>, pause: bool) -> u64 {
        let mut written = 0;
        for at in taken.span.range() {
            let data = self.data[at as usize].get();
            // SAFETY: the position is held with an access that allows this.
            unsafe {
                match taken.access {
                    Write => {
                        data.write_volatile(data.read_volatile() + 1);
                        written += 1;
                    }
                    Read | Upgradable => {
                        let before = data.read_volatile();
                        if pause {
                            thread::yield_now();
                        }
                        assert_eq!(before, data.read_volatile(), "written meanwhile");
                    }
                }
            }
        }
        written
    }
}

/// Takes a range in one of the ways there are; by a try or a poll that is given up, perhaps not.
fn take<'a>(
    lock: &'a IntervalLock,
    rng: &mut Rng,
    range: Range<u64>,
    access: Access,
) -> Option<Taken<'a>> {
    match rng.below(4) {
        0 => Taken::try_lock(lock, range, access),
        1 => Some(Taken::lock(lock, range, access)),
        2 => {
            let mut asked = Asked::new(lock, range, access);
            for _ in 0..rng.below(4) {
                if let Some(taken) = asked.poll() {
                    return Some(taken);
                }
                thread::yield_now();
            }
            asked.cancel();
            None
        }
        _ => Parker::with(|parker| {
            let mut asked = Asked::new(lock, range, access);
            loop {
                match asked.poll_with(parker.waker()) {
                    Some(taken) => return Some(taken),
                    None => _ = parker.park_until(None),
                }
            }
        }),
    }
}

fn work(lock: &IntervalLock, places: &Places, me: u64) -> u64 {
    let mut rng = Rng::new(me);
    let mut written = 0;
    for _ in 0..ROUNDS {
        let start = rng.below(POSITIONS);
        let longest = if rng.below(16) == 0 { POSITIONS } else { 6 };
        let end = (start + 1 + rng.below(longest)).min(POSITIONS);
        let access = rng.access();
        let Some(mut taken) = take(lock, &mut rng, start..end, access) else {
            continue;
        };
        places.enter(&taken);
        let pause = rng.below(8) == 0;
        written += places.touch(&taken, pause);
        // The counts say less than is held before a change, and more after it.
        match (rng.below(5), taken.access) {
            (0, Upgradable | Write) => {
                places.leave(taken.span.range(), taken.access);
                taken = taken.downgrade();
                places.enter(&taken);
            }
            (1, Upgradable) => {
                places.leave(taken.span.range(), Upgradable);
                taken = taken.upgrade();
                places.enter(&taken);
            }
            (1, Read) => {
                places.leave(taken.span.range(), Read);
                taken = taken.try_upgrade().0;
                places.enter(&taken);
            }
            (2, _) => {
                let range = taken.span.range();
                let start = range.start + rng.below(taken.span.len());
                let end = start + 1 + rng.below(range.end - start);
                places.leave(range.start..start, taken.access);
                places.leave(end..range.end, taken.access);
                taken = taken.shrink(start..end);
            }
            (3, _) if taken.span.len() > 1 => {
                let at = taken.span.start() + 1 + rng.below(taken.span.len() - 1);
                let (low, high) = taken.split(at);
                places.leave(low.span.range(), low.access);
                low.release();
                taken = high;
            }
            _ => {}
        }
        written += places.touch(&taken, pause);
        places.leave(taken.span.range(), taken.access);
        taken.release();
    }
    written
}

#[test]
fn eight_threads_that_do_everything() {
    let lock = IntervalLock::new();
    let places = Places {
        inside: (0..POSITIONS).map(|_| AtomicU64::new(0)).collect(),
        data: (0..POSITIONS).map(|_| UnsafeCell::new(0)).collect(),
    };
    let written: u64 = thread::scope(|scope| {
        let threads = Vec::from_iter((0..THREADS).map(|me| {
            let (lock, places) = (&lock, &places);
            scope.spawn(move || work(lock, places, me))
        }));
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(lock.is_empty(), "{lock:?}");
    let found: u64 = places.data.into_iter().map(UnsafeCell::into_inner).sum();
    assert_eq!(found, written, "writes were lost");
    assert!(places.inside.iter().all(|inside| inside.load(Relaxed) == 0));
}
