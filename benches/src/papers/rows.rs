//! The results of a run, row by row.

use serde::{Deserialize, Serialize};

use super::published::Said;

/// Two systems are as fast as each other if they differ by less than this: such differences are
/// noise. So are smaller ones than half of what separates the halves of the run, as factors.
const NOISE: f64 = 1.03;

/// The winner of a row whose halves disagree, or in which the difference is noise.
pub const UNDECIDED: &str = "undecided";

/// Why a row that is measured has no number.
const NOTHING_COUNTED: &str = "nothing was counted in so short a time: use a larger --seconds";

/// A number of a paper, and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The paper's short name.
    pub paper: &'static str,
    /// The figure or table, or `Text`.
    pub figure: &'static str,
    /// The section, and the machine if there are several.
    pub section: &'static str,
    /// What it is.
    pub row: &'static str,
    /// What it is relative to; `null` if it is a number of its own.
    pub to: Option<&'static str>,
    /// What has been measured for it: a lock, system or contestant. `null` if it is not shown here.
    pub subject: Option<&'static str>,
    /// How: the number of threads, and the device.
    pub here: String,
    /// The paper's number; `null` if it has a plot without it.
    pub published: Option<f64>,
    /// Ours: the geometric mean of the halves. `null` if it is not shown here.
    pub ours: Option<f64>,
    /// `ours` divided by `published`.
    pub ratio: Option<f64>,
    /// Ours in each half of the run.
    pub halves: Vec<f64>,
    /// The faster or smaller one of `subject` and `to` in both halves, or [`UNDECIDED`]. `null` if
    /// nothing is compared.
    pub winner: Option<&'static str>,
    /// The same in the paper; `null` if it has no number.
    pub published_winner: Option<&'static str>,
    /// Why ours differs, or why it is not shown here.
    pub differs_because: &'static str,
}

/// What one half of a run has measured for a row of a paper.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    /// The paper's row.
    pub(super) said: &'static Said,
    /// What was measured, which may take the place of the row's subject.
    pub(super) subject: &'static str,
    /// How.
    pub(super) here: String,
    /// The number.
    pub(super) ours: f64,
}

impl Ours {
    /// Returns whether it is a number: a system that did nothing has no ratio to another.
    fn is_counted(&self) -> bool {
        self.ours.is_finite() && (self.ours > 0.0 || self.said.to.is_none())
    }
}

/// Returns a row for each of the papers' rows and each way in which it was measured.
pub(super) fn rows(chosen: &[&'static Said], halves: &[Vec<Ours>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for &said in chosen {
        let is_of = |it: &&Ours| std::ptr::eq(it.said, said) && it.is_counted();
        let before = rows.len();
        for first in halves.iter().take(1).flatten().filter(is_of) {
            let same =
                |it: &&Ours| is_of(it) && (it.subject, &it.here) == (first.subject, &first.here);
            let all = halves
                .iter()
                .map(|half| half.iter().find(same).map(|it| it.ours));
            rows.extend(
                all.collect::<Option<Vec<_>>>()
                    .map(|all| row(said, first, all)),
            );
        }
        if rows.len() == before {
            rows.push(empty(said));
        }
    }
    rows
}

/// Returns a row without a number of ours.
fn empty(said: &'static Said) -> Row {
    Row {
        paper: said.paper,
        figure: said.figure,
        section: said.section,
        row: said.row,
        to: said.to,
        subject: None,
        here: String::new(),
        published: said.published,
        ours: None,
        ratio: None,
        halves: Vec::new(),
        winner: None,
        published_winner: None,
        differs_because: match said.case {
            Some(_) => NOTHING_COUNTED,
            None => said.because,
        },
    }
}

fn row(said: &'static Said, first: &Ours, halves: Vec<f64>) -> Row {
    let ours = (halves.iter().map(|it| it.ln()).sum::<f64>() / halves.len() as f64).exp();
    let winner = |ratios: &[f64]| {
        Some(winner(
            first.subject,
            said.to?,
            order(said.measure)?,
            ratios,
        ))
    };
    Row {
        subject: Some(first.subject),
        here: first.here.clone(),
        ours: Some(ours),
        ratio: said.published.map(|it| ours / it),
        winner: winner(&halves),
        published_winner: said.published.and_then(|it| winner(&[it])),
        differs_because: said.because,
        halves,
        ..empty(said)
    }
}

/// Which of two figures wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Higher,
    Lower,
}

/// Returns which figure of a measure wins. `None` if neither is better.
fn order(measure: &str) -> Option<Order> {
    match measure {
        "transactions" | "startup-delay" | "lookup-share" => None,
        "time" | "bytes" => Some(Order::Lower),
        _ if measure.starts_with("write-")
            || measure.starts_with("fsync-")
            || measure.starts_with("checkpoint-") =>
        {
            Some(Order::Lower)
        }
        _ => Some(Order::Higher),
    }
}

/// Returns the winner by these ratios of `subject` to `to`.
fn winner(subject: &'static str, to: &'static str, order: Order, ratios: &[f64]) -> &'static str {
    let (higher, lower) = match order {
        Order::Higher => (subject, to),
        Order::Lower => (to, subject),
    };
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let most = ratios.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let noise = NOISE.max((most / least).sqrt());
    if least > noise {
        higher
    } else if most < 1.0 / noise {
        lower
    } else {
        UNDECIDED
    }
}

#[cfg(test)]
mod tests {
    use super::super::published::all;
    use super::*;

    fn said(measure: &str) -> &'static Said {
        let found = all()
            .iter()
            .find(|it| it.measure == measure && it.to.is_some());
        found.unwrap_or_else(|| panic!("no {measure}"))
    }

    fn half(said: &'static Said, ours: f64) -> Vec<Ours> {
        let subject = "ours";
        let here = "2 threads".to_owned();
        vec![Ours {
            said,
            subject,
            here,
            ours,
        }]
    }

    fn of(said: &'static Said, halves: [f64; 2]) -> Row {
        let halves = halves.map(|it| half(said, it));
        rows(&[said], &halves).remove(0)
    }

    #[test]
    fn ours_is_the_mean_of_both_halves_and_the_ratio_is_to_the_papers() {
        let said = said("per-s");
        let row = of(said, [1.0, 4.0]);
        assert!((row.ours.unwrap() - 2.0).abs() < 1e-12);
        let ratio = row.ratio.unwrap() * said.published.unwrap();
        assert!((ratio - 2.0).abs() < 1e-12);
        assert_eq!(row.halves, [1.0, 4.0]);
    }

    #[test]
    fn a_winner_must_win_both_halves_by_more_than_noise() {
        let more = said("per-s");
        let winners = |halves| of(more, halves).winner.unwrap();
        assert_eq!(winners([1.5, 1.3]), "ours");
        assert_eq!(winners([0.5, 0.6]), more.to.unwrap());
        // In the last two, the halves differ by more than the nearer one does from one.
        for halves in [
            [1.5, 0.9],
            [1.02, 1.02],
            [0.99, 0.99],
            [1.2, 1.8],
            [0.9, 0.5],
        ] {
            assert_eq!(winners(halves), UNDECIDED);
        }
        let less = said("fsync-mean");
        assert_eq!(of(less, [0.5, 0.6]).winner, Some("ours"));
        assert_eq!(of(said("transactions"), [2.0, 2.0]).winner, None);
    }

    #[test]
    fn a_row_that_lacks_a_half_or_did_nothing_is_shown_without_ours() {
        let said = said("per-s");
        let other_halves = [Vec::new(), half(said, 0.0), half(said, f64::NAN)];
        for other in other_halves {
            let lacking = rows(&[said], &[half(said, 1.0), other]);
            assert_eq!(lacking, [empty(said)]);
            assert_eq!(lacking[0].differs_because, NOTHING_COUNTED);
        }
    }
}
