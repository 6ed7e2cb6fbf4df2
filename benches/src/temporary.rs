//! Temporary files and folders: where they lie, and how they disappear.
//!
//! A [file](Place::file) has no name and disappears however the process ends. A
//! [folder](Place::folder) has a name that no other folder has. It is removed on drop, and when the
//! process is [interrupted](remove_on_signals).

use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal, raise};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::measure::median;

/// The signals that end a process and are expected: from Ctrl-C, from `kill`, and from a terminal
/// that is closed.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Bytes of the stack of the thread that waits for signals.
const SIGNAL_STACK: usize = 128 << 10;

/// The folders that exist.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The setting with which a user chooses another [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The option `--dir`.
    Dir,
    /// The option `--volume`, or `TMPDIR`.
    Volume,
    /// The environment variable `TMPDIR`.
    Tmpdir,
}

/// A folder for temporary files.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
    choice: Choice,
}

impl Place {
    /// Returns the system's folder for temporary files.
    pub fn system(choice: Choice) -> Self {
        Place {
            folder: env::temp_dir(),
            choice,
        }
    }

    /// Returns `/dev/shm` if that is a tmpfs with enough room for files of `bytes` bytes, otherwise
    /// the system's folder for temporary files.
    pub fn memory(bytes: u64, choice: Choice) -> Self {
        let memory = Place {
            folder: "/dev/shm".into(),
            choice,
        };
        let has_room = memory.room().is_some_and(|it| it / 5 * 4 >= bytes);
        if has_room && memory.file_system() == "tmpfs" {
            memory
        } else {
            Self::system(choice)
        }
    }

    /// Returns the folder that the user chose by `--dir`.
    pub fn chosen(dir: &Path) -> Self {
        Place {
            folder: dir.to_owned(),
            choice: Choice::Dir,
        }
    }

    /// Creates a folder. Its name begins with `of`, which says what it belongs to.
    ///
    /// # Errors
    /// No folder can be created here.
    pub fn folder(&self, of: &str) -> Result<Folder> {
        // Held until the folder is in the list, so that a signal does not miss it.
        let mut folders = FOLDERS.lock();
        let created = tempfile::Builder::new()
            .prefix(&format!("spanlock-{of}-"))
            .tempdir_in(&self.folder);
        let folder = self.advise(created.with_context(|| self.creating("folder")))?;
        folders.push(folder.path().to_owned());
        Ok(Folder(Some(folder)))
    }

    /// Creates an empty file without a name.
    ///
    /// # Errors
    /// No file can be created here.
    pub fn empty_file(&self) -> Result<File> {
        let created = tempfile::tempfile_in(&self.folder);
        self.advise(created.with_context(|| self.creating("file")))
    }

    fn creating(&self, what: &str) -> String {
        let (folder, advice) = (self.folder.display(), self.choice.advice());
        format!("creating a temporary {what} in {folder} failed: {advice}")
    }

    /// Creates a file without a name. `create` creates it at a path, which is then removed. Returns
    /// the open file, and a path that leads to it from this process and its children while it is
    /// open.
    ///
    /// # Errors
    /// The error of `create`, or no file can be created here.
    pub fn file(&self, create: impl FnOnce(&Path) -> Result<()>) -> Result<(File, PathBuf)> {
        let folder = self.folder("file")?;
        let named = folder.path().join("file");
        let file = self.advise(create(&named).and_then(|()| Ok(File::open(&named)?)))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Ok((file, path.into()))
    }

    /// Adds advice to an error that says that the file system is full.
    ///
    /// # Errors
    /// The error of `result`.
    pub fn advise<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let mut causes = error.chain().filter_map(|it| it.downcast_ref());
            if !causes.any(is_full) {
                return error;
            }
            error.context(format!(
                "the folder {} is full: free some space there, or {}",
                self.folder.display(),
                self.choice.advice()
            ))
        })
    }

    /// Returns the bytes that are free here. `None` if the folder does not exist.
    pub fn room(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.folder).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Returns the type of the file system.
    pub fn file_system(&self) -> String {
        file_system(&self.folder)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Choice {
    /// Returns the advice to choose another folder.
    pub fn advice(self) -> &'static str {
        match self {
            Choice::Dir => "choose another folder with --dir",
            Choice::Volume => "set TMPDIR to another folder, or choose a volume with --volume",
            Choice::Tmpdir => "set TMPDIR to another folder",
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

/// A temporary folder.
#[derive(Debug)]
pub struct Folder(Option<TempDir>);

impl Folder {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("only drop takes it").path()
    }

    /// Creates a folder in this one. Its name begins with `of`, which says what it belongs to. It
    /// is removed on drop, at the latest together with this one.
    ///
    /// # Errors
    /// No folder can be created here.
    pub fn folder(&self, of: &str) -> io::Result<TempDir> {
        let mut named = tempfile::Builder::new();
        named.prefix(&format!("{of}-")).tempdir_in(self.path())
    }

    /// Returns the current duration of a flush here: the median of eleven `fdatasync` calls, each
    /// after a write of 4 KiB.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn flush_takes(&self) -> Result<Duration> {
        let folder = self.folder("flushed")?;
        let path = folder.path().join("file");
        let measured = || -> io::Result<f64> {
            let file = File::create(&path)?;
            let mut took = Vec::new();
            // The first flush also writes the file's length, so it is not counted.
            for nth in 0..12_u8 {
                file.write_all_at(&[nth; 4096], 0)?;
                let began = Instant::now();
                file.sync_data()?;
                took.push(began.elapsed().as_secs_f64());
            }
            Ok(median(&took[1..]))
        };
        let takes = measured().with_context(|| format!("flushing {}", path.display()))?;
        Ok(Duration::from_secs_f64(takes))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Blocks if a signal is being handled, and then never returns.
        let mut folders = FOLDERS.lock();
        if let Some(folder) = self.0.take() {
            folders.retain(|it| it != folder.path());
            // There is nobody to report the error to.
            let _ = folder.close();
        }
    }
}

/// From now on, removes all [folders](Folder) when the process receives SIGINT, SIGTERM or SIGHUP,
/// and then ends as if by that signal. Call this before other threads are started, because they
/// must not receive these signals. A signal that the process ignores stays ignored.
///
/// # Errors
/// The error of the operating system.
pub fn remove_on_signals() -> Result<()> {
    let ignored = ignored_signals();
    let handled = SIGNALS.into_iter();
    let handled = handled.filter(|&it| ignored >> (it as u64 - 1) & 1 == 0);
    let handled = SigSet::from_iter(handled);
    handled.thread_block()?;
    let thread = std::thread::Builder::new().stack_size(SIGNAL_STACK);
    thread.spawn(move || {
        let Ok(signal) = handled.wait() else {
            return;
        };
        // Never unlocked: no other thread may create or remove a folder, or report an error that
        // the removal causes.
        let folders = FOLDERS.lock();
        for folder in &*folders {
            // Children and other threads may still create files there.
            let mut times = (0..20).map(|_| fs::remove_dir_all(folder));
            while times.next().is_some_and(|it| it.is_err()) && folder.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = handled.thread_unblock();
        let _ = raise(signal);
    })?;
    Ok(())
}

/// Returns the signals that this process ignores, as the kernel lists them: bit 0 is signal 1.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    mask.and_then(|it| u64::from_str_radix(it.trim(), 16).ok())
        .unwrap_or_default()
}

/// Returns the type of the file system that contains `path`, as named in the kernel's mount table.
pub(crate) fn file_system(path: &Path) -> String {
    let unknown = || "unknown file system".to_owned();
    let (Ok(path), Ok(mounts)) = (
        fs::canonicalize(path),
        fs::read_to_string("/proc/self/mounts"),
    ) else {
        return unknown();
    };
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        // Spaces in mount points are escaped, so such a mount is not recognized and its parent is
        // used.
        Some((fields.next()?, fields.next()?))
    });
    // Use the deepest mount. Among mounts at one path, the last hides the others.
    fields
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.len())
        .map_or_else(unknown, |(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use anyhow::Error;

    use super::*;

    #[test]
    fn folders_of_one_name_are_different_and_disappear() {
        let outer = tempfile::tempdir().unwrap();
        let place = Place::chosen(outer.path());
        let (one, other) = (place.folder("same").unwrap(), place.folder("same").unwrap());
        assert_ne!(one.path(), other.path());
        let (inner, second) = (one.folder("same").unwrap(), one.folder("same").unwrap());
        assert_ne!(inner.path(), second.path());
        drop((one, other));
        let (file, path) = place.file(|it| Ok(fs::write(it, "content")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert!(fs::read_dir(outer.path()).unwrap().next().is_none());
        drop(file);
        // The path has the descriptor's number, which a test in another thread may get next.
        assert_ne!(fs::read(&path).unwrap_or_default(), b"content");
    }

    #[test]
    fn errors_name_the_folder_and_what_to_set() {
        let place = Place::chosen(Path::new("nowhere"));
        let told = format!("{:#}", place.folder("any").unwrap_err());
        assert!(told.contains("nowhere") && told.contains("--dir"), "{told}");
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        let full = Error::from(full).context("writing");
        let told = Place::system(Choice::Tmpdir).advise::<()>(Err(full));
        let told = format!("{:#}", told.unwrap_err());
        assert!(
            told.contains("is full") && told.contains("set TMPDIR"),
            "{told}"
        );
        let told = place.advise::<()>(Err(Error::msg("other"))).unwrap_err();
        assert_eq!(format!("{told:#}"), "other");
    }
}
