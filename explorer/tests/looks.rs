//! Critical sections that only look.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

use spanlock_explorer::Ordering::{Acquire, Relaxed, Release};
use spanlock_explorer::{
    Atomic, Counts, End, Graph, Observer, Op, Search, Update, Verdict, draw, spawn,
};

/// A lock around a counter, and a word beside it.
struct Shared {
    lock: Atomic,
    count: Cell<u64>,
    word: Atomic,
}

impl Shared {
    fn new() -> Rc<Shared> {
        Rc::new(Shared {
            lock: Atomic::new(0),
            count: Cell::new(0),
            word: Atomic::new(0),
        })
    }

    fn change(&self) {
        self.lock.exchange_when(0, 1, Acquire);
        self.count.set(self.count.get() + 1);
        self.lock.store(0, Release);
    }

    /// Returns the count, in a section that looks, or in one like any other.
    fn look(&self, looks: bool) -> u64 {
        match looks {
            true => self.lock.look_when(0, Acquire),
            false => self.lock.exchange_when(0, 1, Acquire),
        }
        let count = self.count.get();
        if !looks {
            self.lock.store(0, Release);
        }
        count
    }
}

/// Fails if an execution is visited twice.
#[derive(Default)]
struct Once(HashSet<String>);

impl Observer for Once {
    fn ended(&mut self, graph: &Graph, _: End) {
        assert!(
            self.0.insert(draw::text(graph)),
            "visited twice:\n{}",
            draw::text(graph)
        );
    }
}

#[track_caller]
fn explored(program: impl Fn() + 'static) -> Counts {
    let report = Search::new().explore(&mut Once::default(), program);
    assert!(matches!(report.verdict, Verdict::Exhausted), "{report:?}");
    report.counts
}

#[test]
fn sections_that_look_are_not_ordered_among_themselves() {
    let program = |looks: bool, threads: usize| {
        explored(move || {
            let shared = Shared::new();
            let each = (0..threads).map(|_| {
                let shared = shared.clone();
                spawn(move || assert!(shared.look(looks) <= 1))
            });
            let each: Vec<_> = each.collect();
            shared.change();
            each.into_iter().for_each(|it| it.join());
            assert_eq!(shared.look(looks), 1);
        })
        .executions
    };
    // Each look is before or after the change. As ordinary sections, all have one order.
    for (threads, orders) in [(1, 2), (2, 6), (3, 24)] {
        assert_eq!(program(true, threads), 1 << threads);
        assert_eq!(program(false, threads), orders);
    }
}

#[test]
fn a_look_happens_before_the_next_change() {
    // What a thread wrote before it looked, and saw no change, is seen after the change.
    let seen = Rc::new(Cell::new([0; 4]));
    let saw = seen.clone();
    explored(move || {
        let shared = Shared::new();
        let theirs = shared.clone();
        let looking = spawn(move || {
            theirs.word.store(1, Relaxed);
            theirs.look(true);
        });
        shared.change();
        let word = shared.word.load(Relaxed);
        let theirs = shared.clone();
        looking.join();
        drop(theirs);
        let mut counts = saw.get();
        counts[word as usize] += 1;
        saw.set(counts);
    });
    // Old only if the look came after the change; new in both orders.
    assert_eq!(seen.get(), [1, 2, 0, 0]);
}

#[test]
fn a_look_in_a_cycle_with_two_locks_is_no_execution() {
    // If the look at one lock sees no change, and the look at the other does not, either, then each
    // change came after the look of the other thread. As with ordinary sections, that is possible
    // only if the looks come first.
    let program = |looks: bool| {
        let outcomes = Rc::new(std::cell::RefCell::new(std::collections::BTreeSet::new()));
        let into = outcomes.clone();
        explored(move || {
            let both = [Shared::new(), Shared::new()];
            let theirs = both.clone();
            let seen = Rc::new(Cell::new(0));
            let its = seen.clone();
            let other = spawn(move || {
                theirs[0].change();
                its.set(theirs[1].look(looks));
            });
            both[1].change();
            let mine = both[0].look(looks);
            other.join();
            into.borrow_mut().insert((mine, seen.get()));
        });
        outcomes.take()
    };
    let expected = [(0, 1), (1, 0), (1, 1)].into();
    assert_eq!(program(false), expected);
    assert_eq!(program(true), expected);
}

#[test]
fn random_sections_show_the_same_with_and_without_looks() {
    let rounds = std::env::var("SPANLOCK_ROUNDS")
        .ok()
        .and_then(|it| it.parse().ok());
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..100 * rounds.unwrap_or(1) {
        let threads = random.usize(2..=3);
        let all: Vec<Vec<usize>> = (0..threads)
            .map(|_| {
                (0..random.usize(1..=3))
                    .map(|_| random.usize(0..6))
                    .collect()
            })
            .collect();
        let outcomes = |looks: bool| {
            let found = Rc::new(std::cell::RefCell::new(std::collections::BTreeSet::new()));
            let (into, all) = (found.clone(), all.clone());
            explored(move || {
                let locks = [Shared::new(), Shared::new()];
                let notes = Rc::new(std::cell::RefCell::new(vec![vec![]; all.len()]));
                let threads = all.iter().cloned().enumerate().map(|(me, operations)| {
                    let (locks, notes) = (locks.clone(), notes.clone());
                    spawn(move || {
                        for operation in operations {
                            let note = match operation {
                                0 | 1 => {
                                    locks[operation].change();
                                    0
                                }
                                2 | 3 => locks[operation - 2].look(looks),
                                4 => locks[0].word.load(Relaxed),
                                _ => locks[0].word.update(Update::new(Op::Add, 1), Relaxed),
                            };
                            notes.borrow_mut()[me].push(note);
                        }
                    })
                });
                let threads: Vec<_> = threads.collect();
                threads.into_iter().for_each(|it| it.join());
                into.borrow_mut().insert(notes.take());
            });
            found.take()
        };
        // Two threads that only look need not see each other's earlier writes.
        let (with, without) = (outcomes(true), outcomes(false));
        assert!(
            with.is_superset(&without),
            "{all:?}: {:?}",
            without.difference(&with)
        );
    }
}
