//! Formatting and opening: makes the shared state, of an empty volume or of what recovery finds.

use std::collections::BTreeMap;
use std::time::Duration;

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::{Arc, time};

use crate::log::tail::Log;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::journal::Journal;
use crate::medium::layout::{Geometry, InodeId, ROOT};
use crate::medium::reports::RecoveryReport;
use crate::medium::space::Space;
use crate::object::directory::Directory;
use crate::object::inode_table::InodeTable;
use crate::object::names::Names;
use crate::recover::damage::Damages;
use crate::recover::recovery::Recovery;
use crate::volume::format;
use crate::volume::options::{CACHED_FILES, FormatOptions, OpenOptions};
use crate::volume::shared::{LockFactory, Shared};
use crate::volume::tree::Tree;

impl<P: Pmem, L: RawRangeLock> Shared<P, L> {
    /// Formats the region as an empty volume.
    ///
    /// # Errors
    /// [`Error::BadFormat`], [`Error::ReadOnlyRegion`]; nothing has been written.
    pub(crate) fn format(
        pmem: P,
        options: &FormatOptions,
        locks: LockFactory<L>,
    ) -> Result<Self, Error> {
        format::check_writable(&pmem)?;
        let geometry = format::plan(pmem.len(), options)?;
        format::write(&pmem, &geometry);
        let space = Arc::new(Space::new(&geometry));
        space.alloc.release(Extent {
            start: geometry.data_start(),
            len: geometry.data_pages(),
        });
        space.release_inodes((ROOT + 1..geometry.inodes).rev());
        let mut links = vec![0; geometry.inodes as usize];
        links[ROOT as usize] = 1;
        let names = Names::new();
        let root = Directory::new(InodeId::ROOT, Log::empty(InodeId::ROOT.log()), names);
        let medium = Medium {
            pmem,
            geometry,
            space,
            clock: options.clock,
        };
        Ok(Shared {
            medium,
            tree: Tree::new(core::iter::once(root)),
            inodes: InodeTable::new(&links, CACHED_FILES),
            locks,
            is_read_only: false,
            unopenable: BTreeMap::new(),
        })
    }

    /// Recovers the volume in the region.
    ///
    /// # Errors
    /// [`Error::NotAVolume`], [`Error::Version`], [`Error::Truncated`], [`Error::Corrupt`], and,
    /// unless the options say read-only, [`Error::ReadOnlyRegion`].
    pub(crate) fn open(
        pmem: P,
        options: &OpenOptions,
        locks: LockFactory<L>,
    ) -> Result<(Self, RecoveryReport), Error> {
        let started = time::now();
        let is_read_only = options.read_only;
        if !is_read_only {
            format::check_writable(&pmem)?;
        }
        let found = format::find(&pmem)?;
        let (geometry, damages) = match is_read_only {
            true => (found.geometry, Damages::Noted(Vec::new())),
            false => (prepare(&pmem, &found, options.grow), Damages::Refused),
        };
        if !is_read_only {
            Journal::open(&pmem, &geometry)?.redo(&geometry)?;
        }
        let space = Arc::new(Space::new(&geometry));
        let mut recovery = Recovery::new(&pmem, &geometry, &space, damages);
        if is_read_only {
            recovery.note_superblock(found.damaged_at)?;
            recovery.note_journal()?;
        }
        let live = recovery.tree()?;
        let inodes = InodeTable::new(&live.links, options.cached_files);
        let keep = |number, size| inodes.keep(number, size);
        if is_read_only {
            recovery.survey(&live, &keep, false)?;
            recovery.report.findings = recovery.findings(&live);
        } else {
            recovery.files(&live.files, &keep)?;
            recovery.finish_renames(&live);
            recovery.report.superblock_repaired = found.damaged_at.is_some();
            recovery.report.pages_grown = u64::from(geometry.pages - found.geometry.pages);
        }

        let is_free = |it: &u32| live.links[*it as usize] == 0;
        space.release_inodes((ROOT + 1..geometry.inodes).rev().filter(is_free));
        recovery.free_extents(&mut |extent| space.alloc.release(extent));
        space.count_log_pages(recovery.report.log_pages);
        let (mut report, unopenable) = (recovery.report, recovery.unopenable);
        space.set_last_generation(live.last_generation);
        let medium = Medium {
            pmem,
            geometry,
            space,
            clock: options.clock,
        };
        report.duration = started.map_or(Duration::ZERO, time::elapsed);
        let shared = Shared {
            medium,
            tree: Tree::new(live.directories.into_iter()),
            inodes,
            locks,
            is_read_only,
            unopenable,
        };
        Ok((shared, report))
    }
}

/// Prepares a region for changes: repairs a damaged superblock, and lets the volume grow if asked
/// to.
fn prepare<P: Pmem>(pmem: &P, found: &format::FoundVolume, grows: bool) -> Geometry {
    format::repair(pmem, found);
    match grows {
        true => format::grow(pmem, found.geometry),
        false => found.geometry,
    }
}
