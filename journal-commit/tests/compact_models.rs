//! Group commit under loom and shuttle: joining, leading, meeting, sleeping, failing.
//!
//! ```text
//! RUSTFLAGS="--cfg spanlock_loom" cargo test -p spanlock-journal --test compact_models
//! ```

#![cfg(any(spanlock_loom, spanlock_shuttle))]

mod models;

#[cfg(spanlock_shuttle)]
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use models::Model;
use spanlock_journal::compact::group::{Batch, Failure, Gather, Group};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::{Arc, thread};

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

/// Leads when so many wait. A deadline passes if the fault plan says so.
struct Meet(usize);

impl Gather for Meet {
    fn arrived(&mut self) {}
    fn hold(&mut self, waiting: usize) -> Option<Instant> {
        (waiting < self.0).then(Instant::now)
    }
    fn started(&mut self) {}
    fn finished(&mut self, _: usize) {}
}

type Shared = Arc<Log>;

/// A group, and the medium that its leaders write to.
struct Log {
    group: Group<Tickets, &'static str, Meet>,
    medium: UnsafeCell<Medium>,
}

#[derive(Default)]
struct Medium {
    tickets: Vec<u64>,
    flushes: u32,
}

// SAFETY: the medium is touched by leaders, of which there is one at a time (C-I2), and by who has seen that they are done. That this suffices is
// what loom checks.
unsafe impl Sync for Log {}
// SAFETY: plain data.
unsafe impl Send for Log {}

impl Log {
    fn new(meet: usize) -> Shared {
        Arc::new(Log {
            group: Group::new(1, Tickets::default(), Meet(meet)),
            medium: UnsafeCell::new(Medium::default()),
        })
    }

    fn join(&self) -> Result<u64, Failure<&'static str>> {
        let add = |open: &mut Tickets, ticket| {
            open.0.push(ticket);
            Ok::<_, ()>(())
        };
        Ok(self.group.join(add)?.expect("never refused").0)
    }

    fn wait(&self, ticket: u64) -> Result<(), Failure<&'static str>> {
        self.group.wait(ticket, |load| {
            self.write(load);
            Ok(())
        })
    }

    fn write(&self, load: &[u64]) {
        self.medium.with_mut(|medium| {
            // SAFETY: by a leader, of whom there is one at a time.
            let medium = unsafe { &mut *medium };
            medium.tickets.extend(load);
            medium.flushes += 1;
        });
    }

    /// Joins and waits; what is durable then is on the medium, in order.
    fn commit(&self) {
        let ticket = self.join().expect("nothing fails");
        self.wait(ticket).expect("nothing fails");
        assert!(self.group.durable() >= ticket);
    }

    /// Flushes, when all threads are done.
    fn assert_all_there(&self, last: u64) -> u32 {
        assert_eq!(self.group.durable(), last);
        self.medium.with(|medium| {
            // SAFETY: nobody else is left.
            let medium = unsafe { &*medium };
            assert_eq!(medium.tickets, Vec::from_iter(1..=last));
            medium.flushes
        })
    }
}

fn spawn(log: &Shared, f: impl FnOnce(&Log) + Send + 'static) -> thread::JoinHandle<()> {
    let log = log.clone();
    thread::spawn(move || f(&log))
}

/// Shuttle takes every ordering for SeqCst, and shows all interleavings either way.
#[cfg(spanlock_shuttle)]
const MODES: [&str; 1] = [""];
#[cfg(spanlock_loom)]
const MODES: [&str; 2] = ["", "rmw-load"];
const WAKES: [&str; 3] = ["", "spurious-wake@0", "spurious-wake@1"];

/// In both modes of the door, with each of some fault plans.
fn in_all(model: &Model, plans: &[&str], bound: &str) {
    for mode in MODES {
        for plan in plans {
            let outcome = model.must_pass(&format!("{mode} {plan} {bound}"));
            assert!(outcome.executions > 1, "{}", outcome.text);
            println!("{mode} {plan} {bound}: {} executions", outcome.executions);
        }
    }
}

#[test]
fn two_commit() {
    let model = Model::new("two_commit", file!(), || {
        let log = Log::new(0);
        let other = spawn(&log, Log::commit);
        log.commit();
        other.join().unwrap();
        log.assert_all_there(2);
    });
    in_all(&model, &WAKES, "");
}

/// Whoever is first waits for the second: one flush, unless the deadline passes.
#[test]
fn two_meet() {
    fn run(flushes: std::ops::RangeInclusive<u32>) {
        // Whom a deadline separated from the other must not wait for it.
        let log = Log::new(2);
        let other = spawn(&log, |log| {
            let ticket = log.join().unwrap();
            log.wait(ticket).unwrap();
        });
        log.commit();
        other.join().unwrap();
        assert!(flushes.contains(&log.assert_all_there(2)));
    }
    let model = Model::new("two_meet", file!(), || run(1..=1));
    in_all(&model, &WAKES, "");
}

/// A candidate for whom nobody comes leads when its deadline has passed. The other only joins, sooner or later.
#[test]
fn nobody_comes() {
    let model = Model::new("nobody_comes", file!(), || {
        let log = Log::new(2);
        let other = spawn(&log, |log| {
            log.join().unwrap();
        });
        log.commit();
        other.join().unwrap();
        assert!(log.group.durable() >= 1);
    });
    for mode in MODES {
        for plan in ["time-out@0", "spurious-wake@0 time-out@0"] {
            assert!(model.must_pass(&format!("{mode} {plan}")).injected > 0);
        }
        // Without a deadline it waits for ever: what the model is about.
        model.must_fail(mode);
    }
}

#[test]
fn three_commit() {
    let model = Model::new("three_commit", file!(), || {
        let log = Log::new(0);
        let others = [spawn(&log, Log::commit), spawn(&log, Log::commit)];
        log.commit();
        for other in others {
            other.join().unwrap();
        }
        log.assert_all_there(3);
    });
    in_all(&model, &[""], "bound=2");
}

/// Three of whom two meet: the third, whenever it comes, is not left behind. Its deadline passes, wherever it falls.
#[test]
fn who_comes_third_is_not_left_behind() {
    let model = Model::new("who_comes_third_is_not_left_behind", file!(), || {
        let log = Log::new(2);
        let others = [spawn(&log, Log::commit), spawn(&log, Log::commit)];
        log.commit();
        for other in others {
            other.join().unwrap();
        }
        log.assert_all_there(3);
    });
    // Two sleeps with a deadline there can be, if the pair has met; the last one's has to pass.
    for mode in MODES {
        model.must_pass(&format!("{mode} time-out@0 time-out@1 time-out@2 bound=2"));
    }
}

/// What joins while a flush is under way is durable after the next one, and not before.
#[test]
fn who_joins_late_is_led_later() {
    let model = Model::new("who_joins_late_is_led_later", file!(), || {
        let log = Log::new(0);
        let other = spawn(&log, |log| {
            let ticket = log.join().unwrap();
            log.wait(ticket).unwrap();
            let ticket = log.join().unwrap();
            log.wait(ticket).unwrap();
        });
        log.commit();
        other.join().unwrap();
        let flushes = log.assert_all_there(3);
        assert!((2..=3).contains(&flushes));
    });
    in_all(&model, &[""], "");
}

#[test]
fn what_is_durable_is_seen() {
    const GROUP: &str = "journal-commit/src/compact/group.rs";
    let model = Model::new("what_is_durable_is_seen", GROUP, || {
        let log = Log::new(0);
        let other = spawn(&log, Log::commit);
        if log.group.durable() == 1 {
            log.medium.with(|medium| {
                // SAFETY: ticket 1 is the only one, so no leader comes after its commit.
                assert_eq!(unsafe { &*medium }.tickets, [1]);
            });
        }
        other.join().unwrap();
    });
    // Loom as it comes does not let a store race with a load before it (docs/checkers.md): only the other mode tells.
    model.must_pass("");
    let sound = model.must_pass("rmw-load");
    assert!(sound.executions > 1 && sound.sites.len() == 2, "{sound:?}");
    #[cfg(spanlock_loom)]
    for (site, ordering) in sound.sites {
        assert_ne!(ordering, "Relaxed");
        model.must_fail(&format!("rmw-load weaken:{site}=Relaxed"));
    }
}

/// The first commit fails. Nobody hangs, nothing is acknowledged that comes after it, and all learn why.
#[test]
fn a_failure_reaches_all() {
    let model = Model::new("a_failure_reaches_all", file!(), || {
        let log = Log::new(0);
        let fails = |log: &Log| {
            let Ok(ticket) = log.join() else { return };
            let result = log.group.wait(ticket, |_| Err("no medium"));
            assert_eq!(result, Err(Failure::Failed("no medium")));
        };
        let other = spawn(&log, fails);
        fails(&log);
        other.join().unwrap();
        assert_eq!(log.group.durable(), 0);
        assert_eq!(log.join(), Err(Failure::Failed("no medium")));
    });
    in_all(&model, &WAKES, "");
}

/// One thread's leading works, the other's fails: who is acknowledged is on the medium.
#[test]
fn who_is_acknowledged_is_there() {
    let model = Model::new("who_is_acknowledged_is_there", file!(), || {
        let log = Log::new(0);
        let other = spawn(&log, |log| {
            let Ok(ticket) = log.join() else { return };
            let _ = log.group.wait(ticket, |_| Err("no medium"));
        });
        if let Ok(ticket) = log.join() {
            let result = log.wait(ticket);
            assert_eq!(result.is_ok(), log.group.durable() >= ticket);
        }
        other.join().unwrap();
        let durable = log.group.durable();
        log.medium.with(|medium| {
            // SAFETY: nobody else is left.
            assert_eq!(unsafe { &*medium }.tickets, Vec::from_iter(1..=durable));
        });
    });
    in_all(&model, &[""], "");
}

#[test]
fn a_failure_from_outside() {
    let model = Model::new("a_failure_from_outside", file!(), || {
        let log = Log::new(2);
        let other = spawn(&log, |log| {
            let Ok(ticket) = log.join() else { return };
            // Alone it waits for a second, or for the failure.
            assert_eq!(log.wait(ticket), Err(Failure::Failed("no space")));
        });
        log.group.fail(Failure::Failed("no space"));
        other.join().unwrap();
        assert_eq!(log.group.durable(), 0);
    });
    in_all(&model, &WAKES[..2], "");
}

/// What is on its way when the group fails is not acknowledged when it arrives.
#[test]
fn nothing_is_acknowledged_after_a_failure() {
    let model = Model::new("nothing_is_acknowledged_after_a_failure", file!(), || {
        let log = Log::new(0);
        let other = spawn(&log, |log| {
            let Ok(ticket) = log.join() else { return };
            let result = log.wait(ticket);
            assert_eq!(result.is_ok(), log.group.durable() >= ticket);
        });
        log.group.fail(Failure::Failed("no space"));
        let durable = log.group.durable();
        other.join().unwrap();
        assert_eq!(log.group.durable(), durable);
    });
    in_all(&model, &[""], "");
}

// Not under loom: it switches threads while one unwinds, and its mutexes are then poisoned for others. What is asked is which interleavings there are, and these shuttle shows.
#[cfg(spanlock_shuttle)]
#[test]
fn a_panic_reaches_all() {
    let model = Model::new("a_panic_reaches_all", file!(), || {
        let log = Log::new(0);
        let panics = |log: &Log| {
            let Ok(ticket) = log.join() else { return };
            let wait = || {
                log.group
                    .wait(ticket, |_| resume_unwind(Box::new("a panic")))
            };
            match catch_unwind(AssertUnwindSafe(wait)) {
                Ok(result) => assert_eq!(result, Err(Failure::Panicked)),
                Err(payload) => assert_eq!(payload.downcast_ref(), Some(&"a panic")),
            }
        };
        let other = spawn(&log, panics);
        panics(&log);
        other.join().unwrap();
        assert_eq!(log.group.durable(), 0);
        assert_eq!(log.join(), Err(Failure::Panicked));
    });
    in_all(&model, &[""], "");
}
