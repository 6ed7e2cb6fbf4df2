//! Models of the machines, for loom: `RUSTFLAGS="--cfg spanlock_loom" cargo test -p spanlock-journal --lib raw::models -- --test-threads=1`
//!
//! Without a bound on preemptions, but for `who_waits_is_woken`, which has three threads.
//!
//! | model | pair of operations |
//! |---|---|
//! | `buffers_are_handed_over` | publish, claim; complete, complete |
//! | `one_seals_whoever_lets_go` | open, own, let go, wait |
//! | `who_sees_it_done_sees_it_all` | finish, wait |
//! | `a_commit_sees_what_its_handles_did` | join, leave, lock |
//! | `nothing_is_acknowledged_beside_a_failure` | fail, settle |
//! | `who_waits_is_woken` | wait, wake |

use std::sync::Arc;

use spanlock_sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::{check, thread};

use super::medium::Medium;
use super::owner::{CommitRight, Owner, Turn};
use super::signal::Signal;
use super::tickets::Tickets;
use super::updates::Updates;

/// With so many preemptions at most, where without a bound it does not end in minutes.
fn model(preemptions: Option<usize>, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        check::begin_execution();
        run();
    });
}

/// Plain data that threads hand to each other: loom fails the model if two accesses race.
struct Cells(Vec<UnsafeCell<u32>>);

// SAFETY: what the models show; loom checks it.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

impl Cells {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Cells((0..count).map(|_| UnsafeCell::new(0)).collect()))
    }

    fn add(&self, at: usize, value: u32) {
        // SAFETY: as above.
        self.0[at].with_mut(|cell| unsafe { *cell += value });
    }

    fn get(&self, at: usize) -> u32 {
        // SAFETY: as above.
        self.0[at].with(|cell| unsafe { *cell })
    }
}

#[test]
fn buffers_are_handed_over() {
    model(None, || {
        let tickets = Arc::new(Tickets::new(2));
        let cells = Cells::new(2);
        let write = |tickets: &Tickets, cells: &Cells| {
            let mut last = false;
            while let Some(buffer) = tickets.claim() {
                assert_eq!(cells.get(buffer as usize), 1, "prepared, not yet written");
                cells.add(buffer as usize, 1);
                last |= tickets.complete();
            }
            if last {
                assert_eq!(
                    (cells.get(0), cells.get(1)),
                    (2, 2),
                    "the last one sees all"
                );
            }
            last
        };
        let helper = {
            let (tickets, cells) = (tickets.clone(), cells.clone());
            thread::spawn(move || write(&tickets, &cells))
        };
        for buffer in 0..2 {
            cells.add(buffer, 1);
            tickets.publish();
        }
        let mine = write(&tickets, &cells);
        assert!(helper.join().unwrap() != mine, "exactly one is the last");
    });
}

#[test]
fn one_seals_whoever_lets_go() {
    model(None, || {
        let right = Arc::new(CommitRight::new(Arc::new(Signal::new())));
        let cells = Cells::new(2);
        let helper = {
            let (right, cells) = (right.clone(), cells.clone());
            thread::spawn(move || {
                cells.add(0, 1); // The last block.
                right.open();
                if let Some(owner) = right.try_own() {
                    cells.add(1, 1); // Begun,
                    drop(owner); // and not finished.
                }
            })
        };
        match right.wait(|| false) {
            Some(Turn::Yours(owner)) => {
                assert_eq!(cells.get(0), 1);
                cells.add(1, 10);
                owner.finish();
            }
            _ => panic!("the helper never finishes it"),
        }
        helper.join().unwrap();
        assert!(matches!(right.wait(|| false), Some(Turn::Done)));
        assert!(cells.get(1) >= 10);
    });
}

#[test]
fn who_sees_it_done_sees_it_all() {
    model(None, || {
        let right = Arc::new(CommitRight::new(Arc::new(Signal::new())));
        let cells = Cells::new(1);
        right.open();
        let seal = |owner: Owner<'_>, cells: &Cells| {
            cells.add(0, 1);
            owner.finish();
        };
        let helper = {
            let (right, cells) = (right.clone(), cells.clone());
            thread::spawn(move || {
                if let Some(owner) = right.try_own() {
                    seal(owner, &cells);
                }
            })
        };
        match right.wait(|| false) {
            Some(Turn::Yours(owner)) => seal(owner, &cells),
            Some(Turn::Done) => assert_eq!(cells.get(0), 1),
            None => panic!("it does not give up"),
        }
        helper.join().unwrap();
        assert_eq!(cells.get(0), 1, "one of them");
    });
}

#[test]
fn a_commit_sees_what_its_handles_did() {
    model(None, || {
        let updates = Arc::new(Updates::new());
        let cells = Cells::new(2);
        let handles: Vec<_> = (0..2)
            .map(|number| {
                let (updates, cells) = (updates.clone(), cells.clone());
                thread::spawn(move || {
                    let joined = updates.join(1, 2).is_ok();
                    if joined {
                        cells.add(number, 1);
                        updates.leave(0);
                    }
                    joined
                })
            })
            .collect();
        updates.lock_and_drain();
        let seen = [cells.get(0), cells.get(1)];
        let joined = handles.into_iter().map(|it| u32::from(it.join().unwrap()));
        assert!(
            joined.eq(seen),
            "who joined before is seen, who did not is not"
        );
    });
}

/// A thread's operation fails and loses what was not flushed; another one flushes. The latter acknowledges only what was not lost.
#[test]
fn nothing_is_acknowledged_beside_a_failure() {
    model(None, || {
        let medium = Arc::new(Medium::new("dropped", Vec::new()));
        let lost = Arc::new(AtomicBool::new(false));
        let failing = {
            let (medium, lost) = (medium.clone(), lost.clone());
            thread::spawn(move || {
                if let Ok(operation) = medium.begin() {
                    lost.store(true, Relaxed);
                    operation.end(Err("lost")).unwrap_err();
                }
            })
        };
        if let Ok(flush) = medium.begin() {
            let durable = !lost.load(Relaxed);
            let acknowledged = flush.end(Ok(())).and_then(|()| medium.settle()).is_ok();
            assert!(durable || !acknowledged);
        }
        failing.join().unwrap();
        assert!(medium.settle().is_err());
    });
}

#[test]
fn who_waits_is_woken() {
    model(Some(3), || {
        let signal = Arc::new(Signal::new());
        let done = Arc::new(AtomicU32::new(0));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (signal, done) = (signal.clone(), done.clone());
                thread::spawn(move || {
                    // Relaxed: the signal's own lock orders it, which is what this shows.
                    signal.wait_until(|| (done.load(Relaxed) == 1).then_some(()));
                })
            })
            .collect();
        done.store(1, Relaxed);
        signal.wake_all();
        waiters.into_iter().for_each(|it| it.join().unwrap());
    });
}
