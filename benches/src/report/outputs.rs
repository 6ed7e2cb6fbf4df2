//! The output files of a run: checked before it begins, written when it is complete.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use spanlock_result_file::ResultFile;

use super::findings::Findings;
use super::frame;
use super::machine::{Machine, now};
use super::origin::{Commit, FORMAT, Origin, VERSIONS};
use crate::load::LoadWatch;

/// The files for the report and the JSON. Both are writable, as far as this can be known in
/// advance.
#[derive(Debug)]
pub struct Outputs {
    report: ResultFile,
    json: Option<ResultFile>,
    watch: LoadWatch,
}

impl Outputs {
    /// Checks the files and changes nothing. Neither may be the volume, if there is one. The run
    /// begins here.
    ///
    /// # Errors
    /// A file cannot be written or is the volume, or both are the same file.
    pub fn check(report: &Path, json: Option<&Path>, volume: Option<&Path>) -> Result<Self> {
        let report = check("--report", report, volume)?;
        let json = json.map(|path| check("--json", path, volume)).transpose()?;
        if let Some(json) = &json {
            ensure!(
                !json.is_at(report.path()),
                "--json and --report are both {}: choose two different files",
                json.path().display()
            );
        }
        Ok(Outputs {
            report,
            json,
            watch: LoadWatch::start(),
        })
    }

    /// Writes the rows and the report. Returns a sentence that names the files.
    ///
    /// # Errors
    /// A plot cannot be drawn, or a file can no longer be written.
    pub fn write<F: Findings>(&self, found: &F) -> Result<String> {
        let origin = self.origin(found.media());
        let page = frame::page(found, &origin)?;
        let mut written = format!("report: {}", self.report.path().display());
        if let Some(json) = &self.json {
            let _ = write!(written, ", rows: {}", json.path().display());
            write(json, &json_text(&origin, found.rows())?)?;
        }
        write(&self.report, &page)?;
        Ok(written)
    }

    /// Writes only the report, as of a run that ended earlier.
    ///
    /// # Errors
    /// Same as [`write`](Self::write).
    pub fn write_again<F: Findings>(&self, found: &F, origin: &Origin) -> Result<String> {
        write(&self.report, &frame::page(found, origin)?)?;
        Ok(format!("report: {}", self.report.path().display()))
    }

    fn origin(&self, media: Vec<String>) -> Origin {
        let share = self.watch.others().share();
        Origin {
            format: FORMAT,
            name: name(&arguments()).to_owned(),
            command: command(),
            machine: Machine::this(),
            date: now(),
            commit: commit(Path::new(env!("CARGO_MANIFEST_DIR"))),
            versions: Some(VERSIONS.to_owned()),
            optimised: !cfg!(debug_assertions),
            disturbed: share.map(|it| (it * 1000.0).round() / 1000.0),
            media,
        }
    }
}

/// Returns the content of a result file, with one line for each row.
fn json_text<R: Serialize>(origin: &Origin, rows: &[R]) -> Result<String> {
    let mut text = serde_json::to_string_pretty(origin)?;
    // The origin ends with a list, so these characters are the end of the object alone.
    text.truncate(text.trim_end_matches(['}', '\n']).len());
    text.push_str(",\n  \"rows\": [");
    for (nth, row) in rows.iter().enumerate() {
        text.push_str(if nth == 0 { "\n    " } else { ",\n    " });
        text.push_str(&serde_json::to_string(row)?);
    }
    text.push_str("\n  ]\n}\n");
    Ok(text)
}

/// Returns the command line without `--json` and `--report`. Paths need not be UTF-8, because they
/// are only displayed.
fn command() -> String {
    let mut words = vec!["cargo".to_owned(), "compare".to_owned()];
    let quoted = |word: String| match word.contains(char::is_whitespace) || word.is_empty() {
        true => format!("'{word}'"),
        false => word,
    };
    words.extend(without_outputs(arguments()).into_iter().map(quoted));
    words.join(" ")
}

fn arguments() -> Vec<String> {
    let words = std::env::args_os().skip(1);
    words.map(|it| it.to_string_lossy().into_owned()).collect()
}

/// Returns the arguments without `--json` and `--report`, which do not affect the rows.
fn without_outputs(arguments: Vec<String>) -> Vec<String> {
    let mut is_value = false;
    let mut kept = arguments;
    kept.retain(|word| {
        let is_output =
            |option: &str| word.starts_with(option) && word[option.len()..].starts_with('=');
        let skip = is_value || ["--json", "--report"].into_iter().any(is_output);
        is_value = !is_value && (word == "--json" || word == "--report");
        !skip && !is_value
    });
    kept
}

/// Returns the name of the comparison that these arguments run.
fn name(arguments: &[String]) -> &str {
    let has = |option| arguments.iter().any(|it| it == option);
    match arguments.first() {
        Some(subcommand) if subcommand == "lines" && has("--model") => "lines-model",
        Some(subcommand) if !subcommand.starts_with('-') => subcommand,
        _ if has("--micro") => "micro",
        _ => "compare",
    }
}

/// Returns the commit of the sources in `folder`.
fn commit(folder: &Path) -> Option<Commit> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let output = git.args(arguments).current_dir(folder).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let paths = [":/", ":(exclude,top)*.md", ":(exclude,top)docs/figures"];
    let status = git(&[&["status", "--porcelain", "--"], &paths[..]].concat())?;
    Some(Commit {
        hash: git(&["rev-parse", "--short=12", "HEAD"])?,
        modified: !status.is_empty(),
    })
}

fn check(option: &str, path: &Path, volume: Option<&Path>) -> Result<ResultFile> {
    let file = ResultFile::check(path).with_context(|| {
        format!(
            "{option} {}: cannot be written, so nothing was run; choose a file in a folder that exists and is writable",
            path.display()
        )
    })?;
    if let Some(volume) = volume {
        ensure!(
            !file.is_at(volume),
            "{option} {}: that is the volume; choose another file",
            path.display()
        );
    }
    Ok(file)
}

fn write(file: &ResultFile, text: &str) -> Result<()> {
    file.write(text.as_bytes())
        .with_context(|| format!("writing {}", file.path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn output_files_are_no_part_of_the_command() {
        let all = "journal --json rows.json --device disk --report=x.html --report y --think 0";
        assert_eq!(
            without_outputs(words(all)),
            words("journal --device disk --think 0")
        );
        assert_eq!(without_outputs(words("--json=x --micro")), ["--micro"]);
    }

    #[test]
    fn a_comparison_is_named_after_its_subcommand() {
        assert_eq!(name(&words("file-core --threads 1")), "file-core");
        assert_eq!(name(&words("--seconds 1 --micro")), "micro");
        assert_eq!(name(&words("lines --cores 8 --model")), "lines-model");
        assert_eq!(name(&words("lines --cores 8")), "lines");
        assert_eq!(name(&[]), "compare");
    }

    #[test]
    fn a_result_file_has_its_origin_and_a_line_for_each_row() {
        let origin = Origin {
            format: FORMAT,
            name: "micro".to_owned(),
            command: "cargo compare --micro".to_owned(),
            machine: Machine::this(),
            date: now(),
            commit: None,
            versions: None,
            optimised: false,
            disturbed: Some(0.01),
            media: vec!["in } memory".to_owned()],
        };
        for rows in [&[][..], &[1.5], &[1.5, 2.5]] {
            let text = json_text(&origin, rows).unwrap();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["rows"], serde_json::json!(rows));
            assert_eq!(value["media"][0], "in } memory");
            let read: Origin = serde_json::from_value(value).unwrap();
            assert_eq!(read.machine, origin.machine);
        }
    }

    #[test]
    fn a_folder_outside_of_git_has_no_commit() {
        let folder = tempfile::tempdir().unwrap();
        assert!(commit(folder.path()).is_none());
    }
}
