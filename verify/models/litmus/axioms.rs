//! Derives the outcomes that C++20 allows.
//!
//! The search enumerates every choice of the write that each read sees, and every order of the
//! stores to each word. It keeps the executions that the standard permits (N4861: [intro.races],
//! [atomics.order], [atomics.fences]).
//!
//! An execution has a *reads-from* relation (which write each read sees) and a *modification order*
//! of each word. The other relations follow from those:
//!
//! - *release sequence*: a write, and each read-modify-write that reads from a member of the
//!   sequence (intro.races 5). A store never continues a sequence. (Up to C++17, a store by the
//!   same thread did.)
//! - *synchronizes-with*: from a release write to an acquire read that reads from the release
//!   sequence of that write. A release fence before a relaxed write counts as well, and so does an
//!   acquire fence after a relaxed read.
//! - *happens-before*: the transitive closure of synchronizes-with and the order within threads.
//! - *coherence-ordered before*: the transitive closure of three relations: reads-from, the
//!   modification order, and the order from a read to all writes after the write that it saw
//!   (atomics.order 3).
//! - *strongly happens before*: a subset of happens-before (intro.races 12).
//!
//! An execution is permitted if it satisfies these rules:
//!
//! - No event happens before itself. If one event happens before another, the second is not
//!   coherence-ordered before the first (intro.races 15 to 18).
//! - A read-modify-write reads the write just before its own (atomics.order 10).
//! - There is a total order of the SeqCst operations and fences that agrees with *strongly happens
//!   before* and *coherence-ordered before*, as atomics.order 4 requires.
//! - No value comes out of thin air (atomics.order 8): no value depends on itself.

use std::collections::BTreeSet;

use spanlock_sync::atomic::Ordering::{self, *};

use super::memory::{Memory, Op, Word};

/// A relation of events: row `a` has bit `b` if `a` comes before `b`.
#[derive(Clone, Debug)]
struct Relation(Vec<u32>);

impl Relation {
    fn new(events: usize, holds: impl Fn(usize, usize) -> bool) -> Self {
        let row = |a| (0..events).filter(|&b| holds(a, b)).map(|b| 1 << b).sum();
        Relation((0..events).map(row).collect())
    }

    fn has(&self, a: usize, b: usize) -> bool {
        self.0[a] & (1 << b) != 0
    }

    fn closed(mut self) -> Self {
        for via in 0..self.0.len() {
            for a in 0..self.0.len() {
                if self.has(a, via) {
                    self.0[a] |= self.0[via];
                }
            }
        }
        self
    }

    /// Returns whether an event comes before itself. The relation must be transitively closed.
    fn circular(&self) -> bool {
        (0..self.0.len()).any(|a| self.has(a, a))
    }
}

#[derive(Clone, Copy, Debug)]
struct Event {
    /// `None` for the store of an initial value, which happens before everything else.
    thread: Option<usize>,
    op: Op,
    /// Whether a compare-exchange succeeds in this execution.
    succeeds: bool,
}

impl Event {
    fn writes(self) -> bool {
        match self.op {
            Op::Store(..) | Op::Swap(..) | Op::Add(..) => true,
            Op::Cas(..) | Op::CasWeak(..) => self.succeeds,
            Op::Load(..) | Op::Fence(_) => false,
        }
    }

    fn reads(self) -> bool {
        !matches!(self.op, Op::Store(..) | Op::Fence(_))
    }

    fn order(self) -> Ordering {
        match self.op {
            Op::Load(_, order) | Op::Fence(order) => order,
            Op::Store(_, _, order) | Op::Swap(_, _, order) | Op::Add(_, _, order) => order,
            Op::Cas(_, _, success, failure) | Op::CasWeak(_, _, success, failure) => {
                if self.succeeds { success } else { failure }
            }
        }
    }

    fn releases(self) -> bool {
        (self.writes() || self.is_fence()) && matches!(self.order(), Release | AcqRel | SeqCst)
    }

    fn acquires(self) -> bool {
        (self.reads() || self.is_fence()) && matches!(self.order(), Acquire | AcqRel | SeqCst)
    }

    fn is_fence(self) -> bool {
        matches!(self.op, Op::Fence(_))
    }

    fn is_sc(self) -> bool {
        self.order() == SeqCst
    }

    fn is_of(self, word: Option<Word>) -> bool {
        word.is_some() && self.op.word() == word
    }
}

/// One candidate execution of a program.
struct Execution<'a> {
    events: &'a [Event],
    /// For each event that reads, the write that it sees; for other events, their own number.
    from: Vec<usize>,
    /// For each event that writes, its position in the word's modification order, from 0.
    place: Vec<usize>,
}

impl Execution<'_> {
    fn relation(&self, holds: impl Fn(usize, usize) -> bool) -> Relation {
        Relation::new(self.events.len(), holds)
    }

    fn same_word(&self, a: usize, b: usize) -> bool {
        self.events[a].is_of(self.events[b].op.word())
    }

    fn sequenced(&self) -> Relation {
        self.relation(|a, b| {
            let (first, second) = (self.events[a].thread, self.events[b].thread);
            first.is_none() && second.is_some() || first == second && first.is_some() && a < b
        })
    }

    /// Returns the value that an event wrote, or `None` if that value would depend on itself.
    fn written(&self, event: usize, depth: usize) -> Option<u32> {
        match self.events[event].op {
            Op::Store(_, value, _) | Op::Swap(_, value, _) => Some(value),
            Op::Cas(_, (_, to), ..) | Op::CasWeak(_, (_, to), ..) => Some(to),
            Op::Add(_, more, _) => {
                let depth = depth.checked_sub(1)?;
                Some(self.written(self.from[event], depth)? + more)
            }
            Op::Load(..) | Op::Fence(_) => None,
        }
    }

    fn read(&self, event: usize) -> Option<u32> {
        self.written(self.from[event], self.events.len())
    }

    /// Returns whether no value depends on itself, every compare-exchange read a value that agrees
    /// with its success, and every read-modify-write read the write just before its own.
    fn is_computed(&self) -> bool {
        (0..self.events.len()).all(|e| {
            let event = self.events[e];
            if !event.reads() {
                return true;
            }
            let Some(value) = self.read(e) else {
                return false;
            };
            let fits = match event.op {
                Op::Cas(_, (from, _), ..) => event.succeeds == (value == from),
                Op::CasWeak(_, (from, _), ..) => !event.succeeds || value == from,
                _ => true,
            };
            fits && (!event.writes() || self.place[self.from[e]] + 1 == self.place[e])
        })
    }

    /// Returns whether `write` is in the release sequence that `head` heads.
    fn in_release_sequence(&self, head: usize, mut write: usize) -> bool {
        loop {
            if write == head {
                return true;
            }
            if !self.events[write].reads() {
                return false;
            }
            write = self.from[write];
        }
    }

    fn synchronizes(&self, sequenced: &Relation) -> Relation {
        let mut relation = self.relation(|_, _| false);
        let events = self.events;
        let count = events.len();
        for read in (0..count).filter(|&read| events[read].reads()) {
            for write in (0..count).filter(|&write| events[write].writes()) {
                if !self.same_word(read, write) || !self.in_release_sequence(write, self.from[read])
                {
                    continue;
                }
                let before = |a: usize| events[a].is_fence() && sequenced.has(a, write);
                let after = |b: usize| events[b].is_fence() && sequenced.has(read, b);
                for a in (0..count).filter(|&a| events[a].releases() && (a == write || before(a))) {
                    for b in (0..count).filter(|&b| events[b].acquires() && (b == read || after(b)))
                    {
                        relation.0[a] |= 1 << b;
                    }
                }
            }
        }
        relation
    }

    fn coherence(&self) -> Relation {
        let relation = self.relation(|a, b| {
            let (first, second) = (self.events[a], self.events[b]);
            if a == b || !self.same_word(a, b) {
                return false;
            }
            let modification = first.writes() && second.writes() && self.place[a] < self.place[b];
            let reads_from = first.writes() && second.reads() && self.from[b] == a;
            let from_read =
                first.reads() && second.writes() && self.place[self.from[a]] < self.place[b];
            modification || reads_from || from_read
        });
        relation.closed()
    }

    /// Returns whether the SeqCst events have a total order as atomics.order 4 requires.
    fn has_sc_order(&self, strongly: &Relation, before: &Relation, coherence: &Relation) -> bool {
        let events = self.events;
        let count = events.len();
        let is = |x: usize, a: usize| x == a && !events[x].is_fence();
        let first = |x: usize, a: usize| is(x, a) || events[x].is_fence() && before.has(x, a);
        let last = |y: usize, b: usize| is(y, b) || events[y].is_fence() && before.has(b, y);
        let order = self.relation(|x, y| {
            let both = events[x].is_sc() && events[y].is_sc();
            both && (strongly.has(x, y)
                || (0..count)
                    .any(|a| first(x, a) && (0..count).any(|b| coherence.has(a, b) && last(y, b))))
        });
        !order.closed().circular()
    }

    fn is_permitted(&self) -> bool {
        if !self.is_computed() {
            return false;
        }
        let sequenced = self.sequenced();
        let synchronizes = self.synchronizes(&sequenced);
        let before = self
            .relation(|a, b| sequenced.has(a, b) || synchronizes.has(a, b))
            .closed();
        let coherence = self.coherence();
        let count = self.events.len();
        let against = |a: usize| {
            before.has(a, a) || (0..count).any(|b| before.has(a, b) && coherence.has(b, a))
        };
        if coherence.circular() || (0..count).any(against) {
            return false;
        }
        let strongly = self.relation(|a, d| {
            let sc = |e: usize| self.events[e].is_sc() && !self.events[e].is_fence();
            let around = |b: usize| {
                sequenced.has(a, b) && (0..count).any(|c| before.has(b, c) && sequenced.has(c, d))
            };
            sequenced.has(a, d)
                || synchronizes.has(a, d) && sc(a) && sc(d)
                || (0..count).any(around)
        });
        self.has_sc_order(&strongly.closed(), &before, &coherence)
    }

    /// Returns the values of this execution, in the order of the model's pattern.
    fn outcome(&self, finals: &[Word]) -> String {
        let mut outcome = String::new();
        for (e, event) in self.events.iter().enumerate() {
            if matches!(event.op, Op::Cas(..) | Op::CasWeak(..)) {
                outcome.push_str(if event.succeeds { "1" } else { "0" });
            }
            if event.reads() {
                let value = self.read(e).expect("computed");
                outcome.push_str(&value.to_string());
            }
        }
        for &word in finals {
            let writes = (0..self.events.len())
                .filter(|&e| self.events[e].writes() && self.events[e].is_of(Some(word)));
            let last = writes.max_by_key(|&e| self.place[e]).expect("initial");
            let value = self.written(last, self.events.len()).expect("computed");
            outcome.push_str(&value.to_string());
        }
        outcome
    }
}

/// Returns the allowed outcomes of a program, each with its values in the order of the pattern.
pub(crate) fn allowed(model: &Memory) -> BTreeSet<String> {
    let initial = [Word::X, Word::Y, Word::Z].map(|word| Event {
        thread: None,
        op: Op::Store(word, 0, Relaxed),
        succeeds: false,
    });
    let mut events = initial.to_vec();
    for (thread, ops) in model.threads.iter().enumerate() {
        events.extend(ops.iter().map(|&op| Event {
            thread: Some(thread),
            op,
            succeeds: false,
        }));
    }
    assert!(events.len() <= 32, "{}: too long", model.litmus.name);
    let mut outcomes = BTreeSet::new();
    let compare_exchanges: Vec<_> = (0..events.len())
        .filter(|&e| matches!(events[e].op, Op::Cas(..) | Op::CasWeak(..)))
        .collect();
    for success in 0..1_u32 << compare_exchanges.len() {
        for (i, &e) in compare_exchanges.iter().enumerate() {
            events[e].succeeds = success & (1 << i) != 0;
        }
        each_execution(&events, |execution| {
            if execution.is_permitted() {
                outcomes.insert(execution.outcome(model.finals));
            }
        });
    }
    outcomes
}

/// Calls `visit` with every combination of a reads-from relation and modification orders.
fn each_execution(events: &[Event], mut visit: impl FnMut(&Execution<'_>)) {
    let of_word = |word: Option<Word>| {
        (0..events.len())
            .filter(|&e| events[e].writes() && events[e].is_of(word))
            .collect::<Vec<_>>()
    };
    let sources: Vec<Vec<usize>> = (0..events.len())
        .map(|e| match events[e].reads() {
            true => of_word(events[e].op.word()),
            false => vec![e],
        })
        .collect();
    let orders = [Word::X, Word::Y, Word::Z].map(|word| {
        let writes = of_word(Some(word));
        let (initial, others) = writes.split_first().expect("the initial one");
        let mut orders = permutations(others);
        orders
            .iter_mut()
            .for_each(|order| order.insert(0, *initial));
        orders
    });
    for from in choices(&sources) {
        for order in choices(&orders) {
            let mut place = vec![0; events.len()];
            for order in &order {
                for (at, &write) in order.iter().enumerate() {
                    place[write] = at;
                }
            }
            visit(&Execution {
                events,
                from: from.clone(),
                place,
            });
        }
    }
}

/// Returns every way to choose one element of each set.
fn choices<T: Clone>(sets: &[Vec<T>]) -> Vec<Vec<T>> {
    let mut chosen = vec![Vec::new()];
    for set in sets {
        let with = |before: &Vec<T>| {
            let before = before.clone();
            let longer = move |one: &T| [&before[..], std::slice::from_ref(one)].concat();
            set.iter().map(longer).collect::<Vec<_>>()
        };
        chosen = chosen.iter().flat_map(with).collect();
    }
    chosen
}

fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, &first) in of.iter().enumerate() {
        let rest = [&of[..i], &of[i + 1..]].concat();
        all.extend(permutations(&rest).into_iter().map(|mut order| {
            order.insert(0, first);
            order
        }));
    }
    all
}
