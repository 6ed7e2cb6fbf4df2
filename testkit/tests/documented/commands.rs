//! The commands that documents show.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Each documented command, with the places of the documents that show it.
pub(crate) type Documented = BTreeMap<String, Vec<String>>;

/// Finds the commands in all documents of the project.
pub(crate) fn documented(project: &Path) -> Documented {
    let mut documents = Vec::new();
    markdown(project, &mut documents);
    documents.sort();
    assert!(documents.len() > 10, "only {} documents", documents.len());
    let mut found = Documented::new();
    for document in documents {
        let text = fs::read_to_string(&document).expect("readable");
        let name = document.strip_prefix(project).expect("of the project");
        for (line, command) in commands(project, &text) {
            let place = format!("{}:{line}", name.display());
            found.entry(command).or_default().push(place);
        }
    }
    found
}

/// Finds all documents, except in hidden folders and build outputs.
fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of this project") {
        let entry = entry.expect("readable");
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            let is_output = name == "target" || path.ends_with("kernel/out");
            if !is_output && !name.to_string_lossy().starts_with('.') {
                markdown(&path, found);
            }
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path);
        }
    }
}

/// Returns the commands of a document, each with its line: all lines of blocks of shell commands,
/// and whatever begins with a program elsewhere, be it a line of another block or a code span.
/// Figures name the command that measured them, which is no instruction.
pub(crate) fn commands(project: &Path, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let mut block: Option<Block> = None;
    let mut in_figures = false;
    for (number, line) in (1..).zip(text.lines()) {
        // Spans may be wrapped, so prose is searched as a whole. A block counts as empty lines.
        prose.push('\n');
        if block.is_none() && line.starts_with("<!-- ") {
            in_figures = line.starts_with("<!-- figures:");
        }
        if in_figures {
            continue;
        }
        let is_fence = line.trim_start().starts_with("```");
        match (&mut block, is_fence) {
            (None, true) => block = Some(Block::new(line)),
            (Some(_), true) => block = None,
            (None, false) => prose.push_str(line),
            (Some(block), false) => {
                let command = block.command(project, line);
                found.extend(command.map(|command| (number, command)));
            }
        }
    }
    found.extend(spans(project, &prose));
    found
}

/// A code block, while its lines are read.
struct Block {
    language: String,
    /// The command that enters the folder in which the following commands run.
    folder: Option<String>,
    /// The beginning of a command that continues on the next line.
    begun: String,
}

impl Block {
    fn new(fence: &str) -> Self {
        let language = fence.trim_start().trim_start_matches('`').trim();
        Self {
            language: language.to_owned(),
            folder: None,
            begun: String::new(),
        }
    }

    /// Returns the command that ends on this line.
    fn command(&mut self, project: &Path, line: &str) -> Option<String> {
        let line = match self.language.as_str() {
            "console" => line.strip_prefix("$ ")?,
            "sh" | "bash" | "shell" => line,
            "rust" => return None,
            _ if is_command(project, line) => line,
            _ => return None,
        };
        let line = line.split(" #").next().unwrap_or_default().trim();
        if let Some(part) = line.strip_suffix('\\') {
            self.begun.push_str(part);
            return None;
        }
        let command = words(&(std::mem::take(&mut self.begun) + line));
        if command.is_empty() || command.starts_with('#') {
            return None;
        }
        if command.starts_with("cd ") && !command.contains("&&") {
            self.folder = Some(command);
            return None;
        }
        Some(match &self.folder {
            Some(folder) => format!("{folder} && {command}"),
            None => command,
        })
    }
}

/// Returns the commands among the code spans of a text.
fn spans(project: &Path, prose: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut line = 0;
    for (index, part) in prose.split('`').enumerate() {
        if index % 2 == 1 && is_command(project, part) {
            // The first character of the text is a line break.
            found.push((line, words(part)));
        }
        line += part.matches('\n').count();
    }
    found
}

/// Returns whether a text begins with a program, possibly after assignments to its environment.
fn is_command(project: &Path, text: &str) -> bool {
    let mut words = without_assignments(text).split_whitespace();
    match (words.next(), words.next()) {
        (Some("cargo" | "bash"), argument) => argument.is_some(),
        // Without an argument, the text is a name.
        (Some(program), Some(_)) => program.contains('/') && is_program(&project.join(program)),
        _ => false,
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Returns a text without the assignments `NAME=value` with which it begins.
pub(crate) fn without_assignments(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some((name, value)) = rest.split_once('=') {
        let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            break;
        }
        let end = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].find(quote).map(|end| end + 2),
            _ => value.find(char::is_whitespace),
        };
        rest = value[end.unwrap_or(value.len())..].trim_start();
    }
    rest
}

/// Returns a text with single spaces between its words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
