//! The quick rows, run by the command as people run it.

use std::collections::HashSet;
use std::process::Command;

use spanlock_verify::plan::jobs;
use spanlock_verify::row::{Row, Verdict};

#[test]
fn every_quick_row_passes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("rows.json");
    let output = Command::new(env!("CARGO_BIN_EXE_verify"))
        .args(["--quick", "--json"])
        .arg(&json)
        .env_remove("SPANLOCK_SEED")
        .env_remove("SPANLOCK_SCENARIO")
        .output()
        .expect("the command runs");
    let (told, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{told}\n{said}");
    print!("{told}");

    let text = std::fs::read_to_string(&json).expect("the rows are written");
    let rows: Vec<Row> = serde_json::from_str(&text).expect("the rows are JSON");
    assert_eq!(rows.len(), rows[0].run.rows, "a planned row is missing");
    // Some row of each primitive is quick, in both modes of loom.
    let primitives: HashSet<_> = jobs().iter().map(|job| job.program.primitive).collect();
    for primitive in primitives {
        for mode in ["weak", "rmw-load"] {
            let of_it = |row: &&Row| row.primitive == primitive && row.mode == mode;
            assert!(rows.iter().any(|row| of_it(&row)), "{primitive} {mode}");
        }
    }
    for row in &rows {
        let two = row.threads == 2 && row.checker == "loom";
        assert!(row.executions > 0, "{}", row.replay);
        assert!(!two || row.verdict == Verdict::Exhausted, "{}", row.replay);
    }
}
