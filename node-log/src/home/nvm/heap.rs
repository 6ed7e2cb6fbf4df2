//! The free places of the heap: the lines that no NAT entry names.
//!
//! They are in memory only. Recovery [claims](Heap::claim) the places that entries name, and all
//! others are free. So a crash leaks nothing.
//!
//! A **place** is 1 to 64 consecutive lines of one 4 KiB block. So one word says which lines of a
//! block are in use, and freed neighbours join by themselves. A request is served from the block
//! whose longest free run is the shortest that suffices: small nodes fill the gaps, and whole
//! blocks stay whole.

use std::ops::Range;

use spanlock_sync::Mutex;

/// Lines in a block of the heap, and in the largest place.
pub(super) const BLOCK_LINES: u64 = 64;

/// Where a node's bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The first line, counted from the start of the region.
    pub(super) line: u64,
    /// The number of lines: 1 to 64.
    pub(super) lines: u64,
}

/// See the [module](self). Its mutex is held only for a few operations on bits.
#[derive(Debug)]
pub(super) struct Heap {
    /// Both ends are multiples of [`BLOCK_LINES`].
    lines: Range<u64>,
    blocks: Mutex<Blocks>,
}

#[derive(Debug)]
struct Blocks {
    /// For each block, the lines in use, one bit each.
    used: Vec<u64>,
    /// At index *i*, the blocks whose longest free run has *i* + 1 lines.
    by_run: Vec<Vec<u32>>,
    /// For each block, its index in its list of `by_run`.
    position: Vec<u32>,
    /// Which lists of `by_run` are not empty, one bit each.
    runs: u64,
}

impl Heap {
    /// Creates a heap whose lines are all free.
    pub(super) fn new(lines: Range<u64>) -> Self {
        let blocks = (lines.end - lines.start) / BLOCK_LINES;
        Heap {
            blocks: Mutex::new(Blocks::new(blocks as u32)),
            lines,
        }
    }

    /// Takes a free place. `None`: no block has that many free lines in a row.
    pub(super) fn take(&self, lines: u64) -> Option<Place> {
        let (block, at) = self.blocks.lock().take(lines)?;
        let line = self.lines.start + block as u64 * BLOCK_LINES + at;
        Some(Place { line, lines })
    }

    /// Frees a place that [`take`](Self::take) or [`claim`](Self::claim) took. Its lines may be
    /// overwritten at once.
    pub(super) fn free(&self, place: Place) {
        let (block, mask) = self.locate(place).expect("a place of the heap");
        let mut blocks = self.blocks.lock();
        let used = blocks.used[block];
        debug_assert!(used & mask == mask, "{place:?} was free");
        blocks.set(block, used & !mask);
    }

    /// Takes this place if it lies in the heap and is free. Returns whether it did.
    pub(super) fn claim(&self, place: Place) -> bool {
        let Some((block, mask)) = self.locate(place) else {
            return false;
        };
        let mut blocks = self.blocks.lock();
        let used = blocks.used[block];
        let is_free = used & mask == 0;
        if is_free {
            blocks.set(block, used | mask);
        }
        is_free
    }

    /// Returns whether this place lies in the heap, free or not.
    pub(super) fn has(&self, place: Place) -> bool {
        self.locate(place).is_some()
    }

    /// Returns the number of free lines.
    #[cfg(test)]
    pub(super) fn free_lines(&self) -> u64 {
        let blocks = self.blocks.lock();
        let free = blocks.used.iter().map(|it| u64::from(it.count_zeros()));
        free.sum()
    }

    /// Returns a place's block, and the bits of its lines. `None`: it does not lie in the heap.
    fn locate(&self, Place { line, lines }: Place) -> Option<(usize, u64)> {
        let at = line % BLOCK_LINES;
        let is_place = self.lines.contains(&line) && lines > 0 && at + lines <= BLOCK_LINES;
        is_place.then(|| {
            let block = (line - self.lines.start) / BLOCK_LINES;
            (block as usize, u64::MAX >> (BLOCK_LINES - lines) << at)
        })
    }
}

impl Blocks {
    fn new(blocks: u32) -> Self {
        let mut by_run = vec![Vec::new(); BLOCK_LINES as usize];
        // The first blocks are taken first.
        by_run[BLOCK_LINES as usize - 1] = (0..blocks).rev().collect();
        Blocks {
            used: vec![0; blocks as usize],
            by_run,
            position: (0..blocks).rev().collect(),
            runs: 1 << (BLOCK_LINES - 1),
        }
    }

    /// Takes `lines` lines. Returns the block and the first line in it.
    fn take(&mut self, lines: u64) -> Option<(usize, u64)> {
        let long_enough = self.runs >> (lines - 1) << (lines - 1);
        if long_enough == 0 {
            return None;
        }
        let list = &self.by_run[long_enough.trailing_zeros() as usize];
        let block = *list.last().expect("not empty") as usize;
        let used = self.used[block];
        let at = u64::from(starts_of_runs(!used, lines).trailing_zeros());
        self.set(block, used | u64::MAX >> (BLOCK_LINES - lines) << at);
        Some((block, at))
    }

    /// Sets which lines of a block are in use.
    fn set(&mut self, block: usize, used: u64) {
        let before = longest_run(!self.used[block]);
        let after = longest_run(!used);
        self.used[block] = used;
        if before == after {
            return;
        }
        if let Some(list) = before.checked_sub(1) {
            let position = self.position[block] as usize;
            self.by_run[list].swap_remove(position);
            if let Some(&moved) = self.by_run[list].get(position) {
                self.position[moved as usize] = position as u32;
            }
            self.note(list);
        }
        if let Some(list) = after.checked_sub(1) {
            self.position[block] = self.by_run[list].len() as u32;
            self.by_run[list].push(block as u32);
            self.note(list);
        }
    }

    /// Notes whether a list is empty.
    fn note(&mut self, list: usize) {
        let bit = 1 << list;
        match self.by_run[list].is_empty() {
            true => self.runs &= !bit,
            false => self.runs |= bit,
        }
    }
}

/// Returns the bits at which a run of `lines` ones begins.
fn starts_of_runs(mut bits: u64, lines: u64) -> u64 {
    let mut found = 1;
    while found < lines {
        let further = found.min(lines - found);
        bits &= bits >> further;
        found += further;
    }
    bits
}

/// Returns the length of the longest run of ones.
fn longest_run(mut bits: u64) -> usize {
    let mut run = 0;
    while bits != 0 {
        bits &= bits << 1;
        run += 1;
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 3 * BLOCK_LINES;

    fn heap(blocks: u64) -> Heap {
        Heap::new(START..START + blocks * BLOCK_LINES)
    }

    #[test]
    fn places_never_overlap_and_free_ones_join() {
        for blocks in [1, 5, 300] {
            let heap = heap(blocks);
            let all = blocks * BLOCK_LINES;
            assert_eq!(heap.free_lines(), all);
            let mut used = vec![false; (START + all) as usize];
            let mut taken: Vec<Place> = Vec::new();
            let mut random = fastrand::Rng::with_seed(blocks);
            for _ in 0..40 * blocks {
                if random.bool() {
                    let lines = random.u64(1..=BLOCK_LINES);
                    let Some(place) = heap.take(lines) else {
                        continue;
                    };
                    assert_eq!(place.lines, lines);
                    assert_eq!(place.line / 64, (place.line + lines - 1) / 64, "{place:?}");
                    for line in place.line..place.line + lines {
                        assert!(!std::mem::replace(&mut used[line as usize], true));
                    }
                    assert!(!heap.claim(place));
                    taken.push(place);
                } else if !taken.is_empty() {
                    let place = taken.swap_remove(random.usize(..taken.len()));
                    heap.free(place);
                    for line in place.line..place.line + place.lines {
                        used[line as usize] = false;
                    }
                }
                let in_use: u64 = taken.iter().map(|it| it.lines).sum();
                assert_eq!(heap.free_lines(), all - in_use);
            }
            taken.iter().for_each(|&place| heap.free(place));
            for _ in 0..blocks {
                heap.take(BLOCK_LINES).expect("all blocks are whole again");
            }
            assert_eq!(heap.take(1), None);
        }
    }

    #[test]
    fn small_places_fill_gaps_before_they_break_a_block() {
        let heap = heap(2);
        let first = heap.take(60).unwrap();
        let second = heap.take(4).unwrap();
        assert_eq!(first.line / BLOCK_LINES, second.line / BLOCK_LINES);
        assert!(heap.take(BLOCK_LINES).is_some());
        heap.free(first);
        let gap = heap.take(2).unwrap();
        assert_eq!(gap.line / BLOCK_LINES, second.line / BLOCK_LINES);
    }

    #[test]
    fn only_places_of_the_heap_can_be_claimed() {
        let heap = heap(2);
        let claim = |line, lines| heap.claim(Place { line, lines });
        assert!(!claim(START - 1, 1));
        assert!(!claim(0, 1));
        assert!(!claim(START, 0));
        assert!(!claim(START, 65));
        assert!(!claim(START + 63, 2));
        assert!(!claim(START + 128, 1));
        assert_eq!(heap.free_lines(), 128);
        assert!(claim(START + 3, 61));
        assert!(!claim(START + 2, 2));
        assert!(claim(START + 1, 2));
        assert!(claim(START + 64, 64));
        assert_eq!(heap.take(1).unwrap().line, START);
        assert_eq!(heap.take(1), None);
    }

    #[test]
    fn runs_are_found() {
        let slow = |bits: u64, lines: u64| {
            let is_run = |at: u64| (at..at + lines).all(|it| it < 64 && bits >> it & 1 == 1);
            (0..64)
                .filter(|&at| is_run(at))
                .fold(0, |all, at| all | 1 << at)
        };
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let bits = random.u64(..) | random.u64(..);
            let lines = random.u64(1..=64);
            assert_eq!(
                starts_of_runs(bits, lines),
                slow(bits, lines),
                "{bits:b} {lines}"
            );
            let longest = longest_run(bits) as u64;
            assert!(longest == 0 || slow(bits, longest) != 0);
            assert!(longest == 64 || slow(bits, longest + 1) == 0);
        }
        assert_eq!((longest_run(0), longest_run(u64::MAX)), (0, 64));
    }
}
