//! Targets, on the terminal and on a page.

use std::collections::BTreeSet;

use super::html_table::Line;
use super::page::Page;
use super::table::{Column, drawn};
use super::text::{LOSS_MARK, duration, grouped};
use crate::target::{Bound, Target};
use crate::terminal::Width;

const COLUMNS: [Column; 4] = [
    Column::name("row"),
    Column::name("target"),
    Column::figure("measured", 0),
    Column::name("verdict"),
];

/// Returns how many targets are met, the verdicts on those that were measured, and what the others
/// lack.
pub fn told(targets: &[Target], width: Width) -> String {
    let mut told = width.wrapped(&format!("Targets: {}", counted(targets)));
    let measured = targets.iter().filter(|it| it.met.is_some());
    if measured.clone().next().is_some() {
        told = format!("{told}\n{}", drawn(&COLUMNS, measured.map(cells), width));
    }
    let missing: BTreeSet<_> = targets.iter().flat_map(|it| &it.missing).collect();
    if !missing.is_empty() {
        let missing: Vec<_> = missing.into_iter().map(String::as_str).collect();
        let lack = format!("Some lack rows of: {}.", missing.join(", "));
        told = format!("{told}\n{}", width.wrapped(&lack));
    }
    told
}

fn counted(targets: &[Target]) -> String {
    let count = |met| targets.iter().filter(|it| it.met == met).count();
    let (met, missed, unmeasured) = (count(Some(true)), count(Some(false)), count(None));
    format!("{met} met, {missed} missed, {unmeasured} not measured.")
}

/// Appends the table of all targets, those that are missed first.
pub(super) fn append(page: &mut Page, mut targets: Vec<Target>) {
    targets.sort_by_key(|it| (it.met != Some(false), it.met.is_none()));
    page.heading("Targets");
    page.said(&counted(&targets));
    let lines = targets.iter().map(|it| {
        let is_missed = it.met == Some(false);
        let line = Line::new(cells(it));
        line.guilty_if(is_missed, 2).guilty_if(is_missed, 3)
    });
    page.bare_table(&COLUMNS, &Vec::from_iter(lines));
}

fn cells(target: &Target) -> [String; 4] {
    let sign = match target.bound {
        Bound::AtLeast => "≥",
        Bound::AtMost => "≤",
    };
    let is_time = target.figure.ends_with("_ns");
    let (asked, measured) = match is_time {
        true => (
            duration(target.asked as u64),
            target.measured.map(|it| duration(it as u64)),
        ),
        false => (target.asked.to_string(), target.measured.map(number)),
    };
    let verdict = match target.met {
        Some(true) => "met".to_owned(),
        Some(false) => format!("{LOSS_MARK} missed"),
        None if target.missing.is_empty() => "not measured".to_owned(),
        None => format!("not measured: {}", target.missing.join(", ")),
    };
    [
        target.of.clone(),
        format!("{} {sign} {asked}", target.figure),
        measured.unwrap_or_else(|| "–".to_owned()),
        verdict,
    ]
}

fn number(number: f64) -> String {
    match number {
        it if it < 0.1 => format!("{it:.4}"),
        it if it < 10.0 => format!("{it:.3}"),
        it if it < 100.0 => format!("{it:.1}"),
        it => grouped(it.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted_and_lacks_are_named() {
        let targets = [
            Target::at_least("a row", "ratio", 1.5, Some(1.25)),
            Target::at_most("a stall", "max_ns", 1e6, Some(2e6)),
            Target::at_most("a wait", "ns, times write of std", 0.5, Some(0.031)),
            Target::at_most("b", "ns", 0.5, None).lacking(vec!["std".to_owned()]),
        ];
        let told = told(&targets, Width::of(100));
        for wanted in [
            "Targets: 1 met, 2 missed, 1 not measured.",
            "a row    ratio ≥ 1.5",
            "1.250  ▼ missed",
            "max_ns ≤ 1.00 ms",
            "2.00 ms",
            "ns, times write of std ≤ 0.5",
            "0.0310  met",
            "Some lack rows of: std.",
        ] {
            assert!(told.contains(wanted), "no {wanted:?} in {told}");
        }
        let mut page = Page::default();
        append(&mut page, targets.to_vec());
        let page = page.into_html();
        assert!(page.contains(">not measured: std</td>"), "{page}");
        assert!(page.contains("<td class=\"bad\">1.250</td>"), "{page}");
    }
}
