//! The targets of the journal and the log, and whether a run meets them, computed from its rows.

use super::devices::DIRECT;
use super::peers::PEERS;
use super::rows::{BLOCKS, Bound, COMMIT, Place, Row, Target, find};

/// Contestants that should be about as fast as another, or faster, in every cell of a workload:
/// the workload, the two contestants, and the lowest acceptable ratio.
pub(crate) const EVERYWHERE: [(&str, &str, &str, f64); 2] = [
    (COMMIT, "compact-rendezvous", "compact", 0.98),
    (BLOCKS, "cooperative", "coalesced", 0.9),
];

/// Returns all targets on these devices.
pub(super) fn targets(rows: &[Row], devices: &[&'static str]) -> Vec<Target> {
    let of_device = |&device: &&'static str| {
        let place = |contestant, threads| Place {
            workload: COMMIT,
            contestant,
            device,
            threads,
            think: 0.0,
            blocks: 1,
        };
        let mut all = vec![
            faster(rows, place("cooperative-on-the-fly", 8), &["serial"], 1.3),
            faster(rows, place("cooperative-rendezvous", 8), &["serial"], 1.3),
            faster(
                rows,
                place("one-flush", 1),
                &["cooperative-on-the-fly"],
                1.8,
            ),
        ];
        if device == DIRECT {
            all.extend(everywhere(rows, device));
            return all;
        }
        for threads in [8, 16] {
            let of = place("compact-rendezvous", threads);
            all.push(faster(rows, of, &PEERS.map(|it| it.name), 1.5));
            let row = find(rows, of);
            let per_flush = row.and_then(|it| it.commits_per_flush);
            let asked = 0.9 * threads as f64;
            all.push(judged(
                of,
                "commits per flush",
                Bound::AtLeast,
                asked,
                per_flush,
            ));
            let p50 = row.and_then(Row::p50_flushes);
            all.push(judged(of, "p50 in flushes", Bound::AtMost, 1.4, p50));
        }
        all.extend(everywhere(rows, device));
        all
    };
    devices.iter().flat_map(of_device).collect()
}

/// Returns the targets of each cell of the grid.
fn everywhere(rows: &[Row], device: &'static str) -> Vec<Target> {
    let of_one = |(workload, contestant, other, asked)| {
        let places = rows.iter().filter_map(Row::place);
        let is_one = move |it: &Place| {
            (it.workload, it.contestant, it.device) == (workload, contestant, device)
        };
        places.filter(is_one).map(move |of| Target {
            everywhere: true,
            ..faster(rows, of, &[other], asked)
        })
    };
    EVERYWHERE.into_iter().flat_map(of_one).collect()
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
    let what = match others {
        [one] => format!("commits/s, times {one}"),
        more => format!("commits/s, times the best of {}", more.join(", ")),
    };
    let missing = [of.contestant].into_iter().chain(others.iter().copied());
    let missing = missing.filter(|&it| per_second(it).is_none()).collect();
    Target {
        missing,
        ..judged(of, what, Bound::AtLeast, asked, measured)
    }
}

fn judged(
    of: Place,
    what: impl Into<String>,
    bound: Bound,
    asked: f64,
    measured: Option<f64>,
) -> Target {
    let met = measured.map(|it| match bound {
        Bound::AtLeast => it >= asked,
        Bound::AtMost => it <= asked,
    });
    let missing = if measured.is_none() {
        vec![of.contestant]
    } else {
        Vec::new()
    };
    Target {
        of,
        what: what.into(),
        bound,
        asked,
        measured,
        met,
        missing,
        everywhere: false,
    }
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

    fn of<'a>(all: &'a [Target], contestant: &str, threads: usize) -> Vec<&'a Target> {
        let is = |it: &&Target| (it.of.contestant, it.of.threads) == (contestant, threads);
        all.iter().filter(is).collect()
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
        let all = targets(&rows, &["disk"]);
        let on_the_fly = of(&all, "cooperative-on-the-fly", 8)[0];
        assert_eq!(
            (on_the_fly.measured, on_the_fly.met),
            (Some(1.29), Some(false))
        );
        let compact = of(&all, "compact-rendezvous", 8);
        // One of the three is missing.
        assert_eq!(
            (compact[0].met, &*compact[0].missing),
            (None, &["wal-db"][..])
        );
        assert_eq!(
            (compact[1].measured, compact[1].met),
            (Some(7.5), Some(true))
        );
        assert_eq!(
            (compact[2].measured, compact[2].met),
            (Some(1.2), Some(true))
        );
        let last = compact[3];
        assert!(last.everywhere && last.met == Some(false), "{last:?}");
        assert_eq!(of(&all, "one-flush", 1)[0].missing.len(), 2);

        rows.push(row("wal-db", 8, 64.0));
        let all = targets(&rows, &["disk"]);
        let compact = of(&all, "compact-rendezvous", 8);
        assert_eq!(compact[0].measured, Some(97.0 / 64.0));
        assert_eq!(compact[0].met, Some(true));
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
