//! Windows.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const FILE_SHARE_DELETE: u32 = 4;
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
const ERROR_SHARING_VIOLATION: i32 = 32;

/// Has the file opened for this opener alone: until it is closed, nobody else can open it to read
/// or write. It can be renamed and removed.
pub fn alone(options: &mut OpenOptions) -> &mut OpenOptions {
    options.share_mode(FILE_SHARE_DELETE)
}

/// Returns whether opening failed because of an opener that is [`alone`], or because another opener
/// prevents this one from being alone.
pub fn is_in_use(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_SHARING_VIOLATION)
}

/// Opens the file. If the path is a link, opens the link itself, which is not a file. There are no
/// further flags.
pub fn open_itself(options: &mut OpenOptions, path: &Path, _: i32) -> io::Result<File> {
    options
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
        .open(path)
}

/// Does nothing: a file that is opened [`alone`] has no other opener.
pub fn try_lock(_: &File) -> Result<(), TryLockError> {
    Ok(())
}

/// Does nothing, as [`try_lock`].
pub fn unlock(_: &File) {}

pub fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buf, offset)
}

pub fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.seek_read(&mut buf[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        match file.seek_write(&data[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns whether the open file still has this name: nobody else can have opened it [`alone`], and
/// so nobody has published it.
pub(crate) fn is_named(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Gives a file its name, unless another file has it. Other creations cannot open the file, but
/// another program could come in between.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => std::fs::rename(from, to),
    }
}

/// Does nothing: folders cannot be synced, and the file system's own log decides when a name is
/// durable.
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
