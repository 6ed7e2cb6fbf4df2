//! The project's README shows the example that this crate's README runs as a doctest.

use std::path::Path;

fn first_rust_block(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(&path).expect("the README is readable");
    let start = text.find("```rust\n").expect("the README has an example");
    let end = text[start..].find("\n```\n").expect("the example ends");
    text[start..start + end].to_owned()
}

#[test]
fn the_front_page_shows_the_tested_example() {
    assert_eq!(
        first_rust_block("../README.md"),
        first_rust_block("README.md"),
        "the first examples of README.md and spanlock/README.md differ; make them equal"
    );
}
