//! Checks of a whole space: whether its table, its map and its free places agree, and whether its
//! medium can be read.

use std::fmt;
use std::ops::Range;

use spanlock_range_lock::RawRangeLockBatch;

use super::error::Error;
use super::map::Map;
use super::medium::Medium;
use super::{Space, recovery};

/// Bytes that a scrub reads at a time.
const CHUNK: u64 = 1 << 20;

/// Something that a check or a scrub found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub what: String,
    /// The address in the space, if it is about one.
    pub at: Option<u64>,
    /// The object, if it is about one.
    pub id: Option<u64>,
}

impl Finding {
    pub(crate) fn new(what: impl Into<String>, at: Option<u64>) -> Self {
        let (what, id) = (what.into(), None);
        Finding { what, at, id }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = self.id {
            write!(f, "object {id}: ")?;
        }
        write!(f, "{}", self.what)?;
        match self.at {
            Some(at) => write!(f, ", at address {at} of the space"),
            None => Ok(()),
        }
    }
}

impl<M: Medium, L: RawRangeLockBatch> Space<M, L> {
    /// Makes a checkpoint, and checks that each place is free or has one block, in memory and in
    /// the table. Takes memory for two maps.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Failed`]. What is wrong with the space is no error, but a finding.
    pub fn check(&mut self) -> Result<Vec<Finding>, Error> {
        self.checkpoint()?;
        let mut findings = Vec::new();
        let mut found = |what: String| findings.push(Finding::new(what, None));
        let parts = &mut self.parts;
        let taken = parts.map.places();
        for pair in taken.windows(2).filter(|it| it[0].end > it[1].start) {
            found(format!("place {} has two blocks", pair[1].start));
        }
        for extent in parts.free.extents() {
            let next = taken.partition_point(|it| it.end <= extent.start);
            if taken.get(next).is_some_and(|it| it.start < extent.end) {
                found(format!("of the free places {extent:?}, some have blocks"));
            }
        }
        let count: u64 = taken.iter().map(|it| it.end - it.start).sum();
        let lost = self.places.saturating_sub(count + parts.free.count());
        if lost > 0 {
            found(format!("{lost} places are neither free nor have a block"));
        }
        match recovery::read_table(&parts.medium, &parts.commits.superblock()) {
            Ok(table) => {
                let differs = |one: &Map, other: &Map| {
                    let runs = one.all().into_iter();
                    let mut parts = runs.flat_map(|(block, run)| {
                        let parts = other.parts(block..block + run.len).into_iter();
                        parts.map(move |(part, its)| {
                            let own = run.part(part.start - block, part.end - part.start);
                            (part.start, its == Some(own))
                        })
                    });
                    parts.find(|(_, is_same)| !is_same).map(|(block, _)| block)
                };
                if let Some(block) = differs(&parts.map, &table) {
                    found(format!("block {block} has another place in the table"));
                }
                if let Some(block) = differs(&table, &parts.map) {
                    found(format!(
                        "in the table, block {block} has a place that is not its own"
                    ));
                }
            }
            Err(error @ Error::Corrupt { .. }) => found(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(findings)
    }

    /// Reads all data, so that a medium that reports errors reports them now. Other threads go on
    /// meanwhile. `progress` is called with the bytes that were read and with all bytes. Damage
    /// that the medium does not report is not found: data has no checksums.
    ///
    /// # Errors
    /// [`Error::Lock`]. Data that cannot be read is no error, but a finding.
    pub fn scrub(&self, mut progress: impl FnMut(u64, u64)) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let mapped = self.mapped();
        let all: u64 = mapped.iter().map(|it| it.end - it.start).sum();
        let (mut done, mut buffer) = (0, vec![0; CHUNK as usize]);
        for run in mapped {
            for start in run.clone().step_by(CHUNK as usize) {
                let end = run.end.min(start + CHUNK);
                let into = &mut buffer[..(end - start) as usize];
                if self.read_part(start, into)?.is_some() {
                    // Which blocks?
                    for (at, block) in (start..)
                        .step_by(self.block as usize)
                        .zip(into.chunks_mut(self.block as usize))
                    {
                        if let Some(error) = self.read_part(at, block)? {
                            findings.push(Finding::new(error, Some(at)));
                        }
                    }
                }
                done += end - start;
                progress(done, all);
            }
        }
        Ok(findings)
    }

    /// Reads, and returns what the medium reports.
    fn read_part(&self, at: u64, into: &mut [u8]) -> Result<Option<String>, Error> {
        match self.read(at, into) {
            Ok(()) => Ok(None),
            Err(Error::Io { during, cause }) => Ok(Some(format!("{during} failed: {cause}"))),
            Err(error) => Err(error),
        }
    }

    /// Returns the addresses that have places, in ascending order.
    pub(crate) fn mapped(&self) -> Vec<Range<u64>> {
        let block = u64::from(self.block);
        let mut mapped: Vec<Range<u64>> = Vec::new();
        for (first, run) in self.parts.map.all() {
            let range = first * block..(first + run.len) * block;
            match mapped.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => mapped.push(range),
            }
        }
        mapped
    }
}
