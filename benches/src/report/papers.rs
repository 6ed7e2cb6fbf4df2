//! The output of `compare papers`, on the terminal and as a page.

use anyhow::Result;

use super::bars::{Bar, Unit};
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::table::{Column, drawn};
use super::text::{self, grouped, ratio_or_dash};
use crate::load::Others;
use crate::papers::published::Said;
use crate::papers::{Outcome, PAPERS, Row, UNDECIDED};
use crate::terminal::Width;

const COLUMNS: [Column; 9] = [
    Column::name("what"),
    Column::name("to"),
    Column::name("measured"),
    Column::figure("how", 1),
    Column::figure("paper", 0),
    Column::figure("ours", 0),
    Column::figure("ours/paper", 0),
    Column::figure("winner", 0),
    Column::figure("why", 0),
];

const LIST_COLUMNS: [Column; 6] = [
    Column::name("figure"),
    Column::name("section"),
    Column::name("what"),
    Column::name("to"),
    Column::figure("paper", 0),
    Column::name("measured here"),
];

const MISSING_COLUMNS: [Column; 3] = [
    Column::name("figure"),
    Column::name("what"),
    Column::name("not shown here, because"),
];

/// The meaning of the columns.
const READING: &str = "paper, ours: as a ratio of what is measured to the column `to`, or a number of its own; ours: the geometric mean of two runs; \
winner: what is faster, or smaller, in both runs by more than 3 % and by more than half of what separates the runs; why: the reason below why ours differs from the paper's";

impl Findings for Outcome {
    type Row = Row;

    const TITLE: &str = "the figures of five papers";

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        Some(self.others)
    }

    fn media(&self) -> Vec<String> {
        self.media.clone()
    }

    fn figures(&self, width: Width) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut told = Vec::new();
        for (title, rows) in by_figure(&self.rows) {
            let cells = rows.iter().map(|row| {
                let nth = numbered(&mut reasons, row.differs_because);
                cells(row, nth.to_string())
            });
            let cells: Vec<_> = cells.collect();
            told.push(format!("{title}\n{}", drawn(&COLUMNS, cells, width)));
        }
        if !told.is_empty() {
            told.push(width.wrapped(READING));
            told.push("They differ because:".to_owned());
            let reasons = (1..).zip(reasons);
            let reasons = reasons.map(|(nth, why)| width.wrapped(&format!("{nth}: {why}.")));
            told.push(reasons.collect::<Vec<_>>().join("\n"));
        }
        let missing: Vec<_> = missing(&self.rows).collect();
        if !missing.is_empty() {
            told.push(drawn(&MISSING_COLUMNS, missing, width));
        }
        told
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        vec![width.wrapped(&winners(&self.rows).replace("**", ""))]
    }

    fn answer(&self, _: &Origin) -> Answer {
        Answer {
            said: winners(&self.rows),
            cost: others(&self.rows),
            caption:
                "Rows in which the same system wins here, of those in which the paper has a winner"
                    .to_owned(),
            bars: PAPERS
                .iter()
                .filter_map(|it| agreement(&self.rows, it.0))
                .collect(),
            note: silent(&self.rows),
            ..Answer::default()
        }
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        page.list(PAPERS);
        page.said(&reading(&self.rows));
        for (title, rows) in by_figure(&self.rows) {
            page.heading(&title);
            let ratios = rows.iter().filter(|it| it.to.is_some());
            let bars: Vec<_> = ratios.flat_map(|row| pair(row)).collect();
            if !bars.is_empty() {
                page.bars(
                    "as ratios: the paper's (grey), and ours",
                    &bars,
                    Some(1.0),
                    Unit::Number,
                );
            }
            let lines = rows.iter().map(|row| {
                let both = row.winner.zip(row.published_winner);
                let differs = both.is_some_and(|it| it.0 != it.1 && it.1 != UNDECIDED);
                Line::new(cells(row, row.differs_because.to_owned())).guilty_if(differs, 7)
            });
            page.bare_table(&COLUMNS, &Vec::from_iter(lines));
        }
        let missing = missing(&self.rows).map(Line::new);
        page.table("Not shown here", &MISSING_COLUMNS, missing);
        Ok(())
    }
}

/// Returns the meaning of the columns that are not empty.
fn reading(rows: &[Row]) -> String {
    let shown = rows.iter().filter(|it| it.ours.is_some());
    let has_winners = shown.clone().any(|it| it.winner.is_some());
    let parts = READING
        .split("; ")
        .filter(|it| has_winners || !it.starts_with("winner"));
    parts.collect::<Vec<_>>().join("; ").replace(" below", "")
}

/// Names each row that has another winner here, with the reason.
fn others(rows: &[Row]) -> String {
    let rows = rows.iter().filter_map(|row| {
        let (here, there) = both([row].into_iter()).next()?;
        (here != there && here != UNDECIDED).then(|| {
            format!(
                "Another winner: `{}`, not `{}`, in {}, {}, {} (why: {}).",
                here, there, row.paper, row.figure, row.row, row.differs_because
            )
        })
    });
    rows.collect::<Vec<_>>().join(" ")
}

/// Names the papers of which no row has a winner, so that they have no bar.
fn silent(rows: &[Row]) -> String {
    let is_shown = |paper: &str| rows.iter().any(|it| it.paper == paper);
    let silent = PAPERS
        .iter()
        .filter(|it| is_shown(it.0) && agreement(rows, it.0).is_none());
    let silent: Vec<_> = silent.map(|it| it.0).collect();
    match silent.len() {
        0 => String::new(),
        1 => format!("{} names no winner.", silent[0]),
        _ => format!("{} name no winner.", text::listed(&silent)),
    }
}

/// Returns the share of a paper's winners that win here, too.
fn agreement(rows: &[Row], paper: &str) -> Option<Bar> {
    let of_paper: Vec<_> = both(rows.iter().filter(|it| it.paper == paper)).collect();
    let same = of_paper.iter().filter(|it| it.0 == it.1).count();
    let share = same as f64 / of_paper.len() as f64;
    let told = format!("{same} of {}", of_paper.len());
    (!of_paper.is_empty()).then(|| Bar::new(true, paper, share, told))
}

/// Returns the bars of a row: the paper's and ours.
fn pair(row: &Row) -> Vec<Bar> {
    let subject = row.subject.unwrap_or_default();
    let name = format!("{}: {subject}, {}", row.row, row.here);
    let published = row
        .published
        .map(|it| Bar::new(false, &*name, it, format!("paper {it:.2}")));
    let ours = row.ours.map(|it| {
        let name = if published.is_some() { "" } else { &*name };
        Bar::new(true, name, it, format!("ours {it:.2}"))
    });
    published.iter().cloned().chain(ours).collect()
}

/// Returns what `--list` shows: a table for each paper.
pub fn listed(said: &[&Said], width: Width) -> Vec<String> {
    let mut told = Vec::new();
    for (paper, about) in PAPERS {
        let of_paper = said.iter().filter(|it| it.paper == paper);
        let cells: Vec<_> = of_paper
            .map(|it| {
                [
                    it.figure.to_owned(),
                    it.section.to_owned(),
                    it.row.to_owned(),
                    it.to.unwrap_or("–").to_owned(),
                    it.published.map_or_else(|| "–".to_owned(), figure),
                    match it.case {
                        Some(case) => format!("{case}: {}", it.subject),
                        None => format!("no, because {}", it.because),
                    },
                ]
            })
            .collect();
        if !cells.is_empty() {
            let table = drawn(&LIST_COLUMNS, cells, width);
            told.push(format!("{paper}: {about}\n{table}"));
        }
    }
    told
}

/// Returns the rows that have a number of ours by figure, each with a title.
fn by_figure(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
    let mut all: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows.iter().filter(|it| it.ours.is_some()) {
        let title = format!("{}, {}", row.paper, row.figure);
        match all.iter_mut().find(|it| it.0 == title) {
            Some((_, of_figure)) => of_figure.push(row),
            None => all.push((title, vec![row])),
        }
    }
    all
}

/// Returns the cells of the rows without a number of ours.
fn missing(rows: &[Row]) -> impl Iterator<Item = [String; 3]> {
    let missing = rows.iter().filter(|it| it.ours.is_none());
    missing.map(|row| {
        let figure = format!("{}, {}", row.paper, row.figure);
        [figure, row.row.to_owned(), row.differs_because.to_owned()]
    })
}

/// Returns the number of a reason, and adds it if it is new.
fn numbered(reasons: &mut Vec<&'static str>, why: &'static str) -> usize {
    let known = reasons.iter().position(|it| *it == why);
    known.unwrap_or_else(|| {
        reasons.push(why);
        reasons.len() - 1
    }) + 1
}

/// Returns our winner and the paper's where the paper has one.
fn both<'a>(
    rows: impl Iterator<Item = &'a Row>,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let both = rows.filter_map(|it| it.winner.zip(it.published_winner));
    both.filter(|it| it.1 != UNDECIDED)
}

/// Returns how many winners are those of the papers.
fn winners(rows: &[Row]) -> String {
    let both: Vec<_> = both(rows.iter()).collect();
    let undecided = both.iter().filter(|it| it.0 == UNDECIDED).count();
    let same = both.iter().filter(|it| it.0 == it.1).count();
    format!(
        "Where a paper has a winner, the same wins here in **{same} of {} rows**, another in **{}**, and none clearly in **{undecided}**.",
        both.len(),
        both.len() - same - undecided,
    )
}

fn cells(row: &Row, why: String) -> [String; 9] {
    let dash = || "–".to_owned();
    [
        row.row.to_owned(),
        row.to.unwrap_or("–").to_owned(),
        row.subject.unwrap_or("–").to_owned(),
        row.here.clone(),
        row.published.map_or_else(dash, figure),
        row.ours.map_or_else(dash, figure),
        ratio_or_dash(row.ratio),
        row.winner.unwrap_or("–").to_owned(),
        why,
    ]
}

fn figure(figure: f64) -> String {
    match figure {
        it if it < 1000.0 => format!("{it:.3}"),
        it => grouped(it.round() as u64),
    }
}
