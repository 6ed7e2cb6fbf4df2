//! The output of a comparison of locks in files, on the terminal and as a page.

use anyhow::Result;

use super::bars::{Bar, Kind, Unit};
use super::findings::Findings;
use super::html_table::Line;
use super::losses::Losses;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::plots;
use super::table::{Column, drawn};
use super::text::{
    LOSS_MARK, duration, grouped, is_tie, listed, mean, most_threads, throughput_of, times,
};
use crate::compare::{Outcome, ROUNDS, Row};
use crate::load::Others;
use crate::locks;
use crate::measure::thread_count;
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

    const TITLE: &str = "locks compared";

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

    fn answer(&self, origin: &Origin) -> Answer {
        answer(self, origin)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        all_plots(page, &self.rows)?;
        page.figures(
            &COLUMNS,
            self.rows
                .iter()
                .map(|row| Line::new(cells(row)).guilty_if(row.is_loss(), 9)),
        );
        reading(page, self);
        Ok(())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let imported = self.imported.clone();
        imported.map(|it| ("import", it)).into_iter().collect()
    }

    fn losses(&self, page: &mut Page) {
        losses(&self.rows).append(page);
    }
}

/// Compares the locks' mean ratios with as many threads as there are cores.
fn answer(outcome: &Outcome, origin: &Origin) -> Answer {
    let rows = &outcome.rows;
    let threads = most_threads(rows.iter().map(|it| it.threads), origin.machine.cores);
    let ratios = |lock: &str, threads: usize| -> Vec<(f64, &str)> {
        let of_lock = rows
            .iter()
            .filter(|it| (it.lock, it.threads) == (lock, threads));
        of_lock
            .filter_map(|it| Some((it.ratio?, it.workload)))
            .collect()
    };
    let mut all: Vec<_> = locks::contestants()
        .into_iter()
        .filter_map(|it| Some((mean(ratios(it.name, threads).iter().map(|it| it.0))?, it)))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((best, lock)) = all.first() else {
        return Answer {
            said: losses(rows).said,
            ..Answer::default()
        };
    };
    let of_best = ratios(lock.name, threads);
    let [low, high] = [f64::min, f64::max].map(|pick: fn(f64, f64) -> f64| {
        of_best
            .iter()
            .map(|it| it.0)
            .reduce(pick)
            .unwrap_or_default()
    });
    let at = |ratio| {
        of_best
            .iter()
            .find(|it| it.0 == ratio)
            .map_or("", |it| it.1)
    };
    let alone = mean(ratios(lock.name, 1).iter().map(|it| it.0));
    let alone = alone.filter(|_| threads > 1).map(|it| {
        let (costs, throughput) = (
            if it < 0.995 { "It costs: with" } else { "With" },
            throughput_of(it),
        );
        format!("{costs} one thread, it has {throughput} the fastest whole-file lock. ")
    });
    let extreme = |ratio| match is_tie(ratio) {
        true => format!("as fast in `{}`", at(ratio)),
        false => format!("{} in `{}`", times(ratio), at(ratio)),
    };
    Answer {
        said: format!(
            "`{}` wins: with {}, it has {} the fastest whole-file lock, on average over {} workloads ({}, {}).",
            lock.name,
            thread_count(threads),
            throughput_of(*best),
            of_best.len(),
            extreme(low),
            extreme(high),
        ),
        cost: format!("{}{}", alone.unwrap_or_default(), worst(&losses(rows))),
        caption: format!(
            "Throughput with {}, as a ratio to the fastest whole-file lock (the line): geometric mean over all workloads",
            thread_count(threads)
        ),
        bars: all
            .iter()
            .map(|(ratio, it)| Bar::new(it.ours, it.name, *ratio, format!("{ratio:.2}")))
            .collect(),
        even: Some(1.0),
        note: "The fastest whole-file lock differs from workload to workload, so none need be at 1.00.".to_owned(),
        ..Answer::default()
    }
}

/// Returns the losses in a sentence, with the worst.
fn worst(losses: &Losses) -> String {
    match losses.rows.first() {
        None => losses.said.clone(),
        Some(row) => format!(
            "{} The worst: **{}** (`{}` in `{}` with {}).",
            losses.said.replace("Losses: o", "O"),
            row[3],
            row[1],
            row[0],
            thread_count(row[2].parse().unwrap_or_default())
        ),
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
        (count, lost) => format!(
            "Losses: our locks lose **{lost} of {count}** comparisons with the fastest whole-file lock: {}.",
            whose(compared.iter().filter(|row| row.is_loss()))
        ),
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

/// Divides losses by what explains them: one thread, where ranges gain nothing, and locks without
/// ranges.
fn whose<'a>(lost: impl Iterator<Item = &'a &'a Row>) -> String {
    let [mut alone, mut whole, mut ranges] = [0; 3];
    for row in lost {
        let count = match locks::contestant(row.lock).whole_file {
            _ if row.threads == 1 => &mut alone,
            true => &mut whole,
            false => &mut ranges,
        };
        *count += 1;
    }
    let parts = [
        (alone, "with one thread"),
        (whole, "with more threads and a whole-file lock of our own"),
        (ranges, "with more threads and a range lock"),
    ];
    let parts = parts.iter().filter(|it| it.0 > 0);
    listed(&Vec::from_iter(
        parts.map(|(count, what)| format!("{count} {what}")),
    ))
}

/// Explains the figures.
fn reading(page: &mut Page, outcome: &Outcome) {
    page.said(&format!(
        "Every figure is the median of rounds ({ROUNDS} on the shared file, more for a short import). The locks take \
         turns, so that other load on the machine affects all locks equally. Nothing else should run during the measurement. \
         Each cell is measured for {} s in total. Latencies are those of sampled operations of all rounds; the longest are \
         caused by the scheduler. A ratio compares operations per second with the baseline: the fastest whole-file lock in the same \
         workload, with the same number of threads, in the same run; below 1 the lock is slower. Differences of a few \
         hundredths are noise.",
        outcome.seconds
    ));
}

fn all_plots(page: &mut Page, rows: &[Row]) -> Result<()> {
    page.heading("Locks");
    plots::lock_keys(page, |it| rows.iter().any(|row| row.lock == it));
    for (workload, about) in workloads::all() {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.workload == workload).collect();
        if rows.is_empty() {
            continue;
        }
        page.heading(&format!("{workload}: {about}"));
        page.put("<div class=\"plots\">");
        page.put(&plots::throughput(&rows)?);
        for of_threads in rows.chunk_by(|a, b| a.threads == b.threads) {
            ratios(page, of_threads);
        }
        page.put("</div>\n");
    }
    Ok(())
}

/// Shows the ratios of rows with the same number of threads.
fn ratios(page: &mut Page, rows: &[&Row]) {
    let bar = |row: &&Row| {
        Some(Bar {
            name: row.lock.to_owned(),
            value: row.ratio?,
            told: ratio(row),
            second: None,
            kind: Kind::Place(plots::place(row.lock)),
            is_bad: row.is_loss(),
        })
    };
    let bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
    if !bars.is_empty() {
        let threads = thread_count(rows[0].threads);
        let caption = format!("{threads}: ratio to the fastest whole-file lock");
        page.bars(&caption, &bars, Some(1.0), Unit::Number);
    }
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
            lost.said.contains("lose **1 of 2** comparisons")
                && lost
                    .said
                    .ends_with(": 1 with more threads and a range lock."),
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
