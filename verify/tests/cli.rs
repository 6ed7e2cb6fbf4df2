//! Runs the command on a small workspace that is independent of this project.
//!
//! All tests share one copy of the workspace and its builds, so that it is built only once for each
//! checker.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use spanlock_verify::rows::row::{Row, Verdict};

/// The packages with models. The command builds them together, so all tests share one build.
const PACKAGES: [&str; 3] = ["slot", "faulty", "fresh"];

/// Returns a copy of the workspace, because `--accept` writes into it.
fn workspace() -> &'static Path {
    static WORKSPACE: OnceLock<PathBuf> = OnceLock::new();
    WORKSPACE.get_or_init(|| {
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        let project = project.parent().expect("in the workspace");
        let from = project.join("verify/tests/fixtures/workspace");
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workspace");
        copy(&from, &to, project.to_str().expect("text"));
        // Use the same versions as this project, so that cargo fetches nothing.
        fs::copy(project.join("Cargo.lock"), to.join("Cargo.lock")).expect("can copy");
        for package in PACKAGES {
            let _ = fs::remove_file(record(&to, package));
        }
        to
    })
}

fn copy(from: &Path, to: &Path, root: &str) {
    fs::create_dir_all(to).expect("can create");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let name = entry.file_name();
        let name = name.to_str().expect("text").trim_end_matches(".in");
        let (from, to) = (entry.path(), to.join(name));
        if from.is_dir() {
            copy(&from, &to, root);
            continue;
        }
        let text = fs::read_to_string(&from)
            .expect("text")
            .replace("ROOT", root);
        // Leave an unchanged file alone: a newer time stamp would make cargo rebuild its package.
        if fs::read_to_string(&to).unwrap_or_default() != text {
            fs::write(&to, text).expect("can write");
        }
    }
}

fn record(workspace: &Path, package: &str) -> PathBuf {
    workspace.join(package).join("models/executions.tsv")
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-verify"));
    command
        .current_dir(workspace())
        // The project's own builds of models have built the dependencies already.
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("SPANLOCK_SEED")
        .env_remove("SPANLOCK_SCENARIO");
    command
}

fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("in the target folder")
}

fn verify(args: &[&str]) -> Output {
    command().args(args).output().expect("the command runs")
}

fn told(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Runs the command. Checks its exit code, and that its output contains each of `words`.
#[track_caller]
fn says(code: i32, args: &[&str], words: &[&str]) -> String {
    let output = verify(args);
    let told = told(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
    for word in words {
        assert!(told.contains(word), "{args:?}: no `{word}` in: {told}");
    }
    told
}

#[test]
fn wrong_arguments_are_refused() {
    says(2, &["--jobs", "0"], &["--jobs"]);
    says(2, &["--limit", "soon"], &["--limit"]);
    says(2, &["--fast"], &["--fast"]);
    says(2, &["--list", "--json", "x"], &["cannot be used with"]);
    says(
        2,
        &["bugs", "--list", "--json", "x"],
        &["cannot be used with"],
    );
    says(2, &["--replay", "x", "--quick"], &["cannot be used with"]);
    says(2, &["--changes", "--quick"], &["cannot be used with"]);
    says(2, &["--changes", "-p", "x"], &["cannot be used with"]);
    says(2, &["--weaken", "a.rs:1:2:rmw=Relaxed"], &["--replay"]);
    says(2, &["--bug", "flag-first"], &["--replay"]);
    says(2, &["--partition", "0/3"], &["there is no part 0 of 3"]);
    says(2, &["--partition", "4/3"], &["there is no part 4 of 3"]);
    for wrong in ["2", "/", "1/x", "-1/2", "hash:1/2"] {
        says(2, &[&format!("--partition={wrong}")], &["write K/N"]);
    }
    says(2, &["merge"], &["<FILE>"]);
    says(
        2,
        &["merge", "/no/such/file"],
        &["/no/such/file", "cannot read"],
    );
}

#[test]
fn a_package_without_models_is_told_what_to_add() {
    let words = [
        "plain",
        "[[test]]",
        "harness = false",
        "spanlock_verify::main",
    ];
    says(2, &["--package", "plain"], &words);
    says(2, &["--package", "no-such"], &["--package no-such", "slot"]);
    let words = ["known-bugs/main.rs", "use spanlock-verify and have none"];
    says(2, &["known-bugs"], &words);
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_run() {
    says(
        2,
        &["--json", "/no/such/folder/rows.json"],
        &["/no/such/folder/rows.json"],
    );
    says(2, &["--json", "/"], &["--json /", "directory"]);
    says(
        2,
        &["--report", "/dev/null/folder"],
        &["--report /dev/null/folder: cannot create this folder"],
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("verify.html")).expect("can create");
    let path = folder.path().to_str().expect("text");
    says(2, &["--report", path], &["cannot write", "verify.html"]);
}

#[test]
fn a_replay_variable_is_refused_and_old_results_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("rows.json");
    fs::write(&file, "of another run").expect("can write");
    for name in ["SPANLOCK_SCENARIO", "SPANLOCK_SEED"] {
        let output = command().arg("--json").arg(&file).env(name, "7").output();
        let output = output.expect("the command runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains(&format!("{name} is set")));
    }
    for subcommand in ["mutants", "bugs", "known-bugs"] {
        let output = command().arg(subcommand).env("SPANLOCK_SEED", "7").output();
        let told = told(&output.expect("the command runs"));
        assert!(told.contains("SPANLOCK_SEED is set"), "{told}");
    }
    assert_eq!(fs::read(&file).expect("still there"), b"of another run");
}

#[test]
fn a_checker_cfg_in_rustflags_is_refused() {
    let mut command = command();
    command
        .arg("--list")
        .env("RUSTFLAGS", "--cfg spanlock_loom");
    let told = told(&command.output().expect("the command runs"));
    let why = "RUSTFLAGS has `--cfg spanlock_loom`, which the command adds itself";
    assert!(told.contains(why), "{told}");
}

#[test]
fn a_list_names_each_row_once_and_partitions_divide_it() {
    let rows = |args: &[&str]| {
        let output = verify(&[&["--list"], args].concat());
        assert!(output.status.success(), "{}", told(&output));
        let list = String::from_utf8(output.stdout).expect("text");
        let cells = list
            .lines()
            .skip(2)
            .filter_map(|line| line.split('|').nth(1));
        let mut names: Vec<String> = cells.map(|cell| cell.trim().to_owned()).collect();
        names.sort();
        names
    };
    let all = rows(&[]);
    let row = "slot/handover/loom/weak".to_owned();
    assert_eq!(
        all.iter().filter(|name| **name == row).count(),
        1,
        "{all:?}"
    );
    let mut parts = Vec::new();
    for part in ["1/3", "slice:2/3", "3/3"] {
        parts.extend(rows(&["--partition", part]));
    }
    parts.sort();
    assert_eq!(parts, all);
    let of_one = rows(&["--package", "fresh"]);
    assert!(
        of_one.iter().all(|name| name.starts_with("adder/sum/")),
        "{of_one:?}"
    );
    says(2, &["--filter", "no-such"], &["`no-such`", "--list"]);
    says(
        2,
        &["--quick", "--filter", "slot/"],
        &["among the quick ones"],
    );
    says(
        2,
        &["--replay", "slot/handover/loom/strong"],
        &["there is no row"],
    );
}

/// A search without a record is reported as drift until `--accept` records it. Afterwards, it is
/// reported only if the record is wrong.
#[test]
fn a_record_is_written_and_compared() {
    let args = ["--filter", "adder/"];
    let file = record(workspace(), "fresh");
    let drift = [
        "DRIFT: adder/sum/loom/weak",
        "no executions are recorded: run `cargo verify --accept` to record them",
    ];
    says(1, &args, &drift);
    says(
        0,
        &[&args[..], &["--accept"]].concat(),
        &["searches recorded"],
    );
    let text = fs::read_to_string(&file).expect("recorded");
    let line = text
        .lines()
        .find(|line| line.starts_with("adder/sum/loom/weak\t"));
    let line = line.expect("recorded").to_owned();
    assert!(line.starts_with("adder/sum/loom/weak\t-\t"), "{line}");
    says(0, &args, &["EXHAUSTED"]);
    says(0, &["--quick", "--filter", "adder/"], &["EXHAUSTED"]);
    // `--accept` removes the record of a row that no longer exists, and corrects a wrong record.
    let wrong = text.replace(&line, "adder/sum/loom/weak\t-\t999\t-");
    fs::write(&file, format!("{wrong}adder/gone/loom/weak\t-\t1\t-\n")).expect("can write");
    says(1, &args, &["999 executions are recorded"]);
    says(
        0,
        &[&args[..], &["--accept"]].concat(),
        &["1 searches recorded"],
    );
    let again = fs::read_to_string(&file).expect("recorded");
    assert!(!again.contains("gone") && !again.contains("999"), "{again}");
    fs::remove_file(&file).expect("there");
}

#[test]
fn a_failure_is_shown_with_its_replay() {
    let row = "counter/lost-update/explorer";
    let words = [
        "FAILED: counter/lost-update",
        "execution",
        "again: cargo verify --replay",
    ];
    says(1, &["--filter", row], &words);
    says(
        1,
        &["--replay", row],
        &["FAILED", "two additions add up", "T1 "],
    );
    let told = says(
        1,
        &["--filter", "endless/", "--limit", "1"],
        &["TRUNCATED: endless/adds/explorer"],
    );
    assert!(
        told.contains("hint::pause") && told.contains("--accept"),
        "{told}"
    );
}

/// State of std that one execution leaves to the next makes every mode fail.
#[test]
fn a_program_that_depends_on_earlier_executions_fails() {
    let rows = [
        "hidden/counter-2/explorer",
        "hidden/counter-2/loom/weak",
        "hidden/counter-4/shuttle/random",
        "hidden/counter-4/shuttle/pct",
        "hidden/counter-4/shuttle/urw",
        "hidden/set-up/explorer",
        "hidden/set-up/loom/weak",
    ];
    let told = says(1, &["--filter", "hidden/"], &[]);
    for row in rows {
        let (_, failure) = told.split_once(&format!("FAILED: {row}: ")).expect(&told);
        let (failure, _) = failure.split_once("again: ").expect("how to replay it");
        let advice = "earlier execution";
        assert!(failure.contains(advice), "{row}: {failure}");
    }
}

/// A pipe whose reader has gone changes no exit code, and leaves nothing behind.
#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let failing = "counter/lost-update/explorer";
    let passing = "panics/caught/loom/weak";
    let commands: [(i32, &[&str]); 10] = [
        (0, &["--list"]),
        (1, &["--filter", failing]),
        (1, &["--replay", failing]),
        (0, &["--replay", passing]),
        (0, &["mutants", "-p", "slot", "--filter", "src/lib.rs"]),
        (1, &["mutants", "-p", "fresh"]),
        (0, &["bugs", "-p", "slot", "--filter", "flag-first"]),
        (0, &["pairs", "--filter", "slot"]),
        (2, &["known-bugs"]),
        (2, &["merge", "/no/such/file"]),
    ];
    for (i, (code, args)) in commands.into_iter().enumerate() {
        let mut command = command();
        command.args(args).env("TMPDIR", folder.path());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut errors = tempfile::tempfile().expect("a temporary file");
        command.stdout(writer);
        command.stderr(errors.try_clone().expect("a file"));
        let mut child = command.spawn().expect("the command runs");
        // The command has the only other writer.
        drop(command);
        // As `| head -1` and as `| true`.
        let mut line = String::new();
        let _ = (i % 2 == 0).then(|| BufReader::new(reader).read_line(&mut line));
        let status = child.wait().expect("the command ends");
        let mut told = String::new();
        errors.rewind().expect("a file");
        errors.read_to_string(&mut told).expect("text");
        assert_eq!(status.code(), Some(code), "{args:?}: {told}");
        assert!(!told.contains("panicked"), "{args:?}: {told}");
        let left = fs::read_dir(folder.path()).expect("still there").count();
        assert_eq!(left, 0, "{args:?} leaves {left} files behind");
    }
}

#[test]
fn a_use_after_free_is_found() {
    for row in [
        "memory/use-after-free/explorer",
        "memory/use-after-free/loom/weak",
    ] {
        says(
            1,
            &["--filter", row],
            &[&format!("FAILED: {row}"), "execution"],
        );
    }
}

#[test]
fn a_panic_that_is_caught_is_no_failure() {
    let row = "panics/caught/loom/weak";
    let told = says(0, &["--replay", row], &["EXHAUSTED"]);
    let line = told.lines().find(|line| line.starts_with("| panics/"));
    let cells: Vec<&str> = line.expect("the row").split('|').map(str::trim).collect();
    assert_ne!(cells[5], "1", "{told}");
}

#[test]
fn partitions_are_merged_and_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (a, b, other, all) = (
        path("1.json"),
        path("2.json"),
        path("o.json"),
        path("all.json"),
    );
    for (part, file) in [("1/2", &a), ("2/2", &b)] {
        let rows = ["--filter", "slot/handover", "--filter", "counter/"];
        // The run fails: no row has a record, and the rows of the counter fail.
        says(
            1,
            &[&rows[..], &["--partition", part, "--json", file]].concat(),
            &[],
        );
    }
    let report = folder.path().to_str().expect("text");
    says(
        1,
        &["merge", &b, &a, "--json", &all, "--report", report],
        &["FAILED: counter/lost-update", "Rows written"],
    );
    let rows: Vec<Row> = serde_json::from_slice(&fs::read(&all).expect("written")).expect("rows");
    assert_eq!(rows.len(), rows[0].run.rows);
    assert!(rows.is_sorted_by_key(|row| row.number));
    let html = fs::read_to_string(path("verify.html")).expect("written");
    let page = fs::read_to_string(path("verify.md")).expect("written");
    assert!(rows.iter().all(|row| html.contains(&row.replay)));
    assert!(page.contains("| slot/handover/explorer"), "{page}");
    let failure = "FAILED: counter/lost-update/loom/weak: two additions add up\n  execution ";
    assert!(page.contains("## What failed") && page.contains(failure));
    let explorer = rows.iter().find(|row| row.name == "slot/handover/explorer");
    let explorer = explorer.expect("there");
    assert_eq!(
        (explorer.verdict, explorer.agrees),
        (Verdict::Exhausted, true)
    );

    let bugs = path("judged.json");
    let filter = ["bugs", "-p", "slot", "--filter", "flag-first"];
    says(0, &[&filter[..], &["--json", &bugs]].concat(), &[]);
    let files = ["merge", &b, &a, "--bugs", &bugs, "--report", report];
    says(2, &files, &["judged.json", "without a filter"]);
    // Remove the filter from the file, as if this were the only bug.
    let text = fs::read_to_string(&bugs).expect("written");
    let chosen = text.find("\"selection\": \"").expect("the filter");
    let end = chosen + text[chosen..].find(",\n").expect("a line");
    let text = format!("{}\"selection\": \"\"{}", &text[..chosen], &text[end..]);
    fs::write(&bugs, text).expect("can write");
    says(1, &files, &["1 injected bugs: 1 KILLED"]);
    let wrong = ["merge", &b, &a, "--mutants", &bugs];
    says(2, &wrong, &["judged.json", "cargo verify mutants --json"]);
    let html = fs::read_to_string(path("verify.html")).expect("written");
    let page = fs::read_to_string(path("verify.md")).expect("written");
    assert!(html.contains("1 injected bugs: 1 KILLED") && html.contains("flag-first/slot"));
    assert!(page.contains("## Injected bugs") && !page.contains("## Mutants"));
    assert!(fs::exists(path("bugs.json")).unwrap() && !fs::exists(path("mutants.json")).unwrap());

    let change = |change: &dyn Fn(&mut Row)| {
        let mut rows: Vec<Row> =
            serde_json::from_slice(&fs::read(&b).expect("written")).expect("rows");
        rows.iter_mut().for_each(change);
        fs::write(&other, serde_json::to_vec(&rows).expect("plain data")).expect("can write");
    };
    says(2, &["merge", &a], &["partitions are missing", "1/2"]);
    says(2, &["merge", &a, &b, &a], &["overlap", &a]);
    change(&|row| row.name = "slot/handover/loom/weak".into());
    says(2, &["merge", &a, &other], &["partitions are missing"]);
    change(&|row| row.run.commit = "0123456789ab".into());
    says(
        2,
        &["merge", &a, &other],
        &["not of one run", "commit", "0123456789ab"],
    );
    change(&|row| row.run.selection = "--quick".into());
    says(2, &["merge", &a, &other], &["selection", "--quick"]);
    change(&|row| row.run.partition = "5/2".into());
    says(
        2,
        &["merge", &a, &other],
        &["partition `5/2`", "there is no part 5 of 2"],
    );
    fs::write(&other, "[\n  {\"name\": 7}\n]").expect("can write");
    says(2, &["merge", &a, &other], &["o.json:2:13", "not what"]);
}

#[test]
fn each_weakened_ordering_is_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("mutants.json");
    let json = json.to_str().expect("text");
    let words = ["2 mutants: 2 KILLED", "slot/src/lib.rs"];
    let orderings = ["mutants", "--package", "slot", "--filter", "src/lib.rs"];
    says(0, &[&orderings[..], &["--json", json]].concat(), &words);
    let text = fs::read_to_string(json).expect("written");
    assert!(text.contains("\"Release->Relaxed\"") && text.contains("--weaken slot/src/lib.rs"));
    let filter = ["mutants", "--package", "slot", "--filter", "no-such"];
    says(2, &filter, &["`no-such`", "--list"]);
    says(
        0,
        &["mutants", "--package", "slot", "--sites"],
        &["Acquire->Relaxed"],
    );
}

/// `--changes` takes from the rows what each program reaches, and the other commands ask for it.
/// Both must judge the same changes.
#[test]
fn changes_after_the_rows_are_those_of_the_other_commands() {
    let manifest = workspace().with_file_name("alone").join("Cargo.toml");
    let alone = manifest.parent().expect("a folder");
    copy(&workspace().join("slot"), &alone.join("slot"), "");
    let text = fs::read_to_string(workspace().join("Cargo.toml")).expect("text");
    let members = text.lines().map(|line| match line.starts_with("members") {
        true => "members = [\"slot\"]",
        false => line,
    });
    fs::write(&manifest, Vec::from_iter(members).join("\n")).expect("can write");
    fs::copy(workspace().join("Cargo.lock"), alone.join("Cargo.lock")).expect("can copy");
    let _ = fs::remove_file(record(alone, "slot"));
    let run = |args: &[&str]| {
        let manifest = manifest.to_str().expect("text");
        verify(&[args, &["--manifest-path", manifest]].concat())
    };
    let accepted = run(&["--accept"]);
    assert!(accepted.status.success(), "{}", told(&accepted));
    // Some mutants of this package survive on purpose, so the other commands fail.
    let run = |args: &[&str]| told(&run(args));
    let all = run(&["--changes"]);
    for (command, many) in [("mutants", " mutants: "), ("bugs", " injected bugs: ")] {
        let one = run(&[command]);
        let of = |text: &str| text.lines().find(|it| it.contains(many)).map(str::to_owned);
        assert!(of(&one).is_some_and(|it| it.contains("KILLED")), "{one}");
        assert_eq!(of(&all), of(&one), "{all}");
    }
}

/// Each reason applies to one statement or match arm, and to one mutation.
#[test]
fn a_reason_above_a_statement_belongs_to_its_mutant() {
    let args = ["mutants", "-p", "slot", "--sites", "--filter", "reasons.rs"];
    let list = says(0, &args, &[]);
    let mut reasons = Vec::new();
    let table = list.lines().filter(|line| line.starts_with('|'));
    for row in table.skip(2) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let line = cells[1].split(':').nth(1).expect("a line");
        reasons.push((line, cells[2], cells[3]));
    }
    reasons.sort();
    let (load, exchange) = ("Acquire->Relaxed", "none: of the exchange.");
    let expected = [
        ("12", load, "none: of the first."),
        ("14", load, "any program"),
        ("16", "AcqRel->Acquire", "any program"),
        ("16", "AcqRel->Release", "any program"),
        ("17", load, exchange),
        ("26", load, "none: of the arm."),
        ("30", load, "any program"),
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn an_ordering_that_no_program_reaches_survives() {
    let words = ["1 mutants: 1 SURVIVED", "fresh/src/lib.rs:9 (unreached)"];
    says(1, &["mutants", "-p", "fresh"], &words);
}

#[test]
fn each_injected_bug_is_killed() {
    let bugs = |more: &[&str], words: &[&str]| {
        let filter = ["bugs", "-p", "slot", "--filter", "flag-first"];
        says(0, &[&filter[..], more].concat(), words)
    };
    bugs(&["--list"], &["the flag is set too early", "handover"]);
    bugs(&[], &["1 injected bugs: 1 KILLED"]);
    let row = ["--replay", "slot/handover/loom/weak"];
    says(
        1,
        &[&row[..], &["--bug", "flag-first"]].concat(),
        &["FAILED"],
    );
    let words = ["--bug no-such: no execution"];
    says(2, &[&row[..], &["--bug", "no-such"]].concat(), &words);
}

/// Needs Spin, which is always installed in CI.
#[test]
fn a_promela_model_holds_and_its_bug_is_found() {
    let row = ["--replay", "slot/granted/spin/ltl"];
    if Command::new("spin").arg("-V").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "Spin must be installed in CI"
        );
        says(0, &row, &["SKIPPED", "apt-get install spin"]);
        return;
    }
    says(0, &row, &["EXHAUSTED"]);
    says(
        1,
        &[&row[..], &["--bug", "NO_SET"]].concat(),
        &["FAILED", "acceptance cycle"],
    );
    let words = ["FAILED", "Spin did not search every state"];
    says(1, &[&row[..], &["--bug", "ENDS_EARLY"]].concat(), &words);
    let killed = ["1 injected bugs: 1 KILLED", "slot/granted/spin/ltl"];
    says(0, &["bugs", "-p", "slot", "--filter", "NO_SET"], &killed);
    says(
        2,
        &[&row[..], &["--weaken", "a=b"]].concat(),
        &["no orderings to weaken"],
    );
}

#[test]
fn pairs_lists_each_pair_of_operations() {
    let words = ["put × take: handover", "put × put: none: one thread puts"];
    says(0, &["pairs", "--filter", "slot"], &words);
    says(2, &["pairs", "--filter", "no-such"], &["they are"]);
}
