//! Places where the door is used, as models report them, and what the source says there.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use walkdir::WalkDir;

/// Lines that a call may go on for, from where it is reported to its last ordering.
const CALL: usize = 8;

/// The crates whose every ordering must be reached.
const LOCKS: [&str; 4] = [
    "range-lock/src",
    "srl/src",
    "interval-lock/src",
    "journal-commit/src",
];

/// A site of a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site {
    file: String,
    line: usize,
    /// `file:line:column:operation`
    pub(super) place: String,
    /// As written there; empty for a wake or a flush.
    ordering: String,
}

impl FromStr for Site {
    type Err = ();

    /// What a model reports, `file:line:column:operation=Ordering`. The models' own sites prove nothing of a lock, and are none.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (place, ordering) = text.rsplit_once('=').ok_or(())?;
        let mut parts = place.rsplitn(4, ':').skip(2);
        let line = parts.next().and_then(|line| line.parse().ok()).ok_or(())?;
        let file = parts.next().ok_or(())?.to_owned();
        if file.starts_with("verify/") {
            return Err(());
        }
        Ok(Site {
            file,
            line,
            place: place.to_owned(),
            ordering: ordering.to_owned(),
        })
    }
}

impl Site {
    fn operation(&self) -> &str {
        self.place.rsplit(':').next().unwrap_or_default()
    }

    pub(super) fn is_wake(&self) -> bool {
        self.operation() == "wake"
    }

    /// Everything weaker by one step, and leaving it out.
    pub(super) fn mutations(&self) -> &'static [&'static str] {
        match (self.operation(), &*self.ordering) {
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

    /// What `--weaken` takes.
    pub(super) fn mutant(&self, mutation: &str) -> String {
        format!("{}={mutation}", self.place)
    }

    /// `Acquire->Relaxed`, or `drop`.
    pub(super) fn change(&self, mutation: &str) -> String {
        match mutation {
            "drop" => mutation.to_owned(),
            weaker => format!("{}->{weaker}", self.ordering),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

fn root() -> &'static Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("in the workspace")
}

fn source(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("{}: cannot read", file.display()))
}

/// Why no model can kill this mutant, if the source says so above the statement of the site, or in it above the site.
pub(super) fn reason(site: &Site, mutation: &str) -> Result<Option<String>> {
    let text = source(&root().join(&site.file))?;
    Ok(reason_in(&text, site.line, mutation))
}

fn reason_in(text: &str, line: usize, mutation: &str) -> Option<String> {
    let start = format!("equivalent({mutation}): ");
    let above: Vec<&str> = text.lines().take(line.saturating_sub(1)).collect();
    let earlier = above.iter().rposition(|line| ends_statement(line));
    let above = &above[earlier.map_or(0, |at| at + 1)..];
    let said = |line: &&str| line.trim().strip_prefix("// ").map(str::to_owned);
    let first =
        (above.iter()).rposition(|line| said(line).is_some_and(|said| said.starts_with(&start)))?;
    let mut lines = above[first..].iter().map_while(said);
    let mut reason = lines.next()?[start.len()..].to_owned();
    for more in lines.take_while(|line| !line.starts_with("equivalent(")) {
        reason.push(' ');
        reason.push_str(&more);
    }
    Some(reason)
}

/// Whether what stands below a line is not of the same statement, or arm of a match.
fn ends_statement(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default().trim_end();
    let is_arm = code.contains("=>") && code.ends_with(',');
    line.trim().is_empty() || code.ends_with([';', '{', '}']) || is_arm
}

/// Where the locks' sources name an ordering that is not Relaxed, and none of `sites` is near.
pub(super) fn unreached<'a>(sites: impl Iterator<Item = &'a Site> + Clone) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    for file in LOCKS.iter().flat_map(|folder| sources(folder)) {
        let name = file.strip_prefix(root()).unwrap_or(&file);
        for line in ordered_lines(&source(&file)?) {
            let near = |site: &Site| {
                Path::new(&site.file) == name && (site.line..site.line + CALL).contains(&line)
            };
            if !sites.clone().any(near) {
                missed.push(format!("{}:{line}", name.display()));
            }
        }
    }
    Ok(missed)
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let files = WalkDir::new(root().join(folder)).sort_by_file_name();
    let files = files.into_iter().filter_map(Result::ok);
    let files = files.map(walkdir::DirEntry::into_path);
    let is_source = |file: &PathBuf| {
        file.extension().is_some_and(|it| it == "rs") && !file.ends_with("tests.rs")
    };
    files.filter(is_source).collect()
}

/// Numbers of the lines whose code names such an ordering, up to the tests.
fn ordered_lines(text: &str) -> Vec<usize> {
    let code = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(all(test"))
        .map(|line| line.split("//").next().unwrap_or_default());
    let names = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| matches!(word, "Acquire" | "Release" | "AcqRel" | "SeqCst"))
    };
    let lines = code
        .enumerate()
        .filter(|(_, line)| names(line) && !line.trim_start().starts_with("use "));
    lines.map(|(i, _)| i + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_and_what_is_weaker() {
        let site: Site = "srl/src/gate.rs:89:19:rmw=AcqRel".parse().expect("a site");
        assert_eq!(site.mutations(), ["Acquire", "Release"]);
        assert_eq!(site.mutant("Acquire"), "srl/src/gate.rs:89:19:rmw=Acquire");
        assert_eq!(site.change("Acquire"), "AcqRel->Acquire");
        let wake: Site = "a.rs:1:2:wake=".parse().expect("a site");
        assert_eq!((wake.mutations(), wake.is_wake()), (&["drop"][..], true));
        let relaxed: Site = "a.rs:1:2:load=Relaxed".parse().expect("a site");
        assert!(relaxed.mutations().is_empty());
        assert!(
            "verify/src/models/lock.rs:1:2:load=Acquire"
                .parse::<Site>()
                .is_err()
        );
        assert!("no site".parse::<Site>().is_err());
    }

    #[test]
    fn reasons_stand_above_their_site() {
        let text = "fn f() {\n    // Acquire [A].\n    // equivalent(Relaxed): nobody\n    // writes.\n    // equivalent(drop): it is.\n    x.load(Acquire);\n}\n";
        assert_eq!(
            reason_in(text, 6, "Relaxed").as_deref(),
            Some("nobody writes.")
        );
        assert_eq!(reason_in(text, 6, "drop").as_deref(), Some("it is."));
        assert_eq!(reason_in(text, 6, "Acquire"), None);
        // Not what stands below.
        assert_eq!(reason_in(text, 2, "Relaxed"), None);
    }

    #[test]
    fn reasons_are_of_one_statement() {
        let text = "\
fn f() {
    // equivalent(Relaxed): of the first.
    let one = x.load(Acquire); // why
    let two = x
        .load(Acquire);
    // Both orderings.
    // equivalent(Relaxed): of the exchange.
    let three = x.compare_exchange(
        y.load(Acquire),
        AcqRel,
        Acquire,
    );

    match z {
        // equivalent(Relaxed): of the arm.
        A => x.load(Acquire),
        B => x.load(Acquire),
    }
}
";
        let of = |line| reason_in(text, line, "Relaxed");
        assert_eq!(of(3).as_deref(), Some("of the first."));
        assert_eq!((of(4), of(5)), (None, None));
        for line in 8..12 {
            assert_eq!(of(line).as_deref(), Some("of the exchange."), "{line}");
        }
        assert_eq!(of(16).as_deref(), Some("of the arm."));
        assert_eq!(of(17), None);
    }

    #[test]
    fn orderings_in_code_are_found() {
        let text = "use a::Ordering::Acquire;\n// Acquire\nx.load(Acquire); // why\nx.load(Relaxed);\n#[cfg(all(test, y))]\nx.load(SeqCst)";
        assert_eq!(ordered_lines(text), [3]);
    }
}
