//! Documents with blocks, rendered from small result files.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A project with one result file for each comparison.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let project = Project(tempfile::tempdir().unwrap());
        fs::create_dir_all(project.dir()).unwrap();
        for (name, rows) in [
            ("micro", micro()),
            ("compare", compare()),
            ("contention", contention()),
            ("journal", journal()),
            ("file-core", file_core()),
            ("recovery", recovery()),
            ("objects", objects()),
            ("node-log", node_log()),
            ("failures", failures()),
        ] {
            project.write_results(name, &result(name, &rows));
        }
        project
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("docs/figures")
    }

    fn write_results(&self, name: &str, content: &Value) {
        let path = self.dir().join(format!("{name}.json"));
        fs::write(path, content.to_string()).unwrap();
    }

    /// Changes one field of a result file.
    fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        let path = self.dir().join(format!("{name}.json"));
        let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        change(&mut value);
        self.write_results(name, &value);
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    fn run(&self, check: bool) -> Result<Summary> {
        run(self.0.path(), &self.dir(), check)
    }

    /// Renders a document with only this block, and returns what is between the markers.
    fn rendered(&self, block: &str) -> Result<String> {
        self.write("README.md", &empty(block));
        self.run(false)?;
        let text = self.text("README.md");
        let body = text.split("-->").nth(1).unwrap();
        Ok(body.split("<!--").next().unwrap().trim().to_owned())
    }

    /// Returns the lines of the block's table.
    fn table(&self, block: &str) -> Vec<String> {
        let body = self.rendered(block).unwrap();
        let lines = body.lines().take_while(|it| !it.is_empty());
        lines.map(str::to_owned).collect()
    }

    fn error(&self, block: &str) -> String {
        self.rendered(block).unwrap_err().to_string()
    }
}

fn empty(block: &str) -> String {
    format!("<!-- figures: {block} -->\n<!-- /figures -->\n")
}

fn result(name: &str, rows: &Value) -> Value {
    json!({
        "format": 1, "name": name, "command": format!("cargo compare {name}"),
        "machine": { "processor": "P", "cores": 2, "memory_gib": 24, "kernel": "Linux 6" },
        "date": "2026-11-28 06:16 UTC", "commit": null, "optimised": true, "disturbed": 0.012,
        "media": ["temporary, in /dev/shm (tmpfs); flushed"], "rows": rows,
    })
}

fn micro() -> Value {
    let row = |case: &str, lock: &str, ns: f64, ratio: f64| json!({ "case": case, "lock": lock, "ns": ns, "ratio": ratio, "targets": [] });
    let mut rows = vec![
        row("write/1-segment", "srl-array", 4.0, 0.8),
        row("write/1-segment", "parking_lot", 5.0, 1.0),
        row("write/256-segments", "srl-array", 750.0, 150.0),
        row("write/256-segments", "parking_lot", 5.0, 1.0),
        row("contended/2-threads", "srl-array", 250.0, 1.25),
        row("contended/2-threads", "parking_lot", 200.0, 1.0),
    ];
    rows[0]["targets"] = json!([{
        "figure": "ns, times parking_lot", "bound": "at-most", "asked": 0.6,
        "measured": 0.8, "met": false,
    }]);
    Value::Array(rows)
}

fn compare() -> Value {
    let row = |lock: &str, threads: usize, ops: f64, ratio: f64, measured: f64| {
        let targets = match lock {
            "srl-array" if threads == 2 => {
                json!([{ "figure": "ratio", "bound": "at-least", "asked": 1.9, "measured": measured, "met": measured >= 1.9 }])
            }
            _ => json!([]),
        };
        json!({
            "workload": "dwom", "lock": lock, "threads": threads, "ops_per_s": ops,
            "ours": lock != "std", "baseline": "std", "ratio": ratio, "targets": targets,
        })
    };
    json!([
        row("srl-array", 1, 90_000.0, 0.9, 0.0),
        row("std", 1, 100_000.0, 1.0, 0.0),
        row("srl-array", 2, 160_000.0, 2.0, 2.0),
        row("std", 2, 80_000.0, 1.0, 0.0),
    ])
}

fn contention() -> Value {
    let row = |lock: &str, section: f64, ops: f64, ratio: f64| {
        json!({
            "name": format!("section-{section}"), "section_ns": section, "overlap": 100, "reads": 0,
            "threads": 2, "lock": lock, "ours": lock != "std", "ops_per_s": ops, "baseline": "std",
            "ratio": ratio,
        })
    };
    json!([
        row("srl-array", 300.0, 500_000.0, 0.5),
        row("std", 300.0, 1e6, 1.0),
        row("srl-array", 3000.0, 100_000.0, 1.0),
        row("std", 3000.0, 100_000.0, 1.0),
    ])
}

fn journal() -> Value {
    let row = |contestant: &str, version: Option<&str>, threads: usize, commits: f64| {
        json!({
            "workload": "commit", "contestant": contestant, "version": version, "device": "modelled-1ms",
            "threads": threads, "think": 0.0, "blocks": 1, "commits_per_s": commits,
            "commits_per_flush": 7.25, "targets": [],
        })
    };
    let mut rows = vec![
        row("compact-rendezvous", None, 8, 6000.0),
        row("okaywal", Some("okaywal 0.3.1"), 1, 800.0),
        row("okaywal", Some("okaywal 0.3.1"), 8, 1000.0),
        row("wal-db", Some("wal-db 1.1.0"), 8, 3000.0),
    ];
    rows[2]["targets"] = json!([{
        "figure": "commits/s, times serial", "bound": "at-least", "asked": 1.3, "measured": 1.29, "met": false,
    }]);
    rows[0]["targets"] = json!([{
        "figure": "p50 in flushes", "bound": "at-most", "asked": 1.4, "measured": 1.1, "met": true,
    }]);
    Value::Array(rows)
}

fn file_core() -> Value {
    let row = |case: &str, lock: &str, threads: usize, ops: f64, to_limit: Option<f64>| {
        json!({
            "case": case, "lock": lock, "threads": threads, "ops_per_s": ops, "to_limit": to_limit,
            "flushes": 2, "fences": 2, "most_flushes": 4, "most_fences": 5, "targets": [],
        })
    };
    let mut rows = vec![
        row("overwrite-4k", "srl-tree", 1, 1.7e6, Some(0.75)),
        row("overwrite-4k", "limit", 1, 2.2e6, Some(1.0)),
        row("append", "srl-tree", 1, 800_000.0, None),
    ];
    for (nth, measured) in [0.7, 0.75, 0.8, 0.9].into_iter().enumerate() {
        let lock = format!("lock-{nth}");
        let mut row = row("overwrite-64k", &lock, 1, 1e5, Some(measured));
        row["targets"] = json!([
            { "figure": "to_limit", "bound": "at-least", "asked": 0.8, "measured": measured, "met": measured >= 0.8 },
            { "figure": "max_ns", "bound": "at-most", "asked": 1e6, "measured": null, "met": null },
        ]);
        rows.push(row);
    }
    Value::Array(rows)
}

fn recovery() -> Value {
    json!([{
        "case": "files", "files": 1_000_000, "threads": 2, "seconds": 1.92, "files_per_s": 520_833.3,
        "to_one_thread": 1.64, "peak_bytes": 175_000_000, "peak_bytes_per_file": 175.0, "targets": [],
    }])
}

fn objects() -> Value {
    let row = |case: &str, layout: &str, mode: Option<&str>, threads: usize, per_s: f64| {
        json!({
            "case": case, "layout": layout, "mode": mode, "device": "disk", "threads": threads,
            "per_s": per_s, "mib_per_s": null, "ratio": 12.5, "to_raw": null, "targets": [],
        })
    };
    let mut rows = vec![
        row("create/batch-64", "packed", Some("direct"), 1, 120_000.0),
        row("create/batch-64", "packed", Some("direct"), 8, 250_000.0),
        row("create/files", "files", None, 1, 9_000.0),
        row("write/random/64k", "packed", Some("direct"), 1, 16_000.0),
        row("write/random/1m", "packed", Some("direct"), 1, 1_000.0),
    ];
    for (row, to_raw) in rows[3..].iter_mut().zip([0.9, 0.98]) {
        (row["ratio"], row["to_raw"]) = (Value::Null, json!(to_raw));
        row["mib_per_s"] = json!(1000);
        row["targets"] = json!([{
            "figure": "to_raw", "bound": "at-least", "asked": 0.977, "measured": to_raw, "met": to_raw >= 0.977,
        }]);
    }
    Value::Array(rows)
}

fn node_log() -> Value {
    let times = json!({ "per_s": 1.0, "mean_ns": 1500.0, "p99_ns": 2500, "max_ns": 3_000_000 });
    let row = |system: &str, threads: usize, per_s: f64| {
        json!({
            "case": "dwsl", "system": system, "device": "disk", "threads": threads, "per_s": per_s,
            "ratio": per_s / 1000.0, "write": times, "read": null, "fsync": times, "checkpoint": null,
            "stall_ns": 4000, "bytes_per_fsync": 4096.0, "targets": [],
        })
    };
    let mut rows = [
        row("baseline", 1, 1000.0),
        row("nl", 1, 9000.0),
        row("nl", 8, 12_000.0),
    ];
    for (row, measured) in rows[1..].iter_mut().zip([9.0, 12.0]) {
        row["targets"] = json!([{
            "figure": "ratio", "bound": "at-least", "asked": 10.0, "measured": measured, "met": measured >= 10.0,
        }]);
    }
    json!(rows)
}

fn failures() -> Value {
    json!([{
        "contestant": "compact", "version": "0.1.0", "runs": 30, "failed": 29, "told": 28,
        "false_acknowledgements": 3, "false_runs": 2, "foreign": 1, "hangs": 4, "panics": 5,
        "cannot_reopen": 6, "unclean": [],
    }])
}

const ORIGIN: &str = "Measured by `cargo compare micro` on 2026-11-28. P, 2 cores, 24 GiB of memory, Linux 6. Files: temporary, in /dev/shm (tmpfs). Other programs took at most 1 % of the processor time.";

#[test]
fn blocks_are_rewritten_and_the_text_around_them_is_kept() {
    let project = Project::new();
    let value = "value of=micro figure=ns case=write/1-segment lock=srl-array";
    let around = |table: &str, ns: &str| {
        format!(
            "# Title\n\n<!-- figures: micro cases=write/1-segment locks=parking_lot,srl-array -->{table}<!-- /figures -->\n\nIt takes <!-- figures: {value} -->{ns}<!-- /figures -->."
        )
    };
    project.write("a/README.md", &around("old", "7 ns"));
    project.write("docs/none.md", "`<!-- figures: x -->`\n");
    let summary = |rewritten| Summary {
        documents: 1,
        blocks: 2,
        rewritten,
    };
    assert_eq!(project.run(false).unwrap(), summary(2));
    let table = format!(
        "\n\n| case | `parking_lot` | `srl-array` |\n|---|---|---|\n| `write/1-segment` | 5.0 ns (1.00) | 4.0 ns (0.80) |\n\n{ORIGIN}\n\n"
    );
    assert_eq!(project.text("a/README.md"), around(&table, "4.0 ns"));
    assert_eq!(project.run(true).unwrap(), summary(0));
    assert_eq!(project.run(false).unwrap(), summary(0));
}

#[test]
fn a_figure_that_was_copied_by_hand_is_an_error() {
    let project = Project::new();
    project.write("docs/figures.md", &format!("\n{}", empty("recovery")));
    project.run(false).unwrap();
    let right = project.text("docs/figures.md");
    let wrong = right.replace("1.64", "1.94");
    project.write("docs/figures.md", &wrong);
    let error = project.run(true).unwrap_err().to_string();
    assert!(error.contains("docs/figures.md:2: block `recovery` differs"));
    assert!(error.contains("`cargo compare figures` rewrites"));
    assert_eq!(project.text("docs/figures.md"), wrong);
    project.run(false).unwrap();
    assert_eq!(project.text("docs/figures.md"), right);
}

#[test]
fn all_errors_are_reported_and_nothing_is_written() {
    let project = Project::new();
    project.write("a.md", &empty("recovery"));
    project.write("b.md", &(empty("nothing") + &empty("micro locks=none")));
    project.write("c.md", "<!-- figures: micro -->\n");
    let error = project.run(false).unwrap_err().to_string();
    for wanted in [
        "b.md:1: block `nothing`: there is no such block; there are headline, ",
        "b.md:3: block `micro`: `locks`: the results have no `none`; they have srl-array, parking_lot",
        "c.md:1: block `micro` does not end",
    ] {
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    assert_eq!(project.text("a.md"), empty("recovery"));
}

#[test]
fn wrong_options_are_errors() {
    let project = Project::new();
    for (block, wanted) in [
        ("micro lock=std", "no option `lock`; it has cases, locks"),
        ("micro locks", "`locks` lacks a value"),
        ("micro other-machine=yes", "`other-machine` takes no value"),
        (
            "micro cases=write/2",
            "no `write/2`; they have write/1-segment,",
        ),
        ("commits", "`device` is missing"),
        ("commits device=disk", "no `disk`; they have modelled-1ms"),
        (
            "headline lock=srl-tree",
            "no row write/1-segment of `srl-tree`",
        ),
        (
            "headline device=disk",
            "lacks commits of 8 threads on `disk`",
        ),
        ("targets of=failures", "no `failures`; they have micro"),
        ("value of=micro", "it needs `of=COMPARISON`"),
        ("value of=x figure=ns", "no comparison `x`; there are micro"),
        (
            "value of=micro figure=ns lock=std",
            "no `std`; they have srl-array, parking_lot",
        ),
        ("value of=micro figure=ns case=write/1-segment", "2 rows"),
        ("value of=micro figure=ns lok=std", "a field `lok`"),
        (
            "value of=micro figure=x case=write/1-segment lock=srl-array",
            "no field `x`",
        ),
        ("value of=recovery figure=targets", "`targets` of that row"),
    ] {
        let error = project.error(block);
        assert!(error.contains(wanted), "{block}: {error}");
    }
}

#[test]
fn result_files_that_cannot_be_used_are_errors() {
    let project = Project::new();
    let fails = |wanted: &str| {
        let error = project.error("micro");
        assert!(error.contains("figures/micro.json"), "{error}");
        assert!(error.contains("--measure micro"), "{error}");
        assert!(error.contains(wanted), "{wanted}: {error}");
    };
    project.change("micro", |it| it["format"] = 2.into());
    fails("format 2, and this version reads format 1");
    project.write_results("micro", &micro());
    fails("it says no format");
    project.write_results("micro", &result("micro", &json!([])));
    fails("without rows");
    project.write_results("micro", &result("journal", &journal()));
    fails("the results of `cargo compare journal`, not of micro");
    project.write("docs/figures/micro.json", "{");
    fails("EOF");
    fs::remove_file(project.dir().join("micro.json")).unwrap();
    fails("No such file");

    project.write_results("micro", &result("micro", &json!([{ "case": "a" }])));
    let error = project.error("micro");
    assert!(error.contains("micro.json: row 1: missing field `lock`"));
}

#[test]
fn results_of_two_machines_are_mixed_only_if_a_block_says_so() {
    let project = Project::new();
    project.change("recovery", |it| it["machine"]["cores"] = 16.into());
    project.write("a.md", &(empty("micro") + &empty("recovery")));
    let error = project.run(false).unwrap_err().to_string();
    let wanted = "a.md:3: block `recovery`: recovery.json is of another machine (P, 16 cores";
    assert!(error.contains(wanted), "{error}");
    assert!(error.contains("than micro.json (P, 2 cores"), "{error}");

    project.write("a.md", &(empty("micro") + &empty("recovery other-machine")));
    project.run(false).unwrap();
    let text = project.text("a.md");
    assert!(text.contains("P, 2 cores") && text.contains("P, 16 cores"));

    // Within a table it is always an error.
    project.change("journal", |it| it["machine"]["kernel"] = "Linux 7".into());
    let error = project.error("headline other-machine");
    assert!(error.contains("mixes results of two machines: micro.json"));
}

#[test]
fn results_of_a_build_without_optimisations_say_so() {
    let project = Project::new();
    let words = "without optimisations";
    assert!(!project.rendered("recovery").unwrap().contains(words));
    project.change("recovery", |it| it["optimised"] = false.into());
    assert!(project.rendered("recovery").unwrap().contains(words));
}

#[test]
fn disturbed_results_say_so() {
    let project = Project::new();
    project.change("recovery", |it| it["disturbed"] = 0.34.into());
    let body = project.rendered("recovery").unwrap();
    assert!(
        body.contains("34 %") && body.contains("do not trust"),
        "{body}"
    );
    project.change("recovery", |it| it["disturbed"] = Value::Null);
    assert!(
        !project
            .rendered("recovery")
            .unwrap()
            .contains("Other programs")
    );
}

#[test]
fn the_headline_shows_gains_and_losses() {
    let project = Project::new();
    assert_eq!(
        project.table("headline")[2..],
        [
            "| lock and unlock one page of 4 KiB, without contention | 4.0 ns (`srl-array`) | 5.0 ns (`parking_lot`) | 1.25 times as fast |",
            "| two threads that overwrite different pages of one file | 160,000/s (`srl-array`) | 80,000/s (`std`) | 2.00 times as fast |",
            "| two threads that lock the same page: time for each acquisition | 250.0 ns (`srl-array`) | 200.0 ns (`parking_lot`) | **slower**: 1.25 times as long |",
            "| lock and unlock 256 pages | 750.0 ns (`srl-array`) | 5.0 ns (`parking_lot`) | **slower**: 150 times as long |",
            "| eight threads that commit 256 bytes durably (`modelled-1ms`) | 6,000/s (`compact-rendezvous`) | 3,000/s (`wal-db`) | 2.00 times as fast |",
        ]
    );
    let origin = project.rendered("headline").unwrap();
    assert!(origin.contains("`cargo compare compare` on 2026-11-28, `cargo compare journal` on"));
}

#[test]
fn losses_are_counted_for_each_lock() {
    let project = Project::new();
    assert_eq!(
        project.table("losses"),
        [
            "| lock | `micro` | `compare` | `contention` |",
            "|---|---|---|---|",
            "| `srl-array` | 2 of 3, at worst 0.0067 (`write/256-segments`) | 1 of 2, at worst 0.90 (`dwom`, 1 thread) | 1 of 2, at worst 0.50 (`section-300`) |",
        ]
    );
}

#[test]
fn targets_are_met_or_missed() {
    let project = Project::new();
    assert_eq!(
        project.table("targets")[2..],
        [
            "| `micro` | `write/1-segment` | time ≤ 0.6 × parking_lot | `srl-array` 0.80 | **missed** |",
            "| `compare` | `dwom`, 2 threads | ratio ≥ 1.9 | `srl-array` 2.00 | met |",
            "| `journal` | `modelled-1ms`, `commit`: `compact-rendezvous` | p50 in flushes ≤ 1.4 | 8 threads 1.10 | met |",
            "| `journal` | `modelled-1ms`, `commit`: `okaywal` | commits/s ≥ 1.3 × serial | 8 threads 1.29 | **missed** |",
            "| `file-core` | `overwrite-64k`, 1 thread | to_limit ≥ 0.8 | 0.70 to 0.90 | **missed** by `lock-0` (0.70), `lock-1` (0.75) |",
            "| `file-core` | `overwrite-64k`, 1 thread | max_ns ≤ 1.00 ms | – | not measured |",
            "| `objects` | `disk`, `write`: `packed`, `direct` | to_raw ≥ 0.977 | `random/64k`, 1 thread 0.90, `random/1m`, 1 thread 0.98 | **missed** by `random/64k`, 1 thread |",
            "| `node-log` | `dwsl`: `nl` | ratio ≥ 10 | 1 thread 9.00, 8 threads 12.0 | **missed** by 1 thread |",
        ]
    );
    assert_eq!(project.table("targets of=journal").len(), 4);
}

#[test]
fn every_table_has_its_rows() {
    let project = Project::new();
    for (block, wanted) in [
        (
            "shared-file threads=2",
            "| workload | threads | `srl-array` | `std` |\n| `dwom` | 2 | 160 (2.00) | **80** |",
        ),
        (
            "contention sections=0.3us",
            "| section | overlap | reads | threads | `srl-array` | `std` |\n| 0.3 µs | 100 % | 0 % | 2 | 500 (0.50) | **1,000** |",
        ),
        (
            "commits device=modelled-1ms contestants=okaywal,compact-rendezvous",
            "| contestant | 8 threads | 1 thread |\n| `compact-rendezvous` | 6,000 (7.2) | – |\n| okaywal 0.3.1 | 1,000 (7.2) | 800 (7.2) |",
        ),
        (
            "overwrites cases=overwrite-4k locks=srl-tree,limit",
            "| case | threads | `srl-tree` | `limit` |\n| `overwrite-4k` | 1 | 1,700 (0.75) | 2,200 |",
        ),
        (
            "operations cases=append locks=srl-tree",
            "| case | `srl-tree` | flushes | fences |\n| `append` | 800 | 2 (4) | 2 (5) |",
        ),
        (
            "objects device=disk cases=create/batch-64,write/random/64k",
            "| `create/batch-64` | `packed` | `direct` | 120,000 (12.5) | 250,000 (12.5) |\n| `write/random/64k` | `packed` | `direct` | 1,000 (0.90) | – |",
        ),
        (
            "node-log cases=dwsl",
            "| `dwsl` | `baseline` | 1,000 (1.00) | – |\n| `dwsl` | `nl` | 9,000 (9.00) | 12,000 (12.0) |",
        ),
        (
            "node-log-times systems=nl threads=8",
            "| `dwsl` | `nl` | 8 | 1.50 µs, 2.50 µs, 3.00 ms | 1.50 µs, 2.50 µs, 3.00 ms | – | 4.00 µs | 4,096 |",
        ),
        (
            "failures",
            "| `compact` | 0.1.0 | 30 | 29 | 28 | 3 (2) | 1 | 4 | 5 | 6 |",
        ),
        (
            "recovery",
            "| `files` | 1,000,000 | 2 | 1.92 s | 520,833 | 1.64 | 175.0 MB | 175 |",
        ),
    ] {
        let mut table = project.table(block);
        table.remove(1);
        let table = table.join("\n");
        assert!(table.ends_with(wanted), "{block}: {table}");
    }
}
