//! An order of moments that are no events, such as the ends and beginnings of operations.

use std::cell::RefCell;
use std::rc::Rc;

use spanlock_explorer::Ordering::{Acquire, Relaxed, Release, SeqCst};
use spanlock_explorer::{
    Atomic, End, Graph, Model, Moment, Observer, Ordering, Plain, Search, Verdict, fence, spawn,
};

/// For each complete execution: whether each of two moments, the end of a store and the beginning
/// of a load, happens before the other, and whether it can be ordered so.
#[derive(Default)]
struct Orders {
    moments: Rc<RefCell<Vec<Moment>>>,
    read: Rc<RefCell<u64>>,
    found: Vec<(u64, [bool; 2])>,
}

impl Observer for Orders {
    fn ended(&mut self, graph: &Graph, end: End) {
        assert_eq!(end, End::Complete);
        let moments = self.moments.take();
        let [stored, loads] = moments[..] else {
            panic!("two moments, not {moments:?}");
        };
        let can = |order| graph.with_order(&[order], Model::Cpp20).is_some();
        self.found.push((
            *self.read.borrow(),
            [can((stored, loads)), can((loads, stored))],
        ));
    }
}

/// Returns what the load of one thread reads from the store of another, in each execution, and
/// whether the store can have ended before the load began, and the other way round.
fn orders(ordering: Ordering, is_fenced: bool) -> Vec<(u64, [bool; 2])> {
    let mut orders = Orders::default();
    let (moments, read) = (orders.moments.clone(), orders.read.clone());
    let search = Search::new().explore(&mut orders, move || {
        let words = Rc::new([Atomic::new(0), Atomic::new(0)]);
        moments.borrow_mut().clear();
        let (theirs, its_moments) = (words.clone(), moments.clone());
        let storing = spawn(move || {
            theirs[0].store(1, ordering);
            if is_fenced {
                fence(SeqCst);
            }
            its_moments.borrow_mut().insert(0, Moment::now());
            theirs[1].load(Relaxed);
        });
        moments.borrow_mut().push(Moment::now());
        *read.borrow_mut() = words[0].load(Acquire);
        storing.join();
    });
    assert!(matches!(search.verdict, Verdict::Exhausted), "{search:?}");
    orders.found.sort_unstable();
    orders.found
}

#[test]
fn a_store_that_has_ended_is_read() {
    // A load that reads the old value cannot begin after the store has ended. One that reads the
    // new value can, and it can also begin earlier, because beginnings are no events.
    for (ordering, is_fenced) in [(Relaxed, false), (Release, false), (SeqCst, true)] {
        let found = orders(ordering, is_fenced);
        assert_eq!(found, [(0, [false, true]), (1, [true, true])]);
    }
}

/// What a thread does after its last event happens before another thread's return from the join.
#[test]
fn the_end_of_a_thread_happens_before_the_join() {
    let report = Search::new().explore(&mut (), || {
        let shared = Rc::new((Atomic::new(0), Plain::new()));
        let theirs = shared.clone();
        let thread = spawn(move || {
            theirs.0.store(1, Release);
            theirs.1.write();
        });
        thread.join();
        shared.1.read();
    });
    assert!(matches!(report.verdict, Verdict::Exhausted), "{report:?}");
}

#[test]
fn a_write_after_a_release_is_not_published_by_it() {
    let report = Search::new().explore(&mut (), || {
        let shared = Rc::new((Atomic::new(0), Plain::new()));
        let theirs = shared.clone();
        let thread = spawn(move || {
            theirs.0.store(1, Release);
            theirs.1.write();
        });
        if shared.0.load(Acquire) == 1 {
            shared.1.read();
        }
        thread.join();
    });
    assert!(matches!(report.verdict, Verdict::Failed(_)), "{report:?}");
}

/// A location that the main thread uses before it starts another has the same name when the
/// execution is repeated.
#[test]
fn a_use_before_the_first_thread_is_repeatable() {
    let report = Search::new().explore(&mut (), || {
        let word = Rc::new(Atomic::new(0));
        word.store(1, Relaxed);
        let theirs = word.clone();
        let thread = spawn(move || theirs.store(2, Relaxed));
        word.load(Relaxed);
        thread.join();
    });
    assert!(matches!(report.verdict, Verdict::Exhausted), "{report:?}");
    assert_eq!(report.counts.executions, 2);
}

/// For each execution of two threads that each end something and then begin something else: whether
/// both ends can come before both beginnings. Between the two, each thread calls `between`.
struct Crossed {
    /// The end of each thread's first part, and the beginning of its second.
    moments: Rc<RefCell<[[Moment; 2]; 2]>>,
    can: Vec<bool>,
}

impl Observer for Crossed {
    fn ended(&mut self, graph: &Graph, _: End) {
        let [[ended, begun], [other_ended, other_begun]] = *self.moments.borrow();
        let order = [(ended, other_begun), (other_ended, begun)];
        self.can
            .push(graph.with_order(&order, Model::Cpp20).is_some());
    }
}

fn crossed(between: fn()) -> Vec<bool> {
    let moments = Rc::new(RefCell::new([[Moment::now(); 2]; 2]));
    let mut crossed = Crossed {
        moments: moments.clone(),
        can: Vec::new(),
    };
    let search = Search::new().explore(&mut crossed, move || {
        let words = Rc::new([Atomic::new(0), Atomic::new(0)]);
        let part = |me: usize| {
            let (words, moments) = (words.clone(), moments.clone());
            move || {
                words[me].store(1, Relaxed);
                let ended = Moment::now();
                between();
                moments.borrow_mut()[me] = [ended, Moment::now()];
                words[me].store(2, Relaxed);
            }
        };
        let other = spawn(part(1));
        part(0)();
        other.join();
    });
    assert!(matches!(search.verdict, Verdict::Exhausted), "{search:?}");
    crossed.can
}

#[test]
fn a_moment_is_one_point_and_a_new_one_is_later() {
    assert_eq!(crossed(|| ()), [false]);
    assert_eq!(crossed(Moment::begin), [true]);
}

/// In an order, what comes before its first moment comes before what comes after its second.
#[test]
fn an_order_is_transitive() {
    struct Ordered(Rc<RefCell<Vec<Moment>>>);
    impl Observer for Ordered {
        fn ended(&mut self, graph: &Graph, _: End) {
            let moments = self.0.take();
            let [begun, begins, ended, ends] = moments[..] else {
                panic!("four moments, not {moments:?}");
            };
            let order = graph.with_order(&[(ended, begins)], Model::Cpp20);
            let order = order.expect("nothing contradicts it");
            for (a, b) in [
                (ended, begins),
                (begun, begins),
                (ended, ends),
                (begun, ends),
            ] {
                assert!(
                    order.is_before(a, b) && !order.is_before(b, a),
                    "{a:?} {b:?}"
                );
                assert!(!graph.is_before(a, b), "{a:?} {b:?} without the order");
            }
        }
    }
    let moments = Rc::new(RefCell::new(Vec::new()));
    let mut ordered = Ordered(moments.clone());
    let search = Search::new().explore(&mut ordered, move || {
        let words = Rc::new([Atomic::new(0), Atomic::new(0)]);
        let (theirs, its_moments) = (words.clone(), moments.clone());
        let other = spawn(move || {
            let begun = Moment::now();
            theirs[1].store(1, Relaxed);
            its_moments
                .borrow_mut()
                .splice(0..0, [begun, Moment::now()]);
            theirs[1].store(2, Relaxed);
        });
        words[0].store(1, Relaxed);
        let begins = Moment::now();
        words[0].store(2, Relaxed);
        moments.borrow_mut().extend([begins, Moment::now()]);
        other.join();
        let mut moments = moments.borrow_mut();
        let of = |thread: u32| {
            let its = moments
                .iter()
                .filter(move |it| it.to_bits() >> 16 == thread);
            its.copied().collect::<Vec<_>>()
        };
        let (main, other) = (of(0), of(1));
        *moments = vec![other[0], main[0], other[1], main[1]];
    });
    assert!(matches!(search.verdict, Verdict::Exhausted), "{search:?}");
}

#[test]
fn nothing_comes_before_its_threads_start() {
    struct Started(Rc<RefCell<Vec<Moment>>>);
    impl Observer for Started {
        fn ended(&mut self, graph: &Graph, _: End) {
            let moments = self.0.take();
            let can = graph.with_order(&[(moments[1], moments[0])], Model::Cpp20);
            assert!(can.is_none(), "{moments:?}");
        }
    }
    let moments = Rc::new(RefCell::new(Vec::new()));
    let search = Search::new().explore(&mut Started(moments.clone()), move || {
        let word = Rc::new(Atomic::new(0));
        spawn(|| ()).join();
        let (theirs, its_moments) = (word.clone(), moments.clone());
        moments.borrow_mut().push(Moment::now());
        let other = spawn(move || {
            its_moments.borrow_mut().push(Moment::now());
            theirs.store(1, Relaxed);
        });
        word.load(Relaxed);
        other.join();
    });
    assert!(matches!(search.verdict, Verdict::Exhausted), "{search:?}");
}
