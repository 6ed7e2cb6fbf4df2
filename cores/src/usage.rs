//! What a report says of a line: how often it moved, and which moves brought nothing.

use core::ops::Range;

use crate::machine::MAX_CORES;

/// The bytes of a line.
pub(crate) const LINE: usize = 64;
/// The words of a line, of 4 bytes.
pub(crate) const WORDS: usize = 16;

/// The transfers of a line, and the words that cores used.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) transfers: u64,
    pub(crate) false_transfers: u64,
    pub(crate) words: [Word; WORDS],
    /// Counts accesses.
    clock: u64,
    /// The last access of each core, or 0.
    last: [u64; MAX_CORES],
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Word {
    pub(crate) readers: u128,
    pub(crate) writers: u128,
    read: Last,
    written: Last,
}

/// The last access of a kind, and the last one by another core than that.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    core: usize,
    at: u64,
    by_another: u64,
}

impl Last {
    fn note(&mut self, core: usize, at: u64) {
        if self.core != core {
            self.by_another = self.at;
        }
        (self.core, self.at) = (core, at);
    }

    /// Returns the last access by a core other than `core`.
    fn except(self, core: usize) -> u64 {
        if self.core == core {
            self.by_another
        } else {
            self.at
        }
    }
}

impl Default for Usage {
    fn default() -> Self {
        Usage {
            transfers: 0,
            false_transfers: 0,
            words: Default::default(),
            clock: 0,
            last: [0; MAX_CORES],
        }
    }
}

impl Usage {
    /// Counts a transfer for an access of these words, which has not been noted yet.
    ///
    /// The transfer is **false** if the words alone would not have needed it: since the core's last
    /// access of the line, no other core has written them; nor read them, if the access writes.
    pub(crate) fn count(&mut self, core: usize, words: Range<usize>, writes: bool) {
        let before = self.last[core];
        let others = |word: &Word| {
            let written = word.written.except(core);
            if writes {
                written.max(word.read.except(core))
            } else {
                written
            }
        };
        self.transfers += 1;
        if self.words[words].iter().map(others).all(|at| at <= before) {
            self.false_transfers += 1;
        }
    }

    /// Notes an access.
    pub(crate) fn note(&mut self, core: usize, words: Range<usize>, reads: bool, writes: bool) {
        self.clock += 1;
        for word in &mut self.words[words] {
            if reads {
                word.read.note(core, self.clock);
                word.readers |= 1 << core;
            }
            if writes {
                word.written.note(core, self.clock);
                word.writers |= 1 << core;
            }
        }
        self.last[core] = self.clock;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_false_if_no_other_core_used_the_word() {
        let mut usage = Usage::default();
        let mut access = |core, word: usize, writes| {
            let before = usage.false_transfers;
            usage.count(core, word..word + 1, writes);
            usage.note(core, word..word + 1, true, writes);
            usage.false_transfers > before
        };
        access(0, 0, true);
        assert!(!access(1, 0, true), "the word that the other core wrote");
        assert!(!access(0, 0, true), "the same, back");
        assert!(access(1, 1, true), "another word");
        assert!(
            access(0, 0, false),
            "its own word, which nobody has written since"
        );
        access(1, 0, false);
        assert!(!access(0, 0, true), "a word that another core has read");
    }
}
