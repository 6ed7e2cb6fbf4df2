//! What the papers print: `published.tsv`, whose head says what its columns are.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail, ensure};

const TEXT: &str = include_str!("published.tsv");

/// What stands in an empty column.
const NOTHING: &str = "-";

/// A number of a paper, or a plot or drawing without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The paper's short name.
    pub paper: &'static str,
    /// The figure or table, or `Text`.
    pub figure: &'static str,
    /// The section, and the machine if there are several.
    pub section: &'static str,
    /// What it is.
    pub row: &'static str,
    /// What it is relative to; `None` if it is a number of its own.
    pub to: Option<&'static str>,
    /// The case that this project measures for it; `None` if it is not shown here.
    pub case: Option<&'static str>,
    /// The contestant, lock, system, or layout and mode of that case.
    pub subject: &'static str,
    /// Which figure of these is compared.
    pub measure: &'static str,
    /// The paper's threads or cores; `None` if it is of all.
    pub threads: Option<usize>,
    /// The paper's number; `None` if it has a plot without it.
    pub published: Option<f64>,
    /// Why ours differs, or why it is not shown here.
    pub because: &'static str,
}

static ALL: LazyLock<Vec<Said>> =
    LazyLock::new(|| parse(TEXT).expect("a constant, which a test parses"));

/// Returns all rows, by paper.
pub fn all() -> &'static [Said] {
    &ALL
}

/// Returns the rows of a paper for which this project measures something.
pub fn of(paper: &str) -> impl Iterator<Item = &'static Said> {
    all()
        .iter()
        .filter(move |it| it.paper == paper && it.case.is_some())
}

impl Said {
    /// Returns the case.
    ///
    /// # Panics
    /// Panics if the row is not shown here. Those of [`of`] are.
    pub fn case(&self) -> &'static str {
        self.case
            .expect("only rows that are shown are asked for it")
    }

    /// Returns where it stands in the paper.
    pub fn source(&self) -> String {
        format!("{}, {}", self.section, self.figure)
    }
}

fn parse(text: &'static str) -> Result<Vec<Said>> {
    let mut reasons = BTreeMap::new();
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let cells: Vec<_> = line.split('\t').collect();
        let wrong = || format!("line {number}: {line}");
        match cells[..] {
            ["because", name, told] => {
                ensure!(reasons.insert(name, told).is_none(), "{name} twice");
            }
            _ => all.push(row(&cells, &reasons).with_context(wrong)?),
        }
    }
    Ok(all)
}

fn row(cells: &[&'static str], reasons: &BTreeMap<&'static str, &'static str>) -> Result<Said> {
    let &[
        paper,
        figure,
        section,
        row,
        to,
        case,
        subject,
        measure,
        threads,
        published,
        because,
    ] = cells
    else {
        bail!("{} columns, and not 11", cells.len());
    };
    let some = |cell| (cell != NOTHING).then_some(cell);
    let reason = reasons.get(because);
    Ok(Said {
        paper,
        figure,
        section,
        row,
        to: some(to),
        case: some(case),
        subject,
        measure,
        threads: some(threads).map(str::parse).transpose()?,
        published: some(published).map(quotient).transpose()?,
        because: reason.with_context(|| format!("no line `because {because}` above"))?,
    })
}

/// Parses a number, or a quotient of two.
fn quotient(text: &str) -> Result<f64> {
    let (over, under) = text.split_once('/').unwrap_or((text, "1"));
    let (over, under): (f64, f64) = (over.parse()?, under.parse()?);
    ensure!(over > 0.0 && under > 0.0, "{text} is no ratio");
    Ok(over / under)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_parses_and_stands_once() {
        let all = parse(TEXT).unwrap();
        let place = |it: &Said| (it.paper, it.figure, it.section, it.row, it.to, it.subject);
        for (nth, said) in all.iter().enumerate() {
            let twice = all[..nth].iter().any(|it| place(it) == place(said));
            assert!(!twice, "{said:?} twice");
            let is_shown = said.case.is_some();
            for cell in [said.subject, said.measure] {
                assert_eq!(cell != NOTHING, is_shown, "{said:?}");
            }
        }
    }

    /// The figures and tables that the papers have. A part such as `(a)` need not be named.
    #[test]
    fn every_figure_and_table_of_every_paper_has_a_row() {
        let papers: [(&str, &[&str]); 5] = [
            ("SRL", &["Figure 1-15", "Table 1-1"]),
            ("F2FS", &["Figure 1-9", "Table 1-8"]),
            (
                "JBD",
                &[
                    "Figure 3.1",
                    "Figure 4.1",
                    "Figure 4.2",
                    "Figure 4.3",
                    "Table 3.1",
                ],
            ),
            ("DNODE", &["Figure 1-2", "Table"]),
            ("OBJ", &["Figure 1-11", "Table I"]),
        ];
        for (paper, figures) in papers {
            let has = |wanted: &str| {
                let rows = all().iter().filter(|it| it.paper == paper);
                let of =
                    |it: &Said| it.figure == wanted || it.figure.starts_with(&format!("{wanted}("));
                assert!(rows.clone().any(of), "{paper}: no {wanted}");
            };
            for figure in figures {
                let Some((first, last)) = figure.split_once('-') else {
                    has(figure);
                    continue;
                };
                let (kind, first) = first.split_once(' ').unwrap();
                let numbers: [usize; 2] = [first, last].map(|it| it.parse().unwrap());
                (numbers[0]..=numbers[1]).for_each(|it| has(&format!("{kind} {it}")));
            }
        }
    }

    #[test]
    fn a_published_number_may_be_a_quotient() {
        assert_eq!(quotient("2.5").unwrap(), 2.5);
        assert_eq!(quotient("33/22").unwrap(), 1.5);
        for wrong in ["", "x", "1/0", "-1", "1/"] {
            assert!(quotient(wrong).is_err(), "{wrong}");
        }
        let wrong = parse("because\tx\ty\nSRL\tFigure 1\t-\ta\t-\t-\t-\t-\t-\t-\tz\n");
        let told = format!("{:#}", wrong.unwrap_err());
        assert!(
            told.contains("line 2") && told.contains("`because z`"),
            "{told}"
        );
    }
}
