//! Tests of the check: it finds what is wrong on purpose.

use std::fs;
use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::commands::{Documented, commands};
use crate::project;
use crate::run::{Outcome, run};
use crate::table::{Table, steps};

/// A document with commands of every kind, and some code that is none.
const DOCUMENT: &str = "\
Run `cargo first` or `A=1 B='2 3' cargo second --flag`, not `cargo` nor `srl/README.md`; `cargo
third` is wrapped, and `kernel/build bugs` is a script.

| purpose | command |
|---|---|
| both | `cargo fourth && cargo fifth` |

```sh
cargo sixth   # a comment
# a line of comment
missing-program \\
    --flag
cd verify/examples
cargo seventh
```

```console
$ cargo eighth
its output
```

```text
cargo ninth
a picture
```

```rust
let cargo = 10;
```

<!-- figures: headline -->
Measured by `cargo not --this`.
<!-- /figures -->
`cargo tenth` follows.
";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("documents_are_searched", documents_are_searched),
        Trial::test("tables_are_judged", tables_are_judged),
        Trial::test("runs_are_judged", runs_are_judged),
    ]
}

fn documents_are_searched() -> Result<(), Failed> {
    let found = commands(project(), DOCUMENT);
    let expected = [
        (9, "cargo sixth"),
        (12, "missing-program --flag"),
        (14, "cd verify/examples && cargo seventh"),
        (18, "cargo eighth"),
        (23, "cargo ninth"),
        (1, "cargo first"),
        (1, "A=1 B='2 3' cargo second --flag"),
        (1, "cargo third"),
        (2, "kernel/build bugs"),
        (6, "cargo fourth && cargo fifth"),
        (34, "cargo tenth"),
    ];
    let found: Vec<_> = found.iter().map(|(line, it)| (*line, &it[..])).collect();
    assert_eq!(found, expected);
    Ok(())
}

fn tables_are_judged() -> Result<(), Failed> {
    let documented = |names: &[&str]| -> Documented {
        let place = |name: &&str| ((*name).to_owned(), vec!["README.md:1".to_owned()]);
        names.iter().map(place).collect()
    };
    let problems = |table: &str, names: &[&str]| {
        let table = Table::parse(table).expect("a table");
        table.problems(project(), &documented(names)).join("\n")
    };
    let complete = "a b\trun\t\nc\t.ci/run\twithout_std\nd\tnot\tno reason\n";
    assert_eq!(problems(complete, &["a b", "c", "d"]), "");

    let without_entry = problems(complete, &["a b", "c", "d", "e --f"]);
    assert!(without_entry.starts_with("README.md:1: no entry of `e --f`"));
    assert!(without_entry.ends_with("\ne --f\trun\t"), "{without_entry}");
    let like_c = problems(complete, &["a b", "c", "d", "c e"]);
    assert!(like_c.ends_with("\nc e\t.ci/run\twithout_std"), "{like_c}");
    let without_command = problems(complete, &["a b", "d"]);
    assert!(
        without_command.contains(":2: no document shows `c`"),
        "{without_command}"
    );
    let twice = problems("a\trun\t\na\trun\tb\n", &["a"]);
    assert!(twice.contains(":2: a second entry of `a`"), "{twice}");
    let no_step = problems("a\t.ci/full\tno such step\n", &["a"]);
    assert!(
        no_step.contains(".ci/full has no step `no such step`"),
        "{no_step}"
    );
    let script = "step a
# step b
A='1 2' step c d
echo step e
";
    assert_eq!(steps(script), ["a", "c d"]);
    for (part, missing) in [
        ("-p spanlock-nothing", "package spanlock-nothing"),
        ("-p spanlock-srl --example none", "examples/none.rs"),
        ("-p spanlock-srl --test none", "tests/none.rs"),
        ("-p spanlock-srl --features std,none", "feature none"),
        ("-p spanlock-srl --features std --example page_cache", ""),
        ("-p … --example …", ""),
    ] {
        let command = format!("cargo run {part}");
        let told = problems(&format!("{command}\t.ci/run\teach_example\n"), &[&command]);
        assert!(
            told.contains(missing) && missing.is_empty() == told.is_empty(),
            "{told}"
        );
    }
    let all = "A=1 a b --c 1 -d\trun\tA=2 a --first b --c 2 -d --e\n";
    assert_eq!(problems(all, &["A=1 a b --c 1 -d"]), "");
    for part in ["a --c 1 -d", "a b -d", "b a --c 1 -d"] {
        let table = format!("a b --c 1 -d\trun\t{part}\n");
        let other = problems(&table, &["a b --c 1 -d"]);
        assert!(
            other.contains(":1: this does not run `a b --c 1 -d`"),
            "{part}: {other}"
        );
    }
    for wrong in ["a\trun\n", "a\tsometimes\tb\n", "a\tnot\t\n"] {
        assert!(Table::parse(wrong).is_err(), "{wrong}");
    }
    Ok(())
}

fn runs_are_judged() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let git = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(folder.path())
        .status()?;
    assert!(git.success());
    fs::write(folder.path().join(".gitignore"), "/ignored\n")?;
    let run = |script: &str| run(folder.path(), script);
    let fails = |script: &str, words: &str| match run(script) {
        Outcome::Failed(reason) => assert!(reason.contains(words), "{script}: {reason}"),
        outcome => panic!("{script}: {outcome:?}"),
    };

    assert!(matches!(run("true"), Outcome::Passed { rows: 0 }));
    let both = "echo '[1, {}]' > $OUT/a.json ; echo '{\"rows\": [1]}' > $OUT/b.json";
    assert!(matches!(run(both), Outcome::Passed { rows: 3 }));
    assert!(matches!(run("echo no tool; exit 77"), Outcome::Skipped(it) if it == "no tool"));

    fails("echo reason >&2; exit 3; true", "reason\nexit status: 3");
    fails("false; true", "exit status: 1");
    fails("no-such-program", "not found");
    fails("echo '[]' > $OUT/rows.json", "rows.json has no rows");
    fails("echo '{}' > $OUT/rows.json", "rows.json has no rows");
    fails("echo '[1' > $OUT/rows.json", "rows.json: EOF");
    fails("ls $OUT/rows.json || true", "rows.json: No such file");
    fails("mktemp", "left in the folder for temporary files");
    fails("touch left", "?? left");
    fails("touch ignored", "!! ignored");
    Ok(())
}
