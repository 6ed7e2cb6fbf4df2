//! `docs/checkers.md` says what the litmus rows check.

use std::fs;
use std::path::Path;

use spanlock_verify::models::litmus::page;

#[test]
fn the_page_says_what_the_models_say() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let path = project.expect("the project").join("docs/checkers.md");
    let text = page::text();
    if fs::read_to_string(&path).unwrap_or_default() != text {
        fs::write(&path, text).expect("can write");
        panic!(
            "docs/checkers.md was not what the models say; it is now: look at what changed, and commit it"
        );
    }
}
