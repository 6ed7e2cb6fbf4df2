//! Mechanical rules of the project, checked over its sources and documents.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    files(folder, "rs", found);
}

/// Finds all files with the extension `kind`, except in hidden folders and build outputs.
fn files(folder: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of this project") {
        let entry = entry.expect("readable");
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            // `kernel/out` has what `kernel/` builds and downloads.
            let is_output = name == "target" || path.ends_with("kernel/out");
            if !is_output && !name.to_string_lossy().starts_with('.') {
                files(&path, kind, found);
            }
        } else if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
}

fn project() -> &'static Path {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    project.expect("the project")
}

/// Returns each document of the project, with its path.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(project(), "md", &mut found);
    assert!(found.len() > 10, "found only {} documents", found.len());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("readable");
        (path, text)
    };
    found.into_iter().map(read).collect()
}

/// Every link from a document to a file of the project leads to an existing file. If the link names
/// a heading, that heading exists.
#[test]
fn links_lead_somewhere() {
    for (path, text) in documents() {
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().expect("in a folder").join(file),
            };
            assert!(target.exists(), "{}: no file: {link}", path.display());
            if heading.is_empty() {
                continue;
            }
            let text = fs::read_to_string(&target).expect("readable");
            let headings = text.lines().filter_map(|line| line.strip_prefix("## "));
            let mut headings = headings.chain(text.lines().filter_map(|l| l.strip_prefix("### ")));
            let slug = |heading: &str| {
                heading
                    .to_lowercase()
                    .replace(' ', "-")
                    .replace([',', '\'', ':', '`'], "")
            };
            assert!(
                headings.any(|h| slug(h) == heading),
                "{}: no heading: {link}",
                path.display()
            );
        }
    }
}

/// Every test that a document names exists. Names with three or more underscores count as tests.
#[test]
fn tests_that_documents_name_exist() {
    let mut found = Vec::new();
    sources(project(), &mut found);
    let read = |path: &PathBuf| fs::read_to_string(path).expect("readable");
    let code = found.iter().map(read).collect::<String>();
    for (path, text) in documents() {
        for name in text.split('`').skip(1).step_by(2) {
            let is_name = name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if is_name && name.matches('_').count() >= 3 {
                assert!(code.contains(name), "{}: no test {name}", path.display());
            }
        }
    }
}

/// Every source file that a document names exists. Documents may give only the end of its path.
#[test]
fn files_that_documents_name_exist() {
    let mut found = Vec::new();
    sources(project(), &mut found);
    for (path, text) in documents() {
        let names = text.split('`').skip(1).step_by(2);
        for name in names.filter(|name| name.ends_with(".rs") && !name.contains(' ')) {
            let there = found.iter().any(|file| file.ends_with(name));
            assert!(there, "{}: no file {name}", path.display());
        }
    }
}

/// Returns whether a crate has models. Such a crate takes atomics, threads and mutexes only from
/// `spanlock_sync`, the facade over std and the checkers.
fn has_models(folder: &Path) -> bool {
    folder.join("models/main.rs").is_file()
}

/// Model-checked code uses only the facade, so the same source runs under std and under the
/// checkers.
#[test]
fn modelled_code_knows_only_the_facade() {
    const FORBIDDEN: &[&str] = &[
        "core::sync::atomic",
        "std::sync::atomic",
        "std::sync::Mutex",
        "std::sync::RwLock",
        "std::thread",
        "loom::",
        "shuttle::",
        "spanlock_loom",
        "spanlock_shuttle",
        "crossbeam_epoch",
    ];
    let mut wrong = Vec::new();
    let mut crates = 0;
    for entry in fs::read_dir(project()).expect("the project") {
        let folder = entry.expect("readable").path();
        // Only the facade and the harness know the checkers.
        let knows_checkers = folder.ends_with("sync") || folder.ends_with("verify");
        if knows_checkers || !has_models(&folder) {
            continue;
        }
        crates += 1;
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        for file in files.iter().filter(|file| !is_exempt(file)) {
            let text = fs::read_to_string(file).expect("readable");
            // Tests come last in a file, and may use std.
            let shipped = text.lines().take_while(|line| {
                !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test")
            });
            for (number, code) in (1..).zip(shipped) {
                let code = code.split("//").next().unwrap_or_default();
                for word in FORBIDDEN.iter().filter(|word| code.contains(*word)) {
                    wrong.push(format!("{}:{number}: {word}", file.display()));
                }
            }
        }
    }
    assert!(crates >= 4, "found only {crates} crates with models");
    assert!(
        wrong.is_empty(),
        "not through the facade:\n{}",
        wrong.join("\n")
    );
}

/// Returns whether a file has only tests, or says that no checker explores it.
fn is_exempt(file: &Path) -> bool {
    let text = fs::read_to_string(file).expect("readable");
    file.ends_with("tests.rs") || text.contains("//! Not reached by models:")
}

/// Returns the text of a line's comment, without its `//`, `///` or `//!`.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    let text = text.strip_prefix(['/', '!']).unwrap_or(text);
    Some(text.trim())
}

/// Returns each comment line of the project's Rust sources, with its place.
fn comments() -> Vec<(String, String)> {
    let mut files = Vec::new();
    sources(project(), &mut files);
    let mut comments = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        for (number, line) in (1..).zip(text.lines()) {
            if comment(line).is_some() {
                comments.push((format!("{}:{number}", file.display()), line.to_owned()));
            }
        }
    }
    comments
}

/// Comment lines end by column 100.
#[test]
fn comment_lines_end_by_column_100() {
    // An address cannot be wrapped.
    let is_long = |line: &str| line.chars().count() > 100 && !line.contains("://");
    let wrong = comments().into_iter().filter(|(_, line)| is_long(line));
    let wrong: Vec<_> = wrong.map(|(place, _)| place).collect();
    assert!(wrong.is_empty(), "past column 100:\n{}", wrong.join("\n"));
}

/// Sentences name their subject, and comments use the field's terms.
#[test]
fn comments_use_plain_words() {
    const OPENINGS: &[&str] = &["Who ", "Whom ", "Whose ", "Whoever ", "Nobody "];
    const TERMS: &[(&str, &str)] = &[
        ("the door", "the facade"),
        ("the powers", "the capabilities"),
        ("a power that", "a capability that"),
        ("twin", "Promela model"),
        ("gives back", "releases"),
        ("give back", "release"),
        ("given back", "released"),
        ("seeded defect", "injected bug"),
    ];
    let mut wrong = Vec::new();
    for (place, line) in comments() {
        let text = comment(&line).unwrap_or_default();
        if let Some(opening) = OPENINGS.iter().find(|opening| text.starts_with(*opening)) {
            wrong.push(format!("{place}: begins with `{}`", opening.trim()));
        }
        for (term, instead) in TERMS.iter().filter(|(term, _)| text.contains(term)) {
            wrong.push(format!("{place}: `{term}`: write `{instead}`"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A source file has at most 600 lines. Files outside of `src`, such as tests, may be longer.
#[test]
fn sources_are_short() {
    let mut files = Vec::new();
    sources(project(), &mut files);
    let is_source = |file: &&PathBuf| file.components().any(|part| part.as_os_str() == "src");
    let lines = |file: &PathBuf| fs::read_to_string(file).expect("readable").lines().count();
    let long = files
        .iter()
        .filter(is_source)
        .filter(|file| lines(file) > 600);
    let long: Vec<_> = long.map(|file| file.display().to_string()).collect();
    assert!(long.is_empty(), "over 600 lines:\n{}", long.join("\n"));
}

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
