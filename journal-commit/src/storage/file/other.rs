//! Files of systems other than Linux. Only [`FileMode::Buffered`] gets here.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::FileMode;
pub(super) use super::write_and_sync as write_durably;

pub(super) fn flags(_: FileMode) -> i32 {
    0
}

/// Opens a file. Block devices are refused: no flag claims them, so nothing would keep another
/// program from mounting them.
pub(super) fn open(options: &mut OpenOptions, path: &Path, _: FileMode) -> io::Result<File> {
    // Check before opening: opening a device or a pipe can itself have an effect.
    check_is_file(&std::fs::metadata(path)?)?;
    let file = options.open(path)?;
    check_is_file(&file.metadata()?)?;
    Ok(file)
}

fn check_is_file(found: &std::fs::Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a file: block devices need Linux",
        )),
    }
}

/// Allocates nothing: writing the zeros does.
pub(super) fn allocate(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// Leaves the holes: no call that all these systems have would fill them.
pub(super) fn fill_holes(_: &File, _: &Path, _: u64) -> io::Result<()> {
    Ok(())
}
