//! Formatting a volume, and reading and repairing its superblocks.

use spanlock_pmem::{Flushed, Pmem};

use crate::medium::error::Error;
use crate::medium::layout::{
    Geometry, INODES_PER_PAGE, InodeId, JOURNAL_PAGES, MAX_FILE_BYTES, MIN_DATA_PAGES, MIN_PAGES,
    PAGE, PAGE_BYTES, ROOT, RawInode, SUPER_BYTES, Superblock,
};
use crate::volume::options::FormatOptions;

const BOTH_UNREADABLE: &str = "both superblocks are unreadable (if the region was enlarged, only the \
    first may be: truncate the region to its old size; if formatting it was cut off, format it again)";
const BYTES_PER_INODE: u64 = 16 << 10;
const LEAST_INODES: u64 = 64;
/// Zeroes for clearing the inode table and the journal, this many bytes at a time.
static ZEROES: [u8; 16 * PAGE] = [0; 16 * PAGE];

/// Checks that the region can be written to.
///
/// # Errors
/// [`Error::ReadOnlyRegion`].
pub(crate) fn check_writable<P: Pmem>(pmem: &P) -> Result<(), Error> {
    match pmem.is_read_only() {
        true => Err(Error::ReadOnlyRegion),
        false => Ok(()),
    }
}

/// Computes the geometry of a new volume in a region of `len` bytes.
///
/// # Errors
/// [`Error::BadFormat`] names the size or option that is too small or too large.
pub(crate) fn plan(len: u64, options: &FormatOptions) -> Result<Geometry, Error> {
    let bad = |what, found, wanted| {
        Err(Error::BadFormat {
            what,
            found,
            wanted,
        })
    };
    let Ok(pages) = u32::try_from(len / PAGE_BYTES) else {
        return bad("the region's size in bytes", len, "less than 16 TiB");
    };
    if (pages as u64) < MIN_PAGES {
        return bad("the region's size in bytes", len, "at least 65536");
    }
    let inodes = options
        .inodes
        .map_or((len / BYTES_PER_INODE).max(LEAST_INODES), u64::from);
    let table_pages = inodes.max(1).div_ceil(INODES_PER_PAGE as u64);
    if table_pages + 2 + u64::from(JOURNAL_PAGES) + MIN_DATA_PAGES > pages as u64 {
        return bad(
            "the number of inodes",
            inodes,
            "small enough to leave 8 pages for data",
        );
    }
    // The table has whole pages of inodes.
    let Ok(inodes) = u32::try_from(table_pages * u64::from(INODES_PER_PAGE)) else {
        return bad("the number of inodes", inodes, "at most 4294967264");
    };
    let wanted = options.max_file_size.unwrap_or(len);
    let max_file_size = wanted
        .checked_next_multiple_of(PAGE_BYTES)
        .unwrap_or(u64::MAX);
    if !(PAGE_BYTES..=MAX_FILE_BYTES).contains(&max_file_size) {
        return bad(
            "the largest file size in bytes",
            wanted,
            "from 1 to 2^44 (16 TiB)",
        );
    }
    Ok(Geometry {
        pages,
        inodes,
        max_file_size,
        data_checksums: options.data_checksums,
    })
}

/// Writes an empty volume. Until it is complete, the region opens as its previous volume or as no
/// volume.
pub(crate) fn write<P: Pmem>(pmem: &P, geometry: &Geometry) {
    let replica_at = geometry.replica_at();
    // First invalidate the previous volume: erase both superblocks before anything they describe.
    let primary = store(pmem, 0, &[0; SUPER_BYTES]);
    let replica = store(pmem, replica_at, &[0; SUPER_BYTES]);
    pmem.fence(primary.and(replica));

    let table_at = geometry.inode_at(0);
    // The journal follows: one that is zero is empty.
    let table_end = geometry.journal().end;
    let (mut at, mut table) = (table_at, Flushed::nothing());
    while at < table_end {
        let n = (table_end - at).min(ZEROES.len() as u64) as usize;
        // SAFETY: F-M8, and the bytes are fenced before the root's inode is stored.
        table = table.and(unsafe { pmem.write_streaming(at, &ZEROES[..n]) });
        at += n as u64;
    }
    // equivalent(drop): the models do not know that stores may pass earlier streaming stores to the
    // same bytes. The next fence makes the table durable.
    pmem.fence(table);
    let root = RawInode {
        id: InodeId::ROOT,
        head: 0,
        created: 0,
    };
    let root = store(pmem, geometry.inode_at(ROOT), &root.encode());
    pmem.fence(root);

    // equivalent(drop): one superblock is enough to open the volume.
    let replica = store(pmem, replica_at, &geometry.encode());
    // equivalent(drop): as above.
    let primary = store(pmem, 0, &geometry.encode());
    pmem.fence(primary.and(replica));
}

/// Stores bytes, and starts to write them back.
#[track_caller]
fn store<P: Pmem>(pmem: &P, at: u64, bytes: &[u8]) -> Flushed {
    // SAFETY: F-M8.
    let written = unsafe { pmem.write(at, bytes) };
    pmem.flush(written)
}

/// What the superblocks say.
pub(crate) struct FoundVolume {
    pub(crate) geometry: Geometry,
    /// The byte at which a damaged superblock lies.
    pub(crate) damaged_at: Option<u64>,
}

/// Rewrites a damaged superblock from the other one.
pub(crate) fn repair<P: Pmem>(pmem: &P, found: &FoundVolume) {
    if let Some(at) = found.damaged_at {
        // equivalent(drop): if a crash undoes the repair, the next recovery repeats it.
        let repaired = store(pmem, at, &found.geometry.encode());
        // equivalent(drop): as above.
        pmem.fence(repaired);
    }
}

/// Reads the superblocks.
///
/// # Errors
/// [`Error::NotAVolume`] if neither superblock has the magic number, [`Error::Version`],
/// [`Error::Truncated`], and [`Error::Corrupt`] if a superblock has the magic number but neither is
/// readable.
pub(crate) fn find<P: Pmem>(pmem: &P) -> Result<FoundVolume, Error> {
    let len = pmem.len();
    if len < SUPER_BYTES as u64 {
        return Err(Error::NotAVolume { len });
    }
    let last_at = (len / PAGE_BYTES).saturating_sub(1) * PAGE_BYTES;
    let (primary, replica) = (superblock_at(pmem, 0), superblock_at(pmem, last_at));
    let (geometry, damaged_at) = match (primary, replica) {
        (Superblock::OtherVersion(found), _) => return Err(other_version(found)),
        (Superblock::Valid(geometry), _) => {
            let expected = geometry.pages as u64 * PAGE_BYTES;
            if expected > len {
                return Err(Error::Truncated {
                    expected,
                    found: len,
                });
            }
            let at = geometry.replica_at();
            let sound = superblock_at(pmem, at) == Superblock::Valid(geometry);
            (geometry, (!sound).then_some(at))
        }
        // The first superblock is damaged or absent. The second is used if it ends a volume of this
        // size.
        (_, Superblock::Valid(geometry)) if geometry.replica_at() == last_at => (geometry, Some(0)),
        (_, Superblock::OtherVersion(found)) => return Err(other_version(found)),
        (Superblock::Absent, Superblock::Absent) => return Err(Error::NotAVolume { len }),
        _ => return Err(Error::corrupt_at(BOTH_UNREADABLE, 0)),
    };
    Ok(FoundVolume {
        geometry,
        damaged_at,
    })
}

/// Lets the volume take the whole region, and returns its geometry. The page of its second
/// superblock becomes free. Does nothing if the region has no page after the volume.
///
/// A crash may leave the first superblock old, torn or new. If it is old, the old second superblock
/// is still intact. If it is torn, it is repaired from the new second superblock, which is durable
/// by then.
pub(crate) fn grow<P: Pmem>(pmem: &P, geometry: Geometry) -> Geometry {
    let pages = u32::try_from(pmem.len() / PAGE_BYTES).unwrap_or(u32::MAX);
    if pages <= geometry.pages {
        return geometry;
    }
    let larger = Geometry { pages, ..geometry };
    let replica = store(pmem, larger.replica_at(), &larger.encode());
    pmem.fence(replica);
    // F-M7: the fence after the first superblock orders it before any new use of the old second
    // one.
    let primary = store(pmem, 0, &larger.encode());
    pmem.fence(primary);
    larger
}

fn other_version(found: u32) -> Error {
    Error::Version {
        found,
        supported: crate::FORMAT_VERSION,
    }
}

fn superblock_at<P: Pmem>(pmem: &P, at: u64) -> Superblock {
    let mut bytes = [0; SUPER_BYTES];
    // SAFETY: F-M8.
    unsafe { pmem.read(at, &mut bytes) };
    Geometry::decode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_too_many_inodes_is_refused() {
        let planned = |inodes| plan(600 << 30, &FormatOptions::new().inodes(inodes));
        let error = planned(u32::MAX).map(drop);
        assert!(matches!(error, Err(Error::BadFormat { .. })), "{error:?}");
        assert_eq!(planned(u32::MAX - 31).unwrap().inodes, u32::MAX - 31);
    }
}
