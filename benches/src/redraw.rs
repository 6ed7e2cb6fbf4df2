//! The report of a run that ended earlier, from its result file: `cargo compare redraw`.
//!
//! It is the report that the run wrote, except for what no row has: the distributions of times of
//! `node-log`, the summary of an import, the number of runs of each kind of failure, and why rows
//! are missing.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use serde::Deserialize;

use crate::args::{RedrawArgs, size};
use crate::cli::{Args, Command};
use crate::load::Others;
use crate::report::{FORMAT, Origin, Outputs};
use crate::{
    compare, contention, failures, file_core, journal, lines, micro, node_log, objects, papers,
    recovery,
};

#[derive(Deserialize)]
struct RowsOf<R> {
    rows: Vec<R>,
}

/// Writes the report. Returns a sentence that names it.
///
/// # Errors
/// The result file cannot be read or is none, or the report cannot be written.
pub fn redraw(args: &RedrawArgs) -> Result<String> {
    let outputs = Outputs::check(&args.report, None, Some(&args.json))?;
    of_file(&args.json, &outputs).with_context(|| args.json.display().to_string())
}

fn of_file(path: &Path, outputs: &Outputs) -> Result<String> {
    // Rows borrow their names, as those of a run do. The program reads one file and ends.
    let text: &'static str = fs::read_to_string(path)?.leak();
    let origin: Origin =
        serde_json::from_str(text).context("not a result file, which --json writes")?;
    let format = origin.format;
    ensure!(
        format == FORMAT,
        "a result file of format {format}, and this version reads format {FORMAT}"
    );
    // The command line has what the rows do not say, such as the seconds for each.
    let words = origin.command.split_whitespace().skip(1);
    let args = Args::try_parse_from(words).with_context(|| {
        let command = &origin.command;
        format!("its command, `{command}`, is none of this version")
    })?;
    drawn(text, &origin, args, outputs)
}

/// Reads the rows of a comparison, recreates what it found, and writes the page.
fn drawn(text: &'static str, origin: &Origin, args: Args, outputs: &Outputs) -> Result<String> {
    let others = Others::of_share(origin.disturbed);
    let media = || origin.media.clone();
    let volume = origin.media.join("; ");
    let seconds = args.seconds;
    match (&*origin.name, args.command) {
        ("compare", None) => {
            let mut rows = rows(text)?;
            let targets = compare::targets::judge(&mut rows);
            let imported = None;
            let found = compare::Outcome {
                rows,
                targets,
                volume,
                imported,
                seconds,
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("micro", None) => {
            let mut rows: Vec<micro::Row> = rows(text)?;
            let ours = micro::candidates().into_iter();
            let ours = ours.filter(|it| it.ours && rows.iter().any(|row| row.lock == it.name));
            let ours: Vec<_> = ours.map(|it| it.name).collect();
            let targets = micro::targets::judge(&mut rows, &ours);
            let (absent, cores) = (Vec::new(), origin.machine.cores.min(micro::CORES));
            let found = micro::Outcome {
                rows,
                absent,
                targets,
                ours,
                seconds,
                cores,
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("contention", Some(Command::Contention(args))) => {
            let (rows, absent, seconds) = (rows(text)?, Vec::new(), args.plan()?.seconds);
            let found = contention::Outcome {
                rows,
                absent,
                seconds,
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("journal", Some(Command::Journal(args))) => {
            let (mut rows, plan, devices) = (rows(text)?, args.plan(), media());
            let targets = journal::targets::judge(&mut rows, &plan.devices);
            let found = journal::Outcome {
                rows,
                targets,
                plan,
                devices,
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("failures", Some(_)) => {
            let rows: Vec<failures::rows::Row> = rows(text)?;
            let rows: Result<_> = rows
                .into_iter()
                .map(failures::rows::Row::recorded)
                .collect();
            outputs.write_again(&failures::Outcome { rows: rows? }, origin)
        }
        ("file-core", Some(Command::FileCore(args))) => {
            let (mut rows, seconds) = (rows(text)?, args.plan().seconds);
            file_core::targets::compare(&mut rows);
            let found = file_core::Outcome {
                rows,
                volume,
                seconds,
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("recovery", Some(_)) => {
            let mut rows: Vec<recovery::Row> = rows(text)?;
            rows.chunk_by_mut(|a, b| (a.case, a.files) == (b.case, b.files))
                .for_each(recovery::compare);
            let found = recovery::Outcome {
                rows,
                volume,
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("objects", Some(Command::Objects(args))) => {
            let mut rows: Vec<objects::Row> = rows(text)?;
            // The last part of the case of a write or read is its length.
            for row in rows.iter_mut().filter(|it| it.mib_per_s.is_some()) {
                let length = row.case.rsplit('/').next().and_then(|it| size(it).ok());
                row.bytes = length.map(|it| it.bytes as usize);
            }
            objects::targets::compare(&mut rows);
            let plan = args.plan();
            let found = objects::Outcome {
                targets: objects::targets::worst(&rows),
                paper: objects::paper::beside(&rows, &plan.devices),
                rows,
                devices: media(),
                seconds: plan.seconds,
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("node-log", Some(Command::NodeLog(args))) => {
            let (mut rows, seconds) = (rows(text)?, args.plan().seconds);
            node_log::targets::compare(&mut rows);
            let found = node_log::Outcome {
                rows,
                media: media(),
                seconds,
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("papers", Some(_)) => {
            let found = papers::Outcome {
                rows: rows(text)?,
                media: media(),
                others,
            };
            outputs.write_again(&found, origin)
        }
        ("lines", Some(_)) => {
            let rows: Vec<lines::Row> = rows(text)?;
            let rows = rows.into_iter().map(lines::Row::judged).collect();
            let found = lines::Outcome {
                rows,
                drifted: Vec::new(),
                notes: Vec::new(),
            };
            outputs.write_again(&found, origin)
        }
        (name, _) => bail!("there is no comparison `{name}` whose report can be drawn again"),
    }
}

fn rows<R: Deserialize<'static>>(text: &'static str) -> Result<Vec<R>> {
    let all: RowsOf<R> = serde_json::from_str(text)?;
    Ok(all.rows)
}
