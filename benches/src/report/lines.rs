//! The output of `compare lines`, on the terminal and as a page.

use anyhow::Result;

use super::bars::Bar;
use super::findings::Findings;
use super::html_table::Line as TableLine;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::table::{Column, drawn};
use super::text::listed;
use crate::lines::{Line, Outcome, Row};
use crate::load::Others;
use crate::locks;
use crate::target::Target;
use crate::terminal::Width;

const COLUMNS: [Column; 8] = [
    Column::name("case"),
    Column::name("lock"),
    Column::figure("cores", 0),
    Column::figure("transfers", 0),
    Column::figure("false sharing", 1),
    Column::figure("rmw", 0),
    Column::figure("accesses", 2),
    Column::figure("layouts with transfers", 3),
];

const LINE_COLUMNS: [Column; 7] = [
    Column::name("case"),
    Column::name("lock"),
    Column::figure("cores", 0),
    Column::figure("transfers", 0),
    Column::figure("false sharing", 0),
    Column::name("line"),
    Column::name("bytes, and the cores that used them"),
];

/// How many lines the terminal shows.
const SHOWN: usize = 8;

/// The meaning of the columns.
const READING: &str = "transfers: accesses of an acquisition and its release, or of an operation of the file core, for which a cache line moved from another core; \
false sharing: those that bring nothing, because no other core had used the word meanwhile; rmw: read-modify-writes; \
accesses: what is counted, the atomics of the facade or all accesses to memory; layouts: of the heap, of which the worst is shown";

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
        let is_missed = |row: &Row| row.targets.iter().any(|it| it.met == Some(false));
        page.figures(
            &COLUMNS,
            self.rows
                .iter()
                .map(|row| TableLine::new(cells(row)).guilty_if(is_missed(row), 3)),
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
        let lines = lines.map(|it| TableLine::new(line_cells(it)));
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
    let best: Vec<&Row> = shown
        .iter()
        .copied()
        .filter(|it| it.transfers == fewest)
        .collect();
    let most = shown[shown.len() - 1];
    let lines = match fewest {
        0.0 => "**no cache line**".to_owned(),
        some => format!("**{some:.2} cache lines**"),
    };
    // The read-modify-writes of the best locks, each number with its locks.
    let mut costs: Vec<(f64, Vec<String>)> = Vec::new();
    for row in &best {
        let name = format!("`{}`", row.lock);
        match costs.iter_mut().find(|it| it.0 == row.rmw) {
            Some(known) => known.1.push(name),
            None => costs.push((row.rmw, vec![name])),
        }
    }
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let costs = costs
        .iter()
        .map(|(rmw, locks)| format!("**{rmw:.2}** under {}", listed(locks)));
    let costs: Vec<_> = costs.collect();
    let names: Vec<_> = best.iter().map(|it| format!("`{}`", it.lock)).collect();
    let than = match most.transfers > fewest {
        true => format!("; under `{}`, **{:.2}**", most.lock, most.transfers),
        false => String::new(),
    };
    Answer {
        said: format!(
            "Under {}, an acquisition and its release move {lines} between cores{than} (exact counts of `{case}` on {cores} \
             simulated cores).",
            listed(&names),
        ),
        cost: format!(
            "It costs read-modify-writes: {}.{}",
            costs.join(", "),
            worst(rows).unwrap_or_default()
        ),
        caption: format!("Transfers of cache lines in {case} on {cores} cores; shorter is better"),
        bars: shown
            .iter()
            .map(|it| Bar::new(true, &it.lock, it.transfers, format!("{:.2}", it.transfers)))
            .collect(),
        ..Answer::default()
    }
}

/// Returns where a lock of the registry moves most lines more than another lock does.
fn worst(rows: &[Row]) -> Option<String> {
    let registry = locks::all();
    let lost = rows.iter().filter_map(|row| {
        registry.iter().find(|it| it.0 == row.lock)?;
        let same = rows
            .iter()
            .filter(|it| (&it.case, it.cores) == (&row.case, row.cores));
        let best = same.min_by(|a, b| a.transfers.total_cmp(&b.transfers))?;
        (row.transfers > best.transfers).then_some((row, best))
    });
    let lost = lost.max_by(|a, b| {
        let more = |it: &(&Row, &Row)| it.0.transfers - it.1.transfers;
        more(a).total_cmp(&more(b))
    });
    lost.map(|(row, best)| {
        format!(
            " The worst loss: in `{}` on {} cores, `{}` moves **{:.2} lines**, and `{}` moves {}.",
            row.case,
            row.cores,
            row.lock,
            row.transfers,
            best.lock,
            match best.transfers {
                0.0 => "none".to_owned(),
                some => format!("{some:.2}"),
            }
        )
    })
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
