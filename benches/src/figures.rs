//! The figures of documents, taken from result files: `cargo compare figures`.
//!
//! A document contains *blocks*. A block begins with a marker, which names it and selects what it
//! shows, and ends with another:
//!
//! ```text
//! <!-- figures: micro cases=write/1-segment locks=srl-array,parking_lot -->
//! the table, and a line with machine, command and date
//! <!-- /figures -->
//! ```
//!
//! The command renders each block from `docs/figures/<name>.json`, which another command of `cargo
//! compare` wrote with `--json`, and replaces what is between the markers. Markers in code are
//! examples and have no effect.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `markers.rs` | finds the blocks of a document |
//! | `results.rs` | reads the result files |
//! | `blocks.rs` | the kinds of blocks |
//! | `table.rs` | tables and numbers as text |
//! | `runs.rs` | the commands that write the result files |
//! | `measure.rs` | runs these commands |

pub mod args;
mod blocks;
mod markers;
pub mod measure;
mod results;
pub mod runs;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spanlock_result_file::ResultFile;
use walkdir::{DirEntry, WalkDir};

use self::blocks::{Machines, Rendered};
use self::markers::Block;
use self::results::Results;

/// The outcome of [`run`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Documents with blocks.
    pub documents: usize,
    /// Blocks in all of them.
    pub blocks: usize,
    /// Blocks that differed from their results.
    pub rewritten: usize,
}

/// A document with blocks.
struct Document {
    path: PathBuf,
    old: String,
    new: String,
    /// One line for each block that differs.
    differing: Vec<String>,
    blocks: usize,
}

/// Renders the blocks of all documents of the project from the result files in `dir`. Rewrites the
/// documents that differ, or only reports them if `check`.
///
/// # Errors
/// A marker is malformed, a block cannot be rendered, or a file cannot be read or written; with
/// `check`, also that a block differs. Nothing is written then. The message names each such place.
pub fn run(project: &Path, dir: &Path, check: bool) -> Result<Summary> {
    let results = Results::new(dir);
    let mut machines = Machines::default();
    let (mut documents, mut wrong) = (Vec::new(), Vec::new());
    for path in paths(project)? {
        let shown = path.strip_prefix(project).unwrap_or(&path);
        match Document::render(&path, shown, &results, &mut machines) {
            Ok(document) => documents.extend(document),
            Err(mut errors) => wrong.append(&mut errors),
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\nerror: "));
    }
    let differing = documents.iter().flat_map(|it| &it.differing);
    let differing: Vec<&str> = differing.map(String::as_str).collect();
    let summary = Summary {
        documents: documents.len(),
        blocks: documents.iter().map(|it| it.blocks).sum(),
        rewritten: differing.len(),
    };
    if check && summary.rewritten > 0 {
        bail!(
            "{}\nNumbers in these blocks are not those of the result files: `cargo compare figures` rewrites them",
            differing.join("\n")
        );
    }
    for document in documents.iter().filter(|it| it.new != it.old) {
        let file = ResultFile::check(&document.path);
        let written = file.and_then(|it| it.write(document.new.as_bytes()));
        written.with_context(|| format!("writing {}", document.path.display()))?;
    }
    Ok(summary)
}

/// Returns the paths of the project's documents, in order.
fn paths(project: &Path) -> Result<Vec<PathBuf>> {
    let is_left_out = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        // `kernel/out` has what `kernel/` builds and downloads.
        let is_output = name == "target" || entry.path().ends_with("kernel/out");
        entry.depth() > 0 && (name.starts_with('.') || is_output)
    };
    let all = WalkDir::new(project).sort_by_file_name();
    let mut paths = Vec::new();
    for entry in all.into_iter().filter_entry(|it| !is_left_out(it)) {
        let entry = entry.with_context(|| format!("reading {}", project.display()))?;
        let is_document = entry.path().extension().is_some_and(|it| it == "md");
        if is_document && entry.file_type().is_file() {
            paths.push(entry.into_path());
        }
    }
    Ok(paths)
}

impl Document {
    /// Renders a document, if it has blocks. Errors begin with its name, `shown`, and the line.
    fn render(
        path: &Path,
        shown: &Path,
        results: &Results,
        machines: &mut Machines,
    ) -> Result<Option<Document>, Vec<String>> {
        let place = |line: usize| format!("{}:{line}", shown.display());
        let old = fs::read_to_string(path);
        let old = old.map_err(|error| vec![format!("reading {}: {error}", path.display())])?;
        let blocks = markers::blocks(&old)
            .map_err(|(line, error)| vec![format!("{}: {error}", place(line))])?;
        if blocks.is_empty() {
            return Ok(None);
        }
        let (mut new, mut end) = (String::new(), 0);
        let (mut differing, mut errors) = (Vec::new(), Vec::new());
        for block in &blocks {
            let name = format!("{}: block `{}`", place(block.line), block.name);
            match render(block, results, machines) {
                Ok(body) => {
                    if body != old[block.body.clone()] {
                        differing.push(format!("{name} differs from its results"));
                    }
                    new.push_str(&old[end..block.body.start]);
                    new.push_str(&body);
                    end = block.body.end;
                }
                Err(error) => errors.push(format!("{name}: {error:#}")),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        new.push_str(&old[end..]);
        Ok(Some(Document {
            path: path.to_owned(),
            blocks: blocks.len(),
            old,
            new,
            differing,
        }))
    }
}

/// Returns the text between a block's markers.
fn render(block: &Block<'_>, results: &Results, machines: &mut Machines) -> Result<String> {
    Ok(match blocks::render(block, results, machines)? {
        Rendered::Table { table, origin } => format!("\n\n{table}\n{origin}\n\n"),
        Rendered::Value(value) => value,
    })
}

#[cfg(test)]
mod tests;
