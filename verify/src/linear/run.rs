//! Runs scenarios under shuttle, judges what their threads saw, and makes small what fails.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use shuttle::scheduler::RandomScheduler;
use spanlock_range_lock::Access::Write;
use spanlock_sync::{check, thread};
use spanlock_testkit::Driven;
use spanlock_testkit::owner::{Asked, Hold, span};

use super::history::{self, Answer, History, noted};
use super::judge::{Unexplained, judge};
use super::scenario::{Op, Place, Scenario, Way};
use super::spec::Rules;
use super::table;
use crate::order::{Watch, Watched};
use crate::reduce::Reduced;
use crate::trace;

/// A lock, and what its contract says of it.
#[derive(Clone, Copy)]
pub struct Subject {
    /// A fresh one.
    pub make: fn() -> Driven,
    /// What depends on it.
    pub rules: Rules,
    /// How many random schedules each scenario has, drawn from 1 on; none: all that differ.
    pub schedules: Option<usize>,
    /// At most so many steps of all threads lie between two finished operations.
    pub steps: u64,
}

/// What came of scenarios that are all right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Explained {
    /// How many there were.
    pub scenarios: u64,
    /// Histories that differ, of each; summed up.
    pub histories: u64,
}

/// Searches every scenario until one fails; that is made small.
///
/// # Errors
/// The smallest that fails, and how it does.
pub fn all(
    subject: Subject,
    scenarios: impl Iterator<Item = Scenario>,
) -> Result<Explained, (Scenario, String)> {
    // Failures are told when they are small.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut explained = Explained::default();
    let mut result = Ok(());
    for scenario in scenarios {
        match search(subject, &scenario) {
            Ok(histories) => {
                explained.scenarios += 1;
                explained.histories += histories;
            }
            Err(why) => {
                result = Err(made_small(subject, scenario, why));
                break;
            }
        }
    }
    std::panic::set_hook(hook);
    result.map(|()| explained)
}

/// Leaves out what it can while the scenario still fails.
fn made_small(subject: Subject, scenario: Scenario, why: String) -> (Scenario, String) {
    let fails = |smaller: Scenario| {
        let why = search(subject, &smaller).err()?;
        Some((smaller, why))
    };
    match scenario.smaller().into_iter().find_map(fails) {
        Some((smaller, why)) => made_small(subject, smaller, why),
        None => {
            // Once more, so that it is the last that ran.
            let why = search(subject, &scenario).err().unwrap_or(why);
            (scenario, why)
        }
    }
}

/// What a search has seen.
#[derive(Default)]
struct Seen {
    histories: HashSet<History>,
    wrong: Option<(History, Unexplained)>,
}

/// Searches all executions of a scenario: how many histories there are.
///
/// # Errors
/// What was wrong with one.
fn search(subject: Subject, scenario: &Scenario) -> Result<u64, String> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let watched = seen.clone();
    let watch = move |steps: &[_]| {
        let history = History::of(steps);
        let mut seen = watched.borrow_mut();
        if !seen.histories.insert(history.clone()) {
            return true;
        }
        seen.wrong = judge(&history, subject.rules)
            .err()
            .map(|wrong| (history, wrong));
        seen.wrong.is_none()
    };
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(subject.steps as usize);
    config.failure_persistence = shuttle::FailurePersistence::None;
    let threads: Arc<[_]> = scenario.0.clone().into();
    let body = move || execution(subject.make, &threads);
    let watch: Watch = Box::new(watch);
    let run = || match subject.schedules {
        None => shuttle::Runner::new(Reduced::watched(watch), config).run(body),
        Some(schedules) => {
            let random = RandomScheduler::new_from_seed(1, schedules);
            shuttle::Runner::new(Watched::new(random, watch), config).run(body)
        }
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let why = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic");
        let told = table::unfinished(&history::so_far());
        return Err(format!("{told}{why}\n"));
    }
    let seen = seen.borrow();
    match &seen.wrong {
        Some((history, wrong)) => Err(table::table(history, wrong, subject.rules)),
        None => Ok(seen.histories.len() as u64),
    }
}

/// Each thread does what it is to do, main being the first; then everything can be taken at once.
fn execution(make: fn() -> Driven, threads: &Arc<[Vec<Op>]>) {
    check::begin_execution();
    trace::begin();
    history::begin();
    let lock = make();
    let others: Vec<_> = (1..threads.len())
        .map(|me| {
            let (threads, lock) = (threads.clone(), lock.clone());
            thread::spawn(move || work(me, &threads[me], &lock))
        })
        .collect();
    work(0, &threads[0], &lock);
    for other in others {
        other.join().expect("a thread panicked");
    }
    let everything = Op::Take(Way::Try, Write, Place::Both);
    let mut holds = Vec::new();
    perform(0, everything, &lock, &mut holds);
    holds.into_iter().flatten().for_each(Hold::release);
}

fn work(me: usize, thread: &[Op], lock: &Driven) {
    let mut holds = Vec::new();
    for &op in thread {
        perform(me, op, lock, &mut holds);
        trace::finished();
    }
    while !holds.is_empty() {
        perform(me, Op::Release, lock, &mut holds);
        trace::finished();
    }
}

/// Does an operation, and notes it, unless it is about a place that was not granted.
fn perform<'a>(me: usize, op: Op, lock: &'a Driven, holds: &mut Vec<Option<Hold<'a>>>) {
    let answer = |done: bool| match done {
        true => Answer::Done,
        false => Answer::Busy,
    };
    if let Op::Take(way, access, place) = op {
        let span = span(place.range());
        noted(me, op, || {
            let hold = match way {
                Way::Lock => Some(Hold::lock(lock, span, access).expect("in range")),
                Way::Try => Hold::try_lock(lock, span, access).ok(),
                Way::Brief => {
                    let mut asked = Asked::new(lock, span, access);
                    let hold = asked.poll().expect("in range");
                    if hold.is_none() {
                        asked.cancel();
                    }
                    hold
                }
            };
            holds.push(hold);
            answer(holds.last().is_some_and(Option::is_some))
        });
        return;
    }
    if op == Op::Release {
        if let Some(Some(hold)) = holds.pop() {
            noted(me, op, || {
                hold.release();
                Answer::Done
            });
        }
        return;
    }
    let Some(Some(hold)) = holds.last_mut() else {
        return;
    };
    match op {
        Op::Downgrade if hold.access() != spanlock_range_lock::Access::Read => {
            noted(me, op, || {
                hold.downgrade();
                Answer::Done
            })
        }
        Op::TryUpgrade if hold.access() != Write => {
            noted(me, op, || answer(hold.try_upgrade()));
        }
        // A try before it may have done it already.
        Op::Upgrade if hold.access() != Write => noted(me, op, || {
            hold.upgrade();
            Answer::Done
        }),
        Op::Shrink(keep) => noted(me, op, || {
            hold.shrink(span(keep.range()));
            Answer::Done
        }),
        _ => {}
    }
}
