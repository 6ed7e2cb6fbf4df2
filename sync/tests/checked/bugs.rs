//! A bug is injected if the configuration names it; a use of freed memory is detected.

use crate::model::Model;
use spanlock_sync::atomic::{AtomicU32, Ordering::*, free_slice, zeroed_slice};
use spanlock_sync::injected_bug;

fn no_recheck() {
    let is_injected = injected_bug!(
        "no-recheck",
        "the model fails",
        killed_by = "wakeup, a/poll"
    );
    assert!(!is_injected, "it is injected");
}

#[test]
fn a_bug_is_injected_when_the_configuration_names_it() {
    let test = "bugs::a_bug_is_injected_when_the_configuration_names_it";
    let model = Model::new(test, file!(), no_recheck);
    assert_eq!(model.must_pass("").bug_fired, 0);
    let failed = model.must_fail("bug:no-recheck");
    assert!(failed.text.contains("it is injected"), "{}", failed.text);
    // A bug of another name is not injected here, as the count shows.
    assert_eq!(model.must_pass("bug:no-aging").bug_fired, 0);
}

#[test]
fn a_site_that_is_reached_is_listed_once() {
    let body = || {
        for _ in 0..2 {
            no_recheck();
        }
    };
    let model = Model::new("bugs::a_site_that_is_reached_is_listed_once", file!(), body);
    let [bug] = &model.must_pass("").bugs[..] else {
        panic!("one site is reached");
    };
    let line = bug.strip_prefix(concat!(file!(), ":"));
    let (line, bug) = line.and_then(|it| it.split_once(' ')).expect("a line");
    assert!(line.parse::<u32>().is_ok_and(|line| line > 0), "{line}");
    assert_eq!(bug, "no-recheck (wakeup, a/poll): the model fails");
}

fn freed() {
    let words = zeroed_slice::<AtomicU32>(2).expect("there is memory");
    let second = &raw const words[1];
    words[1].store(7, Relaxed);
    let early = injected_bug!(
        "node-freed-too-early",
        "the memory is used after it was freed",
        killed_by = "freed"
    );
    free_slice(words);
    if early {
        // SAFETY: none as shipped. A checker keeps freed memory until the next execution begins.
        unsafe { &*second }.store(8, Relaxed);
    }
    // The freed memory is not reused.
    let others = zeroed_slice::<AtomicU32>(2).expect("there is memory");
    assert_eq!(others[1].load(Relaxed), 0);
}

#[test]
fn a_use_of_freed_memory_is_detected() {
    let model = Model::new("bugs::a_use_of_freed_memory_is_detected", file!(), freed);
    model.must_pass("");
    let text = model.must_fail("bug:node-freed-too-early").text;
    let message = if cfg!(spanlock_explorer) {
        "after it was dropped"
    } else {
        "an atomic is used after its memory was freed"
    };
    assert!(text.contains(message), "{text}");
    // The failure names the file of the use.
    assert!(text.contains(file!()), "{text}");
}
