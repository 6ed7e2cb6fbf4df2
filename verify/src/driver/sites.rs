//! Sites of the facade, as binaries of models report them, and what the source says there.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result};
use walkdir::WalkDir;

use super::build::Built;

/// The most lines from where a call is reported to its last ordering.
const CALL: usize = 8;

/// The start of a line by which a module exempts its file, and the files below it, from the search
/// for orderings that no program reaches.
const EXEMPT: &str = "//! Not reached by models:";

/// A site of the facade: an atomic operation, a fence, a wake or a flush.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site {
    pub(super) file: String,
    line: usize,
    /// `file:line:column:operation`
    pub(super) place: String,
    operation: String,
    /// As written there; empty for a wake or a flush.
    ordering: String,
}

impl FromStr for Site {
    type Err = ();

    /// Parses what a model reports: `file:line:column:operation=Ordering`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (place, ordering) = text.rsplit_once('=').ok_or(())?;
        let parts: Vec<&str> = place.rsplitn(4, ':').collect();
        let &[operation, _, line, file] = &parts[..] else {
            return Err(());
        };
        Ok(Site {
            file: file.to_owned(),
            line: line.parse().map_err(|_| ())?,
            place: place.to_owned(),
            operation: operation.to_owned(),
            ordering: ordering.to_owned(),
        })
    }
}

impl Site {
    pub(super) fn is_wake(&self) -> bool {
        self.operation == "wake"
    }

    /// Returns the orderings that are one step weaker, and `drop` where the site can be omitted.
    pub(super) fn mutations(&self) -> &'static [&'static str] {
        match (&*self.operation, &*self.ordering) {
            ("wake" | "flush", _) => &["drop"],
            ("fence", "SeqCst") => &["drop", "AcqRel"],
            ("fence", "AcqRel") => &["drop", "Acquire", "Release"],
            ("fence", _) => &["drop"],
            (_, "Acquire" | "Release") => &["Relaxed"],
            (_, "AcqRel") => &["Acquire", "Release"],
            ("load" | "failure", "SeqCst") => &["Acquire"],
            ("store", "SeqCst") => &["Release"],
            (_, "SeqCst") => &["AcqRel"],
            _ => &[],
        }
    }

    /// Returns `Acquire->Relaxed`, or `drop`.
    pub(super) fn change(&self, mutation: &str) -> String {
        match mutation {
            "drop" => mutation.to_owned(),
            weaker => format!("{}->{weaker}", self.ordering),
        }
    }
}

fn source(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("{}: cannot read", file.display()))
}

/// Returns why no program can kill this mutant, if the source says so above the site: above its
/// statement, or in it.
pub(super) fn reason(root: &Path, site: &Site, mutation: &str) -> Result<Option<String>> {
    let text = source(&root.join(&site.file))?;
    Ok(reason_in(&text, site.line, mutation))
}

fn reason_in(text: &str, line: usize, mutation: &str) -> Option<String> {
    let start = format!("equivalent({mutation}): ");
    let above: Vec<&str> = text.lines().take(line.saturating_sub(1)).collect();
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

/// Whether the next line begins another statement, or another arm of a match.
fn ends_statement(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default().trim_end();
    let is_arm = code.contains("=>") && code.ends_with(',');
    line.trim().is_empty() || code.ends_with([';', '{', '}']) || is_arm
}

/// Returns the places in the packages' sources that name an ordering other than Relaxed, with none
/// of `sites` near.
pub(super) fn unreached<'a>(
    built: &Built,
    sites: impl Iterator<Item = &'a Site> + Clone,
) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    for (file, text) in sources(built)? {
        for line in ordered_lines(&text) {
            let near =
                |site: &Site| site.file == file && (site.line..site.line + CALL).contains(&line);
            if !sites.clone().any(near) {
                missed.push(format!("{file}:{line}"));
            }
        }
    }
    Ok(missed)
}

/// Returns the sources of all packages that are explored under a checker, each with its path as the
/// compiler names it.
pub(super) fn sources(built: &Built) -> Result<Vec<(String, String)>> {
    let root = &built.workspace.root;
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

/// Whether a file exempts itself. A folder is exempt by the file of its module.
fn is_exempt(path: &Path) -> bool {
    let modules = [
        path.with_extension("rs"),
        path.join("mod.rs"),
        path.join("lib.rs"),
    ];
    let texts = modules
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let mut lines = texts.map(|text| text.lines().any(|line| line.starts_with(EXEMPT)));
    lines.any(|is_exempt| is_exempt)
}

/// Returns the numbers of the lines whose code names such an ordering, outside tests.
fn ordered_lines(text: &str) -> Vec<usize> {
    let is_ordering = |word| matches!(word, "Acquire" | "Release" | "AcqRel" | "SeqCst");
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let code = line.split("//").next().unwrap_or_default();
        let start = code.trim_start();
        // Every other part lies between quotes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_has_weaker_mutations() {
        let site: Site = "ring/src/slot.rs:89:19:rmw=AcqRel".parse().expect("a site");
        assert_eq!(site.mutations(), ["Acquire", "Release"]);
        assert_eq!(site.change("Acquire"), "AcqRel->Acquire");
        let wake: Site = "a.rs:1:2:wake=".parse().expect("a site");
        assert_eq!((wake.mutations(), wake.is_wake()), (&["drop"][..], true));
        let relaxed: Site = "a.rs:1:2:load=Relaxed".parse().expect("a site");
        assert!(relaxed.mutations().is_empty());
        assert!("no site".parse::<Site>().is_err());
    }

    #[test]
    fn a_reason_belongs_to_one_statement_and_mutation() {
        let text = "\
fn f() {
    // equivalent(Relaxed): of
    // the first.
    // equivalent(drop): it is.
    let one = x.load(Acquire); // why
    let two = x
        .load(Acquire);
    // equivalent(Relaxed): of the exchange.
    let three = x.compare_exchange(
        y.load(Acquire),
        AcqRel,
    );

    match z {
        // equivalent(Relaxed): of the arm.
        A => x.load(Acquire),
        B => x.load(Acquire),
    }
}
";
        let of = |line| reason_in(text, line, "Relaxed");
        assert_eq!(of(5).as_deref(), Some("of the first."));
        assert_eq!(reason_in(text, 5, "drop").as_deref(), Some("it is."));
        assert_eq!(reason_in(text, 5, "Acquire"), None);
        assert_eq!((of(2), of(6), of(7)), (None, None, None));
        for line in 9..12 {
            assert_eq!(of(line).as_deref(), Some("of the exchange."), "{line}");
        }
        assert_eq!(of(16).as_deref(), Some("of the arm."));
        assert_eq!(of(17), None);
    }

    #[test]
    fn orderings_in_code_are_found_outside_tests() {
        let text = "use a::Ordering::Acquire;\n// Acquire\nx.load(Acquire); // why\nx.load(Relaxed);\n\
                    #[cfg(test)]\nmod tests;\nx.load(SeqCst)\n#[cfg(all(test, y))]\nmod tests {\n    \
                    x.load(SeqCst);\n}\nx.load(Acquire)\nlet s = \"SeqCst\";";
        assert_eq!(ordered_lines(text), [3, 7, 12]);
    }
}
