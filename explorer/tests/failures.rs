//! Programs that are wrong, or that misuse the explorer: each fails with a message that says what
//! is wrong, where, and what to do.

use std::cell::{RefCell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use spanlock_explorer::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use spanlock_explorer::{
    Atomic, Condition, Failure, Op, Plain, Reason, Search, Update, Verdict, draw, fail, fence,
    spawn, spin,
};

#[track_caller]
fn failure(search: Search, program: impl Fn() + 'static) -> Failure {
    let report = search.explore(&mut (), program);
    let Verdict::Failed(failure) = report.verdict else {
        panic!("the search should fail, but: {report:?}");
    };
    *failure
}

#[track_caller]
fn fails(reason: Reason, message: &str, program: impl Fn() + 'static) {
    let failure = failure(Search::new(), program);
    assert_eq!(failure.reason, reason, "{failure}");
    assert!(failure.message.contains(message), "{failure}");
    let this_file = file!();
    if !matches!(reason, Reason::Panic) {
        assert!(
            failure.message.contains(this_file),
            "the message names no place: {failure}"
        );
    }
}

#[track_caller]
fn passes(executions: u64, program: impl Fn() + 'static) {
    let report = Search::new().explore(&mut (), program);
    assert!(matches!(report.verdict, Verdict::Exhausted), "{report:?}");
    assert_eq!(report.counts.executions, executions, "{report:?}");
}

/// Returns a program in which one thread writes plain memory and raises a flag, and another reads
/// the memory when it sees the flag.
fn message(release: spanlock_explorer::Ordering) -> impl Fn() {
    move || {
        let shared = Rc::new((Plain::new(), Atomic::new(0)));
        let theirs = shared.clone();
        let writer = spawn(move || {
            theirs.0.write();
            theirs.1.store(1, release);
        });
        if shared.1.load(Acquire) == 1 {
            shared.0.read();
        }
        writer.join();
    }
}

#[test]
fn a_race_on_plain_memory() {
    passes(2, message(Release));
    fails(Reason::Race, "a plain read", message(Relaxed));
}

#[test]
fn a_race_names_both_accesses() {
    let failure = failure(Search::new(), message(Relaxed));
    let lines: Vec<String> = failure.to_string().lines().map(str::to_owned).collect();
    let file = file!();
    let place = |at: &str| at.split_whitespace().last().unwrap().to_owned();
    let of = |what: &str| {
        let found: Vec<_> = lines.iter().filter(|it| it.contains(what)).collect();
        assert_eq!(found.len(), 1, "{what}: {failure}");
        place(found[0])
    };
    let (write, read) = (
        of("writes plain memory: RACE"),
        of("reads plain memory: RACE"),
    );
    for place in [&write, &read] {
        assert!(place.starts_with(file), "{failure}");
        assert!(failure.message.contains(place), "{failure}");
    }
    assert_ne!(write, read);
    assert!(draw::svg(&failure.graph).contains("writes plain memory: RACE"));
}

#[test]
fn a_write_that_races_with_a_read() {
    fails(Reason::Race, "a plain ", || {
        let plain = Rc::new(Plain::blank());
        let theirs = plain.clone();
        let reader = spawn(move || theirs.read());
        plain.write();
        reader.join();
    });
}

#[test]
fn two_locks_in_opposite_orders() {
    let program = |first_of_main: usize| {
        move || {
            let locks = Rc::new([Atomic::new(0), Atomic::new(0)]);
            let both = |locks: &[Atomic; 2], first: usize| {
                locks[first].exchange_when(0, 1, Acquire);
                locks[1 - first].exchange_when(0, 1, Acquire);
                locks[1 - first].store(0, Release);
                locks[first].store(0, Release);
            };
            let theirs = locks.clone();
            let other = spawn(move || both(&theirs, 0));
            both(&locks, first_of_main);
            other.join();
        }
    };
    passes(2, program(0));
    fails(Reason::Deadlock, "T0 waits at", program(1));
}

#[test]
fn a_wait_for_what_nobody_writes() {
    fails(Reason::Deadlock, "T1 waits at", || {
        let word = Rc::new(Atomic::new(0));
        let theirs = word.clone();
        let waiter = spawn(move || {
            theirs.wait_until(Condition::equals(2), Acquire);
        });
        word.store(1, Release);
        waiter.join();
    });
    fails(Reason::Deadlock, "the only thread", || {
        Atomic::new(0).wait_until(Condition::differs(0), Acquire);
    });
}

/// Returns a program in which each of two threads spins until the other has raised its flag.
fn spinning(is_raised_first: bool) -> impl Fn() {
    move || {
        let flags = Rc::new([Atomic::new(0), Atomic::new(0)]);
        let meet = move |flags: &[Atomic; 2], me: usize| {
            if is_raised_first {
                flags[me].store(1, Release);
            }
            while flags[1 - me].load(Acquire) == 0 {
                spin();
            }
            flags[me].store(1, Release);
        };
        let theirs = flags.clone();
        let other = spawn(move || meet(&theirs, 1));
        meet(&flags, 0);
        other.join();
    }
}

#[test]
fn spin_loops_without_end() {
    let report = Search::new().explore(&mut (), spinning(true));
    assert!(matches!(report.verdict, Verdict::Exhausted), "{report:?}");
    fails(Reason::Deadlock, "spin loops without end", spinning(false));
}

#[test]
fn a_loop_that_waits_without_saying_so() {
    fails(Reason::TooLarge, "calls `spin` in each round", || {
        let word = Rc::new(Atomic::new(0));
        let theirs = word.clone();
        let other = spawn(move || while theirs.load(Relaxed) == 0 {});
        other.join();
    });
}

#[test]
fn too_many_threads() {
    fails(Reason::TooLarge, "Use fewer threads", || {
        let threads: Vec<_> = (0..8).map(|_| spawn(|| ())).collect();
        threads.into_iter().for_each(|it| it.join());
    });
    passes(1, || {
        let threads: Vec<_> = (0..7).map(|_| spawn(|| ())).collect();
        threads.into_iter().for_each(|it| it.join());
    });
}

#[test]
fn a_location_that_is_dropped_in_use() {
    let program = |release| {
        move || {
            let word = Rc::new((RefCell::new(Some(Atomic::new(0))), Atomic::new(0)));
            let theirs = word.clone();
            let user = spawn(move || {
                if let Some(it) = &*theirs.0.borrow() {
                    it.store(1, Relaxed);
                }
                theirs.1.store(1, release);
            });
            word.1.wait_until(Condition::equals(1), Acquire);
            let dropped = word.0.borrow_mut().take();
            drop(dropped);
            user.join();
        }
    };
    passes(1, program(Release));
    let failure = failure(Search::new(), program(Relaxed));
    assert_eq!(failure.reason, Reason::Race, "{failure}");
    assert!(
        failure.message.contains("dropped while T1 uses it"),
        "{failure}"
    );
}

#[test]
fn an_exclusive_access_to_a_shared_location() {
    fails(Reason::Race, "exclusive access", || {
        let word = Rc::new(Atomic::new(0));
        let theirs = word.clone();
        let other = spawn(move || theirs.store(1, Release));
        word.exclusive();
        other.join();
    });
}

#[test]
fn a_location_that_another_thread_has_just_created() {
    let program = |publish: spanlock_explorer::Ordering| {
        move || {
            let made = Rc::new((RefCell::new(None), Atomic::new(0)));
            let theirs = made.clone();
            let maker = spawn(move || {
                *theirs.0.borrow_mut() = Some(Atomic::new(7));
                theirs.1.store(1, publish);
            });
            made.1.wait_until(Condition::equals(1), Acquire);
            let value = made.0.borrow().as_ref().map(|it| it.load(Relaxed));
            assert_eq!(value, Some(7));
            maker.join();
        }
    };
    passes(1, program(Release));
    fails(
        Reason::Race,
        "before the creation of the location",
        program(Relaxed),
    );
}

#[test]
fn locations_from_elsewhere() {
    let outside = Rc::new(Atomic::new(0));
    outside.store(3, SeqCst);
    assert_eq!(
        outside.load(SeqCst),
        3,
        "outside an execution, it is a plain value"
    );
    fails(
        Reason::Misuse,
        "created outside the executions",
        move || {
            outside.load(Relaxed);
        },
    );
    let kept: Rc<RefCell<Option<Rc<Atomic>>>> = Rc::default();
    fails(Reason::Misuse, "in an earlier execution", move || {
        let word = Rc::new(Atomic::new(0));
        let mine = kept
            .borrow_mut()
            .get_or_insert_with(|| Rc::new(Atomic::new(0)))
            .clone();
        let theirs = word.clone();
        let other = spawn(move || theirs.store(1, Release));
        word.load(Acquire);
        other.join();
        mine.load(Relaxed);
    });
}

#[test]
fn a_program_that_depends_on_earlier_executions() {
    static IS_SECOND: AtomicBool = AtomicBool::new(false);
    fails(Reason::NotRepeatable, "must depend on nothing", || {
        let word = Rc::new(Atomic::new(0));
        let theirs = word.clone();
        let other = spawn(move || theirs.store(1, Release));
        word.load(Acquire);
        if IS_SECOND.swap(true, Relaxed) {
            fence(SeqCst);
        } else {
            word.load(Acquire);
        }
        other.join();
    });
}

#[test]
fn a_program_that_depends_on_time() {
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    fails(Reason::NotRepeatable, "must depend on nothing", || {
        let word = Rc::new(Atomic::new(0));
        let theirs = word.clone();
        let now = CLOCK.fetch_add(1, Relaxed);
        let other = spawn(move || {
            let _ = theirs.compare_exchange(now, 7, AcqRel, Relaxed);
        });
        word.load(Acquire);
        other.join();
    });
}

#[test]
fn a_panic_names_its_thread_and_draws_the_execution() {
    fails(Reason::Panic, "T1 panicked: the flag is up", || {
        let flag = Rc::new(Atomic::new(0));
        let theirs = flag.clone();
        let other = spawn(move || assert!(theirs.load(Acquire) == 0, "the flag is up"));
        flag.store(1, Release);
        other.join();
    });
    let failure = failure(Search::new(), message(Relaxed));
    let text = draw::text(&failure.graph);
    assert!(text.contains("writes x0 = 0x1, Relaxed"), "{text}");
    assert!(text.contains("reads x0 = 0x1 of T1.0, Acquire"), "{text}");
    let write = text.find("writes x0").unwrap();
    assert!(
        write < text.find("reads x0").unwrap(),
        "a write is drawn before its reads:\n{text}"
    );
    let svg = draw::svg(&failure.graph);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert_eq!(
        svg.matches("stroke=\"green\"").count(),
        1,
        "one read of a write"
    );
}

#[test]
fn a_stated_failure_is_not_caught() {
    fails(Reason::Stated, "the count is wrong", || {
        let caught = std::panic::catch_unwind(|| fail("the count is wrong"));
        unreachable!("{caught:?}");
    });
}

/// A thread that waits for its turn to use a location uses it after another has dropped it.
#[test]
fn a_location_that_is_dropped_before_its_turn() {
    /// Two ends of a channel. The state says which end leaves last, and drops the block.
    struct Channel {
        state: Atomic,
        block: UnsafeCell<ManuallyDrop<Atomic>>,
    }
    impl Channel {
        fn touch(&self) {
            // SAFETY: the memory stays, whether the location is dropped or not.
            unsafe { &*self.block.get() }.load(Relaxed);
        }
        fn free(&self) {
            self.touch();
            // SAFETY: as above.
            unsafe { ManuallyDrop::drop(&mut *self.block.get()) };
        }
    }
    fails(Reason::Race, "after it was dropped", || {
        let channel = Rc::new(Channel {
            state: Atomic::new(0),
            block: UnsafeCell::new(ManuallyDrop::new(Atomic::new(0))),
        });
        let sender = channel.clone();
        let sending = spawn(move || {
            if sender.state.update(Update::new(Op::Xor, 1), AcqRel) == 0 {
                sender.touch();
                sender.state.update(Update::new(Op::Swap, 2), AcqRel);
            }
        });
        let is_left = channel.state.compare_exchange(0, 3, Relaxed, Relaxed);
        // The error: while the sender touches the block, the state is 1, and this swap hides that.
        if is_left.is_err() && channel.state.update(Update::new(Op::Swap, 2), AcqRel) == 1 {
            channel.free();
        }
        sending.join();
    });
}

/// A failed exchange retries with the value that it found, so it ends as soon as the others do.
#[test]
fn a_loop_that_retries_with_another_value_is_no_livelock() {
    let report = Search::new().explore(&mut (), || {
        let word = Rc::new(Atomic::new(0));
        let theirs = word.clone();
        let adder = spawn(move || {
            for _ in 0..2 {
                theirs.update(Update::new(Op::Add, 1), Relaxed);
            }
        });
        let mut seen = 0;
        while let Err(now) = word.compare_exchange(seen, seen + 1, Relaxed, Relaxed) {
            seen = now;
            spin();
        }
        adder.join();
    });
    assert!(matches!(report.verdict, Verdict::Exhausted), "{report:?}");
}

/// A thread that only has to join one that has ended goes on, so its later store is seen.
#[test]
fn a_thread_that_joins_one_that_has_ended_goes_on() {
    for joins in [false, true] {
        let search = Search::new().allow_deadlocks();
        let failure = failure(search, move || {
            let word = || Rc::new(ManuallyDrop::new(Atomic::new(0)));
            let (x, y, z, go) = (word(), word(), word(), word());
            let theirs = (x.clone(), y.clone(), go.clone());
            spawn(move || {
                let (x, y, go) = theirs;
                go.wait_until(Condition::equals(1), Relaxed);
                x.store(1, Relaxed);
                let value = if y.load(Relaxed) == 1 { 2 } else { 4 };
                x.store(value + 1, Relaxed);
                x.store(value, Relaxed);
            });
            let theirs = (y.clone(), z.clone());
            spawn(move || {
                let (y, z) = theirs;
                let ended = spawn(|| ());
                z.store(1, Release);
                if joins {
                    ended.join();
                }
                y.store(1, Relaxed);
            });
            z.wait_until(Condition::equals(1), Relaxed);
            go.store(1, Relaxed);
            if x.wait_until(Condition::masked(1, 0, true), Relaxed) == 2 {
                fail("reads 2");
            }
        });
        assert!(failure.message.contains("reads 2"), "{joins}: {failure}");
    }
}

/// Returns a program in which a thread spins until it sees a flag, but not for ever.
fn gives_up(rounds: u32) -> impl Fn() {
    move || {
        let flag = Rc::new(Atomic::new(0));
        let theirs = flag.clone();
        let other = spawn(move || theirs.store(1, Relaxed));
        let mut sees_it = false;
        for _ in 0..rounds {
            sees_it = flag.load(Relaxed) == 1;
            if sees_it {
                break;
            }
            spin();
        }
        other.join();
        assert!(sees_it, "the flag was not seen");
    }
}

#[test]
fn a_spin_loop_that_gives_up_is_refused_unless_all_its_rounds_are_searched() {
    for rounds in [2, 3, 100] {
        fails(Reason::Misuse, "T0 gives up a spin loop", gives_up(rounds));
    }
    let all = failure(Search::new().rounds(3), gives_up(3));
    assert!(all.message.contains("the flag was not seen"), "{all}");
    let endless = Search::new().explore(&mut (), gives_up(1_000_000));
    assert!(matches!(endless.verdict, Verdict::Exhausted), "{endless:?}");
}

#[test]
fn a_pause_of_several_rounds_is_refused() {
    fails(Reason::Misuse, "T0 gives up a spin loop", || {
        let word = Rc::new(Atomic::new(0));
        let theirs = word.clone();
        let other = spawn(move || theirs.store(1, Relaxed));
        for _ in 0..3 {
            spin();
        }
        word.store(2, Relaxed);
        other.join();
    });
}
