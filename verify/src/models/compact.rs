//! Group commit of the compact log (`journal-commit/src/compact/group.rs`): plain, and with a rendezvous, which is a deadline before the leader starts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_journal_commit::compact::Rendezvous;
use spanlock_journal_commit::compact::group::{Batch, Failure, Gather, Group};
use spanlock_sync::cell::UnsafeCell;

use super::journal::{at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::{Fault, FaultKind, Program};
use crate::trace::{END, note, perform};

const GROUP: &str = "compact-group";
const RENDEZVOUS: &str = "compact-rendezvous";

/// Every program of these.
pub fn programs() -> Vec<Program> {
    let mut programs = plain();
    programs.extend(gathering());
    programs
}

const COMMIT: &[Op] = &[Op::Join, Op::Wait];

fn plain() -> Vec<Program> {
    let durable = "who has waited is durable, in the order of tickets, and one leads at a time";
    let told = "a leader's failure reaches all; nothing is acknowledged that is not on the medium";
    vec![
        program(GROUP, "commit-each", durable, [COMMIT, COMMIT], || {
            Log::all_there(0, 2, &[commit, commit]);
        }),
        program(
            GROUP,
            "late",
            "what joins while a flush is under way is durable after the next one",
            [COMMIT, COMMIT],
            || Log::all_there(0, 3, &[commit, commit_twice]),
        ),
        program(
            GROUP,
            "look",
            "who sees a ticket durable sees what its commit did",
            [&[Op::Look], COMMIT],
            || Log::all_there(0, 1, &[look, commit]),
        ),
        program(GROUP, "fail-each", told, [COMMIT, COMMIT], || {
            let log = Log::failing(&[lead_and_fail, lead_and_fail]);
            assert_eq!(log.group.durable(), 0);
            assert_eq!(log.join(), Err(Failure::Failed("no medium")));
        }),
        program(GROUP, "fail-one", told, [COMMIT, COMMIT], || {
            Log::failing(&[commit_or_learn, lead_and_fail]);
        }),
        program(
            GROUP,
            "fail-beside",
            "what is on its way when the group fails is not acknowledged when it arrives",
            [&[Op::Fail, Op::Look], COMMIT],
            || {
                Log::failing(&[fail, commit_or_learn]);
            },
        ),
        program(
            GROUP,
            "fail-look",
            "the first failure stays, and what was durable stays so",
            [&[Op::Fail, Op::Look], &[Op::Fail, Op::Look]],
            || {
                Log::failing(&[fail, fail]);
            },
        ),
        program(GROUP, "commit-3", durable, [COMMIT, COMMIT, COMMIT], || {
            Log::all_there(0, 3, &[commit, commit, commit])
        }),
        crowd(GROUP, "crowd-4", durable, 4, || {
            Log::all_there(0, 8, &[commit_twice as Work; 4]);
        }),
        crowd(GROUP, "crowd-8", durable, 8, || {
            Log::all_there(0, 16, &[commit_twice as Work; 8]);
        }),
    ]
}

fn gathering() -> Vec<Program> {
    let meet = "who waits for another leads when that comes, or when its deadline passes; nobody is left behind";
    let passes = |thread| Fault::new(FaultKind::TimeOut, thread, 0);
    let alone: &'static [Fault] = const { &[Fault::new(FaultKind::TimeOut, 0, 0)] };
    let all: &'static [Fault] = Box::leak(Box::new([passes(0), passes(1), passes(2)]));
    vec![
        program(RENDEZVOUS, "meet", meet, [COMMIT, COMMIT], || {
            Log::with(When::trained()).ends(2, &[commit, commit])
        }),
        program(
            RENDEZVOUS,
            "fail-alone",
            "who waits for another is woken by a failure from outside",
            [&[Op::Fail, Op::Look], COMMIT],
            || {
                Log::failing_of(2, &[fail, commit_or_learn]);
            },
        ),
        program(
            RENDEZVOUS,
            "fail-look",
            "the first failure stays, and what was durable stays so",
            [&[Op::Fail, Op::Look], &[Op::Fail, Op::Look]],
            || {
                Log::failing_of(2, &[fail, fail]);
            },
        ),
        Program {
            faults: alone,
            ..program(
                RENDEZVOUS,
                "nobody-comes",
                "who waits and whom nobody meets leads when its deadline has passed",
                [COMMIT, &[Op::Join]],
                || {
                    at_once(&Log::new(2), &[commit, join]);
                },
            )
        },
        Program {
            faults: alone,
            ..program(
                RENDEZVOUS,
                "nobody-comes-3",
                "who waits and whom nobody meets leads when its deadline has passed",
                [COMMIT, &[Op::Join], &[Op::Join]],
                || {
                    at_once(&Log::new(3), &[commit, join, join]);
                },
            )
        },
        Program {
            faults: all,
            ..program(
                RENDEZVOUS,
                "third",
                "of three of whom two meet the third is not left behind, wherever the deadlines fall",
                [COMMIT, COMMIT, COMMIT],
                || Log::all_there(2, 3, &[commit, commit, commit]),
            )
        },
        crowd(RENDEZVOUS, "crowd-4", meet, 4, || {
            Log::all_there(4, 4, &[commit as Work; 4]);
        }),
        crowd(RENDEZVOUS, "crowd-8", meet, 8, || {
            Log::all_there(8, 8, &[commit as Work; 8]);
        }),
    ]
}

/// The tickets that have joined.
#[derive(Default)]
struct Tickets(Vec<u64>);

impl Batch for Tickets {
    type Load = Vec<u64>;
    fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.0)
    }
    fn put_back(&mut self, _: Vec<u64>) {}
}

/// When a leader starts. A deadline passes if the fault plan says so.
enum When {
    /// When so many wait.
    Meet(usize),
    /// As the log has it, at a time that stands still while threads come.
    Rendezvous(Rendezvous, Instant),
}

/// A flush of the medium for which [`When::trained`] is.
const FLUSH: Duration = Duration::from_millis(1);

impl When {
    /// Has seen flushes after which two threads came back at once, so often that it waits for them.
    fn trained() -> Self {
        let mut now = Instant::now();
        let mut rendezvous = Rendezvous::at(now);
        for _ in 0..64 {
            rendezvous.started_at(now);
            now += FLUSH;
            rendezvous.finished_at(now, 2);
            let mut next = now + FLUSH / 64;
            rendezvous.arrived_at(next);
            if rendezvous.hold_at(next, 1).is_some() {
                // One of them is there: as if it had gone again.
                next = now + FLUSH;
                rendezvous.started_at(next);
                rendezvous.finished_at(next, 2);
                return When::Rendezvous(rendezvous, next + FLUSH / 64);
            }
            rendezvous.arrived_at(next);
            now = next;
        }
        panic!("two who come back at once are never waited for");
    }
}

impl Gather for When {
    fn arrived(&mut self) {
        if let When::Rendezvous(rendezvous, now) = self {
            rendezvous.arrived_at(*now);
        }
    }

    fn hold(&mut self, waiting: usize) -> Option<Instant> {
        match self {
            When::Meet(least) => (waiting < *least).then(Instant::now),
            When::Rendezvous(rendezvous, now) => rendezvous.hold_at(*now, waiting),
        }
    }

    fn started(&mut self) {
        if let When::Rendezvous(rendezvous, now) = self {
            rendezvous.started_at(*now);
        }
    }

    fn finished(&mut self, released: usize) {
        if let When::Rendezvous(rendezvous, now) = self {
            *now += FLUSH;
            rendezvous.finished_at(*now, released);
            // Whom a deadline has separated from the other comes too late to be waited for: there is nobody else, and no deadline passes by itself.
            *now += FLUSH / 2;
        }
    }
}

/// What a thread does, by its number.
type Work = fn(usize, &Log);

type Failed = Failure<&'static str>;

/// A group, and the medium that its leaders write to.
struct Log {
    group: Group<Tickets, &'static str, When>,
    medium: UnsafeCell<Vec<u64>>,
}

// SAFETY: the medium is touched by leaders, of which there is one at a time, and by who has seen that they are done: that this suffices is what loom checks.
unsafe impl Sync for Log {}
// SAFETY: plain data.
unsafe impl Send for Log {}

impl Log {
    /// Whose leaders wait until so many wait.
    fn new(meet: usize) -> Arc<Self> {
        Log::with(When::Meet(meet))
    }

    fn with(when: When) -> Arc<Self> {
        Arc::new(Log {
            group: Group::new(1, Tickets::default(), when),
            medium: UnsafeCell::new(Vec::new()),
        })
    }

    /// Nothing fails, and so many tickets are durable at the end.
    fn all_there(meet: usize, last: u64, works: &[Work]) {
        Log::new(meet).ends(last, works);
    }

    fn ends(self: Arc<Self>, last: u64, works: &[Work]) {
        let log = self;
        at_once(&log, works);
        assert_eq!(log.group.durable(), last);
        assert_eq!(log.written(), Vec::from_iter(1..=last));
    }

    fn failing(works: &[Work]) -> Arc<Self> {
        Log::failing_of(0, works)
    }

    /// Something may fail: what is durable is on the medium, and the other way round.
    fn failing_of(meet: usize, works: &[Work]) -> Arc<Self> {
        let log = Log::new(meet);
        at_once(&log, works);
        let durable = log.group.durable();
        // What was on its way at a failure from outside may be there all the same.
        assert!(log.written().len() as u64 >= durable);
        if let Some(failure) = log.group.failure() {
            assert_eq!(log.join(), Err(failure));
        }
        note(END, format!("durable {durable}"));
        log
    }

    fn join(&self) -> Result<u64, Failed> {
        let add = |open: &mut Tickets, ticket| {
            open.0.push(ticket);
            Ok::<_, ()>(())
        };
        let joined = self.group.join(add);
        perform(Op::Join);
        Ok(joined?.expect("never refused").0)
    }

    fn wait(&self, ticket: u64) -> Result<(), Failed> {
        let result = self.group.wait(ticket, |load| {
            // SAFETY: by a leader, of whom there is one at a time.
            self.medium
                .with_mut(|medium| unsafe { (*medium).extend(&*load) });
            Ok(())
        });
        perform(Op::Wait);
        result
    }

    /// What is on the medium, for who knows that no leader writes.
    fn written(&self) -> Vec<u64> {
        // SAFETY: the caller's knowledge.
        self.medium.with(|medium| unsafe { (*medium).clone() })
    }
}

fn commit(me: usize, log: &Log) {
    let ticket = log.join().expect("nothing fails");
    log.wait(ticket).expect("nothing fails");
    assert!(log.group.durable() >= ticket);
    note(me, format!("{ticket}"));
}

fn commit_twice(me: usize, log: &Log) {
    commit(me, log);
    commit(me, log);
}

fn join(me: usize, log: &Log) {
    let ticket = log.join().expect("nothing fails");
    note(me, format!("{ticket}"));
}

fn look(me: usize, log: &Log) {
    let durable = log.group.durable();
    perform(Op::Look);
    note(me, format!("{durable}"));
    if durable == 1 {
        // The only one, so no leader comes after its commit.
        assert_eq!(log.written(), [1]);
    }
}

/// Commits where others may fail.
fn commit_or_learn(me: usize, log: &Log) {
    let Ok(ticket) = log.join() else { return };
    let result = log.wait(ticket);
    assert_eq!(result.is_ok(), log.group.durable() >= ticket);
    note(me, format!("{result:?}"));
}

fn lead_and_fail(me: usize, log: &Log) {
    let Ok(ticket) = log.join() else { return };
    let result = log.group.wait(ticket, |_| Err("no medium"));
    perform(Op::Wait);
    note(me, format!("{result:?}"));
    assert!(result.is_ok() == (log.group.durable() >= ticket));
}

/// From outside; nothing becomes durable after it.
fn fail(me: usize, log: &Log) {
    log.group
        .fail(Failure::Failed(["no space", "no power"][me]));
    perform(Op::Fail);
    let durable = log.group.durable();
    perform(Op::Look);
    let failure = log.group.failure().expect("it has failed");
    note(me, format!("{durable} {failure:?}"));
    for _ in 0..2 {
        assert_eq!(log.group.durable(), durable);
        assert_eq!(log.group.failure().as_ref(), Some(&failure));
    }
}
