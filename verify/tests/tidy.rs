//! What the house forbids, looked for in its sources.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    files(folder, "rs", found);
}

/// All files of a kind, but for hidden ones and what was built.
fn files(folder: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of this project") {
        let entry = entry.expect("readable");
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
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

/// Each document of the project, with its path.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(project(), "md", &mut found);
    assert!(found.len() > 10, "where have the documents gone?");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("readable");
        (path, text)
    };
    found.into_iter().map(read).collect()
}

/// Links to files of the project lead to one, and those to a heading to one that is there.
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
            assert!(target.exists(), "{}: {link}", path.display());
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
                "{}: {link}",
                path.display()
            );
        }
    }
}

/// What a document names as the test of something is there: every name of three underscores or more.
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
                assert!(code.contains(name), "{}: {name}", path.display());
            }
        }
    }
}

/// So are the files of code that it names, by the end of their path.
#[test]
fn files_that_documents_name_exist() {
    let mut found = Vec::new();
    sources(project(), &mut found);
    for (path, text) in documents() {
        let names = text.split('`').skip(1).step_by(2);
        for name in names.filter(|name| name.ends_with(".rs") && !name.contains(' ')) {
            let there = found.iter().any(|file| file.ends_with(name));
            assert!(there, "{}: {name}", path.display());
        }
    }
}

/// Locks are the same source under std and under the checkers, because they know only the door.
#[test]
fn locks_know_only_the_door() {
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
    ];
    let root = project();
    let mut files = Vec::new();
    for folder in [
        "range-lock/src",
        "srl/src",
        "interval-lock/src",
        "journal-commit/src/jbd2",
    ] {
        sources(&root.join(folder), &mut files);
    }
    sources(&root.join("journal-commit/src/compact"), &mut files);
    assert!(files.len() > 8, "where have the locks gone?");
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        if file.ends_with("tests.rs") {
            continue;
        }
        // Tests come last in a file, and are std's.
        let shipped = text
            .lines()
            .take_while(|line| !line.starts_with("#[cfg(all(test"));
        for (line, code) in shipped.enumerate() {
            let code = code.split("//").next().unwrap_or_default();
            for word in FORBIDDEN {
                assert!(
                    !code.contains(word),
                    "{}:{}: {word}",
                    file.display(),
                    line + 1
                );
            }
        }
    }
}
