//! The output of `compare lines --model`, on the terminal and as a page.

use anyhow::Result;

use super::bars::Bar;
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::plots;
use super::table::{Column, drawn};
use super::text::{grouped, listed};
use crate::lines::model::{
    Band, FIGURES, Figure, LOCKS, Outcome, PAGE_NS, Ratio, Row, SYSTEM, TRANSFERS,
};
use crate::load::Others;
use crate::terminal::Width;

const COLUMNS: [Column; 6] = [
    Column::name("case"),
    Column::name("lock"),
    Column::figure("cores", 0),
    Column::figure("k/s, median", 0),
    Column::figure("least", 1),
    Column::figure("greatest", 1),
];

const RATIO_COLUMNS: [Column; 8] = [
    Column::name("case"),
    Column::name("lock"),
    Column::name("to"),
    Column::figure("cores", 0),
    Column::figure("median", 0),
    Column::figure("least to greatest", 0),
    Column::figure("SRL paper", 0),
    Column::figure("supports", 0),
];

impl Findings for Outcome {
    type Row = Row;

    const TITLE: &str = "a model of throughput on many cores";

    const IS_MEASURED: bool = false;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        None
    }

    fn figures(&self, width: Width) -> Vec<String> {
        let throughput = drawn(&COLUMNS, self.rows.iter().map(cells), width);
        let ratios = drawn(&RATIO_COLUMNS, ratios(&self.rows).map(ratio_cells), width);
        let mut told = vec![
            format!("MODEL: thousand operations per second\n{throughput}"),
            format!("MODEL: ratios of throughput\n{ratios}"),
            width.wrapped(&reading(&self.rows)),
        ];
        told.extend(of_figures(&self.rows).map(|it| width.wrapped(&lacks(it))));
        told
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        claims(&self.rows).map_or_else(Vec::new, |it| vec![width.wrapped(&it)])
    }

    fn answer(&self, _: &Origin) -> Answer {
        answer(&self.rows)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        page.keys(LOCKS.iter().map(|&it| (plots::place(it), it, "")));
        for figure in of_figures(&self.rows) {
            let Figure { case, name, .. } = figure;
            let of_case = self.rows.iter().filter(|it| it.case == case);
            let curve = |lock: &'static str| {
                let rows = of_case.clone().filter(|it| it.lock == lock);
                rows.map(|it| (it.cores as f64, it.ops_per_s)).collect()
            };
            let against = |lock: &'static str| {
                let rows = of_case.clone().filter(|it| it.lock == lock);
                let ratio = |row: &Row| {
                    let ratio = row.ratios.iter().find(|it| it.to == LOCKS[0])?;
                    Some((row.cores as f64, ratio.ratio))
                };
                rows.filter_map(ratio).collect()
            };
            let by_place = |points: &dyn Fn(&'static str) -> Vec<(f64, Band)>| {
                let mut lines = vec![Vec::new(); plots::COLORS];
                for lock in LOCKS {
                    lines[plots::place(lock)] = points(lock);
                }
                lines
            };
            page.heading(&format!("Model of the SRL paper's {name}: {case}"));
            page.put("<div class=\"plots\">");
            page.put(&plots::bands(
                "operations/s by cores; shaded: all runs",
                &by_place(&curve),
            )?);
            let caption = format!("times {}, by cores; shaded: all runs", LOCKS[0]);
            page.put(&plots::bands(&caption, &by_place(&against))?);
            page.put("</div>\n");
        }
        let all = ratios(&self.rows).map(|it| Line::new(ratio_cells(it)));
        page.table("Ratios", &RATIO_COLUMNS, all);
        page.table(
            "Throughput",
            &COLUMNS,
            self.rows.iter().map(|it| Line::new(cells(it))),
        );
        page.said(&reading(&self.rows));
        for figure in of_figures(&self.rows) {
            page.said(&lacks(figure));
        }
        Ok(())
    }
}

/// Compares the locks in the first case, on the most cores.
fn answer(rows: &[Row]) -> Answer {
    let Some(case) = rows.first().map(|it| it.case) else {
        return Answer::default();
    };
    let of_case = rows.iter().filter(|it| it.case == case);
    let cores = of_case.clone().map(|it| it.cores).max().unwrap_or(0);
    let mut shown: Vec<&Row> = of_case.filter(|it| it.cores == cores).collect();
    shown.sort_by(|a, b| b.ops_per_s.median.total_cmp(&a.ops_per_s.median));
    let mut decided: Vec<(&str, Vec<String>)> = Vec::new();
    let mut undecided = Vec::new();
    for (row, ratio) in shown
        .iter()
        .flat_map(|row| row.ratios.iter().map(move |it| (row, it)))
    {
        let Band { low, high, .. } = ratio.ratio;
        let (winner, loser, low, high) = match ratio.claim() {
            Some("faster") => (row.lock, ratio.to, low, high),
            Some(_) => (ratio.to, row.lock, 1.0 / high, 1.0 / low),
            None => {
                undecided.push(format!("`{}` and `{}`", row.lock, ratio.to));
                continue;
            }
        };
        let told = format!("`{loser}` (**{low:.1} to {high:.1} times**)");
        match decided.iter_mut().find(|it| it.0 == winner) {
            Some(known) => known.1.push(told),
            None => decided.push((winner, vec![told])),
        }
    }
    let decided = decided.iter().map(|(winner, losers)| {
        format!("`{winner}` is faster than {} in every run", listed(losers))
    });
    let decided: Vec<_> = decided.collect();
    let said = match decided.is_empty() {
        true => format!("In `{case}` on {cores} cores, the model decides nothing."),
        false => format!("In `{case}` on {cores} cores, {}.", decided.join("; ")),
    };
    let undecided = match undecided.is_empty() {
        true => String::new(),
        false => format!(
            "Between {}, the model cannot decide.",
            undecided.join(", and between ")
        ),
    };
    let bar = |row: &&Row| {
        let Band { low, median, high } = row.ops_per_s;
        let [low, middle, high] = [low, median, high].map(|it| grouped((it / 1e3).round() as u64));
        Bar::new(
            true,
            row.lock,
            median,
            format!("{middle} ({low} to {high})"),
        )
    };
    Answer {
        said,
        cost: undecided,
        before: "A model of the SRL paper's figures: nothing was measured.".to_owned(),
        caption: format!(
            "Thousand operations per second of {case} on {cores} cores: median (least to greatest) of all runs"
        ),
        bars: shown.iter().map(bar).collect(),
        ..Answer::default()
    }
}

/// Returns the meaning of the columns.
fn reading(rows: &[Row]) -> String {
    let points = rows.first().map_or(0, |it| it.points);
    let list = |values: [u32; 3]| values.map(|it| it.to_string()).join(", ");
    format!(
        "median, least, greatest: of {points} runs. The runs differ in the time to copy a page ({} ns), \
         in the time of a transfer between cores ({} % of 48 ns within a socket and 145 ns across), in the times of system calls, sleeps \
         and wakes ({} % of typical ones), and in their seeds; each ratio is that of two runs with the same times and seed; SRL paper: the ratio that it prints; \
         supports: what holds in every run, by 3 %",
        list(PAGE_NS),
        list(TRANSFERS),
        list(SYSTEM)
    )
}

/// Returns the figures that have rows.
fn of_figures(rows: &[Row]) -> impl Iterator<Item = Figure> {
    FIGURES
        .into_iter()
        .filter(|figure| rows.iter().any(|row| row.case == figure.case))
}

fn lacks(figure: Figure) -> String {
    let Figure {
        case, name, lacks, ..
    } = figure;
    format!("{case}, beside {name}: {lacks}")
}

fn ratios(rows: &[Row]) -> impl Iterator<Item = (&Row, &Ratio)> {
    rows.iter()
        .flat_map(|row| row.ratios.iter().map(move |ratio| (row, ratio)))
}

/// Says what the model supports on the most cores. Returns `None` if there are no ratios.
fn claims(rows: &[Row]) -> Option<String> {
    let most = rows.iter().map(|it| it.cores).max()?;
    let of_most: Vec<_> = ratios(rows).filter(|(row, _)| row.cores == most).collect();
    let told = |is_supported: bool| {
        let these = of_most
            .iter()
            .filter(|it| it.1.claim().is_some() == is_supported);
        let these = these.map(|(row, ratio)| {
            let (lock, to) = (row.lock, ratio.to);
            match ratio.claim() {
                Some(claim) => format!("{}: {lock} is {claim} than {to}", row.case),
                None => format!("{}: {lock} and {to}", row.case),
            }
        });
        let these: Vec<_> = these.collect();
        if these.is_empty() {
            "nothing".to_owned()
        } else {
            these.join("; ")
        }
    };
    (!of_most.is_empty()).then(|| {
        format!(
            "On {most} cores, the model supports: {}. It does not say which is faster of: {}.",
            told(true),
            told(false)
        )
    })
}

fn cells(row: &Row) -> [String; 6] {
    let Band { low, median, high } = row.ops_per_s;
    let thousands = |it: f64| grouped((it / 1e3).round() as u64);
    [
        row.case.to_owned(),
        row.lock.to_owned(),
        row.cores.to_string(),
        thousands(median),
        thousands(low),
        thousands(high),
    ]
}

fn ratio_cells((row, ratio): (&Row, &Ratio)) -> [String; 8] {
    let Band { low, median, high } = ratio.ratio;
    let published = ratio.published.map(|it| format!("{it:.2}"));
    [
        row.case.to_owned(),
        row.lock.to_owned(),
        ratio.to.to_owned(),
        row.cores.to_string(),
        format!("{median:.2}"),
        format!("{low:.2} to {high:.2}"),
        published.unwrap_or_else(|| "–".to_owned()),
        ratio.claim().unwrap_or("nothing").to_owned(),
    ]
}
