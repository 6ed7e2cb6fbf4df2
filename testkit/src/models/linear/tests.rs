//! Tests of the specification. The specification must explain every correct history. For each
//! incorrect history, the tests state the first event that has no explanation.

use std::sync::Arc;

use spanlock_range_lock::Access::{Read, Upgradable, Write};
use spanlock_range_lock::RwCounter;
use spanlock_verify::oracles::linearizability::history::{End, Event, History};
use spanlock_verify::oracles::linearizability::judge::judge;
use spanlock_verify::oracles::linearizability::table::table;
use spanlock_verify::oracles::linearizability::{Scenario, THREADS};

use super::Answer::{self, Busy, Done};
use super::RangeLock;
use super::scenario::Op::{self, Downgrade, Release, Shrink, TryUpgrade, Upgrade};
use super::scenario::{Alphabet, Place, Place::Both, Place::High, Place::Low, Way, threads};
use crate::models::Primitive;
use crate::primitive;

type Ends = End<Op, Answer>;

/// The parts of the contract that depend on the lock.
#[derive(Clone, Copy, Debug)]
struct Rules {
    granular: bool,
    pieces: bool,
}

/// The rules of the interval tree.
const EXACT: Rules = rules(true, false);
/// The rules of segment locks.
const SEGMENTS: Rules = rules(true, true);
/// The rules of the reader-writer counter.
const WHOLE: Rules = rules(false, false);
/// The rules of the distributed reader-writer lock.
const SLOTS: Rules = rules(false, true);
const ALL: [Rules; 4] = [EXACT, SEGMENTS, WHOLE, SLOTS];

const fn rules(granular: bool, pieces: bool) -> Rules {
    Rules { granular, pieces }
}

/// Describes a lock with every capability. The tests never run this lock.
fn lock_of(rules: Rules) -> Primitive {
    let lock = primitive!(
        "lock", RwCounter::new();
        wait, downgrade, upgrade, split, batch
    );
    let mut lock = lock.readers(2);
    lock.capabilities.upgrade_wait = true;
    (lock.granular, lock.pieces) = (rules.granular, rules.pieces);
    lock
}

fn model(rules: Rules) -> RangeLock {
    RangeLock::new(Arc::new(lock_of(rules)), Alphabet::All)
}

fn lock(access: spanlock_range_lock::Access, place: Place) -> Op {
    Op::Take(Way::Lock, access, place)
}

fn attempt(access: spanlock_range_lock::Access, place: Place) -> Op {
    Op::Take(Way::Try, access, place)
}

fn brief(access: spanlock_range_lock::Access, place: Place) -> Op {
    Op::Take(Way::Brief, access, place)
}

fn calls(thread: usize, op: Op, answer: Answer) -> (usize, Ends) {
    (thread, End::Call(op, answer))
}

fn returns(thread: usize, op: Op, answer: Answer) -> (usize, Ends) {
    (thread, End::Return(op, answer))
}

/// Returns the calls and answers of operations that run one after another.
fn one_by_one(ops: &[(usize, Op, Answer)]) -> Vec<(usize, Ends)> {
    let ends = |&(thread, op, answer): &(usize, Op, Answer)| {
        [calls(thread, op, answer), returns(thread, op, answer)]
    };
    ops.iter().flat_map(ends).collect()
}

/// Returns a history whose order is known, event by event.
fn in_order(events: &[(usize, Ends)]) -> History<Op, Answer> {
    let mut history = History(vec![Vec::new(); THREADS]);
    for &(thread, end) in events {
        let after = std::array::from_fn(|other| history.0[other].len() as u8);
        history.0[thread].push(Event { end, after });
    }
    history
}

fn judged(rules: Rules, events: &[(usize, Ends)]) -> Result<(), usize> {
    let judged = judge(&in_order(events), &model(rules));
    judged.map_err(|order| order.len() - 1)
}

#[track_caller]
fn right(rules: &[Rules], events: &[(usize, Ends)]) {
    for &rules in rules {
        assert_eq!(judged(rules, events), Ok(()), "{rules:?}");
    }
}

/// Asserts that the event at `at` is the first that has no explanation.
#[track_caller]
fn wrong(rules: &[Rules], events: &[(usize, Ends)], at: usize) {
    for &rules in rules {
        assert_eq!(judged(rules, events), Err(at), "{rules:?}");
    }
}

#[test]
fn a_conflicting_lock_is_granted_only_after_the_release() {
    let (first, second) = (lock(Write, Both), lock(Write, High));
    right(
        &ALL,
        &one_by_one(&[(0, first, Done), (0, Release, Done), (1, second, Done)]),
    );
    wrong(&ALL, &one_by_one(&[(0, first, Done), (1, second, Done)]), 3);
    let (read, upgradable) = (lock(Read, Both), lock(Upgradable, Both));
    right(
        &ALL,
        &one_by_one(&[(0, read, Done), (1, upgradable, Done), (2, read, Done)]),
    );
    wrong(
        &ALL,
        &one_by_one(&[(0, upgradable, Done), (1, upgradable, Done)]),
        3,
    );
    wrong(
        &ALL,
        &one_by_one(&[(0, read, Done), (1, lock(Write, Low), Done)]),
        3,
    );
}

#[test]
fn disjoint_places_conflict_only_without_granularity() {
    let apart = one_by_one(&[(0, lock(Write, Low), Done), (1, attempt(Write, High), Done)]);
    right(&[EXACT, SEGMENTS], &apart);
    wrong(&[WHOLE, SLOTS], &apart, 3);
    let busy = one_by_one(&[(0, lock(Write, Low), Done), (1, attempt(Write, High), Busy)]);
    wrong(&[EXACT, SEGMENTS], &busy, 3);
    right(&[WHOLE, SLOTS], &busy);
}

#[test]
fn a_try_fails_only_if_something_blocks_it() {
    wrong(&ALL, &one_by_one(&[(0, attempt(Write, Both), Busy)]), 1);
    right(
        &ALL,
        &one_by_one(&[(0, lock(Read, Low), Done), (1, attempt(Write, Both), Busy)]),
    );
    wrong(
        &ALL,
        &one_by_one(&[(0, lock(Read, Low), Done), (1, attempt(Read, Both), Busy)]),
        3,
    );
    // A released hold blocks nothing.
    let late = [
        (0, lock(Write, Low), Done),
        (0, Release, Done),
        (1, attempt(Write, Low), Busy),
    ];
    wrong(&ALL, &one_by_one(&late), 5);
    // A cancelled request blocks nothing after its call has returned.
    let gone = [
        (0, lock(Read, Low), Done),
        (1, brief(Write, Low), Busy),
        (2, attempt(Read, Low), Busy),
    ];
    wrong(&ALL, &one_by_one(&gone), 5);
}

#[test]
fn a_request_blocks_tries_until_it_is_granted() {
    let write = lock(Write, Low);
    let mut events = one_by_one(&[(0, lock(Read, Low), Done)]);
    events.push(calls(1, write, Done));
    events.extend(one_by_one(&[
        (2, attempt(Read, Low), Busy),
        (0, Release, Done),
    ]));
    events.push(returns(1, write, Done));
    right(&ALL, &events);
    // A request for a disjoint place does not block the try.
    let elsewhere = lock(Write, High);
    for event in &mut events[2..] {
        if let (1, End::Call(op, _) | End::Return(op, _)) = event {
            *op = elsewhere;
        }
    }
    wrong(&[EXACT, SEGMENTS], &events, 4);
}

#[test]
fn two_tries_may_both_fail_if_pieces_are_acquired() {
    let (one, other) = (attempt(Write, Both), attempt(Write, High));
    let both = |first, second| {
        [
            calls(0, one, first),
            calls(1, other, second),
            returns(1, other, second),
            returns(0, one, first),
        ]
    };
    wrong(&[EXACT, WHOLE], &both(Busy, Busy), 2);
    right(&[SEGMENTS, SLOTS], &both(Busy, Busy));
    right(&ALL, &both(Done, Busy));
    right(&ALL, &both(Busy, Done));
    // In every lock, a request blocks others until it has been cancelled.
    let (cancelled, fails) = (brief(Write, Low), attempt(Read, Low));
    let mut events = one_by_one(&[(0, lock(Read, Low), Done)]);
    events.push(calls(1, cancelled, Busy));
    events.extend(one_by_one(&[(2, fails, Busy)]));
    events.push(returns(1, cancelled, Busy));
    right(&ALL, &events);
}

#[test]
fn a_try_to_read_beside_readers_fails_only_at_the_maximum_of_readers() {
    let (read, more) = (lock(Read, Low), attempt(Read, Low));
    right(
        &[EXACT, SEGMENTS, WHOLE],
        &one_by_one(&[(0, read, Done), (1, read, Done), (2, more, Busy)]),
    );
    wrong(&ALL, &one_by_one(&[(0, read, Done), (2, more, Busy)]), 3);
}

#[test]
fn a_release_takes_effect_at_once_or_piece_by_piece() {
    let mut events = one_by_one(&[(0, lock(Write, Both), Done)]);
    events.push(calls(0, Release, Done));
    events.extend(one_by_one(&[
        (1, attempt(Write, Low), Done),
        (2, attempt(Write, High), Busy),
    ]));
    events.push(returns(0, Release, Done));
    right(&[SEGMENTS], &events);
    wrong(&[EXACT], &events, 6);
    // In a distributed lock, a reader needs one slot. The release has freed the first slot, but not
    // yet the second.
    let mut events = one_by_one(&[(0, lock(Write, Both), Done)]);
    events.push(calls(0, Release, Done));
    events.extend(one_by_one(&[
        (2, attempt(Read, Both), Done),
        (1, attempt(Read, Both), Busy),
    ]));
    events.push(returns(0, Release, Done));
    right(&[SLOTS], &events);
    wrong(&[WHOLE], &events, 6);
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let downgraded = |next: Op, answer| {
        one_by_one(&[
            (0, lock(Write, Both), Done),
            (0, Downgrade, Done),
            (1, next, answer),
        ])
    };
    right(&ALL, &downgraded(attempt(Read, High), Done));
    right(&ALL, &downgraded(attempt(Write, High), Busy));
    wrong(&ALL, &downgraded(attempt(Read, High), Busy), 5);
    wrong(&ALL, &downgraded(attempt(Write, High), Done), 5);
    // No writer is granted the range during the downgrade either.
    let mut events = one_by_one(&[(0, lock(Write, Both), Done)]);
    events.push(calls(0, Downgrade, Done));
    events.extend(one_by_one(&[
        (1, lock(Write, High), Done),
        (1, Release, Done),
    ]));
    events.push(returns(0, Downgrade, Done));
    wrong(&ALL, &events, 4);
}

#[test]
fn an_upgrade_fails_only_because_of_a_hold() {
    let upgraded = |beside: Op, answer| {
        one_by_one(&[
            (0, lock(Read, Low), Done),
            (1, beside, Done),
            (0, TryUpgrade, answer),
        ])
    };
    right(&ALL, &upgraded(lock(Read, Low), Busy));
    wrong(&ALL, &upgraded(lock(Read, Low), Done), 5);
    right(&[EXACT, SEGMENTS], &upgraded(lock(Read, High), Done));
    wrong(&[EXACT, SEGMENTS], &upgraded(lock(Read, High), Busy), 5);
    // A waiter holds nothing, unless the lock acquires pieces: then the waiter may hold a piece.
    let mut events = one_by_one(&[(0, lock(Read, Low), Done)]);
    events.push(calls(1, lock(Write, Both), Done));
    events.extend(one_by_one(&[(0, TryUpgrade, Busy), (0, Release, Done)]));
    events.push(returns(1, lock(Write, Both), Done));
    wrong(&[EXACT, WHOLE], &events, 4);
    right(&[SEGMENTS, SLOTS], &events);
}

#[test]
fn a_cancelled_request_may_have_been_granted() {
    let cancelled = brief(Read, Low);
    let mut events = one_by_one(&[(0, lock(Read, Low), Done)]);
    events.push(calls(2, brief(Write, Low), Busy));
    events.push(calls(1, cancelled, Busy));
    events.push(returns(2, brief(Write, Low), Busy));
    events.extend(one_by_one(&[(0, TryUpgrade, Busy)]));
    events.push(returns(1, cancelled, Busy));
    right(&ALL, &events);
}

#[test]
fn a_waiting_upgrade_blocks_readers() {
    let mut events = one_by_one(&[(0, lock(Upgradable, Low), Done), (1, lock(Read, Low), Done)]);
    events.push(calls(0, Upgrade, Done));
    events.extend(one_by_one(&[
        (2, attempt(Read, Low), Busy),
        (1, Release, Done),
    ]));
    events.push(returns(0, Upgrade, Done));
    right(&[EXACT], &events);
    // The upgrade is granted only after the reader has released.
    events.retain(|&(thread, end)| {
        thread != 1 || !matches!(end, End::Call(Release, _) | End::Return(Release, _))
    });
    wrong(&[EXACT], &events, 7);
}

#[test]
fn a_shrink_releases_only_the_other_part() {
    let shrunk = |next: Op, answer| {
        one_by_one(&[
            (0, lock(Write, Both), Done),
            (0, Shrink(Low), Done),
            (1, next, answer),
        ])
    };
    right(&[EXACT, SEGMENTS], &shrunk(attempt(Write, High), Done));
    right(&[EXACT, SEGMENTS], &shrunk(attempt(Read, Low), Busy));
    wrong(&[EXACT, SEGMENTS], &shrunk(attempt(Write, High), Busy), 5);
    wrong(&[EXACT, SEGMENTS], &shrunk(lock(Read, Both), Done), 5);
}

/// Returns a history of a writer that releases and another thread's try that fails. The flag says
/// whether the try must return before the release returns. Otherwise the try may also begin after
/// the release.
fn open_order(try_returns_before_release: bool) -> History<Op, Answer> {
    let event = |end, after| Event { end, after };
    let write = lock(Write, Low);
    let fails = attempt(Read, Low);
    let seen = u8::from(try_returns_before_release) * 2;
    History(vec![
        vec![
            event(End::Call(write, Done), [0; 3]),
            event(End::Return(write, Done), [0; 3]),
            event(End::Call(Release, Done), [0; 3]),
            event(End::Return(Release, Done), [0, seen, 0]),
        ],
        vec![
            event(End::Call(fails, Busy), [0; 3]),
            event(End::Return(fails, Busy), [2, 0, 0]),
        ],
    ])
}

#[test]
fn every_order_that_the_recorded_history_allows_needs_an_explanation() {
    assert_eq!(judge(&open_order(true), &model(EXACT)), Ok(()));
    let found =
        judge(&open_order(false), &model(EXACT)).expect_err("the try may come after the release");
    assert_eq!(found, [0, 0, 0, 0, 1, 1]);
}

#[test]
fn the_table_shows_the_order_the_holds_and_the_reason() {
    let history = open_order(false);
    let found = judge(&history, &model(EXACT)).expect_err("as above");
    let expected = "\
T0                          T1                          held, by the specification
write(0..1) …                                           nothing
write(0..1): done                                       T0 write 0..1
release …                                               T0 write 0..1
release: done                                           nothing
                            try-read(0..1) …            nothing
                            try-read(0..1): busy        no explanation
the 5 events before have explanations; after them:
  held: nothing; called, without effect so far: T1 try-read(0..1)
in none of these states can T1's try-read(0..1) be busy: nothing that could make it fail is in its way
";
    assert_eq!(table(&model(EXACT), &history, &found), expected);
}

#[test]
fn a_scenario_is_parsed_as_it_is_displayed() {
    let parse = |text: &str| Scenario::parse(&model(EXACT), text);
    for alphabet in [Alphabet::Core, Alphabet::All] {
        let threads = threads(&alphabet.ops(&lock_of(EXACT)), 2);
        for thread in &threads {
            let scenario = Scenario(vec![thread.clone(), threads[1].clone()]);
            assert_eq!(parse(&scenario.to_string()), Ok(scenario));
        }
    }
    let wrong = parse("write(0..1) read(1..2)");
    assert!(wrong.is_err_and(|why| why.contains("could wait for itself")));
    let wrong = parse("wrote(0..1)");
    assert_eq!(wrong, Err("`wrote(0..1)` is not an operation".to_owned()));
    let wrong = Scenario::parse(&model(WHOLE), "write(1..2)");
    assert_eq!(wrong, Err("lock cannot do `write(1..2)`".to_owned()));
}

#[test]
fn a_thread_that_may_hold_something_never_blocks() {
    let well = |text: &str| Scenario::parse(&model(EXACT), text).is_ok();
    assert!(well("write(0..1) release read(1..2)"));
    assert!(well(
        "write(0..1) try-read(1..2) release release read(1..2)"
    ));
    assert!(well("upgradable(0..1) upgrade downgrade"));
    assert!(!well("write(0..1) try-read(1..2) release read(1..2)"));
    assert!(!well("try-write(0..1) read(1..2)"));
    assert!(!well("read(0..1) try-upgradable(0..1) upgrade"));
}

#[test]
fn threads_returns_every_well_formed_thread() {
    let ops = [lock(Write, Low), attempt(Write, Low), Release];
    let all = threads(&ops, 2).into_iter();
    let all: Vec<String> = all.map(|it| Scenario(vec![it]).to_string()).collect();
    let expected = [
        "",
        "write(0..1)",
        "try-write(0..1)",
        "write(0..1) try-write(0..1)",
        "try-write(0..1) try-write(0..1)",
    ];
    assert_eq!(all, expected);
}
