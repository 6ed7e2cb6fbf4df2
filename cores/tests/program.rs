//! Programs on simulated cores.

use std::process::Command;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use spanlock_cores::atomic::{AtomicU32, AtomicU64, Ordering::*};
use spanlock_cores::{
    Arena, MAX_CORES, Outcome, Program, count, goes_on, interrupt_others, now, set_up, sleep, wake,
    work,
};

#[global_allocator]
static ARENA: Arena = Arena;

/// Lets one test at a time use the arena.
fn alone() -> MutexGuard<'static, ()> {
    static ARENA_IN_USE: Mutex<()> = Mutex::new(());
    ARENA_IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes what cores share.
fn shared<T>(_alone: &MutexGuard<'static, ()>, layout: u64, f: impl FnOnce() -> T) -> Rc<T> {
    // SAFETY: a test drops all memory of the arena before the next one begins, and before it calls
    // this again.
    unsafe { set_up(layout, || Rc::new(f())) }
}

fn program(cores: usize) -> Program {
    Program::new(cores).unwrap()
}

#[repr(align(64))]
struct Line([AtomicU32; 16]);

/// Lets each core increment a word of the line; returns the transfers for each operation, all and
/// those that are false.
fn increments(word: impl Fn(usize) -> usize + 'static) -> (f64, f64) {
    let alone = alone();
    let line = shared(&alone, 0, || Line(Default::default()));
    let outcome = program(2).run(move |core| {
        while goes_on() {
            line.0[word(core)].fetch_add(1, Relaxed);
            work(200);
            count();
        }
    });
    assert_eq!(outcome.counts.rmw, outcome.operations);
    let per = |count: u64| count as f64 / outcome.operations as f64;
    let lines = outcome.lines.iter();
    assert_eq!(
        lines.map(|it| it.transfers).sum::<u64>(),
        outcome.counts.transfers
    );
    let of_no_use = outcome.lines.first().map_or(0, |it| it.false_transfers);
    (per(outcome.counts.transfers), per(of_no_use))
}

#[test]
fn a_word_moves_to_the_core_that_changes_it() {
    let (transfers, of_no_use) = increments(|_| 0);
    assert!((0.8..=1.0).contains(&transfers), "{transfers}");
    assert!(of_no_use < 0.2, "{of_no_use}");
}

#[test]
fn words_of_one_line_move_although_no_core_needs_that() {
    let (transfers, of_no_use) = increments(|core| core);
    assert!(transfers > 0.8, "{transfers}");
    assert_eq!(transfers, of_no_use);
}

fn contended(alone: &MutexGuard<'static, ()>, layout: u64, seed: u64) -> Outcome {
    let words = shared(alone, layout, || [const { AtomicU64::new(0) }; 40]);
    program(40).seed(seed).run(move |core| {
        while goes_on() {
            let seen = words[core].load(Acquire);
            words[seen as usize % 40].fetch_add(core as u64, AcqRel);
            work(50);
            count();
        }
    })
}

#[test]
fn a_run_repeats_exactly_and_depends_on_seed_and_layout() {
    let alone = alone();
    let told = |layout, seed| format!("{:?}", contended(&alone, layout, seed));
    let first = told(0, 1);
    assert_eq!(first, told(0, 1));
    assert_ne!(first, told(0, 2));
    let layouts = (1..20).map(|layout| told(layout, 1));
    assert!(layouts.collect::<Vec<_>>().iter().any(|it| *it != first));
}

#[test]
fn slower_transfers_leave_time_for_fewer_operations() {
    let alone = alone();
    let operations = |percent| {
        let word = shared(&alone, 0, || AtomicU32::new(0));
        let outcome = program(8).transfers(percent).run(move |_| {
            while goes_on() {
                word.fetch_add(1, Relaxed);
                work(200);
                count();
            }
        });
        outcome.operations
    };
    assert!(operations(50) > operations(100) && operations(100) > operations(200));
}

#[test]
fn a_slower_system_wakes_later() {
    let alone = alone();
    let woken = |percent| {
        let shared = shared(&alone, 0, || [AtomicU32::new(0), AtomicU32::new(0)]);
        let (address, kept) = (Rc::as_ptr(&shared).addr(), shared.clone());
        program(2).system(percent).run(move |core| match core {
            0 => {
                sleep(address, None, || shared[0].load(Relaxed) == 0);
                shared[1].store(now() as u32, Relaxed);
            }
            _ => {
                work(20_000);
                shared[0].store(1, Release);
                wake(address, 1);
            }
        });
        kept[1].load(Relaxed)
    };
    assert!(woken(50) < woken(100) && woken(100) < woken(200));
}

#[test]
fn a_core_sleeps_until_it_is_woken_or_its_deadline_has_passed() {
    let alone = alone();
    let word = shared(&alone, 0, || AtomicU32::new(0));
    let address = Rc::as_ptr(&word).addr();
    program(3).run(move |core| match core {
        0 => {
            sleep(address, None, || word.load(Relaxed) == 0);
            assert_eq!(word.load(Acquire), 1);
            // The value is another one, so there is no sleep.
            sleep(address, None, || word.load(Relaxed) == 0);
        }
        1 => {
            work(20_000);
            interrupt_others();
            word.store(1, Release);
            wake(address, 1);
        }
        _ => {
            let other = address + 4;
            sleep(other, Some(50_000), || true);
            assert!((50_000..60_000).contains(&now()), "{}", now());
        }
    });
}

#[test]
#[should_panic = "nobody wakes them"]
fn a_sleep_without_a_wake_is_an_error() {
    let _alone = alone();
    program(2).run(|_| sleep(64, None, || true));
}

#[test]
fn a_program_has_at_most_as_many_cores_as_the_model() {
    for wrong in [0, MAX_CORES + 1] {
        let told = Program::new(wrong).unwrap_err().to_string();
        assert!(told.contains("parameters for 1 to 128"), "{told}");
    }
    let _alone = alone();
    let outcome = program(MAX_CORES).time(0, 5_000).run(|_| {
        while goes_on() {
            work(100);
            count();
        }
    });
    assert!(outcome.operations > MAX_CORES as u64);
}

/// The test runs itself again, and there does what a simulated core must not do.
#[test]
fn the_clock_and_threads_of_the_system_are_refused() {
    const WHAT: &str = "SPANLOCK_CORES_FORBIDDEN";
    match std::env::var(WHAT).as_deref() {
        Ok("clock") => drop(program(1).run(|_| _ = Instant::now())),
        Ok(_) => drop(program(1).run(|_| drop(std::thread::spawn(|| ())))),
        Err(_) => {
            for (what, told) in [
                ("clock", "reads the system's clock"),
                ("thread", "starts a thread"),
            ] {
                let mut again = Command::new(std::env::current_exe().unwrap());
                let name = "the_clock_and_threads_of_the_system_are_refused";
                let output = again
                    .args(["--exact", name, "--nocapture"])
                    .env(WHAT, what)
                    .output();
                let output = output.unwrap();
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(
                    !output.status.success() && said.contains(told),
                    "{what}: {said}"
                );
            }
        }
    }
}
