//! The programs of the package `spanlock-lines`: one that sees the facade's atomics, and one that
//! sees all accesses.
//!
//! Both need a `--cfg`, so cargo builds them in a target folder of their own. The second one is
//! instrumented by the compiler, with flags that are not stable. `RUSTC_BOOTSTRAP` permits them. It
//! is set for both, so that they share what is not instrumented.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::rows::{Line, Row};

const PACKAGE: &str = "spanlock-lines";

/// The profile, and so the name of its folder.
const PROFILE: &str = "lines";

/// The packages whose accesses are all seen: those that run on simulated cores.
const INSTRUMENTED: [&str; 8] = [
    "sync",
    "range-lock",
    "interval-lock",
    "srl",
    "pmem",
    "file-core",
    "journal-commit",
    "lines",
];

/// What the compiler needs for that. Its accesses call functions of `spanlock-cores`.
const FLAGS: &str =
    "['-Zsanitizer=thread','-Zexternal-clangrt','-Cunsafe-allow-abi-mismatch=sanitizer']";

/// A case, a lock and a number of cores.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) case: String,
    pub(super) lock: String,
    pub(super) cores: usize,
    accesses: String,
}

impl Cell {
    /// Returns a cell of the program that sees all accesses.
    pub(super) fn of_all_accesses(case: &str, lock: &str, cores: usize) -> Cell {
        Cell {
            case: case.to_owned(),
            lock: lock.to_owned(),
            cores,
            accesses: "all".to_owned(),
        }
    }
}

/// What the model varies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Nanoseconds to copy a page.
    pub(super) page_ns: u32,
    /// How long a transfer takes, in percent of the usual time.
    pub(super) transfers: u32,
    /// How long system calls, sleeps and wakes take, in percent of the usual times.
    pub(super) system: u32,
    pub(super) seed: u32,
}

/// The programs, which are removed on drop.
#[derive(Debug)]
pub(super) struct Programs {
    folder: TempDir,
    /// Why there is no instrumented program.
    skipped: Option<String>,
}

impl Programs {
    /// Builds both programs. The instrumented one may be missing afterwards.
    ///
    /// # Errors
    /// The other one cannot be built.
    pub(super) fn build(project: &Path) -> Result<Self> {
        let given = env::var("RUSTFLAGS").unwrap_or_default();
        ensure!(
            !given.contains("spanlock_"),
            "RUSTFLAGS has a cfg of this project, `{given}`: unset it, because the command adds the one that it needs"
        );
        let folder = tempfile::tempdir().context("creating a temporary folder")?;
        let mut programs = Programs {
            folder,
            skipped: None,
        };
        let built = built(project, &programs.path("atomics"), &[]);
        built.context("the programs for simulated cores do not build")?;
        let mut options = vec!["-Zprofile-rustflags".to_owned()];
        options.push(format!("--features={PACKAGE}/instrumented"));
        for package in INSTRUMENTED {
            let key = format!("profile.{PROFILE}.package.spanlock-{package}.rustflags");
            options.push(format!("--config={key}={FLAGS}"));
        }
        if let Err(error) = built_instrumented(project, &programs.path("all"), &options) {
            programs.skipped = Some(format!(
                "SKIPPED: the rows that need to see all accesses, because this compiler cannot instrument them ({error:#})"
            ));
        }
        Ok(programs)
    }

    /// Says why there is no instrumented program.
    pub(super) fn skipped(&self) -> impl Iterator<Item = &str> {
        self.skipped.as_deref().into_iter()
    }

    /// Returns whether the program for this cell has been built.
    pub(super) fn can_run(&self, cell: &Cell) -> bool {
        self.skipped.is_none() || cell.accesses != "all"
    }

    /// Returns all cells with these numbers of cores, or with the usual ones.
    ///
    /// # Errors
    /// The program fails.
    pub(super) fn cells(&self, cores: &[usize]) -> Result<Vec<Cell>> {
        let cores: Vec<_> = cores.iter().map(ToString::to_string).collect();
        let mut command = Command::new(self.path("atomics"));
        let text = text_of(command.arg("list").args(cores))?;
        text.lines()
            .map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
                [case, lock, cores, accesses] => Ok(Cell {
                    case: case.to_owned(),
                    lock: lock.to_owned(),
                    cores: cores.parse()?,
                    accesses: accesses.to_owned(),
                }),
                _ => bail!("{PACKAGE} lists a cell as {line:?}"),
            })
            .collect()
    }

    /// Runs a cell.
    ///
    /// # Errors
    /// The program fails: its message says why.
    pub(super) fn run(&self, cell: &Cell) -> Result<Row> {
        let Cell {
            case,
            lock,
            cores,
            accesses,
        } = cell;
        let mut command = Command::new(self.path(accesses));
        command.args([case, lock, &cores.to_string()]);
        let text = text_of(&mut command)
            .with_context(|| format!("{case} under {lock} on {cores} simulated cores"))?;
        row(cell, &text).with_context(|| format!("{PACKAGE} printed {text:?}"))
    }

    /// Runs a cell at a point of the model. Returns its operations per simulated second.
    ///
    /// # Errors
    /// The program fails: its message says why. Or no operation ended.
    pub(super) fn throughput(&self, cell: &Cell, point: Point) -> Result<f64> {
        let Cell {
            case, lock, cores, ..
        } = cell;
        let Point {
            page_ns,
            transfers,
            system,
            seed,
        } = point;
        let mut command = Command::new(self.path(&cell.accesses));
        command.args(["model", case, lock, &cores.to_string()]);
        command.args([page_ns, transfers, system, seed].map(|it| it.to_string()));
        let text = text_of(&mut command)
            .with_context(|| format!("{case} under {lock} on {cores} simulated cores"))?;
        per_second(&text).with_context(|| format!("{PACKAGE} printed {text:?}"))
    }

    fn path(&self, accesses: &str) -> PathBuf {
        self.folder.path().join(accesses)
    }
}

/// Builds the instrumented program, and tries it.
fn built_instrumented(project: &Path, to: &Path, options: &[String]) -> Result<()> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "only on Linux on x86-64"
    );
    built(project, to, options)?;
    text_of(Command::new(to).arg("list"))?;
    Ok(())
}

/// Builds a program, and copies it: the next build replaces it.
fn built(project: &Path, to: &Path, options: &[String]) -> Result<()> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| project.join("target"), Into::into);
    let target = target.join("lines");
    let given = env::var("RUSTFLAGS").unwrap_or_default();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(project)
        .args([
            "build",
            "--locked",
            "--package",
            PACKAGE,
            "--profile",
            PROFILE,
        ])
        .args(options)
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", format!("{given} --cfg spanlock_simulated"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    text_of(&mut cargo)?;
    let built = target.join(PROFILE).join(PACKAGE);
    std::fs::copy(&built, to).with_context(|| format!("copying {}", built.display()))?;
    Ok(())
}

/// Runs a command, and returns what it prints.
fn text_of(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("running {command:?}"))?;
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let said = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "{status}: {}", said.trim_end());
    Ok(String::from_utf8(stdout)?)
}

/// Reads what a cell has printed at a point of the model.
fn per_second(text: &str) -> Result<f64> {
    let ["model", operations, ns] = text.trim_end().split('\t').collect::<Vec<_>>()[..] else {
        bail!("it is no result of the model");
    };
    let (operations, ns): (f64, f64) = (operations.parse()?, ns.parse()?);
    ensure!(operations > 0.0, "no operation ended");
    Ok(operations / ns * 1e9)
}

/// Reads what a cell has printed.
fn row(cell: &Cell, text: &str) -> Result<Row> {
    let mut lines = text
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let first = lines.next().unwrap_or_default();
    let ["row", layouts, with_transfers, operations, counts @ ..] = &first[..] else {
        bail!("it is no row");
    };
    let operations: f64 = operations.parse()?;
    // A target of 0 is judged by this: no count but 0 may round to 0.
    let per = |count: &str| -> Result<f64> {
        let count: f64 = count.parse()?;
        let hundredths = (count / operations * 100.0).round();
        Ok(hundredths.max(if count > 0.0 { 1.0 } else { 0.0 }) / 100.0)
    };
    let [transfers, false_transfers, rmw] = counts else {
        bail!("a count is missing");
    };
    let lines = lines.map(|fields| match fields[..] {
        ["line", place, transfers, false_transfers, words] => Ok(Line {
            place: place.to_owned(),
            transfers: per(transfers)?,
            false_transfers: per(false_transfers)?,
            words: words.to_owned(),
        }),
        _ => bail!("a line is broken"),
    });
    Ok(Row {
        case: cell.case.clone(),
        lock: cell.lock.clone(),
        cores: cell.cores,
        accesses: cell.accesses.clone(),
        layouts: layouts.parse()?,
        layouts_with_transfers: with_transfers.parse()?,
        transfers: per(transfers)?,
        rmw: per(rmw)?,
        false_transfers: per(false_transfers)?,
        lines: lines.collect::<Result<_>>()?,
        targets: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_in_simulated_seconds() {
        assert_eq!(per_second("model\t2000\t1000000\n").unwrap(), 2e6);
        for broken in ["", "model\t1", "model\tx\t1", "model\t0\t1000000"] {
            assert!(per_second(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn figures_are_for_each_operation() {
        let cell = Cell::of_all_accesses("case", "lock", 2);
        let text = "row\t3\t1\t8\t10\t4\t16\nline\ta place\t9\t4\t0..4: 2 read, 1 write";
        let read = row(&cell, text).unwrap();
        let figures = (read.transfers, read.false_transfers, read.rmw);
        assert_eq!(figures, (1.25, 0.5, 2.0));
        assert_eq!((read.layouts, read.layouts_with_transfers), (3, 1));
        assert_eq!(
            (read.lines[0].transfers, &*read.lines[0].place),
            (1.13, "a place")
        );
        for broken in [
            "",
            "row\t1\t1\t1\t1\t1",
            "row\t1\t1\t1\tx\t1\t1",
            &format!("{text}\nline"),
        ] {
            assert!(row(&cell, broken).is_err(), "{broken}");
        }
    }
}
