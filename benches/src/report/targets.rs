//! Targets, on the terminal and on a page.

use std::collections::BTreeSet;

use anyhow::Result;

use super::html::html_table;
use super::table::{Column, drawn, titles};
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
    let count = |met| targets.iter().filter(|it| it.met == met).count();
    let (met, missed, unmeasured) = (count(Some(true)), count(Some(false)), count(None));
    let mut told = width.wrapped(&format!(
        "Targets: {met} met, {missed} missed, {unmeasured} not measured."
    ));
    let measured = targets.iter().filter(|it| it.met.is_some());
    if met + missed > 0 {
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

/// Appends the table of all targets.
///
/// # Errors
/// None are expected: formatting into a string does not fail.
pub(super) fn append(page: &mut String, targets: &[Target]) -> Result<()> {
    let rows = targets.iter().map(|it| {
        let class = if it.met == Some(false) { "loss" } else { "" };
        (class.to_owned(), cells(it))
    });
    html_table(page, "Targets", titles(&COLUMNS), rows)
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
        let mut page = String::new();
        append(&mut page, &targets).unwrap();
        assert!(page.contains("<td>not measured: std</td>"), "{page}");
    }
}
