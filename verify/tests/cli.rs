//! What the command says to people who call it wrongly, and what it shows without running anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use spanlock_verify::row::{Row, Verdict};

/// The command, with nothing in its environment that it would refuse.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verify"));
    command
        .env_remove("SPANLOCK_SEED")
        .env_remove("SPANLOCK_SCENARIO");
    command
}

fn verify(args: &[&str]) -> Output {
    command().args(args).output().expect("the command runs")
}

/// Exit code 2, and every one of `words` on standard error.
#[track_caller]
fn refuses(args: &[&str], words: &[&str]) {
    let output = verify(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?}: no `{word}` in: {said}");
    }
}

#[test]
fn unknown_filter() {
    refuses(&["--filter", "no-such-lock"], &["`no-such-lock`", "--list"]);
    // One wrong filter among right ones is still wrong.
    refuses(
        &["--filter", "srl-array", "--filter", "srl-aray"],
        &["`srl-aray`"],
    );
    refuses(
        &["--quick", "--filter", "/history/"],
        &["among the quick ones"],
    );
    refuses(
        &["--filter", "/crowd-8/shuttle/random/long"],
        &["`/crowd-8/", "for --full alone"],
    );
}

#[test]
fn stale_replay() {
    refuses(
        &["--replay", "srl-array/exclusion/loom/strong"],
        &["there is no row", "--list"],
    );
    refuses(&["--replay", "x", "--quick"], &["cannot be used with"]);
    refuses(&["--weaken", "a.rs:1:2:rmw=Relaxed"], &["--replay"]);
}

#[test]
fn parts_that_cannot_be() {
    refuses(&["--partition", "0/3"], &["there is no part 0 of 3"]);
    refuses(&["--partition", "4/3"], &["there is no part 4 of 3"]);
    refuses(&["--partition", "0/0"], &["there is no part 0 of 0"]);
    for wrong in [
        "2",
        "/",
        "1/x",
        "-1/2",
        "hash:1/2",
        "1/99999999999999999999999",
    ] {
        refuses(&[&format!("--partition={wrong}")], &["write K/N"]);
    }
}

/// All parts together are the whole, and no row is in two.
#[test]
fn parts_make_up_the_whole() {
    let rows = |args: &[&str]| {
        let output = verify(args);
        let list = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success());
        let mut names: Vec<_> = list
            .lines()
            .skip(2)
            .filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned()))
            .collect();
        names.sort();
        names
    };
    let mut parts = Vec::new();
    for part in ["1/3", "slice:2/3", "3/3"] {
        let part = rows(&["--list", "--full", "--partition", part]);
        assert!(part.len() > 100, "{}", part.len());
        parts.extend(part);
    }
    parts.sort();
    assert_eq!(parts, rows(&["--list", "--full"]));
    // More parts than there are programs.
    let nothing = rows(&[
        "--list",
        "--filter",
        "litmus/time-out",
        "--partition",
        "2/2",
    ]);
    assert!(nothing.is_empty());
}

/// The rows of a run, as two machines would write them.
fn partitions(folder: &Path) -> [PathBuf; 2] {
    [1, 2].map(|part| {
        let file = folder.join(format!("{part}.json"));
        let output = command()
            .args([
                "--filter",
                "litmus/time-out",
                "--filter",
                "litmus/spurious-wake",
            ])
            .arg(format!("--partition={part}/2"))
            .arg("--json")
            .arg(&file)
            .output()
            .expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        file
    })
}

/// Changes `field` of a file's rows.
fn change(file: &Path, to: &Path, change: impl Fn(&mut Row)) {
    let text = std::fs::read_to_string(file).expect("written");
    let mut rows: Vec<Row> = serde_json::from_str(&text).expect("rows");
    rows.iter_mut().for_each(change);
    std::fs::write(to, serde_json::to_vec(&rows).expect("plain data")).expect("can write");
}

#[test]
fn merge_joins_and_refuses() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [first, second] = partitions(folder.path());
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (a, b) = (text(&first), text(&second));
    let all = text(&folder.path().join("all.json"));
    let other = folder.path().join("other.json");
    let o = text(&other);

    let output = verify(&[
        "merge",
        &b,
        &a,
        "--json",
        &all,
        "--report",
        &text(folder.path()),
    ]);
    assert!(output.status.success(), "{output:?}");
    let json = std::fs::read_to_string(&all).expect("written");
    let rows: Vec<Row> = serde_json::from_str(&json).expect("rows");
    assert_eq!(rows.len(), rows[0].run.rows);
    assert!(rows.is_sorted_by_key(|row| row.number));
    let report = |name| std::fs::read_to_string(folder.path().join(name)).expect("written");
    for name in ["verify.json", "verify.html"] {
        let report = report(name);
        for row in &rows {
            assert!(report.contains(&row.replay), "{name}: {}", row.replay);
        }
    }
    // A line a program, a column a mode, which make up the command.
    let markdown = report("verify.md");
    for row in &rows {
        let (primitive, mode) = (&row.primitive, &row.mode);
        let line = format!("\n| {} | {} |", row.property, row.threads);
        let (_, table) = markdown
            .split_once(&format!("### {primitive}\n"))
            .expect("a table");
        let (head, lines) = table.split_once("|---|").expect("a head");
        assert!(head.contains(&format!(" {mode} |")), "{}: {head}", row.name);
        assert!(lines.contains(&line), "{}: {lines}", row.name);
    }

    refuses(&["merge"], &["<FILE>"]);
    refuses(&["merge", &a], &["partitions are missing", "1/2"]);
    refuses(&["merge", &a, &b, &a], &["overlap", &a]);
    refuses(
        &["merge", "/no/such/file"],
        &["/no/such/file", "cannot read"],
    );
    change(&second, &other, |row| {
        row.run.commit = "0123456789ab".into()
    });
    refuses(
        &["merge", &a, &o],
        &["not of one run", "commit", "0123456789ab", &o],
    );
    change(&second, &other, |row| row.run.version = "9.9.9".into());
    refuses(&["merge", &a, &o], &["version", "9.9.9"]);
    change(&second, &other, |row| row.run.selection = "--quick".into());
    refuses(&["merge", &a, &o], &["options", "--quick"]);
    for (partition, why) in [("5/2", "there is no part 5 of 2"), ("2", "write K/N")] {
        change(&second, &other, |row| row.run.partition = partition.into());
        refuses(
            &["merge", &a, &o],
            &[&o, &format!("partition `{partition}`"), why],
        );
    }
    std::fs::write(&other, "[\n  {\"name\": 7}\n]").expect("can write");
    refuses(&["merge", &a, &o], &["other.json:2:13", "not what"]);
    std::fs::write(&other, &json[..json.len() / 2]).expect("can write");
    refuses(&["merge", &o], &["EOF", "other.json:"]);
    std::fs::write(&other, "[]").expect("can write");
    refuses(&["merge", &o], &["no rows"]);

    change(&first, &other, |row| row.number = 0);
    refuses(&["merge", &o, &b], &["there is no row 0 of", &o]);
    let name = rows[0].name.clone();
    change(&second, &other, |row| row.name.clone_from(&name));
    refuses(&["merge", &a, &o], &["is there twice", &name]);

    // What is in no part is told.
    let full = |row: &mut Row| row.run.selection = "--full".into();
    let another = folder.path().join("another.json");
    change(&first, &another, full);
    change(&second, &other, full);
    let output = verify(&["merge", &text(&another), &o]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("cargo verify mutants"), "{told}");
    // Once they were judged they can be given.
    let run = serde_json::to_string(&rows[0].run).expect("the run");
    let run_of_all = run.replace(&rows[0].run.selection, "");
    let written = |name: &str, json: &str, run: &str| {
        let path = folder.path().join(name);
        let run = run.replace(&format!(r#""rows":{}"#, rows.len()), r#""rows":1"#);
        let json = json.replace('}', &format!(r#", "run": {run}}}"#));
        std::fs::write(&path, json).expect("can write");
        text(&path)
    };
    let killed = r#"[{"site": "a.rs:1:2:load", "mutation": "Acquire->Relaxed", "verdict": "KILLED",
        "model": "srl-array/exclusion/loom/weak", "executions": 3, "reason": null, "replay": null}]"#;
    let survivor = killed.replace("KILLED", "SURVIVED");
    let survivor = survivor.replace(r#""srl-array/exclusion/loom/weak""#, "null");
    let found = r#"[{"defect": "no-aging", "what": "", "lock": "srl-array", "expected": [], "verdict": "KILLED",
        "model": "srl-array/bounded-overtaking/loom/weak", "executions": 7, "failure": "it fails", "replay": null}]"#;
    let mutants = written("m.json", killed, &run_of_all);
    let survivor = written("s.json", &survivor, &run_of_all);
    let defects = written("d.json", found, &run_of_all);
    let merged = |mutants: &str, defects: &str| {
        let both = ["--mutants", mutants, "--defects", defects, "--report"];
        let parts = ["merge", &text(&another), &o];
        let output = verify(&[&parts[..], &both[..], &[&text(folder.path())]].concat());
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), told)
    };
    let (code, told) = merged(&mutants, &defects);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("1 mutants: 1 KILLED") && told.contains("1 seeded defects: 1 KILLED"));
    assert!(!told.contains("are in no part"), "{told}");
    assert!(report("verify.md").contains("## Seeded defects"));
    assert!(report("mutants.json").contains("a.rs:1:2"));
    let (code, told) = merged(&survivor, &defects);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("SURVIVED: a.rs:1:2:load Acquire->Relaxed"),
        "{told}"
    );
    let given =
        |flag: &str, file: &str, words: &[&str]| refuses(&["merge", &a, &b, flag, file], words);
    given(
        "--mutants",
        &defects,
        &["d.json:", "not what `cargo verify mutants --json` writes"],
    );
    let some = written("some.json", found, &run);
    given(
        "--defects",
        &some,
        &["some.json: 1 of 1 are there", "with no filter"],
    );
    let lost = written(
        "lost.json",
        found,
        &run_of_all.replace(r#""rows":"#, r#""rows":1"#),
    );
    given("--defects", &lost, &["lost.json: 1 of 1", "are there"]);
    let old = run_of_all.replace(&rows[0].run.commit, "0123456789ab");
    let old = written("old.json", found, &old);
    given(
        "--defects",
        &old,
        &["not of one run: commit", "0123456789ab", "old.json"],
    );
    let none = written("none.json", "[]", "");
    given("--defects", &none, &["none.json: there is nothing in it"]);
    let elsewhere = |row: &mut Row| row.run.commit = "0123456789ab".into();
    change(&first, &another, elsewhere);
    change(&second, &other, elsewhere);
    refuses(
        &["merge", &text(&another), &o],
        &["of commit 0123456789ab", "check that commit out"],
    );

    // What does not pass in a part does not pass in the whole.
    change(&second, &other, |row| row.verdict = Verdict::Truncated);
    assert_eq!(verify(&["merge", &a, &o]).status.code(), Some(1));
    change(&second, &other, |row| {
        row.committed = Some(row.executions + 1)
    });
    let output = verify(&["merge", &a, &o]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        told.contains("DRIFT: litmus/") && told.contains("--accept"),
        "{told}"
    );
}

#[test]
fn mutants_that_there_are_not() {
    refuses(
        &["mutants", "--filter", "no-such-file.rs"],
        &["`no-such-file.rs`", "--sites"],
    );
    refuses(&["mutants", "--quick"], &["--quick"]);
}

#[test]
fn defects_that_there_are_not() {
    refuses(
        &["defects", "--filter", "no-such-defect"],
        &["`no-such-defect`", "--list"],
    );
    refuses(
        &["defects", "--list", "--json", "x"],
        &["cannot be used with"],
    );
    refuses(&["--defect", "no-recheck"], &["--replay"]);
    let row = "rw-counter/wakeup/loom/weak";
    refuses(
        &["--replay", row, "--defect", "no-such-defect"],
        &[
            "no defect is called `no-such-defect`",
            "no-recheck",
            "release-by-store",
        ],
    );
    let twin = "rw-word/granted/spin/ltl";
    refuses(&["--replay", twin, "--defect", "no-recheck"], &["a twin"]);
    let output = verify(&["defects", "--list", "--filter", "no-aging/"]);
    let list = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    assert!(
        list.contains("bounded-overtaking") && !list.contains("no-recheck"),
        "{list}"
    );
}

#[test]
fn a_change_that_a_row_never_gets_to_is_refused() {
    let row = "litmus/message-passing/loom/weak";
    refuses(
        &["--replay", row, "--defect", "no-recheck"],
        &[
            "--defect no-recheck: no execution of litmus/message-passing/loom/weak gets there",
            "defects --list",
        ],
    );
    // As the command of a mutant is, once somebody has changed the file.
    refuses(
        &["--replay", row, "--weaken", "nowhere.rs:1:2:load=Relaxed"],
        &[
            "nowhere.rs:1:2:load=Relaxed: no execution of",
            "mutants --sites",
        ],
    );
    refuses(
        &["--replay", row, "--weaken", "nowhere.rs=Relaxed"],
        &["write file:line:column:op=ordering"],
    );
}

#[test]
fn json_that_cannot_be_written() {
    refuses(
        &["--json", "/no/such/folder/rows.json"],
        &["/no/such/folder/rows.json"],
    );
    refuses(&["--json", "/"], &["--json /", "directory"]);
}

#[test]
fn a_report_that_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("text");
    let row = "litmus/time-out";
    refuses(
        &["--filter", row, "--report", "/no/such/folder"],
        &["--report /no/such/folder: there is no such folder"],
    );
    std::fs::create_dir(folder.path().join("verify.html")).expect("can create");
    refuses(
        &["--filter", row, "--report", path],
        &["--report: cannot write", "verify.html"],
    );
}

/// They would change what a row is about or draws, and the row would not tell.
#[test]
fn what_was_left_in_the_environment() {
    for name in ["SPANLOCK_SCENARIO", "SPANLOCK_SEED"] {
        left_in_the_environment(name);
    }
}

fn left_in_the_environment(name: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |json: &Path| {
        let output = command()
            .args(["--filter", "litmus/time-out", "--json"])
            .arg(json)
            .env(name, "7")
            .output()
            .expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{name} is set")), "{said}");
    };
    // Whatever ends a run before its end, nothing new is at the place of its rows.
    let (new, old) = (
        folder.path().join("new.json"),
        folder.path().join("old.json"),
    );
    std::fs::write(&old, "of another run").expect("can write");
    run(&new);
    run(&old);
    assert!(!new.exists());
    assert_eq!(std::fs::read(&old).expect("still there"), b"of another run");
}

#[test]
fn wrong_flags() {
    refuses(&["--jobs", "0"], &["--jobs"]);
    refuses(&["--limit", "soon"], &["--limit"]);
    refuses(&["--fast"], &["--fast"]);
    refuses(&["--list", "--json", "x"], &["cannot be used with"]);
    refuses(&["--list", "--jobs", "2"], &["cannot be used with"]);
}

#[test]
fn list_names_every_row_once() {
    let output = verify(&["--list"]);
    let list = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    let jobs = spanlock_verify::plan::jobs();
    for job in jobs.iter().filter(|job| !job.long) {
        let cell = format!("| {} ", job.name());
        assert_eq!(list.matches(&cell).count(), 1, "{job:?}");
    }
}

#[test]
fn a_row_that_is_cut_off_is_truncated_and_no_success() {
    let output = verify(&[
        "--filter",
        "srl-packed/exclusion/shuttle/dfs",
        "--limit",
        "0",
    ]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("TRUNCATED: srl-packed/exclusion"), "{told}");
}

#[test]
fn replay_runs_one_row() {
    let output = verify(&["--replay", "litmus/load-then-store/loom/rmw-load"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("EXHAUSTED"), "{told}");
}

#[test]
fn json_goes_through_links_and_leaves_other_files_what_they_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, link) = (folder.path().join("rows.json"), folder.path().join("link"));
    std::fs::write(&file, "x".repeat(100_000)).expect("can write");
    std::os::unix::fs::symlink(&file, &link).expect("can link");
    let run = |json: &Path| {
        let row = "litmus/time-out/loom/weak";
        verify(&["--filter", row, "--json", json.to_str().expect("text")])
    };
    assert!(run(&link).status.success());
    assert!(link.is_symlink());
    let rows = std::fs::read_to_string(&file).expect("written");
    let rows: Vec<Row> = serde_json::from_str(&rows).expect("nothing is left of the old");
    assert_eq!(rows.len(), 1);
    assert!(run(Path::new("/dev/null")).status.success());
    assert!(!Path::new("/dev/null").is_file());
}
