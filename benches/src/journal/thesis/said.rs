//! The numbers that the thesis states, next to those of a run.

use super::pattern::{FIO, IOR, Pattern, SMALL};
use crate::journal::contestants::CONTESTANTS;
use crate::journal::rows::Row;
use crate::papers::published::{self, Said};

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

impl Measure {
    /// Returns the figure that a measure of the list of published numbers names.
    fn named(measure: &str) -> Option<Self> {
        match measure {
            "transactions" => Some(Measure::Transactions),
            "throughput" => Some(Measure::Throughput),
            "startup-delay" => Some(Measure::StartupDelay),
            _ => None,
        }
    }
}

/// The thesis' short name.
const PAPER: &str = "JBD";
const EXISTING: &str = "serial";

/// Returns the load that a row of the list of published numbers names: a pattern, and the KiB of a
/// write if they are not those of [`SMALL`].
fn pattern_said(said: &Said) -> Option<Pattern> {
    let (name, kibibytes) = said.case().split_once('/').unwrap_or((said.case(), ""));
    let block_bytes = match kibibytes {
        "" => SMALL,
        some => some.parse::<u64>().ok()? << 10,
    };
    Some(Pattern {
        workload: [FIO, IOR].into_iter().find(|it| *it == name)?,
        clients: said.threads?,
        block_bytes,
    })
}

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
    for said in published::of(PAPER) {
        let (pattern, measure) = (pattern_said(said), Measure::named(said.measure));
        if let (Some(pattern), Some(measure), Some(thesis)) = (pattern, measure, said.published) {
            add(said.figure, pattern, said.subject, measure, Some(thesis));
        }
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

/// Returns what a run has on a device for a row of the list of published numbers, with this
/// contestant in the place of the thesis' system.
pub fn ours(rows: &[Row], said: &Said, contestant: &str, device: &str) -> Option<f64> {
    let (pattern, measure) = (pattern_said(said)?, Measure::named(said.measure)?);
    measured(rows, device, pattern, contestant, measure)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_names_a_load_a_contestant_and_a_measure() {
        for said in published::of(PAPER) {
            assert!(pattern_said(said).is_some(), "{said:?}");
            assert!(Measure::named(said.measure).is_some(), "{said:?}");
            let mut names = CONTESTANTS.iter().map(|it| it.name);
            assert!(names.any(|it| it == said.subject), "{said:?}");
        }
    }
}
