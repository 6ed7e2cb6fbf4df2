//! The numbers that the thesis states, next to those of a run.

use super::pattern::{CLIENTS, FIO, IOR, Pattern, SMALL};
use crate::journal::contestants::CONTESTANTS;
use crate::journal::rows::Row;

/// The figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// The number of transactions for the same number of writes, relative to `serial`.
    Transactions,
    /// Bytes per second, relative to `serial` under the same load.
    Throughput,
    /// The start-up delay in percent.
    StartupDelay,
}

/// A number stated in the thesis, and the row it is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// The table or figure in the thesis.
    pub place: &'static str,
    /// The load.
    pub pattern: Pattern,
    /// Our contestant that corresponds to the thesis' system.
    pub contestant: &'static str,
    /// The figure that is compared.
    pub measure: Measure,
    /// The thesis' number.
    pub thesis: f64,
}

const fn said(
    place: &'static str,
    (workload, clients): (&'static str, usize),
    contestant: &'static str,
    measure: Measure,
    thesis: f64,
) -> Said {
    Said {
        place,
        pattern: Pattern {
            workload,
            clients,
            block_bytes: SMALL,
        },
        contestant,
        measure,
        thesis,
    }
}

const EXISTING: &str = "serial";
const PARALLEL: &str = "cooperative";
const OPTIMIZED: &str = "cooperative-on-the-fly";

/// All numbers that the text and tables of the thesis state. "Existing", "Parallel" and "Optimized
/// Lustre" correspond to our `serial`, `cooperative` and `cooperative-on-the-fly`.
pub const SAID: [Said; 13] = [
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        PARALLEL,
        Measure::Transactions,
        68435.0 / 50780.0,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        OPTIMIZED,
        Measure::Transactions,
        76547.0 / 50780.0,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        PARALLEL,
        Measure::Throughput,
        19.4 / 16.7,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        OPTIMIZED,
        Measure::Throughput,
        21.1 / 16.7,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        EXISTING,
        Measure::StartupDelay,
        13.9,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        PARALLEL,
        Measure::StartupDelay,
        13.8,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        OPTIMIZED,
        Measure::StartupDelay,
        5.9,
    ),
    said("Figure 4.1", (FIO, 8), PARALLEL, Measure::Throughput, 1.22),
    said("Figure 4.1", (FIO, 8), OPTIMIZED, Measure::Throughput, 1.3),
    said(
        "Figure 4.3",
        (IOR, 2),
        OPTIMIZED,
        Measure::Throughput,
        1.301,
    ),
    said(
        "Figure 4.3",
        (IOR, 4),
        OPTIMIZED,
        Measure::Throughput,
        1.202,
    ),
    said(
        "Figure 4.3",
        (IOR, 8),
        OPTIMIZED,
        Measure::Throughput,
        1.221,
    ),
    said(
        "Figure 4.3",
        (IOR, 16),
        OPTIMIZED,
        Measure::Throughput,
        1.232,
    ),
];

/// A comparison of this run's numbers, one for each device, with the thesis' number if it states
/// one.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The table or figure in the thesis.
    pub place: &'static str,
    /// The load.
    pub pattern: Pattern,
    /// The contestant's name.
    pub contestant: &'static str,
    /// The figure that is compared.
    pub measure: Measure,
    /// The thesis' number, if it states one.
    pub thesis: Option<f64>,
    /// This run's number for each device, if measured.
    pub ours: Vec<Option<f64>>,
}

/// Returns all comparisons for which the run has a number. Those with a number in the thesis come
/// first, followed by the other loads of its figures.
pub fn comparisons(rows: &[Row], devices: &[&'static str]) -> Vec<Comparison> {
    let mut all: Vec<Comparison> = Vec::new();
    let mut add = |place, pattern, contestant, measure, thesis| {
        let same = |it: &Comparison| {
            (it.place, it.pattern, it.contestant, it.measure)
                == (place, pattern, contestant, measure)
        };
        if all.iter().any(same) {
            return;
        }
        if rows
            .iter()
            .any(|row| row.contestant == contestant && pattern_of(row) == Some(pattern))
        {
            all.push(Comparison {
                place,
                pattern,
                contestant,
                measure,
                thesis,
                ours: devices
                    .iter()
                    .map(|device| measured(rows, device, pattern, contestant, measure))
                    .collect(),
            });
        }
    };
    for said in &SAID {
        let Said {
            place,
            pattern,
            contestant,
            measure,
            thesis,
        } = *said;
        add(place, pattern, contestant, measure, Some(thesis));
    }
    for row in rows.iter().filter(|it| it.contestant != EXISTING) {
        let Some(pattern) = pattern_of(row) else {
            continue;
        };
        let place = match (pattern.workload, pattern.block_bytes) {
            (FIO, SMALL) => "Figure 4.1",
            (FIO, _) => "Figure 4.2",
            _ => "Figure 4.3",
        };
        add(place, pattern, row.contestant, Measure::Throughput, None);
    }
    let place_of = |name| CONTESTANTS.iter().position(|it| it.name == name);
    all.sort_by_key(|it| {
        let Pattern {
            clients,
            block_bytes,
            ..
        } = it.pattern;
        let who = place_of(it.contestant);
        (it.place, clients, block_bytes, it.measure, who)
    });
    all
}

fn pattern_of(row: &Row) -> Option<Pattern> {
    let block_bytes = row.transfers.as_ref()?.block_bytes;
    Some(Pattern {
        workload: row.workload,
        clients: row.threads,
        block_bytes,
    })
}

fn measured(
    rows: &[Row],
    device: &str,
    pattern: Pattern,
    contestant: &str,
    measure: Measure,
) -> Option<f64> {
    let transfers = |contestant: &str| {
        let mut of_load = rows
            .iter()
            .filter(|row| row.device == device && pattern_of(row) == Some(pattern));
        of_load
            .find(|row| row.contestant == contestant)?
            .transfers
            .as_ref()
    };
    let (own, existing) = (transfers(contestant)?, transfers(EXISTING));
    // A contestant that did nothing during the measurement is no basis for a ratio.
    let times = |own: f64, existing: f64| (existing > 0.0).then(|| own / existing);
    match measure {
        Measure::StartupDelay => own.startup_delay,
        Measure::Throughput => times(own.mb_per_s, existing?.mb_per_s),
        Measure::Transactions => times(
            own.transactions_per_write?,
            existing?.transactions_per_write?,
        ),
    }
}
