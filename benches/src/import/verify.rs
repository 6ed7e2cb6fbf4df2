//! Reading an import back.

use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use spanlock_file_core::Volume;
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RawRangeLock;

use super::progress::{FileProgress, Progress};
use super::tree::{CHUNK, Source, Tree};

/// Compares everything that `progress` reports as committed with its checksum. Returns the number
/// of bytes compared. A file that is committed completely must also have the right size.
///
/// # Errors
/// A file is missing, has the wrong size, or differs from what was read from disk.
pub fn verify<L: RawRangeLock>(
    tree: &Tree,
    volume: &Volume<MappedFile, L>,
    prefix: &str,
    progress: &Progress,
) -> Result<u64> {
    let mut buffer = vec![0; CHUNK as usize];
    let mut bytes = 0;
    for (source, file) in tree.files.iter().zip(&progress.files) {
        // Relaxed: the threads of the import have ended.
        if file.created.load(Ordering::Relaxed) {
            let name = format!("{prefix}{}", source.name);
            bytes += verify_file(source, volume, &name, file, &mut buffer).with_context(|| {
                format!(
                    "{name} in the volume, imported from {}",
                    source.path.display()
                )
            })?;
        }
    }
    Ok(bytes)
}

fn verify_file<L: RawRangeLock>(
    source: &Source,
    volume: &Volume<MappedFile, L>,
    name: &str,
    progress: &FileProgress,
    buffer: &mut [u8],
) -> Result<u64> {
    let file = volume.open_file(name)?;
    // Relaxed, here and below: as in `verify`.
    let whole = progress.left.load(Ordering::Relaxed) == 0;
    ensure!(
        file.size() == source.size || (!whole && file.size() < source.size),
        "it has {} bytes instead of {}",
        file.size(),
        source.size
    );
    let mut bytes = 0;
    for (chunk, (checksum, committed)) in progress.chunks.iter().enumerate() {
        if committed.load(Ordering::Relaxed) {
            let range = source.chunk(chunk);
            let content = &mut buffer[..(range.end - range.start) as usize];
            let read = file.read_at(content, range.start)?;
            ensure!(
                read == content.len()
                    && crc32c::crc32c(content) == checksum.load(Ordering::Relaxed),
                "bytes {}..{} differ from what was written",
                range.start,
                range.end
            );
            bytes += read as u64;
        }
    }
    Ok(bytes)
}
