//! The word of which the locks are built: deadlines, the full reader count, many words at once.
//!
//! Deadlines lie in the past or far in the future, so no assertion depends on the machine's speed.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_range_lock::Access::{self, Read, Write};
use spanlock_range_lock::RwWord;
use spanlock_range_lock::words::{MAX_PASSES, PASS_TIME, Run, lock_all, try_lock_all, unlock_all};
use spanlock_sync::wait::WaitQueue;

/// A word with its queue.
struct Lock {
    word: RwWord,
    queue: WaitQueue,
}

impl Lock {
    fn new() -> Self {
        Lock {
            word: RwWord::new(),
            queue: WaitQueue::new(),
        }
    }

    fn lock(&self, access: Access) {
        self.word.run().lock(access, &self.queue);
    }

    fn try_lock(&self, access: Access) -> bool {
        self.word.run().try_lock(access, &self.queue)
    }

    fn lock_within(&self, access: Access, time: Duration) -> bool {
        self.word
            .run()
            .lock_until(access, &self.queue, Instant::now() + time)
    }

    fn unlock(&self, access: Access) {
        // SAFETY: each test releases what it acquired, once.
        unsafe { self.word.run().unlock(access, &self.queue) }
    }

    /// Locks and unlocks.
    fn pass(&self, access: Access) {
        self.lock(access);
        self.unlock(access);
    }

    /// Waits until a waiter is queued, by using up all the passes of the head.
    fn use_up_the_passes(&self) {
        self.use_up_the_passes_or(|| false);
    }

    /// Uses up all the passes of the head, and returns how many these were. The first pass must be
    /// still to come.
    fn passes(&self) -> u32 {
        let mut passes = 0;
        while self.try_lock(Read) {
            self.unlock(Read);
            passes += 1;
            if passes == 1 {
                thread::sleep(2 * PASS_TIME);
            }
        }
        passes
    }

    /// Asserts that nobody holds and nobody waits: then arrivals pass without limit.
    fn assert_free(&self) {
        for _ in 0..2 * MAX_PASSES {
            assert!(self.try_lock(Read));
            assert!(self.try_lock(Read));
            self.unlock(Read);
            self.unlock(Read);
            assert!(self.try_lock(Write));
            self.unlock(Write);
        }
    }
}

/// Returns the words as runs, in order.
fn runs(words: &[RwWord]) -> impl Iterator<Item = Run<'_, RwWord>> + Clone {
    words.iter().map(RwWord::run)
}

const SOON: Duration = Duration::from_millis(3);
const NEVER: Duration = Duration::from_secs(100_000);

/// With statistics, a queue counts events, too.
#[cfg(not(feature = "statistics"))]
#[test]
fn a_word_is_four_bytes() {
    assert_eq!(size_of::<RwWord>(), 4);
    assert_eq!(size_of::<WaitQueue>(), 12);
}

#[test]
fn a_deadline_that_passes_leaves_no_trace() {
    let lock = Lock::new();
    for (held, asked) in [(Read, Write), (Write, Read), (Write, Write)] {
        lock.lock(held);
        for time in [Duration::ZERO, SOON] {
            let before = Instant::now();
            assert!(!lock.lock_within(asked, time));
            assert!(before.elapsed() >= time, "gave up too early");
        }
        // No waiter is left: more readers get in than may overtake a waiter.
        if held == Read {
            for _ in 0..2 * MAX_PASSES {
                assert!(lock.try_lock(Read));
                lock.unlock(Read);
            }
        }
        lock.unlock(held);
        lock.assert_free();
    }
}

#[test]
fn a_free_word_ignores_the_deadline() {
    let lock = Lock::new();
    let past = Instant::now();
    for access in [Read, Write] {
        assert!(lock.word.run().lock_until(access, &lock.queue, past));
        lock.unlock(access);
    }
    lock.assert_free();
}

#[test]
fn a_wakeup_before_the_deadline_is_in_time() {
    let lock = Lock::new();
    for (held, asked) in [(Read, Write), (Write, Read), (Write, Write)] {
        lock.lock(held);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| lock.lock_within(asked, NEVER));
            thread::sleep(SOON);
            lock.unlock(held);
            assert!(waiter.join().unwrap());
            lock.unlock(asked);
        });
        lock.assert_free();
    }
}

/// A *reader* that gives up admits nobody else: it was not blocking anyone.
#[test]
fn a_reader_that_gives_up_unblocks_nobody() {
    let lock = &Lock::new();
    lock.lock(Write);
    let written = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            lock.lock(Read);
            assert!(written.load(SeqCst), "granted while the writer holds");
            lock.unlock(Read);
        });
        let gone = [SOON; 5].map(|time| scope.spawn(move || !lock.lock_within(Read, time)));
        assert!(gone.into_iter().all(|gone| gone.join().unwrap()));
        written.store(true, SeqCst);
        lock.unlock(Write);
    });
    lock.assert_free();
}

/// A *writer* that gives up unblocks the readers behind it while another reader still holds.
#[test]
fn a_writer_that_gives_up_unblocks_the_readers_behind_it() {
    let lock = Lock::new();
    for _ in 0..5 {
        lock.lock(Read);
        thread::scope(|scope| {
            let writer = scope.spawn(|| lock.lock_within(Write, 10 * SOON));
            lock.use_up_the_passes_or(|| writer.is_finished());
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| lock.pass(Read))).collect();
            assert!(!writer.join().unwrap());
            // The readers must finish although this thread's hold has not been released.
            readers
                .into_iter()
                .for_each(|reader| reader.join().unwrap());
        });
        lock.unlock(Read);
        lock.assert_free();
    }
}

impl Lock {
    /// Like `use_up_the_passes`, but stops once `gone` returns true.
    fn use_up_the_passes_or(&self, gone: impl Fn() -> bool) {
        while !gone() && self.try_lock(Read) {
            self.unlock(Read);
            thread::yield_now();
        }
    }
}

/// Each head is overtaken exactly `MAX_PASSES` times, if that takes longer than `PASS_TIME`.
///
/// If a lock of another test has its word in the same bucket, its arrivals use passes that are
/// counted for this head. So some heads may be overtaken less often.
#[test]
fn a_head_is_overtaken_max_passes_times() {
    let lock = Lock::new();
    let mut exact = 0;
    for _ in 0..5_000 {
        lock.lock(Read);
        assert!(!lock.word.run().has_waiters(&lock.queue));
        // A failed assertion would leave the writer waiting for ever. So they all come later.
        let (passes, is_overtaken_again, is_finished) = thread::scope(|scope| {
            let writer = scope.spawn(|| lock.pass(Write));
            while !lock.word.run().has_waiters(&lock.queue) {
                thread::yield_now();
            }
            let passes = lock.passes();
            let is_overtaken_again = lock.try_lock(Read);
            if is_overtaken_again {
                lock.unlock(Read);
            }
            let is_finished = writer.is_finished();
            lock.unlock(Read);
            (passes, is_overtaken_again, is_finished)
        });
        assert!(passes <= MAX_PASSES, "{passes} passes");
        assert!(!is_overtaken_again && !is_finished);
        exact += u32::from(passes == MAX_PASSES);
        if exact == 50 {
            return lock.assert_free();
        }
    }
    panic!("only {exact} heads were overtaken {MAX_PASSES} times");
}

/// When a head gets in, the count starts again for the next head.
#[test]
fn each_head_may_be_overtaken_anew() {
    let lock = Lock::new();
    // The second reader must queue before the second writer, and no lock of another test may use
    // passes. The test can observe neither, so it repeats until the count is exact.
    for round in 1..=50 {
        lock.lock(Read);
        let (reads, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let (seen, passes) = thread::scope(|scope| {
            scope.spawn(|| lock.pass(Write));
            lock.use_up_the_passes();
            scope.spawn(|| {
                lock.lock(Read);
                reads.store(true, SeqCst);
                while !done.load(SeqCst) {
                    thread::yield_now();
                }
                lock.unlock(Read);
            });
            thread::sleep(round * SOON);
            scope.spawn(|| lock.pass(Write));
            thread::sleep(round * SOON);
            lock.unlock(Read);
            while !reads.load(SeqCst) {
                thread::yield_now();
            }
            let seen = lock.word.run().has_waiters(&lock.queue);
            let passes = if seen { lock.passes() } else { 0 };
            done.store(true, SeqCst);
            (seen, passes)
        });
        lock.assert_free();
        assert!(passes <= MAX_PASSES, "{passes} passes");
        if seen && passes == MAX_PASSES {
            return;
        }
    }
    panic!("no second head was overtaken {MAX_PASSES} times");
}

/// Once a queue has emptied, an arrival finds neither waiters nor counted passes.
#[test]
fn an_emptied_queue_forgets_its_passes() {
    let lock = Lock::new();
    for _ in 0..20 {
        lock.lock(Read);
        thread::scope(|scope| {
            let gives_up = scope.spawn(|| lock.lock_within(Write, SOON));
            lock.use_up_the_passes_or(|| gives_up.is_finished());
            assert!(!gives_up.join().unwrap());
        });
        assert!(!lock.word.run().has_waiters(&lock.queue));
        for _ in 0..2 * MAX_PASSES {
            assert!(lock.try_lock(Read), "refused although nobody waits");
            lock.unlock(Read);
        }
        lock.unlock(Read);
    }
    lock.assert_free();
}

#[test]
fn a_waiter_in_the_middle_of_the_queue_gives_up() {
    let lock = &Lock::new();
    lock.lock(Read);
    let granted = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            lock.lock(Write);
            granted.fetch_add(1, SeqCst);
            lock.unlock(Write);
        });
        lock.use_up_the_passes();
        let gone = [Write, Read].map(|access| scope.spawn(move || !lock.lock_within(access, SOON)));
        scope.spawn(|| {
            lock.lock(Read);
            assert_eq!(granted.load(SeqCst), 1, "went past the first in the queue");
            lock.unlock(Read);
        });
        assert!(gone.into_iter().all(|gone| gone.join().unwrap()));
        assert_eq!(granted.load(SeqCst), 0);
        lock.unlock(Read);
    });
    assert_eq!(granted.load(SeqCst), 1);
    lock.assert_free();
}

#[test]
fn waiters_give_up_while_others_get_in() {
    let lock = Lock::new();
    let inside = AtomicU32::new(0);
    const WRITER: u32 = 1 << 16;
    thread::scope(|scope| {
        for me in 0..8_u32 {
            let (lock, inside) = (&lock, &inside);
            scope.spawn(move || {
                for i in 0..800 {
                    let access = if (i + me) % 3 == 0 { Write } else { Read };
                    let time = Duration::from_micros(u64::from((i * 7 + me) % 60));
                    if !lock.lock_within(access, time) {
                        continue;
                    }
                    let (one, alone) = match access {
                        Read => (1, inside.fetch_add(1, SeqCst) < WRITER),
                        _ => (WRITER, inside.fetch_add(WRITER, SeqCst) == 0),
                    };
                    assert!(alone, "not alone");
                    if i % 5 == 0 {
                        thread::yield_now();
                    }
                    inside.fetch_sub(one, SeqCst);
                    lock.unlock(access);
                }
            });
        }
    });
    lock.assert_free();
}

#[test]
fn many_words_are_acquired_all_or_none() {
    let words: Vec<_> = (0..10).map(|_| RwWord::new()).collect();
    let queue = WaitQueue::new();
    for busy in 0..10 {
        words[busy].run().lock(Read, &queue);
        assert!(!try_lock_all(runs(&words), Write, &queue));
        // The words before the busy one were released, and those after it were never acquired.
        for (i, word) in words.iter().enumerate() {
            assert_eq!(word.run().try_lock(Write, &queue), i != busy);
        }
        let others = || words.iter().enumerate().filter(|(i, _)| *i != busy);
        // SAFETY: acquired just now, each with `Write`.
        unsafe { unlock_all(others().map(|(_, word)| word.run()), Write, &queue) };
        // Readers acquire them all, including the busy one.
        assert!(try_lock_all(runs(&words), Read, &queue));
        // SAFETY: acquired just now.
        unsafe { unlock_all(runs(&words), Read, &queue) };
        // SAFETY: acquired at the start of the round.
        unsafe { words[busy].run().unlock(Read, &queue) };
    }
    lock_all(runs(&words), Write, &queue);
    assert!(words.iter().all(|word| !word.run().try_lock(Read, &queue)));
    // SAFETY: acquired just now.
    unsafe { unlock_all(runs(&words), Write, &queue) };
    // With no word at all there is nothing to wait for.
    assert!(try_lock_all(runs(&[]), Write, &queue));
}

#[test]
fn adjacent_words_have_separate_queues() {
    let words: Vec<_> = (0..64).map(|_| RwWord::new()).collect();
    let queue = WaitQueue::new();
    lock_all(runs(&words), Write, &queue);
    thread::scope(|scope| {
        let waiters: Vec<_> = words
            .iter()
            .map(|word| {
                let queue = &queue;
                scope.spawn(move || {
                    word.run().lock(Write, queue);
                    // SAFETY: acquired just now.
                    unsafe { word.run().unlock(Write, queue) };
                })
            })
            .collect();
        // One by one, backwards: each release wakes the waiter of its own word.
        for (word, waiter) in words.iter().zip(waiters).rev() {
            // SAFETY: acquired by `lock_all`.
            unsafe { word.run().unlock(Write, &queue) };
            waiter.join().unwrap();
        }
    });
    assert!(try_lock_all(runs(&words), Write, &queue));
}
