//! Creating a file in such a way that a crash leaves all of it or nothing under its name.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::platform;

/// What a file's name has at the end until the file is complete. The next creation erases such a
/// file, so no other program may use this name.
const SUFFIX: &str = ".spanlock-new";

/// A file that is being created, empty at first. It has its own name only once it is complete, and
/// until then a temporary one. If a crash leaves the temporary file, the next creation of the same
/// file takes it over.
///
/// The file is locked exclusively. Unless it is published, it is removed when this is dropped.
#[derive(Debug)]
pub struct NewFile {
    // Declared first and so dropped first: the file is removed while it is locked.
    temporary: Temporary,
    path: PathBuf,
    file: File,
}

/// The name of a file that is removed when this is dropped.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Report the error that caused the drop, even if the removal fails too.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl NewFile {
    /// Begins to create the file at `path`. On Unix, opens it with these flags of `open`, too.
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if something has the name `path`;
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the same file is just being created; and
    /// any error of the system.
    pub fn begin(path: &Path, flags: i32) -> io::Result<NewFile> {
        let name = path.file_name().ok_or(io::ErrorKind::NotFound);
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut with_suffix = OsString::from(name?);
        with_suffix.push(SUFFIX);
        let temporary = path.with_file_name(with_suffix);
        let file = locked(&temporary, flags).inspect_err(|_| {
            // Linux creates a file before the file system refuses flags such as O_DIRECT.
            if let Ok(_locked) = locked(&temporary, 0) {
                drop(Temporary(temporary.clone()));
            }
        })?;
        let temporary = Temporary(temporary);
        // Another creation may have ended before this one had the lock.
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        file.set_len(0)?;
        let path = path.to_owned();
        Ok(NewFile {
            temporary,
            path,
            file,
        })
    }

    /// Returns the file, to fill it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the file's name for now.
    pub fn temporary(&self) -> &Path {
        &self.temporary.0
    }

    /// Makes the file durable, gives it its name, and makes that durable, too. After an error there
    /// is no file of this name.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    pub fn publish(self) -> io::Result<File> {
        let NewFile {
            mut temporary,
            path,
            file,
        } = self;
        sync(&file, &temporary.0)?;
        platform::rename_new(&temporary.0, &path)?;
        // From now on, an error removes the file under this name.
        temporary.0.clone_from(&path);
        sync_folder(&path)?;
        temporary.0.clear();
        Ok(file)
    }
}

/// Opens and locks a temporary file, which may be left over from a crash.
fn locked(temporary: &Path, flags: i32) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // Anybody who may write to the folder can put a link there: do not follow it.
        let file = platform::open_itself(platform::alone(&mut options), temporary, flags).map_err(
            |error| match platform::is_in_use(&error) {
                true => being_created(),
                false => error,
            },
        )?;
        match platform::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(being_created()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if !file.metadata()?.is_file() {
            let what = format!("{} is in the way: remove it", temporary.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        // Before this one had the lock, another creation may have published or removed the file.
        if platform::is_named(&file, temporary)? {
            return Ok(file);
        }
    }
}

fn being_created() -> io::Error {
    let what = "another program is just creating this file";
    io::Error::new(io::ErrorKind::ResourceBusy, what)
}

/// Makes the name of a new file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    platform::sync_folder(folder)?;
    note_synced(folder);
    Ok(())
}

/// Makes a file durable.
fn sync(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    note_synced(path);
    Ok(())
}

fn note_synced(path: &Path) {
    #[cfg(all(test, unix))]
    crate::mapped::note_synced(path);
    #[cfg(not(all(test, unix)))]
    let _ = path;
}
