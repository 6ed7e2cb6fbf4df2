//! What locks do without memory: a request returns an error, and leaves nothing behind.
//!
//! Each test repeats one operation on new locks. The first time, its first allocation fails; then
//! its second; and so on, until it no longer runs out of memory. The test does this twice: with one
//! allocation that fails, and with all that follow failing as well. Each time, the operation must
//! succeed, or return an error of memory. Then, with memory again, the lock must be as usable as
//! before.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{Access, PartError, RangeError, RangeLockExt, Span, Token, TryLockError};
use spanlock_srl::{SrlArray, SrlPacked, SrlTree, SrlTreePacked};
use spanlock_sync::{Park, Parker};
use spanlock_testkit::owner::{Asked, Hold, span};
use spanlock_testkit::{Driven, driven};

/// The system's allocator, with as much memory as the calling thread allows.
struct Limited;

#[derive(Clone, Copy)]
enum Supply {
    Unlimited,
    /// After this many allocations, one fails; if the second part is true, all later ones do, too.
    Until(usize, bool),
    /// An allocation has failed. The second part of `Until`.
    RanOut(bool),
}

thread_local! {
    static SUPPLY: Cell<Supply> = const { Cell::new(Supply::Unlimited) };
}

/// Returns whether the calling thread may allocate once more.
fn may_allocate() -> bool {
    SUPPLY.with(|supply| {
        let (may, next) = match supply.get() {
            Supply::Unlimited => (true, Supply::Unlimited),
            Supply::Until(0, for_ever) => (false, Supply::RanOut(for_ever)),
            Supply::Until(left, for_ever) => (true, Supply::Until(left - 1, for_ever)),
            Supply::RanOut(for_ever) => (!for_ever, Supply::RanOut(for_ever)),
        };
        supply.set(next);
        may
    })
}

// SAFETY: every call is forwarded to the system's allocator, or returns null.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !may_allocate() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !may_allocate() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !may_allocate() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// How much memory an operation gets.
struct Memory {
    supply: Supply,
    ran_out: bool,
}

impl Memory {
    /// Calls `f`, which may run out of memory.
    fn during<T>(&mut self, f: impl FnOnce() -> T) -> T {
        SUPPLY.set(self.supply);
        let result = f();
        self.ran_out = matches!(SUPPLY.replace(Supply::Unlimited), Supply::RanOut(_));
        result
    }
}

/// The numbers of positions in a segment and in the range of each lock.
const UNIT: u64 = 4;
const ALL: u64 = 1 << 20;

/// How many segments a small request has at most.
const WIDE_ABOVE: u64 = 64;

type Make = fn() -> Driven;

/// Every lock that allocates, by name.
fn locks() -> Vec<(&'static str, Make)> {
    macro_rules! segments {
        ($new:expr) => {
            driven!(
                $new.expect("memory").wide_above(WIDE_ABOVE);
                wait, downgrade, upgrade, split, batch
            )
        };
    }
    macro_rules! tree {
        ($type:ty) => {{
            let lock = <$type>::with_segment_size(ALL, UNIT).expect("memory");
            let lock = std::sync::Arc::new(lock.wide_above(WIDE_ABOVE));
            let tree = lock.clone();
            let reclaim = move || {
                tree.shrink();
                tree.memory_usage()
            };
            Driven {
                reclaim: Some(std::sync::Arc::new(reclaim)),
                ..driven!(lock; wait, downgrade, upgrade, split, batch)
            }
        }};
    }
    fn interval(shards: usize) -> Driven {
        let lock = IntervalLock::with_shards(shards, 64);
        driven!(lock; wait, downgrade, upgrade, upgrade_wait, split, batch)
    }
    vec![
        ("srl-array", || segments!(SrlArray::with_head(ALL, UNIT, 2))),
        ("srl-packed", || {
            segments!(SrlPacked::with_head(ALL, UNIT, 2))
        }),
        ("srl-tree", || tree!(SrlTree)),
        ("srl-tree-packed", || tree!(SrlTreePacked)),
        ("interval-tree", || interval(1)),
        ("interval-tree-sharded", || interval(8)),
    ]
}

/// Calls `operation` on new locks of each kind until it does not run out of memory any more.
///
/// `operation` returns whether it succeeded. It must release everything that it holds.
fn until_it_suffices(operation: impl Fn(&Driven, &mut Memory) -> bool + Sync) {
    for (name, make) in locks() {
        // A new thread, so that what is allocated once in each thread is there each time.
        thread::scope(|scope| {
            scope.spawn(|| {
                warm_up(make);
                for for_ever in [false, true] {
                    suffices(name, make, for_ever, &operation);
                }
            });
        });
    }
}

fn suffices(
    name: &str,
    make: Make,
    for_ever: bool,
    operation: &impl Fn(&Driven, &mut Memory) -> bool,
) {
    for allocations in 0.. {
        let lock = make();
        let unused = lock.reclaim.as_ref().map(|reclaim| reclaim());
        let mut memory = Memory {
            supply: Supply::Until(allocations, for_ever),
            ran_out: false,
        };
        let succeeded = operation(&lock, &mut memory);
        let ran_out = memory.ran_out;
        assert!(
            succeeded || ran_out,
            "{name} failed after {allocations} allocations, although there was memory"
        );
        // Nothing is held, nothing waits, and nothing is lost.
        let all = Hold::try_lock(&lock, span(0..ALL), Access::Write).expect("everything is free");
        all.release();
        for at in [0, 400, ALL - 1] {
            let one = Hold::lock(&lock, span(at..at + 1), Access::Write).expect("there is memory");
            one.release();
        }
        let unused_now = lock.reclaim.as_ref().map(|reclaim| reclaim());
        assert_eq!(
            unused, unused_now,
            "{name} lost memory after {allocations} allocations"
        );
        if !ran_out {
            return;
        }
    }
}

/// Makes the allocations that happen once in each thread: the counter for read-side critical
/// sections, and the parker.
fn warm_up(make: Make) {
    let lock = make();
    let hold = Hold::lock(&lock, span(0..1), Access::Write);
    hold.expect("there is memory").release();
    Parker::with(|_| ());
}

/// Calls `f` while another thread holds a span, which it releases after some time.
fn behind<'a, T>(
    lock: &'a Driven,
    held: Span,
    access: Access,
    f: impl FnOnce(&'a Driven) -> T,
) -> T {
    let is_held = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let hold = Hold::lock(lock, held, access).expect("there is memory");
            is_held.store(true, Relaxed);
            // The test does not depend on it: if the other thread comes late, it does not wait.
            thread::sleep(std::time::Duration::from_millis(2));
            hold.release();
        });
        while !is_held.load(Relaxed) {
            thread::yield_now();
        }
        f(lock)
    })
}

/// Returns whether a request succeeded. Its only error is a lack of memory, for its own range.
fn is_granted<T>(result: &Result<T, RangeError>, wanted: Span) -> bool {
    let (start, end) = (wanted.start(), wanted.end());
    match result {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(*error, RangeError::Memory { start, end });
            false
        }
    }
}

/// Ranges in one segment, in several, and in very many.
fn spans() -> [Span; 4] {
    [span(400..401), span(0..5), span(300..500), span(5..ALL - 3)]
}

const ACCESSES: [Access; 3] = [Access::Read, Access::Upgradable, Access::Write];

#[test]
fn requests_without_conflict() {
    for wanted in spans() {
        for access in ACCESSES {
            until_it_suffices(|lock, memory| {
                let taken = memory.during(|| Hold::lock(lock, wanted, access));
                let granted = is_granted(&taken, wanted);
                taken.into_iter().for_each(Hold::release);
                granted
            });
            until_it_suffices(|lock, memory| {
                let taken = memory.during(|| Hold::try_lock(lock, wanted, access));
                let taken = taken.map_err(|error| match error {
                    TryLockError::Range(error) => error,
                    error => panic!("{wanted:?}: {error}"),
                });
                let granted = is_granted(&taken, wanted);
                taken.into_iter().for_each(Hold::release);
                granted
            });
            until_it_suffices(|lock, memory| {
                let mut asked = Asked::new(lock, wanted, access);
                let taken = memory.during(|| asked.poll());
                let granted = is_granted(&taken, wanted);
                let taken = taken.into_iter().map(|hold| hold.expect("nothing is held"));
                taken.for_each(Hold::release);
                granted
            });
        }
    }
}

/// Many holds: the trees must grow in between.
#[test]
fn many_holds() {
    until_it_suffices(|lock, memory| {
        let mut holds = Vec::with_capacity(200);
        let taken = memory.during(|| {
            for at in (0..200).map(|i| span(1000 * i..1000 * i + 10)) {
                holds.push(Hold::lock(lock, at, Access::Write).map_err(|error| (at, error))?);
            }
            Ok(())
        });
        holds.into_iter().for_each(Hold::release);
        taken.is_ok_and(|()| true) || {
            let Err((at, error)) = taken else { return true };
            is_granted::<()>(&Err(error), at)
        }
    });
}

/// A thread that blocks, and a future that waits, behind a hold of each kind.
#[test]
fn requests_that_wait() {
    for (held, wanted) in [
        (span(400..401), span(400..401)),
        (span(0..ALL), span(400..401)),
        (span(400..401), span(0..ALL)),
        (span(300..301), span(200..500)),
        (span(0..ALL), span(0..ALL)),
    ] {
        until_it_suffices(|lock, memory| {
            let taken = behind(lock, held, Access::Write, |lock| {
                memory.during(|| Hold::lock(lock, wanted, Access::Write))
            });
            let granted = is_granted(&taken, wanted);
            taken.into_iter().for_each(Hold::release);
            granted
        });
        until_it_suffices(|lock, memory| {
            let hold = Hold::lock(lock, held, Access::Write).expect("there is memory");
            let mut asked = Asked::new(lock, wanted, Access::Write);
            let waits = memory.during(|| asked.poll());
            let granted = is_granted(&waits, wanted);
            hold.release();
            if granted {
                let hold = asked.poll().expect("there is memory");
                hold.expect("nothing else is held").release();
            }
            granted
        });
        // Without memory after it has begun to wait.
        until_it_suffices(|lock, memory| {
            let hold = Hold::lock(lock, held, Access::Write).expect("there is memory");
            let mut asked = Asked::waiting(lock, wanted, Access::Write);
            hold.release();
            let _ = lock.reclaim.as_ref().map(|reclaim| reclaim());
            let taken = memory.during(|| asked.poll());
            let granted = is_granted(&taken, wanted);
            let taken = taken.into_iter().map(|hold| hold.expect("nothing is held"));
            taken.for_each(Hold::release);
            granted
        });
        // A failed request leaves no trace: a later one waits, and is granted.
        until_it_suffices(|lock, memory| {
            let hold = Hold::lock(lock, held, Access::Write).expect("there is memory");
            let mut first = Asked::new(lock, wanted, Access::Write);
            let granted = is_granted(&memory.during(|| first.poll()), wanted);
            let mut second = Asked::waiting(lock, wanted, Access::Write);
            hold.release();
            if granted {
                first.cancel();
            }
            let hold = second.poll().expect("there is memory");
            hold.expect("nothing else is held").release();
            granted
        });
    }
}

#[test]
fn cuts() {
    for held in [span(400..600), span(0..ALL), span(0..8)] {
        until_it_suffices(|lock, memory| {
            let at = held.start() + held.len() / 2 / UNIT * UNIT;
            let (mut low, mut high) = (Token::NONE, Token::NONE);
            low = lock.raw.lock(held, Access::Write).unwrap_or(low);
            let split = lock.split.as_ref().expect("all locks have it");
            // SAFETY: the span is held; `at` lies within it.
            let cut = memory
                .during(|| unsafe { split.split(held, Access::Write, &mut low, at, &mut high) });
            // SAFETY: each part, or the whole, is held by its token.
            unsafe {
                if cut.is_ok() {
                    lock.raw.unlock(span(held.start()..at), Access::Write, low);
                    lock.raw.unlock(span(at..held.end()), Access::Write, high);
                } else {
                    lock.raw.unlock(held, Access::Write, low);
                }
            }
            cut.is_ok()
        });
    }
}

/// What returns no error succeeds without memory.
#[test]
fn changes_and_releases() {
    for held in spans() {
        let whole = |lock: &Driven| lock.rounded(held);
        until_it_suffices(|lock, memory| {
            let mut hold = Hold::lock(lock, held, Access::Write).expect("there is memory");
            let mut asked = Asked::waiting(lock, held, Access::Read);
            let mut end = Asked::waiting(lock, span(held.end() - 1..held.end()), Access::Read);
            memory.during(|| hold.downgrade());
            for asked in [&mut asked, &mut end] {
                let hold = asked.poll().expect("there is memory");
                hold.expect("only readers hold it").release();
            }
            hold.release();
            true
        });
        until_it_suffices(|lock, memory| {
            let mut hold = Hold::lock(lock, held, Access::Upgradable).expect("there is memory");
            let upgraded = memory.during(|| hold.try_upgrade());
            assert!(upgraded, "nobody else holds {held:?}");
            memory.during(|| hold.release());
            true
        });
        until_it_suffices(|lock, memory| {
            if lock.upgrade_wait.is_none() {
                return true;
            }
            let mut hold = Hold::lock(lock, held, Access::Upgradable).expect("there is memory");
            behind(lock, held, Access::Read, |_| {
                memory.during(|| hold.upgrade())
            });
            hold.release();
            true
        });
        until_it_suffices(|lock, memory| {
            let mut hold = Hold::lock(lock, held, Access::Write).expect("there is memory");
            let keep = span(held.start()..held.start() + 1);
            memory.during(|| hold.shrink(keep));
            let last = span(whole(lock).end() - 1..whole(lock).end());
            if !lock.meet(keep, last) {
                let last = Hold::try_lock(lock, last, Access::Write).expect("it was given up");
                last.release();
            }
            hold.release();
            true
        });
        until_it_suffices(|lock, memory| {
            let hold = Hold::lock(lock, held, Access::Write).expect("there is memory");
            let mut waiting = Vec::from_iter((0..20).map(|i| {
                let at = held.start() + i % held.len();
                Asked::waiting(lock, span(at..at + 1), Access::Read)
            }));
            memory.during(|| hold.release());
            for asked in &mut waiting {
                let hold = asked.poll().expect("there is memory");
                hold.expect("only readers hold it").release();
            }
            true
        });
    }
}

#[test]
fn batches() {
    let batch = [
        (span(0..5), Access::Write),
        (span(400..404), Access::Read),
        (span(1000..ALL), Access::Write),
    ];
    let whole = span(0..ALL);
    until_it_suffices(|lock, memory| {
        let locks = lock.batch.as_ref().expect("all locks have it");
        let mut tokens = [Token::NONE; 3];
        // SAFETY: the spans are in order and share no segment.
        let taken = memory.during(|| unsafe { locks.lock_batch(&batch, &mut tokens) });
        let granted = is_granted(&taken, whole);
        if granted {
            release(lock, &batch, &tokens);
        }
        granted
    });
    until_it_suffices(|lock, memory| {
        let locks = lock.batch.as_ref().expect("all locks have it");
        let mut tokens = [Token::NONE; 3];
        // SAFETY: as above.
        let taken = memory.during(|| unsafe { locks.try_lock_batch(&batch, &mut tokens) });
        let taken = taken.map_err(|error| match error {
            TryLockError::Range(error) => error,
            error => panic!("{error}"),
        });
        let granted = is_granted(&taken, whole);
        if granted {
            release(lock, &batch, &tokens);
        }
        granted
    });
    until_it_suffices(|lock, memory| {
        let locks = lock.batch.as_ref().expect("all locks have it");
        let mut tokens = [Token::NONE; 3];
        let taken = behind(lock, span(402..2000), Access::Write, |_| {
            // SAFETY: as above.
            memory.during(|| unsafe { locks.lock_batch(&batch, &mut tokens) })
        });
        let granted = is_granted(&taken, whole);
        if granted {
            release(lock, &batch, &tokens);
        }
        granted
    });
}

fn release(lock: &Driven, batch: &[(Span, Access)], tokens: &[Token]) {
    for (&(span, access), &token) in batch.iter().zip(tokens) {
        // SAFETY: the batch took this span with this token.
        unsafe { lock.raw.unlock(span, access, token) };
    }
}

/// The tree's nodes are freed, or they stay.
#[test]
fn shrinks() {
    until_it_suffices(|lock, memory| {
        let Some(reclaim) = &lock.reclaim else {
            return true;
        };
        let spread = || (0..20).map(|i| span(50_000 * i..50_000 * i + 1));
        for at in spread() {
            let hold = Hold::lock(lock, at, Access::Write).expect("there is memory");
            hold.release();
        }
        memory.during(|| reclaim());
        true
    });
}

/// A wide request that fails leaves the gate open. If it did not, later requests would be slower.
#[test]
fn the_gate_opens_again() {
    type Request = fn(&SrlArray) -> Result<(), RangeError>;
    fn wide() -> std::ops::Range<u64> {
        0..100 * UNIT
    }
    let requests: [Request; 3] = [
        |lock| lock.write(wide()).map(drop),
        |lock| match lock.try_write(wide()) {
            Err(TryLockError::Range(error)) => Err(error),
            tried => {
                drop(tried);
                Ok(())
            }
        },
        |lock| lock.lock_all([(wide(), Access::Write)]).map(drop),
    ];
    Parker::with(|_| ());
    for request in requests {
        for allocations in 0.. {
            let lock = SrlArray::with_segment_size(100 * UNIT, UNIT).expect("memory");
            let lock = lock.wide_above(WIDE_ABOVE);
            let idle = format!("{lock:?}");
            let mut memory = Memory {
                supply: Supply::Until(allocations, true),
                ran_out: false,
            };
            let granted = memory.during(|| request(&lock));
            assert_eq!(format!("{lock:?}"), idle, "after {allocations} allocations");
            assert_eq!(granted.is_ok(), !memory.ran_out);
            if !memory.ran_out {
                break;
            }
        }
    }
}

/// The guards' own lists.
#[test]
fn guards() {
    let requests = || (0..10).map(|i| (100 * i..100 * i + 10, Access::Write));
    for for_ever in [false, true] {
        for allocations in 0.. {
            let lock = SrlTree::with_segment_size(ALL, UNIT).expect("memory");
            let mut memory = Memory {
                supply: Supply::Until(allocations, for_ever),
                ran_out: false,
            };
            let held = memory.during(|| lock.lock_all(requests()));
            if let Err(error) = &held {
                assert!(matches!(error, RangeError::Memory { .. }), "{error}");
            }
            drop(held);
            assert!(lock.try_write(0..ALL).is_ok());
            if !memory.ran_out {
                break;
            }
        }
    }
    let lock = IntervalLock::with_shards(1, 1);
    let (hold, mut holds) = (lock.write(0..100).expect("memory"), Vec::with_capacity(10));
    let mut memory = Memory {
        supply: Supply::Until(0, true),
        ran_out: false,
    };
    let mut rest = hold;
    memory.during(|| {
        while let at = 10 * (holds.len() as u64 + 1)
            && at < 100
        {
            match rest.split_off(at) {
                Ok(above) => holds.push(std::mem::replace(&mut rest, above)),
                Err(error) => return assert_eq!(error, PartError::Memory { at }),
            }
        }
    });
    assert!(memory.ran_out, "a new hold takes memory");
    let (held, of) = (rest.span().expect("not empty"), 10 * holds.len() as u64);
    assert_eq!(held.range(), of..100, "the hold is unchanged");
    drop((rest, holds));
    assert!(lock.try_write(0..100).is_ok());
}
