//! What users do wrong: the message names the line, and what to change.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

/// Returns the message with which `f` panics.
fn message(f: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(f).expect_err("it panics");
    payload.downcast_ref::<String>().expect("a message").clone()
}

fn assert_says(message: &str, parts: &[&str]) {
    for part in parts.iter().chain(&["bad_input.rs"]) {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
}

#[test]
#[allow(clippy::redundant_closure)] // A function that is passed has no line.
fn an_object_outside_a_model() {
    let outside = ["outside a model", "closure that `loom::model` runs"];
    assert_says(&message(|| _ = AtomicUsize::new(0)), &outside);
    assert_says(&message(|| drop(Arc::new(0))), &outside);
    assert_says(&message(|| _ = loom::sync::Mutex::new(0)), &outside);
    assert_says(&message(|| drop(thread::spawn(|| ()))), &outside);
    assert_says(&message(|| thread::yield_now()), &outside);
}

#[test]
fn an_object_of_an_earlier_execution() {
    static OLD: std::sync::OnceLock<AtomicUsize> = std::sync::OnceLock::new();
    let run = || {
        loom::model(|| {
            let old = OLD.get_or_init(|| AtomicUsize::new(0));
            let other = thread::spawn(|| ());
            old.store(1, Relaxed);
            other.join().unwrap();
        });
    };
    run();
    assert_says(
        &message(run),
        &["earlier execution", "Create it in the program"],
    );
}

#[test]
fn atomics_of_std_decide() {
    static TURN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let message = message(|| {
        loom::model(|| {
            let value = Arc::new(AtomicUsize::new(0));
            let its = value.clone();
            let other = thread::spawn(move || its.store(1, Release));
            if TURN.fetch_add(1, Relaxed) % 2 == 0 {
                value.store(2, Relaxed);
            } else {
                value.load(Acquire);
            }
            other.join().unwrap();
        });
    });
    assert_says(&message, &["atomics and locks of std"]);
}

#[test]
fn a_loop_that_waits_for_an_atomic_of_std() {
    static FLAG: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    if std::env::var_os("HANGS").is_none() {
        let this = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(this);
        command.args(["--exact", "a_loop_that_waits_for_an_atomic_of_std"]);
        command
            .env("HANGS", "1")
            .stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = std::io::BufReader::new(child.stderr.take().unwrap());
        let line = std::io::BufRead::lines(errors).map_while(Result::ok);
        let line = { line }.find(|line| line.contains("stands still"));
        child.kill().unwrap();
        child.wait().unwrap();
        let line = line.expect("the child says so");
        return assert_says(&line, &["an atomic or a lock of std", "those of loom"]);
    }
    loom::model(|| {
        let value = Arc::new(AtomicUsize::new(0));
        let its = value.clone();
        let other = thread::spawn(move || {
            its.store(1, Release);
            FLAG.store(true, Relaxed);
        });
        value.load(Acquire);
        while !FLAG.load(Relaxed) {
            std::hint::spin_loop();
        }
        other.join().unwrap();
    });
}

#[test]
fn a_spin_loop_without_yield() {
    let message = message(|| {
        loom::model(|| {
            let value = Arc::new(AtomicUsize::new(0));
            let its = value.clone();
            let other = thread::spawn(move || its.store(1, Release));
            while value.load(Acquire) == 0 {}
            other.join().unwrap();
        });
    });
    assert_says(
        &message,
        &["more than 4000 operations", "loom::thread::yield_now"],
    );
}

#[test]
fn a_model_within_a_model() {
    let message = message(|| loom::model(|| loom::model(|| ())));
    assert!(message.contains("within a model"), "{message}");
}

#[test]
fn more_threads_than_allowed() {
    let message = message(|| {
        let mut builder = loom::model::Builder::new();
        builder.max_threads = 2;
        builder.check(|| {
            thread::spawn(|| ());
            thread::spawn(|| ());
        });
    });
    assert_says(&message, &["More than 2 threads", "max_threads"]);
}
