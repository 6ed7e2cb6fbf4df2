//! Mechanical rules of the project, checked over its sources and documents.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/invariants.rs"]
mod invariants;
#[path = "tidy/orderings.rs"]
mod orderings;
#[path = "tidy/totals.rs"]
mod totals;

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

/// Replaces a document. The tests that run beside this one read the old text or the new one, never
/// a part of it.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("can write");
    fs::rename(&new, path).expect("can rename");
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

/// Every file in a crate's `tests/` is built: where cargo does not look for programs, each one is
/// listed in the manifest, or is a module of one that is.
#[test]
fn every_test_file_is_built() {
    let mut manifests = Vec::new();
    files(project(), "toml", &mut manifests);
    let mut tests = 0;
    for path in manifests {
        let manifest = fs::read_to_string(&path).expect("readable");
        let folder = path.with_file_name("tests");
        if !manifest.contains("autotests = false") {
            continue;
        }
        let mut found = Vec::new();
        sources(&folder, &mut found);
        let read = |path: &PathBuf| fs::read_to_string(path).expect("readable");
        let code = found.iter().map(read).collect::<String>();
        for file in found.iter().filter(|file| file.parent() == Some(&folder)) {
            let name = file.file_stem().expect("a name").to_string_lossy();
            let is_module = code.contains(&format!("mod {name};"));
            let is_program = manifest.contains(&format!("[[test]]\nname = \"{name}\"\n"));
            assert!(is_module || is_program, "{}: not built", file.display());
            tests += 1;
        }
    }
    assert!(tests > 20, "found only {tests} files");
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
        "spanlock_explorer",
        "loom::",
        "shuttle::",
        "spanlock_loom",
        "spanlock_shuttle",
        "spanlock_simulated",
        "spanlock_cores",
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

/// Returns whether a file has only tests, or says that no checker explores it, or why it does not
/// use the facade.
fn is_exempt(file: &Path) -> bool {
    let text = fs::read_to_string(file).expect("readable");
    let says = |why: &str| text.contains(why);
    let is_said = says("//! Not reached by models:") || says("//! Not through the facade:");
    file.ends_with("tests.rs") || is_said
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
