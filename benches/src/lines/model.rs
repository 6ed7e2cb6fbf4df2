//! Throughput on simulated cores, as a *model*: `cargo compare lines --model`.
//!
//! Operations for each second of simulated time depend on times that no count depends on. So each
//! cell runs at many *points*: all combinations of the parameters below, with several seeds. The
//! result is a median and a band. A claim holds only if it holds at every point.
//!
//! The parameters come from elsewhere than the figures that the model is compared with.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use indicatif::ProgressBar;
use rayon::prelude::*;
use serde::Serialize;

use super::programs::{Cell, Point, Programs};
use crate::papers::published;

/// The cases, each with what it follows: the workload and its figure in [SRL].
///
/// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
pub const FIGURES: [Figure; 2] = [
    Figure {
        case: "file-overwrite",
        workload: "dwom",
        name: "Figure 12(a)",
        lacks: "the model has no limit of memory bandwidth. In the paper, overwrites under every range lock stall at 2 GB/s, the limit of its Optane memory. So its ratios are far below the model's, and the model does not confirm them",
    },
    Figure {
        case: "file-read",
        workload: "drbm",
        name: "Figure 12(b)",
        lacks: "the model has no system calls and nothing else that NOVA does outside the lock; it reads the page from the core's own cache, as the paper's threads do",
    },
];

/// The contestants: the locks of the figures of `[SRL]`.
pub const LOCKS: [&str; 3] = ["rw-counter", "interval-tree-1", "srl-tree"];

/// Which locks are compared: the first with the second.
const PAIRS: [(&str, &str); 3] = [
    ("srl-tree", "rw-counter"),
    ("srl-tree", "interval-tree-1"),
    ("interval-tree-1", "rw-counter"),
];

/// The usual numbers of cores.
const CORES: [usize; 7] = [1, 2, 4, 8, 16, 28, 56];

/// The cores of [SRL]'s machine, for which it prints the numbers that are compared.
const PAPER_CORES: usize = 56;

/// Nanoseconds to copy a page: 40, 20 and 10 GB/s for each core.
pub const PAGE_NS: [u32; 3] = [102, 205, 410];

/// How long a transfer takes, in percent of `spanlock-cores`' times of 48 and 145 ns, which are
/// those of the paper's kind of processor.
pub const TRANSFERS: [u32; 3] = [50, 100, 200];

/// How long system calls, sleeps and wakes take, in percent of typical times on Linux.
pub const SYSTEM: [u32; 3] = [50, 100, 200];

/// A claim needs this much more or less than 1, as a factor, at every point. One core has no
/// contention, so smaller differences come from times of instructions that the model only guesses.
const MARGIN: f64 = 1.03;

/// A case, and the figure that it follows.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The case.
    pub case: &'static str,
    workload: &'static str,
    /// The figure's name.
    pub name: &'static str,
    /// What the model lacks for this figure.
    pub lacks: &'static str,
}

/// The runs to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The project.
    pub project: PathBuf,
    /// Parts of the names of cells. A cell runs if its name contains one of them, or if there are
    /// none.
    pub filter: Vec<String>,
    /// Numbers of cores, or none for the usual ones.
    pub cores: Vec<usize>,
    /// How many seeds each combination of times runs with.
    pub seeds: u32,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows, by case, then lock, then cores.
    pub rows: Vec<Row>,
}

/// The result of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The figure that the cell follows.
    pub figure: &'static str,
    /// The case.
    pub case: &'static str,
    /// The lock.
    pub lock: &'static str,
    /// The number of simulated cores.
    pub cores: usize,
    /// At how many points the cell ran.
    pub points: usize,
    /// Operations per simulated second.
    pub ops_per_s: Band,
    /// The ratios of this lock's throughput to others'.
    pub ratios: Vec<Ratio>,
}

/// The ratio of two locks' throughput, which is taken at each point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The lock that is compared with.
    pub to: &'static str,
    /// The ratio.
    pub ratio: Band,
    /// The paper's ratio; `None` if it prints none for so many cores.
    pub published: Option<f64>,
}

/// The median of all points, and the least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// The least.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The greatest.
    pub high: f64,
}

impl Band {
    /// Returns the band of some values. There is at least one, and all are numbers.
    fn of(mut values: Vec<f64>) -> Band {
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        Band {
            low: values[0],
            median: f64::midpoint(values[last / 2], values[last.div_ceil(2)]),
            high: values[last],
        }
    }
}

impl Ratio {
    /// Returns the claim that the model supports, if the whole band is on one side of 1, by 3 %.
    pub fn claim(&self) -> Option<&'static str> {
        match self.ratio {
            Band { low, .. } if low > MARGIN => Some("faster"),
            Band { high, .. } if high < 1.0 / MARGIN => Some("slower"),
            _ => None,
        }
    }
}

/// A cell, and its throughput at each point.
struct Measured {
    figure: Figure,
    lock: &'static str,
    cores: usize,
    ops_per_s: Vec<f64>,
}

/// Runs the cells. `bar` counts their points.
///
/// # Errors
/// No cell has such a name, the programs cannot be built, or one fails.
pub fn run(plan: &Plan, bar: &ProgressBar) -> Result<Outcome> {
    let points = points(plan.seeds);
    let mut cells = cells(&plan.cores);
    cells.retain(|it| plan.filter.is_empty() || plan.filter.iter().any(|part| it.1.has(part)));
    ensure!(
        !cells.is_empty(),
        "--filter {}: the model has no cell with such a name; one is `file-read/srl-tree/8`",
        plan.filter.join(",")
    );
    bar.set_message("building the programs");
    let programs = Programs::build(&plan.project)?;
    if let Some(why) = programs.skipped().next() {
        bail!("the model needs to see all accesses: {why}");
    }
    bar.set_length((cells.len() * points.len()) as u64);
    bar.set_message("running");
    let measured: Result<Vec<Measured>> = cells
        .par_iter()
        .map(|&(figure, ref cell, lock)| {
            let throughput = points.par_iter().map(|&point| {
                let throughput = programs.throughput(cell, point)?;
                bar.inc(1);
                Ok(throughput)
            });
            Ok(Measured {
                figure,
                lock,
                cores: cell.cores,
                ops_per_s: throughput.collect::<Result<_>>()?,
            })
        })
        .collect();
    Ok(Outcome {
        rows: rows(&measured?),
    })
}

/// Returns all combinations of the parameters.
fn points(seeds: u32) -> Vec<Point> {
    let mut points = Vec::new();
    for page_ns in PAGE_NS {
        for transfers in TRANSFERS {
            for system in SYSTEM {
                points.extend((0..seeds).map(|nth| Point {
                    page_ns,
                    transfers,
                    system,
                    seed: 1 + nth,
                }));
            }
        }
    }
    points
}

fn cells(cores: &[usize]) -> Vec<(Figure, Cell, &'static str)> {
    let cores = if cores.is_empty() { &CORES } else { cores };
    let mut cells = Vec::new();
    for figure in FIGURES {
        for lock in LOCKS {
            let cell = |&cores| {
                (
                    figure,
                    Cell::of_all_accesses(figure.case, lock, cores),
                    lock,
                )
            };
            cells.extend(cores.iter().map(cell));
        }
    }
    cells
}

fn rows(measured: &[Measured]) -> Vec<Row> {
    let row = |it: &Measured| Row {
        figure: it.figure.name,
        case: it.figure.case,
        lock: it.lock,
        cores: it.cores,
        points: it.ops_per_s.len(),
        ops_per_s: Band::of(it.ops_per_s.clone()),
        ratios: ratios(it, measured),
    };
    measured.iter().map(row).collect()
}

fn ratios(of: &Measured, all: &[Measured]) -> Vec<Ratio> {
    let pairs = PAIRS.into_iter().filter(|it| it.0 == of.lock);
    let ratio = |(_, to)| {
        let to: &Measured = all
            .iter()
            .find(|it| it.figure.case == of.figure.case && it.cores == of.cores && it.lock == to)?;
        let both = of.ops_per_s.iter().zip(&to.ops_per_s);
        Some(Ratio {
            to: to.lock,
            ratio: Band::of(both.map(|(of, to)| of / to).collect()),
            published: published(of, to.lock),
        })
    };
    pairs.filter_map(ratio).collect()
}

/// Returns the paper's ratio of a lock to another one.
fn published(of: &Measured, to: &str) -> Option<f64> {
    let said = published::of("SRL").find(|it| {
        it.figure == of.figure.name
            && it.case == Some(of.figure.workload)
            && it.subject == of.lock
            && it.to == Some(to)
            && it.threads == Some(PAPER_CORES)
    });
    said.filter(|_| of.cores == PAPER_CORES)?.published
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(lock: &'static str, cores: usize, ops_per_s: &[f64]) -> Measured {
        Measured {
            figure: FIGURES[1],
            lock,
            cores,
            ops_per_s: ops_per_s.to_vec(),
        }
    }

    #[test]
    fn a_claim_needs_every_point() {
        let all = [
            measured("rw-counter", 56, &[1.0, 2.0, 4.0]),
            measured("interval-tree-1", 56, &[3.0, 1.0, 2.0]),
            measured("srl-tree", 56, &[5.0, 3.0, 8.0]),
        ];
        let rows = rows(&all);
        let told = |row: usize, nth: usize| {
            let Ratio { to, ratio, .. } = &rows[row].ratios[nth];
            let Band { low, median, high } = *ratio;
            (*to, [low, median, high], rows[row].ratios[nth].claim())
        };
        // Each ratio is that of one point: 5 to 1, 3 to 2 and 8 to 4.
        assert_eq!(told(2, 0), ("rw-counter", [1.5, 2.0, 5.0], Some("faster")));
        assert_eq!(told(1, 0), ("rw-counter", [0.5, 0.5, 3.0], None));
        assert_eq!(rows[0].ratios, []);
        assert_eq!(rows[1].ops_per_s.median, 2.0);
    }

    #[test]
    fn the_paper_s_ratios_are_beside_those_of_as_many_cores() {
        let both = |cores| {
            [
                measured("rw-counter", cores, &[1.0]),
                measured("srl-tree", cores, &[2.0]),
            ]
        };
        let published = |cores| rows(&both(cores))[1].ratios[0].published;
        assert!(published(56).is_some_and(|it| (46.6..46.7).contains(&it)));
        assert_eq!(published(28), None);
        let overwrites = FIGURES[0];
        let compared = PAIRS[..2].iter().map(|&(lock, to)| {
            let of = Measured {
                figure: overwrites,
                ..measured(lock, 56, &[1.0])
            };
            super::published(&of, to)
        });
        assert_eq!(compared.collect::<Vec<_>>(), [Some(3.0), Some(1.28)]);
    }

    #[test]
    fn points_are_all_combinations() {
        let points = points(2);
        assert_eq!(points.len(), 54);
        let distinct: std::collections::BTreeSet<_> =
            points.iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(distinct.len(), 54);
    }

    #[test]
    fn the_median_of_two_is_between_them() {
        assert_eq!(Band::of(vec![4.0, 1.0]).median, 2.5);
    }
}
