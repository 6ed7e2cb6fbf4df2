//! `cargo verify mutants`: weakens each ordering, and omits each fence, wake, flush and drain (a
//! fence of persistent memory), one at a time and at run time. For each such change (a mutant),
//! some program must fail.
//!
//! The programs that reach the changed site run, cheapest first, until one fails: first all without
//! faults, and then those that have faults.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use walkdir::WalkDir;

use super::build::Built;
use super::change::Change;
use super::models::Plan;
use super::reached::{Candidates, Reached, Site, searches};

/// The number of lines, from that of a reported call on, whose orderings belong to the call.
const CALL: usize = 8;

/// A line of a module doc that starts with this text exempts the file and its submodules from the
/// search for orderings and injected bugs that no program reaches.
const EXEMPT: &str = "//! Not reached by models:";

/// Returns every mutant, and a candidate for each ordering that no program reaches.
pub(super) fn candidates<'a>(
    built: &Built,
    plan: &'a Plan,
    reached: &Reached<'a>,
) -> Result<Candidates<'a>> {
    let mut candidates = Vec::new();
    for (site, models) in &reached.sites {
        let text = source(&built.root.join(&site.file))?;
        for mutation in site.mutations() {
            let reason = reason(&text, site, mutation);
            let name = format!("{}={mutation}", site.place);
            let mut change = Change::new(&name, &site.change(mutation), ["--weaken", &name]);
            change.reason = reason;
            candidates.push((change, searches(plan, models, site.is_flush())));
        }
    }
    for place in unreached(built, reached)? {
        let change = Change::new(&place, "unreached", ["", ""]);
        candidates.push((change, Vec::new()));
    }
    Ok((candidates, Vec::new()))
}

fn source(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("{}: cannot read", file.display()))
}

/// Returns the reason why no program can kill this mutant, if a comment gives one: above the site's
/// statement, or inside the statement and above the site.
fn reason(text: &str, site: &Site, mutation: &str) -> Option<String> {
    let start = format!("equivalent({mutation}): ");
    let above: Vec<&str> = text.lines().take(site.line.saturating_sub(1)).collect();
    let earlier = above.iter().rposition(|line| ends_statement(line));
    let above = &above[earlier.map_or(0, |at| at + 1)..];
    let said = |line: &&'_ str| line.trim().strip_prefix("// ").map(str::to_owned);
    let is_first = |line: &&str| said(line).is_some_and(|said| said.starts_with(&start));
    let first = above.iter().rposition(is_first)?;
    let mut lines = above[first..].iter().map_while(said);
    let mut reason = vec![lines.next()?[start.len()..].to_owned()];
    reason.extend(lines.take_while(|line| !line.starts_with("equivalent(")));
    Some(reason.join(" "))
}

/// Whether a statement or an arm of a match ends in this line.
fn ends_statement(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default().trim_end();
    let is_arm = code.contains("=>") && code.ends_with(',');
    line.trim().is_empty() || code.ends_with([';', '{', '}']) || is_arm
}

/// Returns the lines of the packages' sources that name an ordering other than Relaxed and belong
/// to no site that a program reaches.
fn unreached(built: &Built, reached: &Reached) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    for (file, text) in sources(built)? {
        for line in ordered_lines(&text) {
            let near =
                |site: &Site| site.file == file && (site.line..site.line + CALL).contains(&line);
            if !reached.sites.keys().any(near) {
                missed.push(format!("{file}:{line}"));
            }
        }
    }
    Ok(missed)
}

/// Returns the source files of all packages, except tests and exempt files. Each comes with its
/// path as the compiler prints it.
pub(super) fn sources(built: &Built) -> Result<Vec<(String, String)>> {
    let root = &built.root;
    let mut sources = Vec::new();
    for package in &built.packages {
        let files = WalkDir::new(root.join(&package.sources)).sort_by_file_name();
        let files = files.into_iter().filter_entry(|it| {
            let is_test = matches!(it.file_name().to_str(), Some("tests" | "tests.rs"));
            !is_test && !is_exempt(it.path())
        });
        for file in files.filter_map(Result::ok) {
            let path = file.path();
            if path.extension().is_some_and(|it| it == "rs") {
                let name = path.strip_prefix(root).unwrap_or(path).display();
                sources.push((name.to_string(), source(path)?));
            }
        }
    }
    Ok(sources)
}

/// Whether a file contains the exempting line, or the module file of a folder does.
fn is_exempt(path: &Path) -> bool {
    let modules = [
        path.with_extension("rs"),
        path.join("mod.rs"),
        path.join("lib.rs"),
    ];
    let mut texts = modules.iter().flat_map(fs::read_to_string);
    texts.any(|text| text.lines().any(|line| line.starts_with(EXEMPT)))
}

/// Returns the numbers of the lines outside tests that name an ordering other than Relaxed.
fn ordered_lines(text: &str) -> Vec<usize> {
    let is_ordering = |word| matches!(word, "Acquire" | "Release" | "AcqRel" | "SeqCst");
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let code = line.split("//").next().unwrap_or_default();
        let start = code.trim_start();
        // Code and string literals alternate at the quotes. The even parts are code.
        let mut unquoted = code.split('"').step_by(2);
        if start.starts_with("#[cfg(test)]") || start.starts_with("#[cfg(all(test") {
            let indent = &code[..code.len() - start.len()];
            let ends = |line: &str| {
                let rest = line.strip_prefix(indent).unwrap_or_default();
                rest.starts_with('}') || (line.ends_with(';') && !rest.starts_with(' '))
            };
            lines.find(|(_, line)| ends(line));
        } else if !start.starts_with("use ")
            && unquoted.any(|code| code.split(|c| !is_name(c)).any(is_ordering))
        {
            found.push(number);
        }
    }
    found
}
