//! Tests of the parsers for `models/executions.tsv` and for Spin's output.

use std::fs;

use spanlock_verify::rows::counts::{Counts, path};
use spanlock_verify::rows::verdict::states;

fn read(text: &str) -> Result<Counts, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("models")).expect("can create");
    fs::write(path(folder.path()), text).expect("can write");
    Counts::read(folder.path())
}

#[test]
fn a_line_holds_a_row_its_bound_executions_and_milliseconds() {
    let text = "# head\na/b/loom/weak\t-\t7\t12\na/b/explorer\t0\t9\t-\n";
    let counts = read(text).expect("well-formed");
    let of = |row| {
        let count = counts.of(row);
        count.map(|it| (it.bound, it.executions, it.millis))
    };
    assert_eq!(of("a/b/loom/weak"), Some((None, 7, Some(12))));
    assert_eq!(of("a/b/explorer"), Some((Some(0), 9, None)));
    for wrong in [
        "a\t1",
        "a\t-\tmany\t-",
        "a\t-\t1\t-\t-",
        "a\t-\t1\t-\na\t-\t1\t-",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_spin_search_that_was_cut_off_has_no_result() {
    let end = "State-vector 64 byte, depth reached 9061, errors: 0\n   233919 states, stored (1.01555e+06 visited)\n";
    assert_eq!(states(end), Some(233_919));
    for why in [
        "error: max search depth too small\n",
        "pan: reached -DMEMLIM bound\nWarning: Search not completed\n",
    ] {
        assert_eq!(states(&format!("{why}{end}")), None, "{why}");
    }
}
