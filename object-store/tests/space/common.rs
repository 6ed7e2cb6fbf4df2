//! A small space, and a plain model of it.

use std::ops::Range;
use std::sync::Arc;

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::testing::Recorded;
use spanlock_object_store::space::{Disk, Error, Medium, Options, Persistent, Space, Vector};
use spanlock_pmem::simulated::Simulated;

pub(crate) const BLOCK: u64 = 512;
/// Two windows of the address space, far apart, in which tests read and write.
pub(crate) const WINDOWS: [u64; 2] = [0, 1 << 40];
/// Bytes of a window.
pub(crate) const WINDOW: u64 = 24 * BLOCK;
/// The bytes of a medium with 100 places or a few more.
pub(crate) const MEDIUM: usize = 8192 + 16_384 + 4096 + 100 * 512;

pub(crate) type Locked<M> = Space<M, IntervalLock>;
pub(crate) type OnDisk = Locked<Disk<Arc<Recorded>>>;
pub(crate) type OnPmem = Locked<Persistent<Arc<Simulated>>>;

pub(crate) fn options() -> Options {
    Options::new()
        .block(BLOCK as u32)
        .size(1 << 41)
        .rings(1, 16_384)
        .id(7)
}

pub(crate) fn create<M: Medium>(medium: M, options: &Options) -> Locked<M> {
    Space::create(medium, options, IntervalLock::new()).expect("a space")
}

pub(crate) fn open<M: Medium>(medium: M) -> Result<Locked<M>, Error> {
    Space::open(medium, IntervalLock::new())
}

/// A change of the space.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write {
        at: u64,
        byte: u8,
        len: u64,
    },
    Trim(Range<u64>),
    /// Moves blocks. The same batch may write them.
    Relocate {
        from: Range<u64>,
        to: u64,
    },
}

impl Step {
    /// Returns what the step changes. A relocation also changes where it comes from.
    pub(crate) fn range(&self) -> Range<u64> {
        match self {
            Step::Write { at, len, .. } => *at..at + len,
            Step::Trim(range) => range.clone(),
            Step::Relocate { from, to } => *to..to + (from.end - from.start),
        }
    }

    /// Returns whether a batch that has `self` may have `other` too.
    fn is_apart(&self, other: &Step) -> bool {
        let apart =
            |one: &Range<u64>, two: &Range<u64>| one.end <= two.start || two.end <= one.start;
        let (range, its) = (self.range(), other.range());
        let Step::Relocate { from, .. } = self else {
            return apart(&range, &its);
        };
        let Step::Relocate { from: its_from, .. } = other else {
            return apart(&range, &its);
        };
        let pairs = [
            (&range, &its),
            (from, its_from),
            (from, &its),
            (its_from, &range),
        ];
        pairs.into_iter().all(|(one, two)| apart(one, two))
    }

    /// Returns whether the step moves blocks onto themselves.
    fn is_circular(&self) -> bool {
        let range = self.range();
        matches!(self, Step::Relocate { from, .. } if from.start < range.end && range.start < from.end)
    }
}

/// The bytes of both windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content(Vec<u8>);

impl Content {
    pub(crate) fn empty() -> Self {
        Content(vec![0; (2 * WINDOW) as usize])
    }

    pub(crate) fn of<M: Medium>(space: &Locked<M>) -> Result<Self, Error> {
        let mut content = Content(vec![0xEE; (2 * WINDOW) as usize]);
        for (start, into) in WINDOWS.iter().zip(content.0.chunks_mut(WINDOW as usize)) {
            space.read(*start, into)?;
        }
        Ok(content)
    }

    /// Returns where bytes of a window are.
    fn at(range: &Range<u64>) -> Range<usize> {
        let window = u64::from(range.start >= WINDOWS[1]);
        let from = range.start - WINDOWS[window as usize] + window * WINDOW;
        from as usize..(from + range.end - range.start) as usize
    }

    pub(crate) fn apply(&mut self, steps: &[Step]) {
        let old = self.0.clone();
        for step in steps {
            let Step::Relocate { from, .. } = step else {
                continue;
            };
            for block in from.clone().step_by(BLOCK as usize) {
                let block = block..block + BLOCK;
                // A block that is also written, even in part, stays and is moved.
                let is_write = |it: &&Step| matches!(it, Step::Write { .. });
                let touches = |it: &Step| {
                    let range = it.range();
                    range.start < block.end && block.start < range.end
                };
                if !steps.iter().filter(is_write).any(touches) {
                    self.0[Self::at(&block)].fill(0);
                }
            }
            self.0[Self::at(&step.range())].copy_from_slice(&old[Self::at(from)]);
        }
        for step in steps {
            let bytes = &mut self.0[Self::at(&step.range())];
            match step {
                Step::Write { byte, .. } => {
                    (0..)
                        .zip(bytes)
                        .for_each(|(nth, it)| *it = pattern(*byte, nth));
                }
                Step::Trim(_) => bytes.fill(0),
                Step::Relocate { .. } => {}
            }
        }
    }
}

/// Returns byte `nth` of a write.
fn pattern(byte: u8, nth: u64) -> u8 {
    byte ^ (nth / 7) as u8
}

/// Performs steps as one batch.
pub(crate) fn perform<M: Medium>(space: &Locked<M>, steps: &[Step]) -> Result<(), Error> {
    let data = |step: &Step| match step {
        Step::Write { byte, len, .. } => (0..*len).map(|nth| pattern(*byte, nth)).collect(),
        Step::Trim(_) | Step::Relocate { .. } => Vec::new(),
    };
    let data: Vec<Vec<u8>> = steps.iter().map(data).collect();
    let vectors = steps.iter().zip(&data).map(|(step, data)| match step {
        Step::Write { at, .. } => Vector::write(*at, data),
        Step::Trim(range) => Vector::trim(range.clone()),
        Step::Relocate { from, to } => Vector::relocate(from.clone(), *to),
    });
    space.write_batch(&vectors.collect::<Vec<_>>())
}

/// Draws a batch of up to four disjoint steps.
pub(crate) fn draw(random: &mut fastrand::Rng) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for _ in 0..random.u32(1..5) {
        let window = WINDOWS[random.usize(0..2)];
        let block = |random: &mut fastrand::Rng| random.u64(0..WINDOW / BLOCK);
        let kind = random.u32(0..6);
        let step = if kind == 0 {
            let first = block(random);
            let end = (first + random.u64(1..6)).min(WINDOW / BLOCK);
            Step::Trim(window + first * BLOCK..window + end * BLOCK)
        } else if kind == 1 {
            let other = WINDOWS[random.usize(0..2)];
            let [first, to] = [block(random), block(random)];
            let most = WINDOW / BLOCK - first.max(to);
            let end = first + random.u64(1..6).min(most);
            Step::Relocate {
                from: window + first * BLOCK..window + end * BLOCK,
                to: other + to * BLOCK,
            }
        } else {
            let unit = [1, 64, BLOCK][random.usize(0..3)];
            let at = random.u64(0..WINDOW) / unit * unit;
            let len = (random.u64(1..3 * BLOCK).next_multiple_of(unit)).min(WINDOW - at);
            Step::Write {
                at: window + at,
                byte: random.u8(..),
                len,
            }
        };
        if !step.is_circular() && steps.iter().all(|it| it.is_apart(&step)) {
            steps.push(step);
        }
    }
    steps
}
