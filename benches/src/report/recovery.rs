//! The output of `compare recovery`, on the terminal and as a page.

use anyhow::Result;

use super::bars::{Bar, Unit};
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::table::{Column, drawn};
use super::text::{duration, grouped, most_threads, ratio_or_dash, times};
use crate::load::Others;
use crate::measure::thread_count;
use crate::recovery::{Outcome, ROUNDS, Row};
use crate::target::Target;
use crate::terminal::Width;

const COLUMNS: [Column; 8] = [
    Column::name("case"),
    Column::figure("files", 3),
    Column::figure("threads", 0),
    Column::figure("time", 2),
    Column::figure("files/s", 0),
    Column::figure("to 1 thread", 1),
    Column::figure("peak heap", 4),
    Column::figure("bytes/file", 0),
];

/// The meaning of the columns.
const READING: &str = "time: of the call that opens the volume; to 1 thread: files/s divided by one thread's; peak heap: the most bytes that \
callers had from the allocator at a time during that call, without the mapped volume";

impl Findings for Outcome {
    type Row = Row;

    const TITLE: &str = "recovery of large volumes";

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
        let table = drawn(&COLUMNS, self.rows.iter().map(cells), width);
        vec![table, width.wrapped(READING)]
    }

    fn targets(&self) -> Option<Vec<Target>> {
        let targets = self.rows.iter().flat_map(|row| &row.targets);
        Some(targets.cloned().collect())
    }

    fn conclusions(&self, _: Width) -> Vec<String> {
        Vec::new()
    }

    fn answer(&self, origin: &Origin) -> Answer {
        answer(&self.rows, origin)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        page.table(
            "Figures",
            &COLUMNS,
            self.rows.iter().map(|row| Line::new(cells(row))),
        );
        page.said(&format!(
            "{READING}. Each recovery runs in a process of its own. Times are the median of {ROUNDS} recoveries; the numbers of threads \
             take turns. The heap is counted in another process than the one that is timed."
        ));
        Ok(())
    }
}

/// Shows all times, and says that of the first case with as many threads as there are cores.
fn answer(rows: &[Row], origin: &Origin) -> Answer {
    let Some(case) = rows.first().map(|it| it.case) else {
        return Answer::default();
    };
    let of_case = rows.iter().filter(|it| it.case == case);
    let threads = most_threads(of_case.clone().map(|it| it.threads), origin.machine.cores);
    let mut of_case = of_case.filter(|it| it.threads == threads);
    let said = of_case.next().map(|it| {
        let gain = it.to_one_thread.filter(|_| threads > 1);
        let gain = gain.map(|it| format!(", **{}** as fast as with one", times(it)));
        format!(
            "A volume with {} files is recovered in **{}** with {}: **{} files/s**{}.",
            grouped(it.files),
            time(it),
            thread_count(threads),
            grouped(it.files_per_s.round() as u64),
            gain.unwrap_or_default()
        )
    });
    let heap = |row: &Row| {
        let mib = row.peak_bytes as f64 / f64::from(1 << 20);
        format!("**{mib:.0} MiB**")
    };
    let first = rows
        .iter()
        .find(|it| it.case == case && it.threads == threads);
    let first = first.map(|it| {
        let each = match it.files {
            0 | 1 => String::new(),
            _ => format!(", {:.0} bytes for each file", it.peak_bytes_per_file),
        };
        format!("It costs {} of heap at the peak{each}. ", heap(it))
    });
    let worst = rows.iter().max_by_key(|it| it.peak_bytes);
    let worst = worst.filter(|it| it.case != case);
    let worst = worst.map(|it| format!("At worst, it is {} (`{}`). ", heap(it), it.case));
    let alone = rows
        .iter()
        .filter(|it| it.files == 1 && it.threads == threads && threads > 1);
    let alone = alone.filter_map(|it| it.to_one_thread).next();
    let alone = alone.filter(|it| *it < 1.05);
    let alone = alone.map(|it| format!("A single file does not gain from threads ({it:.2})."));
    let bar = |row: &Row| {
        let what = match row.files {
            1 => row.case.to_owned(),
            files => format!("{}, {}", row.case, grouped(files)),
        };
        let name = format!("{what}: {}", thread_count(row.threads));
        Bar::new(true, name, row.seconds * 1e9, time(row))
    };
    Answer {
        said: said.unwrap_or_default(),
        cost: [first, worst, alone].into_iter().flatten().collect(),
        caption: "Time of a recovery; shorter is better".to_owned(),
        bars: rows.iter().map(bar).collect(),
        unit: Unit::Time,
        ..Answer::default()
    }
}

fn time(row: &Row) -> String {
    duration((row.seconds * 1e9) as u64)
}

fn cells(row: &Row) -> [String; 8] {
    // Of one file, they would say nothing.
    let of_files = |figure: f64| match row.files {
        1 => "–".to_owned(),
        _ => grouped(figure.round() as u64),
    };
    [
        row.case.to_owned(),
        grouped(row.files),
        row.threads.to_string(),
        time(row),
        of_files(row.files_per_s),
        ratio_or_dash(row.to_one_thread),
        grouped(row.peak_bytes),
        of_files(row.peak_bytes_per_file),
    ]
}
