//! The check of a whole store.

use std::iter;
use std::ops::Range;

use spanlock_range_lock::{Access, RawRangeLockBatch};

use super::Store;
use super::versions::Log;
use crate::error::Error;
use crate::regions::{HEAD, Head, Layout, Mode, SLOT, SLOTS, Slot, State};
use crate::space::{Finding, Medium};

/// What [`Store::check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Objects that were created.
    pub objects: u64,
    /// Objects that were only pre-created.
    pub pre_created: u64,
    /// Versions that can be read, besides the current ones.
    pub versions: u64,
    /// The bytes that the super region and all heads and objects take on the medium.
    pub bytes: u64,
    /// What is wrong. Empty if the store is sound.
    pub findings: Vec<Finding>,
}

impl Report {
    fn find(&mut self, id: impl Into<Option<u64>>, what: impl Into<String>, at: Option<u64>) {
        self.findings.push(Finding {
            id: id.into(),
            ..Finding::new(what, at)
        });
    }
}

impl<M: Medium, L: RawRangeLockBatch> Store<M, L> {
    /// Checks the space, the super region, all heads and all chains of versions; and that each
    /// place belongs to one of them, or to an object's data. Repairs nothing.
    ///
    /// # Errors
    /// [`Error::Space`]. What is wrong with the store is no error, but a finding.
    pub fn check(&mut self) -> Result<Report, Error> {
        let mut report = Report {
            findings: self.space.check()?,
            ..Report::default()
        };
        let unused = self.check_slots(&mut report)?;
        // The bytes that may have places.
        // The heads of ids that no slot has given out have no places.
        let table = (self.geometry.layout == Layout::Packed).then(|| {
            let (start, block) = (self.geometry.heads().start, self.geometry.block);
            start
                ..self
                    .geometry
                    .head_at(self.ids.end())
                    .next_multiple_of(block)
        });
        let super_region = 0..self.geometry.slot_at(SLOTS);
        let mut used: Vec<_> = iter::once(super_region).chain(table).collect();
        for id in 1..self.ids.end().min(self.geometry.regions + 1) {
            self.check_object(id, &unused, &mut used, &mut report)?;
        }
        used.sort_unstable_by_key(|it| it.start);
        for run in self.space.mapped() {
            report.bytes += run.end - run.start;
            let mut at = run.start;
            while at < run.end {
                let next = used.partition_point(|it| it.end <= at);
                let next = used.get(next).cloned().unwrap_or(u64::MAX..u64::MAX);
                if at < next.start {
                    let end = next.start.min(run.end);
                    let what = format!("{} bytes that nothing uses", end - at);
                    report.find(self.geometry.id_at(at), what, Some(at));
                    at = end;
                } else {
                    at = next.end;
                }
            }
        }
        Ok(report)
    }

    /// Reads all data; see [`Space::scrub`](crate::space::Space::scrub).
    ///
    /// # Errors
    /// [`Error::Space`]. Data that cannot be read is no error, but a finding.
    pub fn scrub(&self, progress: impl FnMut(u64, u64)) -> Result<Vec<Finding>, Error> {
        let mut findings = self.space.scrub(progress)?;
        for it in &mut findings {
            it.id = it.at.and_then(|at| self.geometry.id_at(at));
        }
        Ok(findings)
    }

    /// Checks the slots. Returns the ids that were not given out, of all ranges.
    fn check_slots(&self, report: &mut Report) -> Result<Vec<Range<u64>>, Error> {
        let mut all = Vec::<Range<u64>>::new();
        for number in 0..SLOTS {
            let at = self.geometry.slot_at(number);
            let mut bytes = [0; SLOT];
            self.space.read(at, &mut bytes)?;
            match Slot::decode(number, &bytes) {
                Some(slot) => all.push(slot.upto..slot.end),
                None => report.find(None, format!("slot {number} is damaged"), Some(at)),
            }
        }
        all.retain(|it| !it.is_empty());
        all.sort_unstable_by_key(|it| it.start);
        for pair in all.windows(2).filter(|it| it[0].end > it[1].start) {
            report.find(pair[1].start, "two slots may give this id out", None);
        }
        Ok(all)
    }

    /// Checks an object. Adds the bytes that it may use.
    fn check_object(
        &self,
        id: u64,
        unused: &[Range<u64>],
        used: &mut Vec<Range<u64>>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let (at, block) = (self.geometry.head_at(id), self.geometry.block);
        let held = self.hold_log(id, 0..0, Access::Read)?;
        let mut bytes = [0; HEAD];
        held.read(at, &mut bytes)?;
        let Some(head) = Head::decode(id, &bytes) else {
            report.find(id, "its head is damaged", Some(at));
            return Ok(());
        };
        match head.state {
            State::None => return Ok(()),
            State::PreCreated => report.pre_created += 1,
            State::Created => report.objects += 1,
        }
        if unused.iter().any(|it| it.contains(&id)) {
            report.find(
                id,
                "it is there, but its id may be given out again",
                Some(at),
            );
        }
        let data = self.geometry.data(id);
        let size = match self.geometry.mode.has_size() {
            true => head.size,
            false => self.capacity(),
        };
        if size > self.capacity() {
            let what = format!(
                "its size is {size}, but its region has room for {}",
                self.capacity()
            );
            report.find(id, what, Some(at));
        }
        if self.geometry.layout == Layout::Region {
            used.push(at..at + block);
        }
        used.push(data.start..data.start + size.min(self.capacity()).next_multiple_of(block));
        if let Mode::Versions { .. } = self.geometry.mode {
            self.check_versions_of(&self.log(&held, id), &head, used, report)?;
        }
        Ok(())
    }

    /// Checks the chain of versions of an object (O-V1).
    fn check_versions_of(
        &self,
        log: &Log<'_, '_, M, L>,
        head: &Head,
        used: &mut Vec<Range<u64>>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let it = &head.versions;
        let (mut end, mut newer) = (it.end, it.current);
        let is_longer = u64::from(it.oldest) > log.blocks();
        let mut wrong = is_longer.then_some(it.end);
        let data = self.geometry.data(log.id);
        let blocks = (data.end - data.start) / self.geometry.block;
        let walked = log.walk(head, |at, commit| {
            report.versions += 1;
            let is_inside = commit.first + u64::from(commit.count) <= blocks;
            if commit.end(at) != end || commit.version >= newer || !is_inside {
                wrong = Some(at);
            }
            (end, newer) = (at, commit.version);
            true
        });
        match walked {
            Err(Error::Corrupt { what, at }) => report.find(log.id, what, Some(at)),
            other => other?,
        }
        if let Some(at) = wrong {
            let what = "two entries of its log of versions do not fit together";
            report.find(log.id, what, Some(log.at(at)));
        }
        let entries = it.end - u64::from(it.oldest)..it.end;
        used.extend(log.parts(entries).map(|(_, bytes)| bytes));
        Ok(())
    }
}
