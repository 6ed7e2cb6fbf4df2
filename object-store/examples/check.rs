//! Checks a store in a file that no process has open, reads all of its data, and lists what is
//! wrong.
//!
//! ```text
//! cargo run -p spanlock-object-store --example check -- [--json] FILE
//! ```
//!
//! With `--demonstrate`, it makes a store in a temporary folder, damages it, checks it, and asserts
//! the results.

use std::error::Error;
use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_object_store::space::{self, Disk, Space, Vector};
use spanlock_object_store::{Options, Report, Store};

const DAMAGED: u8 = 4;
const FAILED: u8 = 8;

/// Checks an object store in a file, and reads all of its data.
///
/// Opening a store completes what a crash has interrupted, so the file is written to. Damaged data
/// is found only if the medium reports that it cannot read it.
#[derive(Parser)]
#[command(
    name = "check",
    after_help = "Exit status: 0 if the store is sound, 4 if it is damaged, 8 if it cannot be checked."
)]
struct Arguments {
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// The file that contains the store.
    #[arg(value_name = "FILE", required_unless_present = "demonstrate")]
    file: Option<PathBuf>,
    /// Make a small store in a temporary folder, damage it, and check it.
    #[arg(long, exclusive = true)]
    demonstrate: bool,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // If printing fails, there is no other place to report it.
            let _ = error.print();
            return if error.use_stderr() {
                FAILED.into()
            } else {
                0.into()
            };
        }
    };
    let done = match &arguments.file {
        Some(path) => run(path, arguments.json),
        None => demonstrate().map(|()| 0),
    };
    match done {
        Ok(status) => status.into(),
        Err(error) => {
            let _ = writeln!(stderr(), "check: {error}");
            FAILED.into()
        }
    }
}

type OnFile = Store<Disk<FileStorage>, IntervalLock>;

fn open(path: &Path) -> Result<OnFile, Box<dyn Error>> {
    let named = |error: &dyn Error| format!("{}: {error}", path.display());
    let file = Disk::open_file(path, FileMode::Buffered).map_err(|error| named(&error))?;
    let space = Space::open(file, IntervalLock::new()).map_err(|error| named(&error))?;
    let store = Store::open(space, &Options::new()).map_err(|error| named(&error))?;
    Ok(store)
}

/// Checks and reads a store. Shows progress on a terminal.
fn report(store: &mut OnFile) -> Result<Report, Box<dyn Error>> {
    let mut report = store.check()?;
    let shows = stderr().is_terminal();
    let mut shown = u64::MAX;
    let unread = store.scrub(|done, all| {
        let percent = done * 100 / all;
        if shows && percent != shown {
            let _ = write!(stderr(), "\rreading the data: {percent} %");
            shown = percent;
        }
    })?;
    if shows {
        let _ = write!(stderr(), "\r{:30}\r", "");
    }
    report.findings.extend(unread);
    Ok(report)
}

fn run(path: &Path, is_json: bool) -> Result<u8, Box<dyn Error>> {
    let report = report(&mut open(path)?)?;
    let mut text = Vec::new();
    if is_json {
        let finding = |it: &space::Finding| json!({ "what": it.what, "id": it.id, "at": it.at });
        let findings: Vec<_> = report.findings.iter().map(finding).collect();
        let all = json!({
            "objects": report.objects,
            "pre_created": report.pre_created,
            "versions": report.versions,
            "bytes": report.bytes,
            "is_sound": report.findings.is_empty(),
            "findings": findings,
        });
        writeln!(text, "{all:#}")?;
    } else {
        for finding in &report.findings {
            writeln!(text, "{finding}")?;
        }
        let state = match report.findings.len() {
            0 => "sound".to_owned(),
            1 => "1 finding".to_owned(),
            some => format!("{some} findings"),
        };
        let Report {
            objects,
            pre_created,
            versions,
            bytes,
            ..
        } = report;
        writeln!(
            text,
            "objects: {objects}, pre-created: {pre_created}, older versions: {versions}, bytes: {bytes}: {state}"
        )?;
    }
    // The status tells of the store, even if nobody reads the output.
    let _ = std::io::stdout().write_all(&text);
    Ok(if report.findings.is_empty() {
        0
    } else {
        DAMAGED
    })
}

/// Makes a store, checks it, damages it, and checks it again.
fn demonstrate() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    let file = Disk::create_file(&path, Some(64 << 20), FileMode::Buffered)?;
    let space = Space::create(file, &space::Options::new(), IntervalLock::new())?;
    let store = Store::create(space, &Options::new())?;
    let id = store.create_object()?;
    store.write(id, 0, &[1; 100_000])?;
    drop(store);
    assert_eq!(run(&path, false)?, 0);
    // A block in the region of an object that does not exist.
    let store = open(&path)?;
    store
        .space()
        .write_batch(&[Vector::write(7 << 30, b"lost")])?;
    drop(store);
    assert_eq!(run(&path, true)?, DAMAGED);
    let missing = run(&folder.path().join("missing"), false).unwrap_err();
    assert!(missing.to_string().contains("missing: "), "{missing}");
    Ok(())
}
