//! Closing a volume, so that it opens without reading the logs of its files.
//!
//! # Method
//! A volume needs no shutdown. But its last handle can close it. Closing stores a *checkpoint* of
//! what recovery would compute from the logs of the files, in pages that are free, and a *record*
//! that describes the checkpoint, beside the first superblock. The next opening uses the
//! checkpoint, and erases the record, durably, before it stores anything else. It still reads the
//! logs of directories, because all names are in memory. The log of a file is read when the file is
//! opened, and must then yield what its [digest](crate::digest) says.
//!
//! Without a sound record and checkpoint, all logs are read. So a damaged record or checkpoint
//! costs an opening for writing only time. A check, a repair and a read-only opening read all logs
//! anyway, and compare what they yield with the digests: see `recover/survey.rs`. They report a
//! damaged checkpoint. A crash leaves none.
//!
//! ```text
//! record, bytes 64–127 of the region          page of the checkpoint
//!  0        8         16      20     24  64    0                        4088        4092   4096
//! ┌────────┬─────────┬───────┬──────┬─────┐   ┌────────────────────────┬───────────┬──────┐
//! │ mark   │ bytes of│ first │ CRC  │ = 0 │   │ part of the checkpoint │ next page │ = 0  │
//! │        │ the ch. │ page  │ of it│     │   └────────────────────────┴───────────┴──────┘
//! └────────┴─────────┴───────┴──────┴─────┘
//! checkpoint: number of log pages of the volume · one bit for each page of the data area, set if
//! the page is in use · the size of each file, by inode number; all in words of 8 bytes · the
//! digest of each file, by inode number, in 4 bytes each
//! ```
//!
//! # Invariants
//! - **F-O1** While the record is on the medium, nothing but the pages of the checkpoint has been
//!   stored to since the checkpoint was made. So it agrees with the logs. There is one exception: a
//!   repair stores broken pointers in logs that do not match their digests. An opening with the
//!   checkpoint refuses these files, with or without the pointers.
//! - **F-O2** The pages of the checkpoint are free: the checkpoint says so itself, and so does the
//!   allocator once the checkpoint has been read.

use crc32c::{crc32c, crc32c_append};
use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::injected_bug;

use crate::alloc::Class;
use crate::digest::Summary;
use crate::error::Error;
use crate::layout::{Geometry, PAGE, SUPER_BYTES, WORD_BYTES, get_u32, get_u64, page_at};
use crate::medium::Medium;
use crate::volume::Volume;

/// Offset of the record in the region.
const RECORD_AT: u64 = SUPER_BYTES as u64;
/// Bytes of the record: one line.
pub(crate) const RECORD_BYTES: usize = 64;
/// The upper half of the record's mark. "CLSD" stood for checkpoints without digests.
const TAG: u64 = u32::from_le_bytes(*b"CLS2") as u64;
/// Bytes of a digest in the checkpoint.
const DIGEST_BYTES: usize = 4;
/// Bytes of a page that hold a part of the checkpoint.
const PART_BYTES: usize = PAGE - 8;

/// What recovery would compute from the logs of the files.
pub(crate) struct Checkpoint {
    /// Pages in all logs.
    pub(crate) log_pages: u64,
    /// One bit for each page of the data area, set if it is in use.
    pub(crate) used: Vec<u64>,
    /// The summary of each file, by its number. Meaningless for other inodes.
    pub(crate) files: Vec<Summary>,
}

impl Checkpoint {
    /// Makes the checkpoint of a volume, or returns `None` if a file is open.
    fn of<P: Pmem, L>(volume: &mut Volume<P, L>) -> Option<Checkpoint> {
        let Medium {
            geometry, space, ..
        } = &volume.medium;
        let pages = geometry.data_pages();
        let mut used = vec![u64::MAX; pages.div_ceil(64) as usize];
        if let Some(last) = used.last_mut()
            && !pages.is_multiple_of(64)
        {
            *last = (1 << (pages % 64)) - 1;
        }
        space.alloc.each_free(&mut |extent| {
            for page in extent.start..extent.start + extent.len {
                let bit = page - geometry.data_start();
                used[bit as usize / 64] &= !(1 << (bit % 64));
            }
        });
        let summary = |number| match injected_bug!(
            "close-without-sizes",
            "a checkpoint says that every file is empty",
            killed_by = "file-core-close/sessions"
        ) {
            true => Some(Summary::default()),
            false => volume.inodes.summary(number),
        };
        let files: Option<Vec<_>> = (0..geometry.inodes).map(summary).collect();
        Some(Checkpoint {
            log_pages: space.log_numbers().0,
            used,
            files: files?,
        })
    }

    /// Returns the number of bytes in which it is stored.
    fn bytes(geometry: &Geometry) -> usize {
        let inodes = geometry.inodes as usize;
        let words = 1 + geometry.data_pages().div_ceil(64) as usize + inodes;
        words * WORD_BYTES + inodes * DIGEST_BYTES
    }

    fn encode(&self) -> Vec<u8> {
        let words = [self.log_pages].into_iter();
        let words = words.chain(self.used.iter().copied());
        let words = words.chain(self.files.iter().map(|it| it.size));
        let digests = self.files.iter().flat_map(|it| it.digest.to_le_bytes());
        words.flat_map(u64::to_le_bytes).chain(digests).collect()
    }

    /// Returns the checkpoint, unless it is impossible. `bytes` has the right length.
    fn decode(geometry: &Geometry, bytes: &[u8]) -> Option<Checkpoint> {
        let digests_at = bytes.len() - geometry.inodes as usize * DIGEST_BYTES;
        let (words, digests) = bytes.split_at(digests_at);
        let mut words = words.chunks_exact(WORD_BYTES).map(|it| get_u64(it, 0));
        let log_pages = words.next()?;
        let used = geometry.data_pages().div_ceil(64) as usize;
        let used = words.by_ref().take(used).collect();
        let digests = digests.chunks_exact(DIGEST_BYTES).map(|it| get_u32(it, 0));
        let summary = |(size, digest)| Summary { size, digest };
        let files: Vec<_> = words.zip(digests).map(summary).collect();
        let is_possible = log_pages <= geometry.data_pages().into()
            && files.iter().all(|it| it.size <= geometry.max_file_size);
        is_possible.then_some(Checkpoint {
            log_pages,
            used,
            files,
        })
    }
}

/// Returns the mark of a record, which is never zero.
fn mark_of(geometry: &Geometry, record: &[u8; RECORD_BYTES]) -> u64 {
    let sum = crc32c_append(crc32c(&geometry.encode()), &record[WORD_BYTES..]);
    TAG << 32 | u64::from(sum)
}

/// Stores a checkpoint of the volume, and its record, durably. Stores nothing if an operation
/// panicked midway, if pages may be lost, or if there is no room. No other thread has the volume.
pub(crate) fn write<P: Pmem, L>(volume: &mut Volume<P, L>) {
    let Medium {
        geometry, space, ..
    } = &volume.medium;
    if volume.is_read_only || volume.tree.is_poisoned() || volume.inodes.are_poisoned() {
        return;
    }
    // Every opening with a checkpoint would take them for pages in use.
    if space.has_lost_pages() {
        return;
    }
    let len = Checkpoint::bytes(geometry);
    let Ok(count) = u32::try_from(len.div_ceil(PART_BYTES)) else {
        return;
    };
    let Ok(extents) = space.alloc.take(0, count, Class::Growth) else {
        return;
    };
    let pages: Vec<u32> = extents.pages().collect();
    // F-O2. No other thread takes them.
    extents.iter().for_each(|it| space.alloc.release(it));

    let Some(checkpoint) = Checkpoint::of(volume) else {
        return;
    };
    let bytes = checkpoint.encode();
    let Medium { pmem, geometry, .. } = &volume.medium;
    let mut stored = Flushed::nothing();
    for (nth, part) in bytes.chunks(PART_BYTES).enumerate() {
        let mut image = [0; PAGE];
        image[..part.len()].copy_from_slice(part);
        let next = pages.get(nth + 1).copied().unwrap_or(0);
        image[PART_BYTES..PART_BYTES + 4].copy_from_slice(&next.to_le_bytes());
        stored = stored.and(volume.medium.store_page(pages[nth], &image));
    }
    let mut record = [0; RECORD_BYTES];
    record[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    record[16..20].copy_from_slice(&pages[0].to_le_bytes());
    record[20..24].copy_from_slice(&crc32c(&bytes).to_le_bytes());
    // SAFETY: M8, because no other handle to the volume exists any more.
    let written = unsafe { pmem.write(RECORD_AT + WORD_BYTES as u64, &record[WORD_BYTES..]) };
    // equivalent(drop): the record lies in the line of its mark, and so persists before it.
    let stored = stored.and(pmem.flush(written));
    let durable = pmem.fence(stored);
    let written = pmem.publish(RECORD_AT, mark_of(geometry, &record), durable);
    // equivalent(drop): without the record, the next opening reads all logs.
    pmem.persist(written);
}

/// Returns the checkpoint, if the volume was closed with one.
///
/// # Errors
/// [`Error::Corrupt`] if the record or the checkpoint is damaged.
pub(crate) fn read<P: Pmem>(pmem: &P, geometry: &Geometry) -> Result<Option<Checkpoint>, Error> {
    let mut record = [0; RECORD_BYTES];
    // SAFETY: M8.
    unsafe { pmem.read(RECORD_AT, &mut record) };
    // One flipped bit does not hide the record.
    if (get_u64(&record, 0) >> 32 ^ TAG).count_ones() > 1 {
        return Ok(None);
    }
    match find(pmem, geometry, &record) {
        Some(checkpoint) => Ok(Some(checkpoint)),
        None => Err(damaged("a damaged checkpoint")),
    }
}

/// Returns the error that reports a damaged checkpoint.
pub(crate) fn damaged(what: &'static str) -> Error {
    Error::corrupt_at(what, RECORD_AT)
}

/// Returns the checkpoint that a record describes, unless one of them is damaged.
fn find<P: Pmem>(pmem: &P, geometry: &Geometry, record: &[u8; RECORD_BYTES]) -> Option<Checkpoint> {
    let len = Checkpoint::bytes(geometry);
    if get_u64(record, 0) != mark_of(geometry, record) || get_u64(record, 8) != len as u64 {
        return None;
    }
    let mut page = get_u32(record, 16);
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        if !(geometry.data_start()..geometry.data_end()).contains(&page) {
            return None;
        }
        let mut image = [0; PAGE];
        // SAFETY: M8.
        unsafe { pmem.read(page_at(page), &mut image) };
        let part = (len - bytes.len()).min(PART_BYTES);
        bytes.extend_from_slice(&image[..part]);
        page = get_u32(&image, PART_BYTES);
    }
    let is_sound = crc32c(&bytes) == get_u32(record, 20);
    is_sound.then(|| Checkpoint::decode(geometry, &bytes))?
}

/// Erases the record, durably, if there is one. What is stored next may contradict it (F-O1).
pub(crate) fn erase<P: Pmem>(pmem: &P) {
    let is_kept = injected_bug!(
        "close-record-kept",
        "opening a volume leaves the record of its checkpoint",
        killed_by = "file-core-close/sessions"
    );
    if pmem.load(RECORD_AT) == 0 || is_kept {
        return;
    }
    let written = pmem.publish(RECORD_AT, 0, Durable::at_rest());
    if injected_bug!(
        "close-record-unflushed",
        "opening a volume erases the record of its checkpoint, but does not flush it",
        killed_by = "file-core-close/sessions"
    ) {
        return;
    }
    let erased = pmem.flush(written);
    // equivalent(drop): the models open a volume and change it in one thread, where the first fence
    // of a change comes before its mark.
    pmem.fence(erased);
}
