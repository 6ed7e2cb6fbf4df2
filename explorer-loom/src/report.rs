//! What a search says at its end: a line for people, and one for programs.

use core::time::Duration;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use spanlock_explorer::{Report, Verdict};

use crate::model::Builder;

/// Writes a line to standard error, past the capture of the test harness: a truncated search must
/// not look like a pass.
pub(crate) fn line(text: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "explorer: {text}");
}

/// Reports a search: on standard error, and as a line of JSON in the file that
/// `LOOM_REPORT_FILE` names.
///
/// # Panics
/// If that file cannot be written.
pub(crate) fn print(report: &Report, builder: &Builder, time: Duration) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread without a name");
    let counts = &report.counts;
    let verdict = match report.verdict {
        Verdict::Exhausted => "EXHAUSTED",
        Verdict::Stopped => "TRUNCATED",
        Verdict::Failed(_) => "FAILED",
    };
    let (executions, runs) = (counts.executions, counts.runs);
    let seconds = time.as_secs_f64();
    let mut text =
        format!("{name}: {verdict}, {executions} executions, {runs} runs, {seconds:.2} s");
    if matches!(report.verdict, Verdict::Stopped) {
        let (runs, time) = (builder.max_permutations, builder.max_duration);
        text += &format!("; not all executions were seen: limits {runs:?} runs, {time:?}");
    }
    if counts.bounded > 0 {
        text += "; spin loops that write were explored up to a number of rounds";
    }
    line(&text);
    if let Some(path) = std::env::var_os("LOOM_REPORT_FILE").map(PathBuf::from) {
        let is_bounded = counts.bounded > 0;
        let json = format!(
            "{{\"model\": {name:?}, \"verdict\": \"{verdict}\", \"executions\": {executions}, \
             \"runs\": {runs}, \"bounded\": {is_bounded}, \"seconds\": {seconds:.3}}}\n"
        );
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(json.as_bytes()));
        if let Err(error) = written {
            panic!(
                "`LOOM_REPORT_FILE`, {}, cannot be written: {error}",
                path.display()
            );
        }
    }
}
