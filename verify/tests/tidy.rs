//! What the house forbids, looked for in its sources.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of this project") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the project");
    let mut files = Vec::new();
    for lock in ["range-lock", "srl", "interval-lock"] {
        sources(&root.join(lock).join("src"), &mut files);
    }
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
