//! What a run has counted.

use core::ops::Range;

use crate::usage::{LINE, Usage, Word};

/// The accesses of operations that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses for which a line moved from another core, or from several.
    pub transfers: u64,
    /// Read-modify-writes.
    pub rmw: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.transfers += other.transfers;
        self.rmw += other.rmw;
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The operations that count.
    pub operations: u64,
    /// Their accesses.
    pub counts: Counts,
    /// The lines that moved, from the hottest on.
    pub lines: Vec<HotLine>,
}

/// A line that moved between cores.
#[derive(Clone, Debug)]
pub struct HotLine {
    /// Where it is.
    pub place: String,
    /// How often it moved.
    pub transfers: u64,
    /// How often it moved although, since the core last used the line, no other core had written
    /// the word of the access, or read it if the access writes.
    pub false_transfers: u64,
    /// The words that cores used.
    pub words: Vec<UsedWord>,
}

/// A word of a [`HotLine`], with those next to it that the same cores used.
#[derive(Clone, Debug)]
pub struct UsedWord {
    /// Its bytes in the line.
    pub bytes: Range<usize>,
    /// How many cores have read it.
    pub readers: u32,
    /// How many cores have written it.
    pub writers: u32,
}

impl Outcome {
    pub(crate) fn new(
        operations: u64,
        counts: Counts,
        lines: impl Iterator<Item = (usize, Box<Usage>)>,
        place: impl Fn(usize) -> String,
    ) -> Self {
        let mut lines: Vec<_> = lines.collect();
        lines.sort_by_key(|(address, usage)| (core::cmp::Reverse(usage.transfers), *address));
        let lines = lines.into_iter().map(|(address, usage)| HotLine {
            place: place(address),
            transfers: usage.transfers,
            false_transfers: usage.false_transfers,
            words: used(&usage.words),
        });
        Outcome {
            operations,
            counts,
            lines: lines.collect(),
        }
    }
}

fn used(words: &[Word]) -> Vec<UsedWord> {
    let size = LINE / words.len();
    let mut all: Vec<(UsedWord, (u128, u128))> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let cores = (word.readers, word.writers);
        match all.last_mut() {
            Some((used, its)) if *its == cores && used.bytes.end == i * size => {
                used.bytes.end += size;
            }
            _ if cores == (0, 0) => {}
            _ => {
                let bytes = i * size..(i + 1) * size;
                let (readers, writers) = (word.readers.count_ones(), word.writers.count_ones());
                all.push((
                    UsedWord {
                        bytes,
                        readers,
                        writers,
                    },
                    cores,
                ));
            }
        }
    }
    all.into_iter().map(|(used, _)| used).collect()
}
