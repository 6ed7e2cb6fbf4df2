//! The targets of the journal and the log, and whether a run meets them, computed from its rows.

use super::devices::DIRECT;
use super::peers::PEERS;
use super::rows::{BLOCKS, COMMIT, Place, Row, find};
use crate::measure::thread_count;
use crate::target::Target;

/// The lowest acceptable commits per second of the rendezvous in every cell, as a multiple of plain
/// group commit's.
pub const RENDEZVOUS: f64 = 0.98;

/// Contestants that should be about as fast as another, or faster, in every cell of a workload:
/// the workload, the two contestants, and the lowest acceptable ratio.
const EVERYWHERE: [(&str, &str, &str, f64); 2] = [
    (COMMIT, "compact-rendezvous", "compact", RENDEZVOUS),
    (BLOCKS, "cooperative", "coalesced", 0.9),
];

/// Adds their targets to the rows. Returns all targets on these devices, with verdicts; of those
/// that each cell of a workload has, only the one that is missed most or met least.
pub fn judge(rows: &mut [Row], devices: &[&'static str]) -> Vec<Target> {
    let mut all = Vec::new();
    for &device in devices {
        let single = single(rows, device);
        all.extend(single.iter().map(|it| it.1.clone()));
        add(rows, single);
        for (workload, contestant, other, asked) in EVERYWHERE {
            let each = everywhere(rows, (workload, contestant, device), other, asked);
            let measured = each.iter().filter(|it| it.1.measured.is_some());
            let worst =
                measured.min_by(|a, b| a.1.measured.partial_cmp(&b.1.measured).expect("no NaN"));
            let of = format!("{contestant}, every cell, {device}");
            all.extend(worst.map(|it| Target { of, ..it.1.clone() }));
            add(rows, each);
        }
    }
    all
}

/// Adds targets to their rows.
fn add(rows: &mut [Row], targets: Vec<(Place, Target)>) {
    for (of, target) in targets {
        let row = rows.iter_mut().find(|row| row.place() == Some(of));
        if let Some(row) = row {
            row.targets.push(target);
        }
    }
}

/// Returns the targets of single cells on a device.
fn single(rows: &[Row], device: &'static str) -> Vec<(Place, Target)> {
    let place = |contestant, threads| Place {
        workload: COMMIT,
        contestant,
        device,
        threads,
        think: 0.0,
        blocks: 1,
    };
    let mut all = Vec::new();
    let mut faster_by = |of: Place, others: &[&'static str], asked| {
        all.push((of, faster(rows, of, others, asked)));
    };
    faster_by(place("cooperative-on-the-fly", 8), &["serial"], 1.3);
    faster_by(place("cooperative-rendezvous", 8), &["serial"], 1.3);
    faster_by(place("one-flush", 1), &["cooperative-on-the-fly"], 1.8);
    if device == DIRECT {
        return all;
    }
    for threads in [8, 16] {
        let of = place("compact-rendezvous", threads);
        all.push((of, faster(rows, of, &PEERS.map(|it| it.name), 1.5)));
        let row = find(rows, of);
        let missing = vec![of.contestant.to_owned()];
        let per_flush = row.and_then(|it| it.commits_per_flush);
        let asked = 0.9 * threads as f64;
        let target = Target::at_least(name(of), "commits per flush", asked, per_flush);
        all.push((of, target.lacking(missing.clone())));
        let p50 = row.and_then(Row::p50_flushes);
        let target = Target::at_most(name(of), "p50 in flushes", 1.4, p50);
        all.push((of, target.lacking(missing)));
    }
    all
}

/// Returns the targets of each cell with this workload, contestant and device.
fn everywhere(
    rows: &[Row],
    cells: (&str, &str, &str),
    other: &'static str,
    asked: f64,
) -> Vec<(Place, Target)> {
    let places = rows.iter().filter_map(Row::place);
    let of_cells = places.filter(|it| (it.workload, it.contestant, it.device) == cells);
    of_cells
        .map(|of| (of, faster(rows, of, &[other], asked)))
        .collect()
}

fn name(of: Place) -> String {
    format!(
        "{}, {}, {}",
        of.contestant,
        thread_count(of.threads),
        of.device
    )
}

/// Returns a target for the row's commits per second, relative to the best of `others` under the
/// same load.
fn faster(rows: &[Row], of: Place, others: &[&'static str], asked: f64) -> Target {
    let per_second = |contestant| {
        let place = Place { contestant, ..of };
        find(rows, place).map(|it| it.commits_per_s)
    };
    let rivals: Option<Vec<f64>> = others.iter().map(|&it| per_second(it)).collect();
    let best = rivals.and_then(|it| it.into_iter().reduce(f64::max));
    // A contestant that committed nothing during the measurement is no basis for a ratio.
    let best = best.filter(|&it| it > 0.0);
    let measured = per_second(of.contestant)
        .zip(best)
        .map(|(own, best)| own / best);
    let figure = match others {
        [one] => format!("commits/s, times {one}"),
        more => format!("commits/s, times the best of {}", more.join(", ")),
    };
    let missing = [of.contestant].into_iter().chain(others.iter().copied());
    let missing = missing.filter(|&it| per_second(it).is_none());
    let missing = missing.map(str::to_owned).collect();
    Target::at_least(name(of), figure, asked, measured).lacking(missing)
}

/// Returns the cells on a device in which the rendezvous and plain group commit were measured, each
/// with the ratio of their commits per second.
pub fn rendezvous<'a>(rows: &'a [Row], device: &'static str) -> Vec<(&'a Row, f64)> {
    let is_one = |row: &&Row| {
        (row.workload, row.contestant, row.device) == (COMMIT, "compact-rendezvous", device)
    };
    let of_device = rows.iter().filter(is_one);
    let ratio = |row: &Row| faster(rows, row.place()?, &["compact"], RENDEZVOUS).measured;
    of_device
        .filter_map(|row| Some((row, ratio(row)?)))
        .collect()
}

/// Whether writing adjacent blocks together beats parallel writes on a device: the commits per
/// second of `coalesced` divided by those of `cooperative`.
#[derive(Clone, Debug)]
pub struct Coalesced {
    /// The device's name.
    pub device: &'static str,
    /// The ratio in each cell of the grid.
    pub ratios: Vec<f64>,
}

impl Coalesced {
    /// Computes the ratios from the cells on this device that have both contestants; `None` if
    /// there are none.
    pub fn on(rows: &[Row], device: &'static str) -> Option<Self> {
        let places = rows.iter().filter_map(Row::place);
        let is_one =
            |it: &Place| (it.workload, it.contestant, it.device) == (COMMIT, "coalesced", device);
        let of_device = places.filter(is_one);
        let ratios: Vec<f64> = of_device
            .filter_map(|of| faster(rows, of, &["cooperative"], 1.0).measured)
            .filter(|&it| it > 0.0)
            .collect();
        (!ratios.is_empty()).then_some(Coalesced { device, ratios })
    }

    /// Returns the geometric mean.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.ratios.iter().map(|it| it.ln()).sum();
        (sum / self.ratios.len() as f64).exp()
    }

    /// Returns the number of cells in which `coalesced` is faster.
    pub fn wins(&self) -> usize {
        self.ratios.iter().filter(|&&it| it > 1.0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::Figures;
    use super::*;

    fn row(contestant: &'static str, threads: usize, per_second: f64) -> Row {
        let load = (threads, Some(0.0), Some(1));
        Row {
            commits_per_s: per_second,
            commits_per_flush: Some(7.5),
            p50_us: Some(1200.0),
            flush_us: Some(1000.0),
            ..Row::new(
                COMMIT,
                (contestant, None),
                "disk",
                load,
                &Figures::default(),
            )
        }
    }

    #[test]
    fn verdicts_follow_the_rows() {
        let mut rows = vec![
            row("serial", 8, 1000.0),
            row("cooperative-on-the-fly", 8, 1290.0),
            row("compact", 8, 100.0),
            row("compact-rendezvous", 8, 97.0),
            row("okaywal", 8, 60.0),
            row("raft-engine", 8, 50.0),
        ];
        let of = |all: &[Target], name: &str| {
            let of_name = all.iter().filter(|it| it.of == name);
            of_name.cloned().collect::<Vec<_>>()
        };
        let judged = |target: &Target| (target.measured, target.met);
        let all = judge(&mut rows, &["disk"]);
        let on_the_fly = of(&all, "cooperative-on-the-fly, 8 threads, disk");
        assert_eq!(judged(&on_the_fly[0]), (Some(1.29), Some(false)));
        assert_eq!(rows[1].targets, on_the_fly);
        let compact = of(&all, "compact-rendezvous, 8 threads, disk");
        // One of the three is missing.
        assert_eq!(judged(&compact[0]), (None, None));
        assert_eq!(compact[0].missing, ["wal-db"]);
        assert_eq!(judged(&compact[1]), (Some(7.5), Some(true)));
        assert_eq!(judged(&compact[2]), (Some(1.2), Some(true)));
        let last = of(&all, "compact-rendezvous, every cell, disk");
        assert_eq!(judged(&last[0]), (Some(0.97), Some(false)));
        assert_eq!(rows[3].targets.len(), 4);
        assert_eq!(of(&all, "one-flush, 1 thread, disk")[0].missing.len(), 2);
        let lost = rendezvous(&rows, "disk");
        assert_eq!((lost.len(), lost[0].1), (1, 0.97));

        rows.push(row("wal-db", 8, 64.0));
        let all = judge(&mut rows, &["disk"]);
        let compact = of(&all, "compact-rendezvous, 8 threads, disk");
        assert_eq!(judged(&compact[0]), (Some(97.0 / 64.0), Some(true)));
    }

    #[test]
    fn coalesced_is_compared_with_cooperative_in_each_cell() {
        let rows = [
            row("coalesced", 1, 200.0),
            row("cooperative", 1, 100.0),
            row("coalesced", 8, 100.0),
            row("cooperative", 8, 200.0),
            row("coalesced", 16, 100.0),
        ];
        let coalesced = Coalesced::on(&rows, "disk").unwrap();
        assert_eq!((coalesced.ratios.len(), coalesced.wins()), (2, 1));
        assert!((coalesced.mean() - 1.0).abs() < 1e-9);
        assert!(Coalesced::on(&rows, "modelled-1ms").is_none());
    }
}
