//! The result of a cell, as lines of fields that tabs divide.
//!
//! ```text
//! row   layouts  those with transfers  operations  transfers  false transfers  read-modify-writes
//! line  place    transfers             false transfers        words
//! ```

use std::fmt::Write;

use spanlock_cores::{Outcome, UsedWord};

/// How many of the hottest lines a row names.
const LINES: usize = 4;

/// Returns the row of a cell: the counts of the layout with the most transfers for each operation.
/// There is at least one outcome.
pub(crate) fn text(outcomes: &[Outcome]) -> String {
    let moves = |it: &Outcome| it.counts.transfers as f64 / it.operations as f64;
    let worst = outcomes.iter().max_by(|a, b| moves(a).total_cmp(&moves(b)));
    let worst = worst.expect("a cell has outcomes");
    let moving = outcomes.iter().filter(|it| it.counts.transfers > 0);
    let false_transfers: u64 = worst.lines.iter().map(|it| it.false_transfers).sum();
    let mut text = format!(
        "row\t{}\t{}\t{}\t{}\t{false_transfers}\t{}",
        outcomes.len(),
        moving.count(),
        worst.operations,
        worst.counts.transfers,
        worst.counts.rmw
    );
    for line in worst.lines.iter().take(LINES) {
        let words: Vec<_> = line.words.iter().map(words).collect();
        let (place, words) = (&line.place, words.join(", "));
        let (all, of_no_use) = (line.transfers, line.false_transfers);
        let _ = write!(text, "\nline\t{place}\t{all}\t{of_no_use}\t{words}");
    }
    text
}

fn words(words: &UsedWord) -> String {
    let UsedWord {
        bytes,
        readers,
        writers,
    } = words;
    format!(
        "{}..{}: {readers} read, {writers} write",
        bytes.start, bytes.end
    )
}
