//! The frame that all pages share: the answer and a picture of it, then tables and plots, and
//! targets and losses last. A page is one self-contained HTML file.

use anyhow::Result;

use super::bars::Kind;
use super::findings::Findings;
use super::html::{STYLE, marked};
use super::origin::Origin;
use super::page::{Answer, Page};
use super::targets;
use crate::load::Others;

/// Returns the page of some findings.
///
/// # Errors
/// A plot cannot be drawn.
pub(super) fn page<F: Findings>(found: &F, origin: &Origin) -> Result<String> {
    let mut page = Page::default();
    let title = found.title();
    page.put(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Spanlock: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Spanlock: {title}</h1>\n"
    ));
    let mut answer = found.answer(origin);
    if let Some(why) = distrust(origin, F::IS_MEASURED) {
        // The tables and plots stay; no reader should take away a verdict.
        answer.said = format!("No verdict: {why}.");
        answer.cost.clear();
    }
    if !answer.before.is_empty() {
        page.classed("origin", &answer.before);
    }
    page.classed("answer", &answer.said);
    if !answer.cost.is_empty() {
        page.classed("cost", &answer.cost);
    }
    picture(&mut page, &answer);
    let (machine, command) = (&origin.machine, &origin.command);
    let on = match F::IS_MEASURED {
        true => format!("{machine}. "),
        // The figures do not depend on the machine.
        false => String::new(),
    };
    page.classed("origin", &format!("{on}{}. `{command}`", origin.date));
    found.body(&mut page)?;
    page.heading("The run");
    let mut facts: Vec<_> = origin
        .media
        .iter()
        .map(|it| ("media", it.clone()))
        .collect();
    facts.push(("sources", origin.sources()));
    if !F::IS_MEASURED {
        facts.push(("machine", machine.to_string()));
    } else {
        let others = Others::of_share(origin.disturbed);
        facts.push(("meanwhile", others.to_string()));
    }
    facts.extend(found.facts());
    page.list(facts);
    if let Some(all) = found.targets().filter(|it| !it.is_empty()) {
        targets::append(&mut page, all);
    }
    found.losses(&mut page);
    page.put("</body>\n</html>\n");
    Ok(page.into_html())
}

/// Appends the picture of an answer, with a key.
fn picture(page: &mut Page, answer: &Answer) {
    if answer.bars.is_empty() {
        return;
    }
    page.bars(&answer.caption, &answer.bars, answer.even, answer.unit);
    let mut key = String::new();
    for (kind, color, told) in [
        (Kind::Ours, "ours", "Spanlock"),
        (Kind::Other, "other", "others"),
        (Kind::Limit, "limit", "without a lock"),
    ] {
        if answer.bars.iter().any(|it| it.kind == kind) {
            key +=
                &format!("<span class=\"key\" style=\"background:var(--{color})\"></span>{told} ");
        }
    }
    // A picture with one colour needs no key.
    if answer.bars.iter().all(|it| it.kind == answer.bars[0].kind) {
        key.clear();
    }
    let note = marked(&answer.note);
    if !key.is_empty() && !note.is_empty() {
        key += "<br>";
    }
    if !key.is_empty() || !note.is_empty() {
        page.put(&format!("<p class=\"origin\">{key}{note}</p>\n"));
    }
}

/// Returns why the figures are not to be trusted.
fn distrust(origin: &Origin, is_measured: bool) -> Option<String> {
    let others = Others::of_share(origin.disturbed);
    match is_measured {
        true if !origin.optimised => {
            Some("this build is not optimized, so its figures are meaningless".to_owned())
        }
        true if others.too_much() => Some(others.to_string()),
        _ => None,
    }
}
