//! The word that the locks are made of: deadlines, the full count of readers, many words at once.
//!
//! Deadlines in the past or far away, so that no assertion depends on how fast this machine is.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_range_lock::Access::{self, Read, Write};
use spanlock_range_lock::RwWord;
use spanlock_range_lock::words::{MAX_PASSES, Run, lock_all, try_lock_all, unlock_all};
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
        // SAFETY: each test gives back what it took, once.
        unsafe { self.word.run().unlock(access, &self.queue) }
    }

    /// Takes and gives back.
    fn pass(&self, access: Access) {
        self.lock(access);
        self.unlock(access);
    }

    /// Waits until somebody stands in the queue, by using up the patience of its head.
    fn shut_the_door(&self) {
        while self.try_lock(Read) {
            self.unlock(Read);
            thread::yield_now();
        }
    }

    /// Nobody holds, and nobody waits: arrivals pass without limit.
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

/// The words, in order.
fn runs(words: &[RwWord]) -> impl Iterator<Item = Run<'_, RwWord>> + Clone {
    words.iter().map(RwWord::run)
}

const SOON: Duration = Duration::from_millis(3);
const NEVER: Duration = Duration::from_secs(100_000);

#[test]
fn four_bytes_and_no_more() {
    assert_eq!(size_of::<RwWord>(), 4);
    assert_eq!(size_of::<WaitQueue>(), 8);
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
        // Nobody waits any more: more readers pass than a waiter would bear.
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
fn a_deadline_does_not_matter_to_a_free_word() {
    let lock = Lock::new();
    let past = Instant::now();
    for access in [Read, Write] {
        assert!(lock.word.run().lock_until(access, &lock.queue, past));
        lock.unlock(access);
    }
    lock.assert_free();
}

#[test]
fn a_wake_before_the_deadline_is_in_time() {
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

/// A *reader* that gives up lets nobody in whom it did not hold up.
#[test]
fn a_reader_that_gives_up_grants_nothing() {
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

/// A *writer* that gives up lets the readers behind it in, while another reader still holds.
#[test]
fn a_writer_that_gives_up_frees_the_way_behind_it() {
    let lock = Lock::new();
    for _ in 0..5 {
        lock.lock(Read);
        thread::scope(|scope| {
            let writer = scope.spawn(|| lock.lock_within(Write, 10 * SOON));
            lock.shut_the_door_or(|| writer.is_finished());
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| lock.pass(Read))).collect();
            assert!(!writer.join().unwrap());
            // These ends are the assertion: our own hold has not been given back.
            readers
                .into_iter()
                .for_each(|reader| reader.join().unwrap());
        });
        lock.unlock(Read);
        lock.assert_free();
    }
}

impl Lock {
    /// As `shut_the_door`, or until `gone`.
    fn shut_the_door_or(&self, gone: impl Fn() -> bool) {
        while !gone() && self.try_lock(Read) {
            self.unlock(Read);
            thread::yield_now();
        }
    }
}

/// The head is passed exactly so often, each head anew.
#[test]
fn passes_are_counted() {
    let lock = Lock::new();
    for _ in 0..50 {
        lock.lock(Read);
        assert!(!lock.word.run().has_waiters(&lock.queue));
        thread::scope(|scope| {
            let writer = scope.spawn(|| lock.pass(Write));
            while !lock.word.run().has_waiters(&lock.queue) {
                thread::yield_now();
            }
            for _ in 0..MAX_PASSES {
                assert!(lock.try_lock(Read));
                lock.unlock(Read);
            }
            assert!(!lock.try_lock(Read));
            assert!(!writer.is_finished());
            lock.unlock(Read);
        });
    }
    lock.assert_free();
}

/// A head that gets in opens the door again: whoever is the head then is passed as often.
#[test]
fn each_head_opens_the_door_again() {
    let lock = Lock::new();
    // The second reader has to queue before the second writer, which one cannot see: so until it has.
    for round in 1.. {
        lock.lock(Read);
        let (reads, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let (seen, passes) = thread::scope(|scope| {
            scope.spawn(|| lock.pass(Write));
            lock.shut_the_door();
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
            let mut passes = 0;
            while seen && lock.try_lock(Read) {
                lock.unlock(Read);
                passes += 1;
            }
            done.store(true, SeqCst);
            (seen, passes)
        });
        lock.assert_free();
        if seen {
            assert_eq!(passes, MAX_PASSES);
            return;
        }
    }
}

/// Who comes after a queue has gone finds nothing of it: neither waiters nor passes.
#[test]
fn the_last_to_leave_takes_the_passes_along() {
    let lock = Lock::new();
    for _ in 0..20 {
        lock.lock(Read);
        thread::scope(|scope| {
            let gives_up = scope.spawn(|| lock.lock_within(Write, SOON));
            lock.shut_the_door_or(|| gives_up.is_finished());
            assert!(!gives_up.join().unwrap());
        });
        assert!(!lock.word.run().has_waiters(&lock.queue));
        for _ in 0..2 * MAX_PASSES {
            assert!(lock.try_lock(Read), "the door is shut, and nobody is there");
            lock.unlock(Read);
        }
        lock.unlock(Read);
    }
    lock.assert_free();
}

#[test]
fn a_waiter_in_the_midst_of_the_queue_gives_up() {
    let lock = &Lock::new();
    lock.lock(Read);
    let granted = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            lock.lock(Write);
            granted.fetch_add(1, SeqCst);
            lock.unlock(Write);
        });
        lock.shut_the_door();
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
fn many_give_up_while_many_get_in() {
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
fn many_words_all_or_none() {
    let words: Vec<_> = (0..10).map(|_| RwWord::new()).collect();
    let queue = WaitQueue::new();
    for busy in 0..10 {
        words[busy].run().lock(Read, &queue);
        assert!(!try_lock_all(runs(&words), Write, &queue));
        // The words before the busy one were given back, those behind it never taken.
        for (i, word) in words.iter().enumerate() {
            assert_eq!(word.run().try_lock(Write, &queue), i != busy);
        }
        let others = || words.iter().enumerate().filter(|(i, _)| *i != busy);
        // SAFETY: taken just now, each with `Write`.
        unsafe { unlock_all(others().map(|(_, word)| word.run()), Write, &queue) };
        // Readers take them all, the busy one included.
        assert!(try_lock_all(runs(&words), Read, &queue));
        // SAFETY: taken just now.
        unsafe { unlock_all(runs(&words), Read, &queue) };
        // SAFETY: taken at the start of the round.
        unsafe { words[busy].run().unlock(Read, &queue) };
    }
    lock_all(runs(&words), Write, &queue);
    assert!(words.iter().all(|word| !word.run().try_lock(Read, &queue)));
    // SAFETY: taken just now.
    unsafe { unlock_all(runs(&words), Write, &queue) };
    // No word at all: nothing to wait for.
    assert!(try_lock_all(runs(&[]), Write, &queue));
}

#[test]
fn words_side_by_side_have_queues_of_their_own() {
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
                    // SAFETY: taken just now.
                    unsafe { word.run().unlock(Write, queue) };
                })
            })
            .collect();
        // One after the other, backwards: each release wakes the waiter of its own word.
        for (word, waiter) in words.iter().zip(waiters).rev() {
            // SAFETY: taken by `lock_all`.
            unsafe { word.run().unlock(Write, &queue) };
            waiter.join().unwrap();
        }
    });
    assert!(try_lock_all(runs(&words), Write, &queue));
}
