//! The output of a comparison of locks in files, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, begun, escaped, html_table};
use super::losses::Losses;
use super::table::{Column, drawn, titles};
use super::text::{LOSS_MARK, duration, grouped};
use super::{plots, targets};
use crate::compare::{Outcome, ROUNDS, Row};
use crate::load::Others;
use crate::locks;
use crate::target::Target;
use crate::terminal::Width;
use crate::workloads;

const COLUMNS: [Column; 10] = [
    Column::name("workload"),
    Column::name("lock"),
    Column::figure("threads", 0),
    Column::figure("ops/s", 0),
    Column::figure("MB/s", 6),
    Column::figure("p50", 2),
    Column::figure("p99", 3),
    Column::figure("max", 5),
    Column::figure("baseline", 4),
    Column::figure("ratio", 0),
];

impl Findings for Outcome {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        Some(self.others)
    }

    fn media(&self) -> Vec<String> {
        vec![self.volume.clone()]
    }

    fn figures(&self, width: Width) -> Vec<String> {
        vec![drawn(&COLUMNS, self.rows.iter().map(cells), width)]
    }

    fn targets(&self) -> Option<Vec<Target>> {
        Some(self.targets.clone())
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        let imported = self.imported.iter().map(|it| width.wrapped(it));
        let losses = [losses(&self.rows).told(width)].into_iter();
        losses.chain(imported).collect()
    }

    fn page(&self, command: &str) -> Result<String> {
        let imported = self.imported.as_deref().unwrap_or("not run");
        let own = [
            ("volume", self.volume.clone()),
            ("import", imported.to_owned()),
        ];
        let mut page = begun("Spanlock: locks compared", command, self.others, &own)?;
        reading(&mut page, self)?;
        targets::append(&mut page, &self.targets)?;
        let mut last = None;
        let rows = self.rows.iter().map(|row| {
            let cell = (row.workload, row.threads);
            let first = last.replace(cell).is_some_and(|it| it != cell);
            let first = if first { "first " } else { "" };
            let loss = if row.is_loss() { "loss" } else { "" };
            (format!("{first}{loss}"), cells(row))
        });
        html_table(&mut page, "Figures", titles(&COLUMNS), rows)?;
        all_plots(&mut page, &self.rows)?;
        page.push_str(END);
        Ok(page)
    }
}

/// Returns a row as text, column by column.
fn cells(row: &Row) -> [String; 10] {
    [
        row.workload.to_owned(),
        row.lock.to_owned(),
        row.threads.to_string(),
        grouped(row.ops_per_s.round() as u64),
        grouped(row.mb_per_s.round() as u64),
        duration(row.p50_ns),
        duration(row.p99_ns),
        duration(row.max_ns),
        row.baseline.unwrap_or("–").to_owned(),
        ratio(row),
    ]
}

fn ratio(row: &Row) -> String {
    match row.ratio {
        None => "–".to_owned(),
        Some(ratio) if row.is_loss() => format!("{LOSS_MARK} {ratio:.3}"),
        Some(ratio) => format!("{ratio:.3}"),
    }
}

/// Returns the cells in which the fastest whole-file lock is faster than one of ours.
fn losses(rows: &[Row]) -> Losses {
    let compared: Vec<&Row> = rows
        .iter()
        .filter(|row| row.ours && row.ratio.is_some() && row.baseline != Some(row.lock))
        .collect();
    let lost = compared.iter().filter(|row| row.is_loss()).map(|row| {
        let baseline = row.baseline.unwrap_or("–");
        let cells = [
            row.workload.to_owned(),
            row.lock.to_owned(),
            row.threads.to_string(),
            format!("{:.3} of {baseline}", row.ratio.unwrap_or_default()),
        ];
        (row.ratio.unwrap_or_default(), cells.to_vec())
    });
    let rows = Losses::sorted(lost.collect());
    let said = match (compared.len(), rows.len()) {
        (0, _) => "No ratios: they need a whole-file lock and another lock of ours.".to_owned(),
        (count, 0) => {
            format!("No losses: none of {count} ratios to the fastest whole-file lock is below 1.")
        }
        (count, lost) => {
            format!("Losses: {lost} of {count} ratios to the fastest whole-file lock are below 1.")
        }
    };
    Losses {
        said,
        columns: vec![
            Column::name("workload"),
            Column::name("lock"),
            Column::figure("threads", 0),
            Column::figure("ratio", 0),
        ],
        rows,
    }
}

/// Explains the figures.
fn reading(page: &mut String, outcome: &Outcome) -> Result<()> {
    writeln!(
        page,
        "<p>Every figure is the median of rounds ({ROUNDS} on the shared file, more for a short import). The locks take \
         turns, so that other load on the machine affects all locks equally. Nothing else should run during the measurement. \
         Each cell is measured for {} s in total. Latencies are those of sampled operations of all rounds; the longest are \
         caused by the scheduler. A ratio compares operations per second with the baseline: the fastest whole-file lock in the same \
         workload, with the same number of threads, in the same run; below 1 the lock is slower. Differences of a few \
         hundredths are noise.</p>",
        outcome.seconds
    )?;
    losses(&outcome.rows).append(page)
}

fn all_plots(page: &mut String, rows: &[Row]) -> Result<()> {
    let locks: Vec<_> = locks::contestants()
        .into_iter()
        .filter(|it| rows.iter().any(|row| row.lock == it.name))
        .collect();
    page.push_str("<h2>Locks</h2>\n<ul>\n");
    for (place, it) in locks.iter().enumerate() {
        let (name, about) = (it.name, it.about);
        let color = plots::html_color(place);
        writeln!(
            page,
            "<li><span class=\"key\" style=\"background: {color}\"></span><code>{name}</code>: {}</li>",
            escaped(about)
        )?;
    }
    page.push_str("</ul>\n");
    let names: Vec<_> = locks.iter().map(|it| it.name).collect();
    for (workload, about) in workloads::all() {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.workload == workload).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(
            page,
            "<h2>{workload}: {}</h2>\n<div class=\"plots\">",
            escaped(about)
        )?;
        page.push_str(&plots::throughput(&rows, &names)?);
        page.push_str(&plots::ratios(&rows, &names)?.unwrap_or_default());
        page.push_str("</div>\n");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(lock: &'static str, ratio: Option<f64>) -> Row {
        Row {
            ours: true,
            baseline: ratio.map(|_| "parking_lot"),
            ratio,
            mb_per_s: 5_056.8,
            p50_ns: 812,
            p99_ns: 1_240,
            max_ns: 3_100_000,
            ..Row::of_test("dwom", lock, 2, 1_234_567.0)
        }
    }

    #[test]
    fn cells_are_formatted_with_units() {
        let cells = cells(&row("srl-array", Some(0.93)));
        let wanted = [
            "dwom",
            "srl-array",
            "2",
            "1 234 567",
            "5 057",
            "812 ns",
            "1.24 µs",
            "3.10 ms",
            "parking_lot",
            "▼ 0.930",
        ];
        assert_eq!(cells, wanted);
    }

    #[test]
    fn losses_are_counted_and_listed() {
        let rows = [row("rw-counter", Some(1.0)), row("srl-array", Some(0.93))];
        let lost = losses(&rows);
        assert!(
            lost.said.starts_with("Losses: 1 of 2 ratios"),
            "{}",
            lost.said
        );
        assert_eq!(
            lost.rows,
            [["dwom", "srl-array", "2", "0.930 of parking_lot"]]
        );
        let said = |rows: &[Row]| losses(rows).said;
        assert!(said(&[row("parking_lot", Some(1.0))]).starts_with("No ratios"));
        assert!(said(&rows[..1]).starts_with("No losses"));
        assert!(said(&[row("srl-array", None)]).starts_with("No ratios"));
    }
}
