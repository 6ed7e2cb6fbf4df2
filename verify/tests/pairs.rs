//! Every two operations of a primitive have a model, and the command says so.

use std::collections::{BTreeSet, HashSet};
use std::process::{Command, Output};

use serde_json::Value;
use spanlock_verify::pairs::{
    Operation, REASONS, Reason, Table, operations, problems, tables, tables_of,
};
use spanlock_verify::plan::jobs;
use spanlock_verify::program::programs;

fn verify(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_verify"))
        .args(args)
        .output()
        .expect("the command runs")
}

#[test]
fn no_cell_is_empty_without_a_reason() {
    let tables = tables();
    let problems = problems(&tables);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for reason in REASONS {
        let its = tables
            .iter()
            .find(|table| table.primitive == reason.primitive);
        let cell = its.and_then(|table| table.cell(reason.pair.0, reason.pair.1));
        assert!(cell.is_some(), "a reason for what there is not: {reason:?}");
    }
}

#[test]
fn each_primitive_has_a_table() {
    let tables: BTreeSet<_> = tables().iter().map(|table| table.primitive).collect();
    let programs = programs();
    let modelled = programs.iter().map(|program| program.primitive);
    let modelled: BTreeSet<_> = modelled.filter(|&name| name != "litmus").collect();
    assert_eq!(tables, modelled);
}

/// What is on the way to an operation counts for it only if the table has a row for it.
#[test]
fn what_models_perform_is_what_primitives_do() {
    let all = operations();
    for program in programs() {
        for &operation in program.performs.iter().flatten() {
            let (primitive, property) = (program.primitive, program.property);
            let its = all.iter().find(|(name, _)| *name == primitive);
            let (_, its) = its.expect("a primitive with a table");
            assert!(
                its.contains(&operation),
                "{primitive}/{property}: {operation}"
            );
        }
    }
}

#[test]
fn cells_name_rows_that_are_searched() {
    let jobs = jobs();
    let searched = jobs.iter().filter(|job| job.mode.is_counted());
    let searched: HashSet<String> = searched
        .map(|job| format!("{}/{}", job.program.primitive, job.program.property))
        .collect();
    for cell in tables().iter().flat_map(|table| &table.cells) {
        for model in &cell.models {
            let of_another = searched.contains(model);
            let own = format!("{}/{model}", cell.primitive);
            assert!(of_another || searched.contains(&own), "{own}");
        }
    }
}

/// The tables of the programs that `keep` keeps.
fn tables_without(gone: &str, reasons: &[Reason]) -> Vec<Table> {
    let mut programs = programs();
    programs.retain(|program| program.property != gone);
    tables_of(&operations(), &programs, reasons)
}

#[test]
fn a_cell_that_is_empty_is_told() {
    let (primitive, a, b) = ("rw-counter", Operation::Poll, Operation::Cancel);
    // Nothing else has the two at the same time.
    let gone = "pair-poll-cancel";
    let told = problems(&tables_without(gone, &[]));
    // That lock's, and that of the word, which is all that it has; and those of other locks.
    for name in [primitive, "rw-word", "srl-tree"] {
        let start = format!("EMPTY CELL: {name}: {a} × {b}:");
        let line = told.iter().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("{told:?}"));
        assert!(
            line.contains("REASONS") && line.contains("smallest"),
            "{line}"
        );
    }
    let why = "this is a test";
    let pair = (b, a);
    let reasons: Vec<Reason> = (operations().iter())
        .map(|&(primitive, _)| Reason {
            primitive,
            pair,
            why,
        })
        .collect();
    let with = |more: &[Reason]| [REASONS, more].concat();
    assert_eq!(problems(&tables_without(gone, &with(&reasons))), [""; 0]);

    let told = problems(&tables_without("", &with(&reasons[..1])));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("REASON WITHOUT NEED"), "{told:?}");
}

/// Four threads, or one thread, show no pair.
#[test]
fn who_is_not_searched_or_alone_does_not_count() {
    let mut programs = programs();
    for program in &mut programs {
        if program.threads == 2 {
            program.threads = 4;
        } else {
            program.performs.truncate(1);
        }
    }
    let tables = tables_of(&operations(), &programs, &[]);
    let mut cells = tables.iter().flat_map(|table| &table.cells);
    assert!(cells.all(|cell| cell.models.is_empty()));
}

#[test]
fn the_command_shows_the_tables() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("pairs.json");
    let json = json.to_str().expect("text");
    let output = verify(&["pairs", "--json", json, "--filter", "srl-tree"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("acquire-exclusive × reclaim: "), "{told}");
    assert!(told.contains(" 0 are EMPTY"), "{told}");

    let text = std::fs::read_to_string(json).expect("the cells are written");
    let cells: Vec<Value> = serde_json::from_str(&text).expect("the cells are JSON");
    assert!(cells.len() > 100, "{}", cells.len());
    for cell in &cells {
        assert_eq!(cell["primitive"], "srl-tree");
        assert!(
            cell["models"]
                .as_array()
                .is_some_and(|models| !models.is_empty()),
            "{cell}"
        );
    }

    let output = verify(&["pairs", "--filter", "no-such-lock"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no-such-lock") && said.contains("srl-tree"),
        "{said}"
    );
}
