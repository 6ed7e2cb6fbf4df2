//! No ordering, no fence and no wake is there in vain: the matrix of `cargo verify mutants`.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_ordering_and_every_wake_is_needed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("mutants.json");
    let output = Command::new(env!("CARGO_BIN_EXE_verify"))
        .args(["mutants", "--json"])
        .arg(&json)
        .output()
        .expect("the command runs");
    let (told, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    print!("{told}");
    assert!(output.status.success(), "{told}\n{said}");

    let text = std::fs::read_to_string(&json).expect("the matrix is written");
    let mutants: Vec<Value> = serde_json::from_str(&text).expect("the matrix is JSON");
    // Of each crate, and of each kind.
    for part in [
        "range-lock/",
        "srl/",
        "interval-lock/",
        "sync/src/rcu.rs",
        "journal-commit/src/jbd2/",
        "journal-commit/src/compact",
    ] {
        assert!(
            mutants
                .iter()
                .any(|it| text_of(it, "site").starts_with(part)),
            "{part}"
        );
    }
    for end in [
        ":load", ":store", ":rmw", ":failure", ":fence", ":wake", ":flush",
    ] {
        assert!(
            mutants.iter().any(|it| text_of(it, "site").ends_with(end)),
            "{end}"
        );
    }
    for mutant in &mutants {
        match text_of(mutant, "verdict") {
            "KILLED" => {
                assert!(mutant["executions"].as_u64() > Some(0), "{mutant}");
                assert!(text_of(mutant, "model").contains("/loom/"), "{mutant}");
            }
            "EQUIVALENT" => assert!(!text_of(mutant, "reason").is_empty(), "{mutant}"),
            _ => panic!("{mutant}"),
        }
    }
}

fn text_of<'a>(mutant: &'a Value, field: &str) -> &'a str {
    mutant[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} of {mutant}"))
}
