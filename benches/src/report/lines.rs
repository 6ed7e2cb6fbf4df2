//! The output of `compare lines`, on the terminal and as a page.

use anyhow::Result;

use super::bars::Bar;
use super::findings::Findings;
use super::html_table::Line as TableLine;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::table::{Column, drawn};
use crate::lines::{Line, Outcome, Row};
use crate::load::Others;
use crate::target::Target;
use crate::terminal::Width;

const COLUMNS: [Column; 8] = [
    Column::name("case"),
    Column::name("lock"),
    Column::figure("cores", 0),
    Column::figure("transfers", 0),
    Column::figure("false", 1),
    Column::figure("rmw", 0),
    Column::figure("seen", 2),
    Column::figure("layouts with transfers", 3),
];

const LINE_COLUMNS: [Column; 7] = [
    Column::name("case"),
    Column::name("lock"),
    Column::figure("cores", 0),
    Column::figure("transfers", 0),
    Column::figure("false", 0),
    Column::name("line"),
    Column::name("bytes, and the cores that used them"),
];

/// How many lines the terminal shows.
const SHOWN: usize = 8;

/// The meaning of the columns.
const READING: &str = "transfers: accesses of an acquisition and its release, or of an operation of the file core, for which a cache line moved from another core; \
false: those that bring nothing, because no other core had used the word meanwhile; rmw: read-modify-writes; \
seen: the atomics of the facade, or all accesses to memory; layouts: of the heap, of which the worst is shown";

impl Findings for Outcome {
    type Row = Row;

    const TITLE: &str = "transfers of cache lines";

    const IS_MEASURED: bool = false;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        None
    }

    fn figures(&self, width: Width) -> Vec<String> {
        let table = drawn(&COLUMNS, self.rows.iter().map(cells), width);
        vec![table, width.wrapped(READING)]
    }

    fn targets(&self) -> Option<Vec<Target>> {
        let targets = self.rows.iter().flat_map(|row| &row.targets);
        Some(targets.cloned().collect())
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        let lines = falsely_shared(&self.rows).into_iter().take(SHOWN);
        let table = drawn(&LINE_COLUMNS, lines.map(line_cells), width);
        let mut parts = vec![format!("Lines with the most false transfers:\n{table}")];
        parts.extend(self.notes.iter().map(|note| width.wrapped(note)));
        if !self.drifted.is_empty() {
            parts.push(format!(
                "Other counts than recorded (`cargo compare lines --accept` records these):\n{}",
                self.drifted.join("\n")
            ));
        }
        parts
    }

    fn answer(&self, _: &Origin) -> Answer {
        answer(&self.rows)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        for note in self.notes.iter().chain(&self.drifted) {
            page.classed("warning", note);
        }
        let is_false = |row: &Row| row.false_transfers > 0.0;
        page.figures(
            &COLUMNS,
            self.rows
                .iter()
                .map(|row| TableLine::new(cells(row)).guilty_if(is_false(row), 4)),
        );
        page.said(&format!(
            "{READING}. The cores are simulated, and the counts are the same in each run."
        ));
        Ok(())
    }

    fn losses(&self, page: &mut Page) {
        let lines = self
            .rows
            .iter()
            .flat_map(|row| row.lines.iter().map(move |line| (row, line)));
        let lines = lines.map(|it| {
            let is_false = it.1.false_transfers > 0.0;
            TableLine::new(line_cells(it)).guilty_if(is_false, 4)
        });
        page.table("Hottest lines", &LINE_COLUMNS, lines);
    }

    fn failed(&self) -> Vec<&'static str> {
        let drifted = (!self.drifted.is_empty()).then_some("the record lines/lines.tsv");
        drifted.into_iter().collect()
    }
}

/// Compares the locks in the first case of disjoint requests, with the most cores.
fn answer(rows: &[Row]) -> Answer {
    let disjoint = rows.iter().find(|it| it.case.contains("-disjoint"));
    let Some(case) = disjoint.or(rows.first()).map(|it| &it.case) else {
        return Answer::default();
    };
    let of_case = rows.iter().filter(|it| it.case == *case);
    let cores = of_case.clone().map(|it| it.cores).max().unwrap_or(0);
    let mut shown: Vec<&Row> = of_case.filter(|it| it.cores == cores).collect();
    shown.sort_by(|a, b| a.transfers.total_cmp(&b.transfers));
    let fewest = shown[0].transfers;
    let best = shown.iter().filter(|it| it.transfers == fewest);
    let best: Vec<_> = best.map(|it| format!("`{}`", it.lock)).collect();
    let most = shown[shown.len() - 1];
    let (verb, rmw) = match best.len() {
        1 => ("wins", "It costs"),
        _ => ("win", "The first of them costs"),
    };
    Answer {
        said: format!(
            "{} {verb}: in `{case}` on {cores} cores, an acquisition and its release move **{fewest:.2} cache lines** from other \
             cores; under `{}` they move **{:.2}**.",
            best.join(", "),
            most.lock,
            most.transfers,
        ),
        cost: format!("{rmw} **{:.2}** read-modify-writes.", shown[0].rmw),
        caption: format!("Transfers of cache lines in {case} on {cores} cores"),
        bars: shown
            .iter()
            .map(|it| Bar::new(true, &it.lock, it.transfers, format!("{:.2}", it.transfers)))
            .collect(),
        even: None,
    }
}

/// Returns the lines with false transfers, from the worst on.
fn falsely_shared(rows: &[Row]) -> Vec<(&Row, &Line)> {
    let all = rows
        .iter()
        .flat_map(|row| row.lines.iter().map(move |line| (row, line)));
    let mut all: Vec<_> = all.filter(|(_, line)| line.false_transfers > 0.0).collect();
    all.sort_by(|a, b| b.1.false_transfers.total_cmp(&a.1.false_transfers));
    all
}

fn cells(row: &Row) -> [String; 8] {
    let layouts = match row.layouts {
        1 => "–".to_owned(),
        layouts => format!("{} of {layouts}", row.layouts_with_transfers),
    };
    [
        row.case.clone(),
        row.lock.clone(),
        row.cores.to_string(),
        format!("{:.2}", row.transfers),
        format!("{:.2}", row.false_transfers),
        format!("{:.2}", row.rmw),
        row.accesses.clone(),
        layouts,
    ]
}

fn line_cells((row, line): (&Row, &Line)) -> [String; 7] {
    [
        row.case.clone(),
        row.lock.clone(),
        row.cores.to_string(),
        format!("{:.2}", line.transfers),
        format!("{:.2}", line.false_transfers),
        line.place.clone(),
        line.words.clone(),
    ]
}
