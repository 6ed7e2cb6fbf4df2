//! The table of invariants in ARCHITECTURE.md says what the sources say: each file's labels.
//!
//! `SPANLOCK_TIDY=write cargo test -p spanlock-testkit --test tidy invariants` writes the table. It
//! keeps the summaries; only new rows need one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::{comment, project, sources};

/// The heading of the table.
const HEAD: &str = "| labels | summary | file |\n|---|---|---|\n";

/// The order of the crates in the table.
const CRATES: &[&str] = &[
    "range-lock",
    "srl",
    "interval-lock",
    "record-lock",
    "sync",
    "pmem",
    "journal-commit",
    "file-core",
    "node-log",
    "benches",
];

/// A label: its prefix, such as `W-I`, and its number.
type Label = (String, u32);

fn label(text: &str) -> Option<Label> {
    let digits = text.find(|c: char| c.is_ascii_digit())?;
    let (prefix, number) = text.split_at(digits);
    let is_prefix = prefix.starts_with(|c: char| c.is_ascii_uppercase())
        && prefix.chars().all(|c| c.is_ascii_uppercase() || c == '-');
    Some((prefix.to_owned(), number.parse().ok()?)).filter(|_| is_prefix)
}

/// Returns the labels of the invariants that a source file states.
fn labels(text: &str) -> Vec<Label> {
    let stated = text.lines().filter_map(|line| {
        let text = comment(line)?.strip_prefix("- **")?;
        label(text.split("**").next()?)
    });
    stated.collect()
}

/// Returns labels as the table shows them: `W-I1…W-I4, X-I1`.
fn shown(labels: &[Label]) -> String {
    let mut labels = labels.to_vec();
    labels.sort();
    let follows = |(a, n): &Label, (b, m): &Label| a == b && n + 1 == *m;
    let run = |run: &[Label]| {
        let name = |(prefix, number): &Label| format!("{prefix}{number}");
        match run {
            [first, .., last] if run.len() > 2 => format!("{}…{}", name(first), name(last)),
            few => few.iter().map(name).collect::<Vec<_>>().join(", "),
        }
    };
    labels
        .chunk_by(follows)
        .map(run)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the labels of each file that states invariants, in the order of the table.
fn stated() -> Vec<(String, Vec<Label>)> {
    let mut stated = Vec::new();
    for name in CRATES {
        let mut files = Vec::new();
        sources(&project().join(name).join("src"), &mut files);
        // A module comes before its children.
        files.sort_by_key(|file| file.with_extension(""));
        let its = files.into_iter().filter_map(|file: PathBuf| {
            let labels = labels(&fs::read_to_string(&file).expect("readable"));
            let name = file.strip_prefix(project()).expect("of the project");
            (!labels.is_empty()).then(|| (name.display().to_string(), labels))
        });
        stated.extend(its);
    }
    assert!(
        stated.len() > 20,
        "only {} files state invariants",
        stated.len()
    );
    stated
}

/// Returns the rows of the table, with the summaries of the old rows of the same file, or of the
/// same first label if the file has moved.
fn rows(stated: &[(String, Vec<Label>)], old: &[Vec<&str>]) -> Vec<String> {
    let row = |(file, labels): &(String, Vec<Label>)| {
        let shown = shown(labels);
        let first = |cell: &str| cell.split(['…', ',']).next().map(str::to_owned);
        let of_file = old.iter().find(|row| row[2] == format!("`{file}`"));
        let moved = old.iter().find(|row| first(row[0]) == first(&shown));
        let summary = of_file.or(moved).map_or("SUMMARY", |row| row[1]);
        format!("| {shown} | {summary} | `{file}` |")
    };
    stated.iter().map(row).collect()
}

/// The table of ARCHITECTURE.md has a row for each file that states invariants, with its labels.
#[test]
fn the_table_has_the_labels_of_the_sources() {
    let path = project().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).expect("readable");
    let (before, rest) = text.split_once(HEAD).expect("a table of invariants");
    let end = rest.find("\n\n").expect("text after the table");
    let (table, after) = rest.split_at(end);
    let old: Vec<Vec<&str>> = table.lines().map(crate::orderings::cells).collect();
    assert!(old.iter().all(|row| row.len() == 3), "{old:#?}");
    let rows = rows(&stated(), &old);
    if std::env::var_os("SPANLOCK_TIDY").is_some_and(|it| it == "write") {
        let text = format!("{before}{HEAD}{}{after}", rows.join("\n"));
        crate::replace(&path, &text);
        return;
    }
    let is_new = |row: &&String| !table.lines().any(|line| line == *row);
    let new: Vec<_> = rows.iter().filter(is_new).map(String::as_str).collect();
    let is_old = |line: &&str| !rows.iter().any(|row| row == line);
    let gone: Vec<_> = table.lines().filter(is_old).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "the table of invariants should have\n{}\ninstead of\n{}\n`SPANLOCK_TIDY=write` writes it",
        new.join("\n"),
        gone.join("\n")
    );
    assert!(!table.contains("| SUMMARY |"), "a row has no summary");
    assert!(
        table.lines().eq(&rows),
        "the rows are not in the order of the files"
    );
}

/// No label is stated twice, and no two prefixes differ by a dash alone, or by `-I`.
#[test]
fn a_label_means_one_thing() {
    let (mut files, mut prefixes) = (BTreeMap::new(), BTreeMap::new());
    for (file, labels) in stated() {
        for (prefix, number) in labels {
            let label = format!("{prefix}{number}");
            if let Some(other) = files.insert(label.clone(), file.clone()) {
                panic!("{label} is stated in {other} and in {file}");
            }
            let bare = prefix
                .strip_suffix("-I")
                .unwrap_or(&prefix)
                .replace('-', "");
            let first = prefixes.entry(bare).or_insert(prefix.clone());
            assert_eq!(
                *first, prefix,
                "{file}: two prefixes that differ by a dash alone"
            );
        }
    }
}

#[test]
fn labels_are_found_and_shown() {
    let text =
        "//! - **A-I2** x\n/// - **A-I1** y\n//! - **A-I3** z\n// - **B1** b\n//! - **no** n";
    let found = labels(text);
    assert_eq!(shown(&found), "A-I1…A-I3, B1");
    assert_eq!(shown(&found[..2]), "A-I1, A-I2");
    let old = [vec!["A-I1, A-I2", "what A is", "`a.rs`"]];
    let stated = [
        ("b.rs".to_owned(), found),
        ("c.rs".to_owned(), vec![("C".to_owned(), 1)]),
    ];
    let expected = [
        "| A-I1…A-I3, B1 | what A is | `b.rs` |",
        "| C1 | SUMMARY | `c.rs` |",
    ];
    assert_eq!(rows(&stated, &old), expected);
}
