//! The check of a whole volume.

use std::collections::BTreeSet;

use spanlock_journal_commit::Storage;
use spanlock_range_lock::RawRangeLock;

use super::Volume;
use crate::error::Error;
use crate::home::Home;
use crate::log::Owner;
use crate::node::Place;
use crate::tree::{pages_for, walk};

/// What [`Volume::check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The number of files.
    pub files: u64,
    /// The number of their nodes, including inodes.
    pub nodes: u64,
    /// The number of their blocks of data, 4 KiB each.
    pub blocks: u64,
    /// One line for each defect. Empty if the volume is sound.
    pub findings: Vec<String>,
}

impl<H: Home, S: Storage, L: RawRangeLock> Volume<H, S, L> {
    /// Checks that all nodes can be read and fit together, and that each node and each block in use
    /// belongs to exactly one file. Makes a checkpoint first, unless the volume is read-only.
    /// Repairs nothing, and reads no data.
    ///
    /// # Errors
    /// Those of the checkpoint. A defect of the volume is not an error, but a finding.
    pub fn check(&mut self) -> Result<Report, Error> {
        if !self.is_read_only {
            self.checkpoint()?;
        }
        let mut report = Report::default();
        let findings = self.damaged.iter().map(|it| it.to_string());
        report.findings.extend(findings);
        let (mut reached, mut used) = (BTreeSet::new(), BTreeSet::new());
        for inode in self.inodes() {
            report.files += 1;
            let pages = pages_for(inode.size());
            let read = |nid, place: Place| match self.tree.peek(nid)? {
                Some(it) if it.inode == inode.nid && Place::of(it) == place => {
                    self.tree.slots(nid, place)
                }
                _ => Err(Error::DamagedNode {
                    nid,
                    what: "it does not belong where its file names it",
                }),
            };
            let mut findings = Vec::new();
            let visit = |nid, place: Place, slots: &[u32]| {
                report.nodes += 1;
                if !reached.insert(nid) {
                    findings.push(format!("two nodes name node {nid}"));
                }
                for (slot, block) in slots.iter().enumerate() {
                    if *block == 0 || !place.names_block(slot) {
                        continue;
                    }
                    report.blocks += 1;
                    let owner = Owner {
                        nid,
                        slot: slot as u16,
                    };
                    let is_owner = self.log.owner(*block) == Some(owner);
                    if !used.insert(*block) || !is_owner {
                        findings.push(format!("node {nid} names block {block} of another"));
                    }
                    if place.page(slot) >= pages && !self.is_read_only {
                        findings.push(format!("node {nid} names block {block} past the end"));
                    }
                }
                Ok(())
            };
            if let Err(error) = walk(inode.nid, Place::INODE, 0, read, visit) {
                findings.push(error.to_string());
            }
            let findings = findings.into_iter();
            report
                .findings
                .extend(findings.map(|it| format!("file `{}`: {it}", inode.name)));
        }
        if self.is_read_only {
            return Ok(report);
        }
        let (used, nodes) = (self.log.used(), self.tree.home.nodes());
        if used != report.blocks {
            let what = format!("{used} blocks are in use, but files have {}", report.blocks);
            report.findings.push(what);
        }
        let stored = (1..nodes).filter(|it| self.tree.home.has(*it) && !reached.contains(it));
        report
            .findings
            .extend(stored.map(|it| format!("no file has node {it}")));
        let free = self.tree.nids.free();
        if u64::from(free) + report.nodes + 1 != u64::from(nodes) {
            let what = format!(
                "{free} of {nodes} ids are free, but files have {}",
                report.nodes
            );
            report.findings.push(what);
        }
        Ok(report)
    }
}
