#![doc = include_str!("../README.md")]

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The maximum number of symbolic links to follow. Linux has the same limit.
const MAX_LINKS: usize = 40;

/// The destination of a command's result.
#[derive(Clone, Debug)]
pub struct ResultFile {
    path: PathBuf,
}

/// How a result is written to its destination.
#[derive(Debug)]
enum Method {
    /// Write a temporary file, then rename it to this path. If a file of this name exists, the new
    /// one gets its mode, which is given here.
    Rename(PathBuf, Option<u32>),
    /// Write into the existing file, pipe or device.
    InPlace,
}

impl ResultFile {
    /// Checks whether a result can be written to `path`, as far as this can be known in advance.
    /// Leaves no file behind and does not open an existing file.
    ///
    /// # Errors
    /// An error of the operating system, or an error saying that the path is a folder or a socket.
    /// The message does not contain the path.
    pub fn check(path: &Path) -> io::Result<Self> {
        match method(path)? {
            Method::Rename(place, None) => drop(tempfile::tempfile_in(folder_of(&place))?),
            Method::Rename(_, Some(_)) | Method::InPlace => access(path, Access::WRITE_OK)?,
        }
        Ok(ResultFile {
            path: path.to_owned(),
        })
    }

    /// Returns the path as it was given to [`check`](Self::check).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Examines the path again, and writes `content` to it. Replaces previous content.
    ///
    /// Blocks until the operating system has accepted the content. If the path is a pipe, it blocks
    /// until a reader has opened the pipe and has read all that does not fit into its buffer.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub fn write(&self, content: &[u8]) -> io::Result<()> {
        if let Method::Rename(place, mode) = method(&self.path)?
            && write_by_renaming(&place, mode, content)?
        {
            return Ok(());
        }
        write_in_place(&self.path, content)
    }

    /// Returns whether `path` leads to the same file as this path. The file need not exist.
    pub fn is_at(&self, path: &Path) -> bool {
        match (fs::metadata(&self.path), fs::metadata(path)) {
            (Ok(mine), Ok(other)) => (mine.dev(), mine.ino()) == (other.dev(), other.ino()),
            (Err(_), Err(_)) => {
                let places = (followed(&self.path), followed(path));
                matches!(places, (Ok(mine), Ok(other)) if mine == other)
            }
            _ => false,
        }
    }
}

fn method(path: &Path) -> io::Result<Method> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(ErrorKind::IsADirectory.into());
            }
            return Ok(Method::Rename(followed(path)?, None));
        }
        found => found?,
    };
    let kind = found.file_type();
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if kind.is_socket() {
        let what = "the path is a socket, which cannot be written as a file; choose another path";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    if kind.is_file()
        && found.nlink() == 1
        && found.uid() == rustix::process::geteuid().as_raw()
        && let Ok(place) = fs::canonicalize(path)
        && is_same_file(&place, &found)
        && access(&place, Access::WRITE_OK).is_ok()
    {
        return Ok(Method::Rename(place, Some(found.mode() & 0o7777)));
    }
    Ok(Method::InPlace)
}

/// Returns whether `place`, a canonical path, names the file `found`. This is not always so: if
/// standard output is a deleted file, the canonical path of `/proc/self/fd/1` names no file, or
/// another one.
fn is_same_file(place: &Path, found: &Metadata) -> bool {
    fs::symlink_metadata(place).is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()))
}

/// Resolves a `path` whose target does not exist: follows links, then canonicalizes the folder.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else {
            let name = path.file_name().ok_or(ErrorKind::NotFound)?;
            return Ok(fs::canonicalize(folder_of(&path))?.join(name));
        };
        path = folder_of(&path).join(target);
    }
    Err(io::Error::other("too many symbolic links"))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Writes a temporary file and renames it to `place`. Returns `false` if the file cannot be created
/// or cannot be renamed. A full disk is an error, and leaves the previous file unchanged.
fn write_by_renaming(place: &Path, mode: Option<u32>, content: &[u8]) -> io::Result<bool> {
    let mut named = tempfile::Builder::new();
    // The kernel clears the umask's bits, as for every new file.
    named
        .prefix(".result-")
        .permissions(Permissions::from_mode(0o666));
    let Ok(mut file) = named.tempfile_in(folder_of(place)) else {
        return Ok(false);
    };
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(file.persist(place).is_ok())
}

fn write_in_place(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file: File = options.write(true).create(true).truncate(true).open(path)?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path) -> io::Result<()> {
        ResultFile::check(path)?.write(b"result")
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn writing_to_a_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&folder.path().join("new/")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        let error = write(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        assert!(names(folder.path()).is_empty());
    }

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_has_the_default_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (new, plain) = (folder.path().join("new"), folder.path().join("plain"));
        fs::write(&plain, "").unwrap();
        let file = ResultFile::check(&new).unwrap();
        assert_eq!(names(folder.path()), ["plain"]);
        file.write(b"result").unwrap();
        assert_eq!(mode(&new), mode(&plain));
        assert_eq!(fs::read(&new).unwrap(), b"result");
        assert_eq!(names(folder.path()), ["new", "plain"]);
    }

    #[test]
    fn a_file_is_replaced_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old");
        fs::write(&path, "a longer text than the result").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut before = File::open(&path).unwrap();
        write(&path).unwrap();
        assert_eq!(
            (mode(&path), fs::read(&path).unwrap()),
            (0o640, b"result".to_vec())
        );
        // A reader of the old file still sees its whole content.
        let old = io::read_to_string(&mut before).unwrap();
        assert_eq!(old, "a longer text than the result");
        assert_eq!(names(folder.path()), ["old"]);
    }

    #[test]
    fn links_are_followed_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("below")).unwrap();
        symlink("below/second", at("first")).unwrap();
        symlink("target", at("below/second")).unwrap();
        // The target does not exist the first time, and exists the second time.
        for _ in 0..2 {
            write(&at("first")).unwrap();
            assert!(at("first").is_symlink() && at("below/second").is_symlink());
            assert_eq!(fs::read(at("below/target")).unwrap(), b"result");
        }
        assert!(
            ResultFile::check(&at("first"))
                .unwrap()
                .is_at(&at("below/target"))
        );
        symlink("loop", at("loop")).unwrap();
        assert!(write(&at("loop")).is_err());
        symlink("nowhere/file", at("lost")).unwrap();
        assert_eq!(write(&at("lost")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn all_hard_links_of_a_file_see_the_result() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&path, "a longer text than the result").unwrap();
        fs::hard_link(&path, &other).unwrap();
        write(&path).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"result");
        assert!(ResultFile::check(&path).unwrap().is_at(&other));
    }

    #[test]
    fn pipes_and_devices_are_written_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        // The pipe has no reader, so opening it here would block for ever.
        let file = ResultFile::check(&pipe).unwrap();
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| fs::read(&pipe).unwrap());
            file.write(b"result").unwrap();
            reader.join().unwrap()
        });
        assert_eq!(read, b"result");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());

        write(Path::new("/dev/null")).unwrap();
        assert!(
            fs::metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
        );
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(write(&socket).unwrap_err().to_string().contains("socket"));
    }

    #[test]
    fn an_unwritable_file_is_an_error() {
        if rustix::process::geteuid().is_root() {
            return; // Root may write every file. `benches/tests/all/cli.rs` runs as another user.
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "mine").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        assert_eq!(
            write(&path).unwrap_err().kind(),
            ErrorKind::PermissionDenied
        );
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
