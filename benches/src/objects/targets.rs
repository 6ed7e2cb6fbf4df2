//! Ratios between rows, and the targets.

use super::devices::PMEM;
use super::paper;
use super::rows::Row;
use super::work::{
    BATCH_64, CREATIONS, FILES, FILES_CASE, FILES_SYNCED, LOCAL, LOCAL_SYNCED, PACKED, PUT_CASE,
    RAW, READ, REGION, SPACE, VERSIONS, WRITE, vectors_case,
};
use crate::measure::thread_count;
use crate::target::Target;

/// The lowest acceptable creations, as a multiple of durable creations of files.
const CREATIONS_TO_FILES: f64 = 12.0;
/// The lowest acceptable creations in batches per second, in the packed table.
const CREATIONS_PER_SECOND: f64 = 100_000.0;
/// The same as a multiple of creations with heads in their regions.
const TO_REGION: f64 = 8.0;
/// The lowest acceptable writes and reads, as a multiple of those of raw bytes.
const TO_RAW: f64 = 0.977;
/// The fewest bytes for which this is asked.
const TO_RAW_BYTES: usize = 65_536;
/// The lowest acceptable puts, as a multiple of durable puts of `LocalFileSystem`.
const PUTS_TO_LOCAL: f64 = 20.0;

/// Fills in what follows from comparing the rows.
pub fn compare(rows: &mut [Row]) {
    let all = rows.to_vec();
    for row in rows {
        let same = |case: &str, layout: &str, device: &dyn Fn(&str) -> bool| {
            let found = all.iter().find(|it| {
                (it.case == case && it.layout == layout)
                    && it.threads == row.threads
                    && device(it.device)
            });
            found.map(|it| row.per_s / it.per_s)
        };
        let here = |it: &str| it == row.device;
        let on_disk = |it: &str| it != PMEM;
        let files = match row.case.as_str() {
            PUT_CASE => Some((PUT_CASE, LOCAL, LOCAL_SYNCED)),
            case if case.starts_with("create/") => Some((FILES_CASE, FILES, FILES_SYNCED)),
            _ => None,
        };
        if let Some((case, plain, synced)) = files {
            row.ratio = same(case, synced, &on_disk);
            // A disk has the same files, past the page cache or not.
            let device: &dyn Fn(&str) -> bool = if row.device == PMEM { &here } else { &on_disk };
            row.to_not_durable = same(case, plain, device);
        } else if row.layout == SPACE {
            row.ratio = same(&vectors_case(1), SPACE, &here);
        } else {
            row.to_raw = same(&row.case, RAW, &here);
        }
        let of_mode = |case: &str, layout: &str| {
            let found = all.iter().find(|it| {
                (it.case == case && it.layout == layout && it.mode == row.mode)
                    && (it.device, it.threads) == (row.device, row.threads)
            });
            found.map(|it| row.per_s / it.per_s)
        };
        let creation = CREATIONS.iter().find(|it| it.case == row.case);
        row.to_off = creation.and_then(|it| of_mode(it.off?, row.layout));
        if row.layout == PACKED && files.is_some() {
            row.to_region = of_mode(&row.case, REGION);
        }
        row.paper = paper::ratio_of(row);
        row.targets = targets(row);
    }
}

/// Returns the targets of a row.
fn targets(row: &Row) -> Vec<Target> {
    let of = format!("{}, {}", place(row), thread_count(row.threads));
    let at_least =
        |figure: &str, asked, measured| Target::at_least(of.clone(), figure, asked, measured);
    let is_direct = row.mode.is_some_and(|it| it != VERSIONS);
    let group = row.case.split('/').next().unwrap_or_default();
    match row.case.as_str() {
        BATCH_64 => {
            let mut targets = vec![at_least("ratio", CREATIONS_TO_FILES, row.ratio)];
            if row.layout == PACKED {
                targets.push(at_least("per_s", CREATIONS_PER_SECOND, Some(row.per_s)));
                targets.push(at_least("to_region", TO_REGION, row.to_region));
            }
            targets
        }
        PUT_CASE if row.layout == PACKED => vec![at_least("ratio", PUTS_TO_LOCAL, row.ratio)],
        _ if is_direct && [WRITE, READ].contains(&group) && row.bytes >= Some(TO_RAW_BYTES) => {
            vec![at_least("to_raw", TO_RAW, row.to_raw)]
        }
        _ => Vec::new(),
    }
}

/// Returns what a row and those with other threads have in common.
fn place(row: &Row) -> String {
    let parts = [
        Some(&*row.case),
        Some(row.layout),
        row.mode,
        Some(row.device),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the targets to be shown: of those that several rows have, the one that is missed most or
/// met least. They are of a figure of a case, or of all writes or reads, on a device.
pub fn worst(rows: &[Row]) -> Vec<Target> {
    let mut worst: Vec<(String, Target)> = Vec::new();
    for row in rows {
        for target in &row.targets {
            let group = match target.figure.as_str() {
                "to_raw" => {
                    let does = row.case.split('/').next().unwrap_or_default();
                    let mode = row.mode.unwrap_or_default();
                    format!("{does}, {mode}, {}", row.device)
                }
                figure => format!("{}, {figure}", place(row)),
            };
            match worst.iter_mut().find(|it| it.0 == group) {
                None => worst.push((group, target.clone())),
                Some((_, known)) => {
                    let is_worse = match (target.measured, known.measured) {
                        (Some(measured), Some(before)) => measured < before,
                        (measured, _) => measured.is_some(),
                    };
                    if is_worse {
                        *known = target.clone();
                    }
                }
            }
        }
    }
    worst.into_iter().map(|it| it.1).collect()
}

#[cfg(test)]
mod tests {
    use spanlock_object_store::Layout;

    use super::super::devices::DISK;
    use super::super::work::{Access, MODES, Work};
    use super::*;

    fn row(work: Work, device: &'static str, threads: usize, per_s: f64) -> Row {
        Row {
            per_s,
            ..Row::empty(&work, device, threads)
        }
    }

    /// Returns the row's figure that is judged, with what is measured and the verdict.
    fn judged(row: &Row) -> Vec<(&str, Option<f64>, Option<bool>)> {
        let targets = row.targets.iter();
        let judged = targets.map(|it| (&*it.figure, it.measured, it.met));
        judged.collect()
    }

    #[test]
    fn creations_are_compared_with_durable_files_on_the_disk() {
        let creation = CREATIONS[3];
        let create = |layout| Work::Create(creation, MODES[0], layout);
        let files = |synced| Work::CreateFiles { synced };
        let mut rows = [
            row(create(Layout::Packed), PMEM, 1, 120_000.0),
            row(create(Layout::Region), PMEM, 1, 20_000.0),
            row(files(true), PMEM, 1, 60_000.0),
            row(files(false), PMEM, 1, 80_000.0),
            row(files(true), DISK, 1, 5_000.0),
        ];
        compare(&mut rows);
        assert_eq!(
            judged(&rows[0]),
            [
                ("ratio", Some(24.0), Some(true)),
                ("per_s", Some(120_000.0), Some(true)),
                ("to_region", Some(6.0), Some(false)),
            ]
        );
        assert_eq!(judged(&rows[1]), [("ratio", Some(4.0), Some(false))]);
        assert_eq!(rows[0].to_not_durable, Some(1.5));
        compare(&mut rows[..4]);
        assert_eq!(judged(&rows[1]), [("ratio", None, None)]);
    }

    #[test]
    fn the_worst_row_is_shown_of_all_writes_in_a_mode() {
        let access = |bytes| Access {
            writes: true,
            random: false,
            bytes,
        };
        let cells = [(4096, 10.0), (65_536, 98.0), (1 << 20, 50.0)];
        let mut rows: Vec<_> = cells
            .into_iter()
            .flat_map(|(bytes, per_s)| {
                let access = access(bytes);
                [
                    row(Work::Access(access, MODES[0]), DISK, 1, per_s),
                    row(Work::Access(access, MODES[2]), DISK, 1, per_s),
                    row(Work::Raw(access), DISK, 1, 100.0),
                ]
            })
            .collect();
        compare(&mut rows);
        let shown = worst(&rows);
        let shown: Vec<_> = shown.iter().map(|it| (&*it.of, it.met)).collect();
        let of = "write/sequential/1m, packed, direct, disk, 1 thread";
        assert_eq!(shown, [(of, Some(false))]);
    }
}
