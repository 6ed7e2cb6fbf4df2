//! The output of `compare lines`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, escaped, facts, head, html_table};
use super::table::{Column, drawn, titles};
use super::targets;
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

    fn page(&self, command: &str) -> Result<String> {
        let mut page = head("Spanlock: transfers of cache lines", &facts(command))?;
        writeln!(
            page,
            "<p>{}. The cores are simulated, and the counts are the same in each run.</p>",
            escaped(READING)
        )?;
        for note in self.notes.iter().chain(&self.drifted) {
            writeln!(page, "<p class=\"warning\">{}</p>", escaped(note))?;
        }
        targets::append(&mut page, &self.targets().unwrap_or_default())?;
        let rows = self.rows.iter().map(|row| (String::new(), cells(row)));
        html_table(&mut page, "Figures", titles(&COLUMNS), rows)?;
        let lines = self
            .rows
            .iter()
            .flat_map(|row| row.lines.iter().map(move |line| (row, line)));
        let lines = lines.map(|it| (String::new(), line_cells(it)));
        html_table(&mut page, "Hottest lines", titles(&LINE_COLUMNS), lines)?;
        page.push_str(END);
        Ok(page)
    }

    fn failed(&self) -> Vec<&'static str> {
        let drifted = (!self.drifted.is_empty()).then_some("the record lines/lines.tsv");
        drifted.into_iter().collect()
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
