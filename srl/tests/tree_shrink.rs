//! The segment tree frees memory while other threads hold, wait, arrive and cancel.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread;

use spanlock_range_lock::words::Word;
use spanlock_range_lock::{
    Access, RangeError, RangeLockExt, RawRangeLock, RawRangeLockWait, Span, Token,
};
use spanlock_srl::{Shape, Srl, SrlRequest, SrlTree, SrlTreePacked, Tree};

const LARGEST: u64 = 3 << 39;
const ROOT: usize = 48 * size_of::<usize>();
/// An inner node has 64 slots.
const INNER: usize = 64 * size_of::<usize>();
/// The number of positions that a leaf of the default shape covers.
const LEAF: u64 = 32 << 12;
/// The number of positions that a node above leaves covers.
const NODE: u64 = 64 * LEAF;

fn span(range: Range<u64>) -> Span {
    Span::new(range).unwrap().unwrap()
}

#[test]
fn shrink_frees_everything_that_is_not_held() {
    let lock = SrlTree::new(LARGEST).unwrap();
    let packed = SrlTreePacked::new(LARGEST).unwrap();
    for round in 1..4 {
        for at in (0..LARGEST).step_by(31 << 30) {
            drop(lock.write(at..at + round * LEAF).unwrap());
            drop(packed.read(at..at + round * LEAF).unwrap());
        }
        for (before, freed, after) in [
            (lock.memory_usage(), lock.shrink(), lock.memory_usage()),
            (
                packed.memory_usage(),
                packed.shrink(),
                packed.memory_usage(),
            ),
        ] {
            assert_eq!((freed, after), (before - ROOT, ROOT));
        }
        assert_eq!((lock.shrink(), packed.shrink()), (0, 0));
    }
}

#[test]
fn holds_keep_their_leaves_and_no_others() {
    let lock = SrlTree::new(LARGEST).unwrap();
    for leaf in 0..200 {
        drop(lock.write(leaf * LEAF..leaf * LEAF + 1).unwrap());
    }
    let held = [0, 31 << 12, 70 * LEAF + 5, 199 * LEAF];
    let [a, b, c, d] = held;
    let holds = (
        lock.read(a..a + 1).unwrap(),
        lock.write(b..b + 1).unwrap(),
        lock.upgradable_read(c..c + 1).unwrap(),
        // All of leaf 199.
        lock.write(d..d + LEAF).unwrap(),
    );
    lock.shrink();
    // Leaves 0, 70 and 199 remain, each below a node of its own. The last hold does not touch leaf
    // 200.
    assert_eq!(lock.memory_usage(), ROOT + (3 + 2) * INNER + 3 * 128);
    assert!(lock.try_write(a..a + 1).is_err());
    drop(lock.try_read(a..a + 1).unwrap());
    assert!(lock.try_read(b..b + 1).is_err());
    assert!(lock.try_upgradable_read(c..c + 1).is_err());
    assert!(lock.try_read(d + LEAF - 1..d + LEAF).is_err());
    // Everything between them is free.
    drop(lock.try_write(4096..31 << 12).unwrap());
    drop(lock.try_write(LEAF..70 * LEAF).unwrap());
    drop(holds);
    drop(lock.try_write(0..LARGEST).unwrap());
    lock.shrink();
    assert_eq!(lock.memory_usage(), ROOT);
}

#[test]
fn shrink_range_frees_the_leaves_that_it_touches() {
    let lock = SrlTree::new(LARGEST).unwrap();
    let grow = || {
        for leaf in 0..128 {
            drop(lock.write(leaf * LEAF..leaf * LEAF + 1).unwrap());
        }
    };
    grow();
    let full = lock.memory_usage();
    assert_eq!(full, ROOT + 4 * INNER + 128 * 128);
    assert_eq!(lock.shrink_range(0..0), Ok(0));
    // The range touches two leaves. Both are freed as a whole.
    assert_eq!(lock.shrink_range(LEAF - 1..LEAF + 1), Ok(256));
    assert_eq!(lock.shrink_range(0..LEAF), Ok(0));
    // The second node is freed, as after a truncate to the end of the first.
    assert_eq!(lock.shrink_range(NODE..LARGEST), Ok(64 * 128 + INNER));
    assert_eq!(lock.shrink_range(NODE..LARGEST), Ok(0));
    grow();
    assert_eq!(lock.memory_usage(), full);

    let reversed = Range { start: 2, end: 1 };
    assert_eq!(
        lock.shrink_range(reversed),
        Err(RangeError::Reversed { start: 2, end: 1 })
    );
    assert_eq!(
        lock.shrink_range(0..LARGEST + 1),
        Err(RangeError::PastCapacity {
            start: 0,
            end: LARGEST + 1,
            capacity: LARGEST
        })
    );
    assert_eq!(lock.memory_usage(), full);
}

#[test]
fn wide_holds_keep_what_they_cover() {
    let lock = SrlTree::new(LARGEST).unwrap();
    for node in 0..4 {
        drop(lock.write(node * NODE..node * NODE + 1).unwrap());
    }
    // This hold covers nodes 1 and 2.
    let wide = lock.read(NODE..3 * NODE).unwrap();
    assert_eq!(lock.shrink(), 2 * 128);
    assert!(lock.try_write(2 * NODE..2 * NODE + 1).is_err());
    drop(wide);
    assert_eq!(lock.memory_usage() - ROOT, lock.shrink());
}

/// Shrinking disturbs neither a waiter at a held word nor the waiters behind it.
#[test]
fn shrinking_does_not_disturb_waiters_of_a_held_word() {
    let lock = SrlTree::new(LARGEST).unwrap();
    for round in 0..100 {
        let in_the_way = lock.write(NODE..NODE + 1).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            // This range touches both nodes.
            scope.spawn(|| {
                let _hold = lock.write(NODE - LEAF - 1..NODE + LEAF).unwrap();
                done.store(true, Relaxed);
            });
            scope.spawn(|| drop(lock.read(NODE..NODE + 1).unwrap()));
            // The threads start to wait at different times in this loop, or after it.
            for _ in 0..round {
                lock.shrink();
                thread::yield_now();
            }
            assert!(!done.load(Relaxed));
            drop(in_the_way);
        });
        assert!(done.into_inner());
        lock.shrink();
        assert_eq!(lock.memory_usage(), ROOT);
    }
}

/// A waker that counts its wakes.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A request that is polled by hand.
struct Task<'a> {
    lock: &'a SrlTree,
    span: Span,
    request: Pin<Box<SrlRequest>>,
    counted: Arc<Counted>,
}

impl<'a> Task<'a> {
    fn new(lock: &'a SrlTree, range: Range<u64>) -> Self {
        Task {
            lock,
            span: span(range),
            request: Box::pin(SrlRequest::default()),
            counted: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<Token> {
        let waker = Waker::from(self.counted.clone());
        let (lock, span) = (self.lock, self.span);
        // SAFETY: the request is used with this lock and span only.
        unsafe { lock.poll_lock(span, Access::Write, self.request.as_mut(), &waker) }
            .map(Result::unwrap)
    }

    fn granted(&mut self) -> Token {
        match self.poll() {
            Poll::Ready(token) => token,
            Poll::Pending => panic!("not granted"),
        }
    }

    fn cancel(&mut self) {
        // SAFETY: as in `poll`.
        unsafe {
            self.lock
                .cancel(self.span, Access::Write, self.request.as_mut())
        }
    }

    fn unlock(&self, token: Token) {
        // SAFETY: it was granted with this span and access.
        unsafe { self.lock.unlock(self.span, Access::Write, token) }
    }

    fn wakes(&self) -> usize {
        self.counted.0.load(Relaxed)
    }
}

/// The destructors of three wakers shrink the tree: a waker that was replaced, one that was woken,
/// and one whose request gave up. No destructor may run in a read-side critical section, for which
/// `shrink` would wait.
#[test]
fn a_dropped_waker_may_shrink_the_tree() {
    struct Shrinks(Arc<SrlTree>, Arc<AtomicUsize>);
    impl Wake for Shrinks {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Shrinks {
        fn drop(&mut self) {
            self.0.shrink();
            self.1.fetch_add(1, Relaxed);
        }
    }
    let lock = Arc::new(SrlTree::new(1 << 20).unwrap());
    let drops = Arc::new(AtomicUsize::new(0));
    let waker = || Waker::from(Arc::new(Shrinks(lock.clone(), drops.clone())));
    // Each request takes its first segments, and waits for the last.
    let (request, held) = (span(0..4 * 4096), span(3 * 4096..4 * 4096));
    for gives_up in [false, true] {
        let hold = lock.lock(held, Access::Write).unwrap();
        let mut pending = Box::pin(SrlRequest::default());
        let poll = |pending: Pin<&mut SrlRequest>, waker: &Waker| {
            // SAFETY: the request is used with this lock and span only, and granted or cancelled
            // below.
            unsafe { lock.poll_lock(request, Access::Write, pending, waker) }
        };
        for _ in 0..3 {
            assert!(poll(pending.as_mut(), &waker()).is_pending());
        }
        assert_eq!(drops.swap(0, Relaxed), 2);
        if gives_up {
            // SAFETY: as above.
            unsafe { lock.cancel(request, Access::Write, pending.as_mut()) };
        }
        // SAFETY: it was taken above.
        unsafe { lock.unlock(held, Access::Write, hold) };
        assert_eq!(drops.swap(0, Relaxed), 1);
        if !gives_up {
            let Poll::Ready(Ok(token)) = poll(pending.as_mut(), &waker()) else {
                panic!("not granted");
            };
            assert_eq!(drops.swap(0, Relaxed), 1);
            // SAFETY: it was granted just now.
            unsafe { lock.unlock(request, Access::Write, token) };
        }
    }
    assert!(lock.try_write(0..1 << 20).is_ok());
}

/// A word is released and its first waiter is woken. Before this waiter rechecks, the leaf is
/// freed. Then this waiter and the waiters behind it start again as new requests.
#[test]
fn woken_waiters_start_again_when_their_leaf_is_freed() {
    for cancel in [false, true] {
        let lock = SrlTree::new(LARGEST).unwrap();
        let holder = lock.write(NODE..NODE + 1).unwrap();
        let mut waiters = [(); 3].map(|()| Task::new(&lock, NODE..NODE + 1));
        for waiter in &mut waiters {
            assert!(waiter.poll().is_pending());
        }
        drop(holder);
        let [first, second, third] = &mut waiters;
        assert_eq!((first.wakes(), second.wakes()), (1, 0));
        assert_eq!(lock.shrink(), lock.memory_usage() + 3 * INNER + 128 - ROOT);
        // Makes it likely that the next leaf has another address.
        let _other = [(); 8].map(|()| vec![1_u32; 32]);
        if cancel {
            first.cancel();
        } else {
            let token = first.granted();
            first.unlock(token);
        }
        assert!(second.wakes() > 0, "it is the head of its queue");
        let token = second.granted();
        assert!(third.poll().is_pending());
        second.unlock(token);
        let token = third.granted();
        third.unlock(token);
        drop(lock.try_write(0..LARGEST).unwrap());
        lock.shrink();
        assert_eq!(lock.memory_usage(), ROOT);
    }
}

/// A waiting request keeps its lower segments through a shrink. When it is cancelled, it releases
/// them.
#[test]
fn a_waiting_request_keeps_its_words_through_a_shrink() {
    let lock = SrlTree::new(LARGEST).unwrap();
    let in_the_way = lock.write(NODE..NODE + 1).unwrap();
    let mut task = Task::new(&lock, NODE - LEAF..NODE + LEAF);
    assert!(task.poll().is_pending());
    lock.shrink();
    assert!(lock.try_read(NODE - LEAF..NODE - LEAF + 1).is_err());
    task.cancel();
    drop(lock.try_write(NODE - LEAF..NODE).unwrap());
    drop(in_the_way);
    lock.shrink();
    assert_eq!(lock.memory_usage(), ROOT);
}

/// A count for each segment. Writers change a count in two steps, so that lost updates show.
struct Checked {
    counts: Vec<AtomicU64>,
    granule: u64,
}

impl Checked {
    fn add(&self, range: &Range<u64>) {
        for segment in range.start / self.granule..=(range.end - 1) / self.granule {
            let count = &self.counts[segment as usize];
            let seen = count.load(Relaxed);
            if segment % 7 == 0 {
                thread::yield_now();
            }
            count.store(seen + 1, Relaxed);
        }
    }

    fn check(&self, range: &Range<u64>) {
        let segments = range.start / self.granule..=(range.end - 1) / self.granule;
        let sum = |counts: &[AtomicU64]| counts.iter().map(|count| count.load(Relaxed)).sum();
        let counts = &self.counts[*segments.start() as usize..=*segments.end() as usize];
        let before: u64 = sum(counts);
        thread::yield_now();
        assert_eq!(sum(counts), before, "a reader saw a writer at work");
    }
}

/// A pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn work<W: Word>(lock: &Srl<Tree<W>>, checked: &Checked, seed: u64, steps: u64) -> u64 {
    let (mut random, mut added) = (Random(seed), 0);
    let capacity = lock.capacity();
    for _ in 0..steps {
        let longest = if random.below(8) == 0 {
            capacity
        } else {
            6 * checked.granule
        };
        let start = random.below(capacity);
        let range = start..(start + 1 + random.below(longest)).min(capacity);
        let segments = (range.end - 1) / checked.granule - range.start / checked.granule + 1;
        match random.below(5) {
            0 | 1 => {
                let _hold = lock.write(range.clone()).unwrap();
                checked.add(&range);
                added += segments;
            }
            2 => {
                if let Ok(_hold) = lock.try_write(range.clone()) {
                    checked.add(&range);
                    added += segments;
                }
            }
            3 => {
                let _hold = lock.read(range.clone()).unwrap();
                checked.check(&range);
            }
            _ => {
                let (span, mut request) = (span(range.clone()), Box::pin(SrlRequest::default()));
                for _ in 0..3 {
                    // SAFETY: the request is used with this lock and span only. If it is granted,
                    // the hold is released; otherwise it is cancelled below.
                    unsafe {
                        let polled =
                            lock.poll_lock(span, Access::Write, request.as_mut(), Waker::noop());
                        if let Poll::Ready(token) = polled {
                            checked.add(&range);
                            added += segments;
                            lock.unlock(span, Access::Write, token.unwrap());
                        }
                    }
                    thread::yield_now();
                }
                // SAFETY: as above.
                unsafe { lock.cancel(span, Access::Write, request.as_mut()) };
            }
        }
    }
    added
}

fn stress<W: Word>(lock: &Srl<Tree<W>>, steps: u64) {
    let granule = lock.segments().size();
    let checked = Checked {
        counts: (0..lock.segments().count())
            .map(|_| AtomicU64::new(0))
            .collect(),
        granule,
    };
    let (idle, working) = (lock.memory_usage(), AtomicUsize::new(4));
    let added: u64 = thread::scope(|scope| {
        let workers = [1, 2, 3, 4].map(|seed| {
            let (checked, working) = (&checked, &working);
            scope.spawn(move || {
                let added = work(lock, checked, seed << 32 | 0x9E37, steps);
                working.fetch_sub(1, Relaxed);
                added
            })
        });
        for half in [0, 1] {
            let working = &working;
            scope.spawn(move || {
                let middle = lock.capacity() / 2;
                while working.load(Relaxed) > 0 {
                    lock.shrink_range(half * middle..(half + 1) * middle)
                        .unwrap();
                    lock.shrink();
                }
            });
        }
        workers.map(|worker| worker.join().unwrap()).iter().sum()
    });
    // No update was lost.
    let counts = checked.counts.into_iter().map(AtomicU64::into_inner);
    assert_eq!(counts.sum::<u64>(), added);
    drop(lock.try_write(0..lock.capacity()).unwrap());
    lock.shrink();
    assert_eq!(lock.memory_usage(), idle);
}

/// The barriers of one stress interrupt the threads of the other: side by side, the two take three
/// times as long as one after the other.
static STRESS: Mutex<()> = Mutex::new(());

#[test]
fn shrink_runs_while_others_lock_wait_and_cancel() {
    let _one_at_a_time = STRESS.lock();
    for (levels, wide_above) in [(&[1; 7][..], 10_000), (&[2, 2, 3], 6), (&[3, 4], 1)] {
        let shape = Shape::new(16, levels).unwrap();
        let lock = SrlTree::with_shape(128 << 4, &shape).unwrap();
        stress(&lock.wide_above(wide_above), 1_000);
    }
}

#[test]
fn shrink_runs_while_others_lock_packed_words() {
    let _one_at_a_time = STRESS.lock();
    for (levels, wide_above) in [(&[1, 1, 1, 4][..], 10_000), (&[2, 5], 20)] {
        let shape = Shape::new(16, levels).unwrap();
        let lock = SrlTreePacked::with_shape(128 << 4, &shape).unwrap();
        stress(&lock.wide_above(wide_above), 1_000);
    }
}
