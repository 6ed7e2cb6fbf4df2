//! The parts that all pages have in common. A page is one self-contained HTML file.

use std::fmt::Write;

use anyhow::Result;

use super::machine::{Machine, now};
use crate::load::Others;

/// The versions behind the figures: this package and the compiler.
const VERSIONS: &str = concat!(
    "spanlock ",
    env!("CARGO_PKG_VERSION"),
    ", ",
    env!("SPANLOCK_RUSTC")
);

const STYLE: &str = "
body { font: 15px/1.5 sans-serif; color: #222; background: #fff; max-width: 62em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15em .8em; border-bottom: 1px solid #ddd; text-align: right; }
th { border-bottom: 2px solid #888; }
th:nth-child(-n+2), td:nth-child(-n+2), .facts td, .facts th { text-align: left; }
.facts th { border-bottom: 1px solid #ddd; font-weight: normal; color: #666; vertical-align: top; }
tr.loss td:last-child { color: #b00020; font-weight: bold; }
tr.first td { border-top: 2px solid #bbb; }
.warning { color: #b00020; font-weight: bold; }
.plots { display: flex; flex-wrap: wrap; gap: 1em; }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .4em 0 1.2em; }
code { background: #f4f4f4; padding: 0 .3em; }
";

/// The end of every page.
pub(super) const END: &str = "</body>\n</html>\n";

/// Returns the start of a page: when, where and how the run was made, including its `own` facts.
pub(super) fn begun(
    title: &str,
    command: &str,
    others: Others,
    own: &[(&str, String)],
) -> Result<String> {
    let mut all: Vec<(&str, String)> = facts(command);
    all.push(("meanwhile", others.to_string()));
    all.extend_from_slice(own);
    let mut page = head(title, &all)?;
    if cfg!(debug_assertions) {
        page.push_str(
            "<p class=\"warning\">This build is not optimized, so its figures are meaningless.</p>\n",
        );
    }
    if others.too_much() {
        let told = escaped(&others.to_string());
        writeln!(page, "<p class=\"warning\">{told}.</p>")?;
    }
    Ok(page)
}

/// Returns where, when and how a run was made.
pub(super) fn facts(command: &str) -> Vec<(&'static str, String)> {
    let machine = Machine::this();
    let processor = format!("{}, {} cores", machine.processor, machine.cores);
    vec![
        ("processor", processor),
        ("system", machine.kernel),
        ("date", now()),
        ("versions", VERSIONS.to_owned()),
        ("command", command.to_owned()),
    ]
}

/// Returns the start of a page up to the table of facts.
pub(super) fn head(title: &str, facts: &[(&str, String)]) -> Result<String> {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<table class=\"facts\">\n"
    );
    for (what, value) in facts {
        writeln!(page, "<tr><th>{what}</th><td>{}</td></tr>", escaped(value))?;
    }
    page.push_str("</table>\n");
    Ok(page)
}

/// Appends a table with a title. Each row has a CSS class and its cells.
pub(super) fn html_table<C: AsRef<str>, R: IntoIterator<Item = String>>(
    page: &mut String,
    title: &str,
    columns: impl IntoIterator<Item = C>,
    rows: impl Iterator<Item = (String, R)>,
) -> Result<()> {
    writeln!(page, "<h2>{title}</h2>\n<table>\n<tr>")?;
    for column in columns {
        write!(page, "<th>{}</th>", column.as_ref())?;
    }
    page.push_str("</tr>\n");
    for (class, cells) in rows {
        write!(page, "<tr class=\"{}\">", class.trim_end())?;
        for cell in cells {
            write!(page, "<td>{}</td>", escaped(&cell))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    Ok(())
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
