//! The events that poison a log.

use std::panic::{AssertUnwindSafe, catch_unwind};

use spanlock_pmem::{MappedFile, Options};
use spanlock_sync::Arc;

use super::*;
use crate::FormatOptions;
use crate::alloc::Extent;
use crate::clean::{EmitGroup, IsOld};
use crate::format;
use crate::layout::ROOT;
use crate::medium::Space;

/// A log without live groups.
struct Nothing;

impl Live for Nothing {
    fn each(&self, _: &IsOld<'_>, _: &mut EmitGroup<'_>) -> u64 {
        0
    }

    fn moved(&self, _: &IsOld<'_>, _: &[(u64, Place)]) {}
}

/// Returns a medium of 16 pages whose data area is free.
fn medium() -> Medium<MappedFile> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let pmem = MappedFile::create(path, 16 << 12, Options::default()).unwrap();
    let geometry = format::plan(16 << 12, &FormatOptions::new()).unwrap();
    let (start, len) = (geometry.data_start(), geometry.data_pages());
    let space = Arc::new(Space::new(&geometry));
    space.alloc.release(Extent { start, len });
    Medium {
        pmem,
        geometry,
        space,
        clock: || 0,
    }
}

fn reserve<'l>(log: &'l Log, medium: &'l Medium<MappedFile>) -> Result<Reservation<'l>, Error> {
    log.reserve(medium, 1, Class::Growth, &Nothing)
}

#[test]
fn a_panic_between_the_commit_and_the_end_poisons_the_log() {
    let medium = medium();
    let id = LogId {
        inode: ROOT,
        generation: 1,
    };
    for commits in [false, true] {
        let log = Log::empty(id);
        for _ in 0..2 {
            let mut reservation = reserve(&log, &medium).unwrap();
            reservation.commit(&medium, &[0; SLOT_BYTES], Flushed::nothing());
            reservation.end(Gained::default());
        }
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let mut reservation = reserve(&log, &medium).unwrap();
            if commits {
                reservation.commit(&medium, &[0; SLOT_BYTES], Flushed::nothing());
            }
            panic!("after the commit, before index and size are updated");
        }));
        assert!(unwound.is_err());
        let after = reserve(&log, &medium).map(|it| it.end(Gained::default()));
        assert_eq!(after, Err(Error::Poisoned { inode: ROOT }));
    }
}
