//! The tables of orderings in the documentation of modules. Each letter has a model that fails if
//! the ordering is weaker, and a litmus test of the kernel's memory model.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::{comment, files, project, sources};

/// An ordering of the sources: its file, its letter and the letter of its partner.
type Ordering = (String, char, char);

/// Returns the letters in a list such as `B, C`, or nothing if it is no such list.
fn letters(list: &str) -> Vec<char> {
    let letter = |item: &str| match item.trim().as_bytes() {
        [letter] if letter.is_ascii_uppercase() => Some(char::from(*letter)),
        _ => None,
    };
    let found: Option<Vec<char>> = list.split(',').map(letter).collect();
    found.unwrap_or_default()
}

/// Returns the cells of a line of a table, without spaces around them.
pub(crate) fn cells(line: &str) -> Vec<&str> {
    let line = line
        .strip_prefix('|')
        .and_then(|line| line.strip_suffix('|'));
    line.map_or(vec![], |line| line.split('|').map(str::trim).collect())
}

/// Finds the orderings that a source file names: `[A→B, C]` in comments, and rows of tables with
/// the columns `letter` and `pairs with`. The file of a row is empty, since a table may be about
/// several files.
fn orderings(name: &str, text: &str, found: &mut Vec<Ordering>) {
    let mut add = |file: &str, from: Vec<char>, to: &[char]| {
        let pairs = from
            .iter()
            .flat_map(|from| to.iter().map(|to| (*from, *to)));
        found.extend(pairs.map(|(from, to)| (file.to_owned(), from, to)));
    };
    let mut partners = None;
    for line in text.lines().filter_map(comment) {
        for pair in line.split('[').skip(1).filter_map(|l| l.split(']').next()) {
            if let Some((from, to)) = pair.split_once('→') {
                add(name, letters(from), &letters(to));
            }
        }
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        match (cells.as_slice(), partners) {
            ([_, "letter", ..], _) => partners = cells.iter().position(|c| *c == "pairs with"),
            ([_, from, ..], Some(column)) if cells.len() > column => {
                add("", letters(from), &letters(cells[column]));
            }
            _ => partners = None,
        }
    }
}

/// A litmus test: its name, and the letters that it is about.
struct Litmus(String, Vec<char>);

/// Returns the litmus tests of the kernel's memory model. Each has a control for each of its
/// letters.
fn litmus_tests() -> Vec<Litmus> {
    let mut found = Vec::new();
    files(&project().join("kernel/litmus"), "litmus", &mut found);
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy();
        let text = fs::read_to_string(&path).expect("readable");
        let about = text.lines().find_map(|line| line.strip_prefix("(* "));
        let about = about.and_then(|line| line.split_once(": "));
        let about = letters(about.unwrap_or_default().0);
        assert!(about.len() > 1, "{name}: no letters in its first comment");
        assert!(text.contains("\n * Result: Never\n"), "{name}: no result");
        for letter in &about {
            let control = format!("\n * Control {letter}: ");
            assert!(text.contains(&control), "{name}: no control of {letter}");
        }
        Litmus(name.into_owned(), about)
    };
    found.into_iter().map(read).collect()
}

/// Each lettered ordering of the locks has a row in the table of `kernel/litmus/README.md`. For
/// each of its partners, the row names a litmus test of both. The table names every litmus test.
#[test]
fn kernel_orderings_have_litmus_tests() {
    let mut orders = Vec::new();
    for folder in ["sync/src", "range-lock/src", "srl/src", "interval-lock/src"] {
        let mut found = Vec::new();
        sources(&project().join(folder), &mut found);
        for file in found {
            let name = file.strip_prefix(project()).expect("of the project");
            // No kernel runs what stands in for a library under a checker.
            if name.starts_with("sync/src/checked") {
                continue;
            }
            let text = fs::read_to_string(&file).expect("readable");
            orderings(&name.to_string_lossy(), &text, &mut orders);
        }
    }
    assert!(orders.len() > 60, "found only {} orderings", orders.len());

    let readme = fs::read_to_string(project().join("kernel/litmus/README.md")).expect("readable");
    let (mut table, mut named) = (Vec::new(), Vec::new());
    for row in readme.lines() {
        let [_, letter, place, .., tests, _] = *row.split('|').collect::<Vec<_>>() else {
            continue;
        };
        for letter in letters(letter) {
            let place = place.split('`').nth(1).unwrap_or_default();
            assert!(
                orders.iter().any(|(f, l, _)| f == place && *l == letter),
                "no ordering {letter} in {place}"
            );
            let tests: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
            named.extend(tests.clone());
            table.push((letter, place, tests));
        }
    }

    let litmus = litmus_tests();
    for (file, letter, partner) in &orders {
        let mut tests = table
            .iter()
            .filter(|(l, place, _)| l == letter && (file.is_empty() || place == file))
            .flat_map(|(_, _, tests)| tests);
        let is_of_both = |name: &&str| {
            litmus.iter().any(|Litmus(n, about)| {
                n == name && about.contains(letter) && about.contains(partner)
            })
        };
        assert!(
            tests.any(is_of_both),
            "{file}: no litmus test of {letter} and {partner} in the table"
        );
    }
    for Litmus(name, _) in &litmus {
        assert!(named.contains(&name.as_str()), "no row names {name}");
    }
    for name in named {
        let is_there = litmus.iter().any(|Litmus(n, _)| n == name);
        assert!(is_there, "no litmus test {name}");
    }
}

/// Returns the names of the programs that have recorded searches, with and without their suites.
fn programs() -> BTreeSet<String> {
    let mut found = Vec::new();
    files(project(), "tsv", &mut found);
    let mut programs = BTreeSet::new();
    for file in found
        .iter()
        .filter(|file| file.ends_with("models/executions.tsv"))
    {
        let text = fs::read_to_string(file).expect("readable");
        for line in text.lines() {
            if let [suite, program, _, ..] = *line.split('/').collect::<Vec<_>>() {
                programs.insert(program.to_owned());
                programs.insert(format!("{suite}/{program}"));
            }
        }
    }
    assert!(
        programs.len() > 500,
        "found only {} programs",
        programs.len()
    );
    programs
}

/// Returns what is wrong with the models in the tables of a source file.
fn without_model(text: &str, programs: &BTreeSet<String>, code: &str) -> Vec<String> {
    let (mut wrong, mut column) = (Vec::new(), None);
    for line in text.lines() {
        let cells = cells(comment(line).unwrap_or_default());
        match (cells.first(), column) {
            (Some(&"letter"), _) => {
                column = cells.iter().position(|cell| cell.contains("model"));
                if column.is_none() {
                    wrong.push("the table of orderings has no column of models".to_owned());
                }
            }
            (Some(letter), Some(column)) if !letters(letter).is_empty() => {
                let cell = cells.get(column).copied().unwrap_or_default();
                let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
                if names.is_empty() {
                    wrong.push(format!("{letter} names no model"));
                }
                let is_there =
                    |name: &str| programs.contains(name) || code.contains(&format!("fn {name}("));
                let missing = names.into_iter().filter(|name| !is_there(name));
                wrong.extend(missing.map(|name| format!("{letter}: there is no model `{name}`")));
            }
            (None, _) => column = None,
            _ => {}
        }
    }
    wrong
}

/// Each table of orderings has a column of models, and each row names at least one: a program with
/// a recorded search, or a test.
#[test]
fn each_ordering_names_a_model() {
    let (mut all, mut wrong, mut tables) = (Vec::new(), Vec::new(), 0);
    sources(project(), &mut all);
    let read = |file: &PathBuf| fs::read_to_string(file).expect("readable");
    let code: String = all.iter().map(read).collect();
    let programs = programs();
    for file in all {
        let name = file.strip_prefix(project()).expect("of the project");
        // No model runs what stands in for a library under a checker, or for std in a kernel.
        let stand_ins = ["sync/src/checked", "sync/src/world/kernel"];
        let stands_in = stand_ins.iter().any(|folder| name.starts_with(folder));
        if stands_in || !name.components().any(|part| part.as_os_str() == "src") {
            continue;
        }
        let text = read(&file);
        tables += usize::from(text.contains("//! | letter |"));
        let missing = without_model(&text, &programs, &code);
        let name = name.display();
        wrong.extend(missing.iter().map(|why| format!("{name}: {why}")));
    }
    assert!(tables > 10, "found only {tables} tables");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_row_without_a_model_is_found() {
    let programs = BTreeSet::from(["ring/full".to_owned()]);
    let table = |rows: &str| {
        let head = "//! | letter | where | pairs with | model |\n//! |---|---|---|---|\n";
        without_model(&format!("{head}{rows}"), &programs, "fn ring_is_full() {}")
    };
    assert!(table("//! | A | x | B | `ring/full`, `ring_is_full` |\n").is_empty());
    assert_eq!(
        table("//! | A, B | x | C | see below |\n"),
        ["A, B names no model"]
    );
    let missing = "A: there is no model `ring/empty`";
    assert_eq!(table("//! | A | x | B | `ring/empty` |\n"), [missing]);
    let none = without_model("//! | letter | where | pairs with |\n", &programs, "");
    assert_eq!(none, ["the table of orderings has no column of models"]);
}
