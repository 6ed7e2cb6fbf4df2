//! Group commit of the compact log (`src/compact/group.rs`): plain, and with a rendezvous, in which
//! a leader waits with a deadline before it starts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_journal_commit::compact::Rendezvous;
use spanlock_journal_commit::compact::group::{Batch, Failure, Gather, Group};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Fault, FaultKind, Suite, note_as, note_at_end, perform};

use crate::threads::{at_once, crowd, program};

const OPERATIONS: [&str; 4] = ["join", "fail", "wait", "look"];
const COMMIT: &[&str] = &["join", "wait"];
const FAIL: &[&str] = &["fail", "look"];

pub(crate) fn group() -> Suite {
    Suite::new("compact-group")
        .operations(OPERATIONS)
        .program(program("commit-each", DURABLE, [COMMIT, COMMIT], || {
            Log::all_there(0, 2, &[commit, commit]);
        }))
        .program(program(
            "late",
            "a record that joins during a flush is durable after the next flush",
            [COMMIT, COMMIT],
            || Log::all_there(0, 3, &[commit, commit_twice]),
        ))
        .program(program(
            "look",
            "a thread that sees a ticket durable sees what its commit did",
            [&["look"], COMMIT],
            || Log::all_there(0, 1, &[look, commit]),
        ))
        .program(program("fail-each", TOLD, [COMMIT, COMMIT], || {
            let log = Log::failing(&[lead_and_fail, lead_and_fail]);
            assert_eq!(log.group.durable(), 0);
            assert_eq!(log.join(), Err(Failure::Failed("no medium")));
        }))
        .program(program("fail-one", TOLD, [COMMIT, COMMIT], || {
            Log::failing(&[commit_or_learn, lead_and_fail]);
        }))
        .program(program(
            "fail-beside",
            "if the group fails while a load is being written, the load is not acknowledged",
            [FAIL, COMMIT],
            || {
                Log::failing(&[fail, commit_or_learn]);
            },
        ))
        .program(program("fail-look", FIRST_STAYS, [FAIL, FAIL], || {
            Log::failing(&[fail, fail]);
        }))
        .program(program(
            "commit-3",
            DURABLE,
            [COMMIT, COMMIT, COMMIT],
            || {
                Log::all_there(0, 3, &[commit, commit, commit]);
            },
        ))
        .program(crowd("crowd-4", DURABLE, 4, || {
            Log::all_there(0, 8, &[commit_twice as Work; 4]);
        }))
        .program(crowd("crowd-8", DURABLE, 8, || {
            Log::all_there(0, 16, &[commit_twice as Work; 8]);
        }))
}

const DURABLE: &str =
    "a waiter's record becomes durable, in the order of tickets; one thread leads at a time";
const TOLD: &str = "every thread gets the error of a leader's failure, and only records on the \
                    medium are acknowledged";
const FIRST_STAYS: &str = "a later failure does not replace the first, and durable records stay";

pub(crate) fn rendezvous() -> Suite {
    let passes = |thread| Fault::new(FaultKind::TimeOut, thread, 0);
    let third = program(
        "third",
        "when two of three threads commit together, the third commits too, no matter when \
         deadlines pass",
        [COMMIT, COMMIT, COMMIT],
        || Log::all_there(2, 3, &[commit, commit, commit]),
    );
    Suite::new("compact-rendezvous")
        .operations(OPERATIONS)
        .program(program("meet", MEET, [COMMIT, COMMIT], || {
            Log::with(When::trained()).ends(2, &[commit, commit]);
        }))
        .program(program(
            "fail-alone",
            "a failure from outside wakes a leader that waits for another thread",
            [FAIL, COMMIT],
            || {
                Log::failing_of(2, &[fail, commit_or_learn]);
            },
        ))
        .program(program("fail-look", FIRST_STAYS, [FAIL, FAIL], || {
            Log::failing_of(2, &[fail, fail]);
        }))
        .program(
            program("nobody-comes", ALONE, [COMMIT, &["join"]], || {
                at_once(&Log::new(2), &[commit, join]);
            })
            .fault(passes(0)),
        )
        .program(
            program(
                "nobody-comes-3",
                ALONE,
                [COMMIT, &["join"], &["join"]],
                || {
                    at_once(&Log::new(3), &[commit, join, join]);
                },
            )
            .fault(passes(0)),
        )
        .program((0..3).map(passes).fold(third, |it, fault| it.fault(fault)))
        .program(crowd("crowd-4", MEET, 4, || {
            Log::all_there(4, 4, &[commit as Work; 4]);
        }))
        .program(crowd("crowd-8", MEET, 8, || {
            Log::all_there(8, 8, &[commit as Work; 8]);
        }))
}

const MEET: &str = "a leader that waits for another thread starts once that thread arrives or the \
                    deadline passes, and every thread's record becomes durable";
const ALONE: &str = "if no other thread comes to wait, a leader starts after its deadline";

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

/// When a leader starts. A deadline passes only as a fault.
enum When {
    /// Once this many threads wait.
    Meet(usize),
    /// When the log's policy decides so. The clock stands still while threads arrive.
    Rendezvous(Rendezvous, Instant),
}

/// The length of a flush that [`When::trained`] has learnt.
const FLUSH: Duration = Duration::from_millis(1);

impl When {
    /// Returns a policy that has seen two threads return at once so often that it waits for them.
    fn trained() -> Self {
        let start = Instant::now();
        let mut rendezvous = Rendezvous::learnt(start, FLUSH);
        rendezvous.started_at(start);
        let end = start + FLUSH;
        rendezvous.finished_at(end, 2);
        When::Rendezvous(rendezvous, end + FLUSH / 64)
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
            // If a deadline has separated the two threads, no further thread comes, and in a model
            // no deadline passes by itself. So let the later thread arrive after the window, where
            // the policy does not wait.
            *now += FLUSH / 2;
        }
    }
}

/// The work of a thread, given its number.
type Work = fn(usize, &Log);

type Failed = Failure<&'static str>;

/// A group, and the medium that its leaders write to.
struct Log {
    group: Group<Tickets, &'static str, When>,
    medium: UnsafeCell<Vec<u64>>,
}

// SAFETY: the medium is accessed only by leaders, one at a time, and by threads that have seen that
// the leaders' commits are done. loom checks that these accesses do not race.
unsafe impl Sync for Log {}
// SAFETY: plain data.
unsafe impl Send for Log {}

impl Log {
    /// Returns a log whose leaders wait until `meet` threads wait.
    fn new(meet: usize) -> Arc<Self> {
        Log::with(When::Meet(meet))
    }

    fn with(when: When) -> Arc<Self> {
        Arc::new(Log {
            group: Group::new(1, Tickets::default(), when),
            medium: UnsafeCell::new(Vec::new()),
        })
    }

    /// Runs `works`, none of which fails. Checks that tickets up to `last` are durable at the end.
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

    /// Runs `works`, which may fail. Checks that all durable tickets are on the medium.
    fn failing_of(meet: usize, works: &[Work]) -> Arc<Self> {
        let log = Log::new(meet);
        at_once(&log, works);
        let durable = log.group.durable();
        // If a failure came from outside while a load was being written, the medium may have that
        // load too.
        assert!(log.written().len() as u64 >= durable);
        if let Some(failure) = log.group.failure() {
            assert_eq!(log.join(), Err(failure));
        }
        note_at_end(format!("durable {durable}"));
        log
    }

    fn join(&self) -> Result<u64, Failed> {
        let add = |open: &mut Tickets, ticket| {
            open.0.push(ticket);
            Ok::<_, ()>(())
        };
        let joined = self.group.join(add);
        perform("join");
        Ok(joined?.expect("never refused").0)
    }

    fn wait(&self, ticket: u64) -> Result<(), Failed> {
        let result = self.group.wait(ticket, |load| {
            // SAFETY: this is the only leader.
            self.medium
                .with_mut(|medium| unsafe { (*medium).extend(&*load) });
            Ok(())
        });
        perform("wait");
        result
    }

    /// Returns the tickets on the medium. The caller ensures that no leader writes.
    fn written(&self) -> Vec<u64> {
        // SAFETY: no leader writes.
        self.medium.with(|medium| unsafe { (*medium).clone() })
    }
}

fn commit(me: usize, log: &Log) {
    let ticket = log.join().expect("nothing fails");
    log.wait(ticket).expect("nothing fails");
    assert!(log.group.durable() >= ticket);
    note_as(me, format!("{ticket}"));
}

fn commit_twice(me: usize, log: &Log) {
    commit(me, log);
    commit(me, log);
}

fn join(me: usize, log: &Log) {
    let ticket = log.join().expect("nothing fails");
    note_as(me, format!("{ticket}"));
}

fn look(me: usize, log: &Log) {
    let durable = log.group.durable();
    perform("look");
    note_as(me, format!("{durable}"));
    if durable == 1 {
        // There is only one ticket, so no leader writes after its commit.
        assert_eq!(log.written(), [1]);
    }
}

/// Commits a record, although another thread may fail.
fn commit_or_learn(me: usize, log: &Log) {
    let Ok(ticket) = log.join() else { return };
    let result = log.wait(ticket);
    assert_eq!(result.is_ok(), log.group.durable() >= ticket);
    note_as(me, format!("{result:?}"));
}

fn lead_and_fail(me: usize, log: &Log) {
    let Ok(ticket) = log.join() else { return };
    let result = log.group.wait(ticket, |_| Err("no medium"));
    perform("wait");
    note_as(me, format!("{result:?}"));
    assert!(result.is_ok() == (log.group.durable() >= ticket));
}

/// Fails the group from outside. Checks that nothing becomes durable afterwards.
fn fail(me: usize, log: &Log) {
    log.group
        .fail(Failure::Failed(["no space", "no power"][me]));
    perform("fail");
    let durable = log.group.durable();
    perform("look");
    let failure = log.group.failure().expect("it has failed");
    note_as(me, format!("{durable} {failure:?}"));
    for _ in 0..2 {
        assert_eq!(log.group.durable(), durable);
        assert_eq!(log.group.failure().as_ref(), Some(&failure));
    }
}
