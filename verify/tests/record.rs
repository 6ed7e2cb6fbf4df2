//! The record of searches, as `models/executions.tsv` holds it.

use std::fs;

use spanlock_verify::rows::counts::{Counts, path};

fn read(text: &str) -> Result<Counts, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("models")).expect("can create");
    fs::write(path(folder.path()), text).expect("can write");
    Counts::read(folder.path())
}

#[test]
fn a_line_is_a_row_a_bound_executions_and_milliseconds() {
    let text = "# head\na/b/loom/weak\t-\t7\t12\na/b/loom/rmw-load\t3\t9\t-\n";
    let counts = read(text).expect("well-formed");
    let of = |row| {
        let count = counts.of(row);
        count.map(|it| (it.bound, it.executions, it.millis))
    };
    assert_eq!(of("a/b/loom/weak"), Some((None, 7, Some(12))));
    assert_eq!(of("a/b/loom/rmw-load"), Some((Some(3), 9, None)));
    for wrong in [
        "a\t1",
        "a\t-\tmany\t-",
        "a\t-\t1\t-\t-",
        "a\t-\t1\t-\na\t-\t1\t-",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
