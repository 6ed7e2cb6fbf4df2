//! Errors planted into the explorer by `mutant!`: the other tests find each one.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use super::program::Program;
use super::random::SMALL;
use super::{MODELS, axioms, explored, litmus, locks, models};
use crate::mutant;

/// The most random programs that are tried for a mutant.
const PROGRAMS: usize = 1_000;

/// The tests that find what random programs find rarely.
const TESTS: [fn(); 6] = [
    locks::a_wait_ends_if_its_thread_does_something_else,
    litmus::message_passing,
    litmus::updates_continue_a_release_sequence,
    litmus::strongly_happens_before_orders_seq_cst,
    litmus::an_update_is_one_operation,
    models::program_order_within_a_location,
];

#[test]
fn every_mutant_is_found() {
    let mut names = BTreeSet::new();
    find_mutants(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut names,
    );
    assert!(names.len() > 1, "the sources name mutants");
    let survivors: Vec<&str> = names.into_iter().filter(|name| !is_found(name)).collect();
    assert!(survivors.is_empty(), "not found: {survivors:?}");
}

/// Collects the names of the mutants in the sources of the explorer.
fn find_mutants(folder: &Path, names: &mut BTreeSet<&'static str>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() && !path.ends_with("tests") {
            find_mutants(&path, names);
        } else if path.is_file() {
            let source = fs::read_to_string(&path).expect("a readable source").leak();
            let named = source.split("mutant!(\"").skip(1);
            names.extend(named.filter_map(|rest| rest.split('"').next()));
        }
    }
}

fn is_found(name: &'static str) -> bool {
    mutant::plant(Some(name));
    let mut random = fastrand::Rng::with_seed(6);
    let is_found = TESTS.into_iter().any(|test| catch_unwind(test).is_err())
        || (0..PROGRAMS).any(|number| {
            let program = Program::random(&mut random, SMALL);
            let model = MODELS[number % MODELS.len()];
            let expected = axioms::executions(&program, model);
            !explored::difference(&program, model, &expected).is_empty()
        });
    mutant::plant(None);
    is_found
}
