//! The frame that all pages share: the answer and a picture of it, then tables and plots, and
//! targets and losses last. A page is one self-contained HTML file.

use anyhow::Result;

use super::findings::Findings;
use super::html::STYLE;
use super::origin::Origin;
use super::page::Page;
use super::targets;
use crate::load::Others;

/// Returns the page of some findings.
///
/// # Errors
/// A plot cannot be drawn.
pub(super) fn page<F: Findings>(found: &F, origin: &Origin) -> Result<String> {
    let mut page = Page::default();
    let title = F::TITLE;
    page.put(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Spanlock: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Spanlock: {title}</h1>\n"
    ));
    warnings(&mut page, origin, F::IS_MEASURED);
    let answer = found.answer(origin);
    page.classed("answer", &answer.said);
    if !answer.cost.is_empty() {
        page.classed("cost", &answer.cost);
    }
    if !answer.bars.is_empty() {
        page.bars(&answer.caption, &answer.bars, answer.even);
        // A picture with one colour needs no key.
        if answer.bars.iter().any(|it| it.kind != answer.bars[0].kind) {
            page.put(
                "<p class=\"origin\"><span class=\"key\" style=\"background:var(--ours)\"></span>Spanlock \
                 <span class=\"key\" style=\"background:var(--other)\"></span>others</p>\n",
            );
        }
    }
    let (machine, command) = (&origin.machine, &origin.command);
    page.classed(
        "origin",
        &format!("{machine}. {}. `{command}`", origin.date),
    );
    found.body(&mut page)?;
    page.heading("The run");
    let mut facts: Vec<_> = origin
        .media
        .iter()
        .map(|it| ("media", it.clone()))
        .collect();
    facts.push(("sources", origin.sources()));
    if F::IS_MEASURED {
        let others = Others::of_share(origin.disturbed);
        facts.push(("meanwhile", others.to_string()));
    }
    facts.extend(found.facts());
    page.list(facts);
    if let Some(all) = found.targets() {
        targets::append(&mut page, all);
    }
    found.losses(&mut page);
    page.put("</body>\n</html>\n");
    Ok(page.into_html())
}

/// Says why the figures are not to be trusted.
fn warnings(page: &mut Page, origin: &Origin, is_measured: bool) {
    if is_measured && !origin.optimised {
        page.classed(
            "warning",
            "This build is not optimized, so its figures are meaningless.",
        );
    }
    let others = Others::of_share(origin.disturbed);
    if is_measured && others.too_much() {
        page.classed("warning", &format!("{others}."));
    }
}
