//! The folder to import: its files, and how they are divided into pieces of work.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spanlock_file_core::MAX_NAME_BYTES;
use walkdir::{DirEntry, WalkDir};

/// Bytes per write. The last write of a file takes the remainder.
pub const CHUNK: u64 = 64 << 10;

/// A regular file on disk.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path on disk.
    pub path: PathBuf,
    /// The path relative to the folder, with `/` as separator.
    pub name: String,
    /// The size in bytes when the folder was read.
    pub size: u64,
}

impl Source {
    /// Returns the number of chunks; zero if the file is empty.
    pub fn chunks(&self) -> usize {
        self.size.div_ceil(CHUNK) as usize
    }

    /// Returns the number of pieces of work: one per chunk, but at least one, which creates the
    /// file.
    pub(super) fn pieces(&self) -> usize {
        self.chunks().max(1)
    }

    /// Returns the bytes of the file that chunk `chunk` covers.
    pub fn chunk(&self, chunk: usize) -> Range<u64> {
        let start = chunk as u64 * CHUNK;
        start..(start + CHUNK).min(self.size)
    }
}

/// The files in the folder that are not imported, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Symbolic links.
    pub links: u64,
    /// Pipes, sockets, devices.
    pub special: u64,
    /// Files whose names are not UTF-8, or too long for a volume.
    pub names: u64,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Skipped {
            links,
            special,
            names,
        } = self;
        write!(
            f,
            "skipped {links} symbolic links, {special} special files, {names} names that are not UTF-8 or too long"
        )
    }
}

/// The files of a folder and all its subfolders.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The folder.
    pub root: PathBuf,
    /// The files, sorted by name.
    pub files: Vec<Source>,
    /// The total size.
    pub bytes: u64,
    /// The files that were skipped.
    pub skipped: Skipped,
    /// The first piece of work of each file, followed by the total number of pieces.
    first_piece: Vec<usize>,
}

impl Tree {
    /// Reads the names and sizes below `root`, skipping entries for which `leave_out` returns true.
    /// `longest_prefix` is the length of the longest prefix that names get in the volume.
    ///
    /// # Errors
    /// A folder cannot be read (the error names it), or there is no file at all.
    pub fn read(
        root: &Path,
        longest_prefix: usize,
        leave_out: impl Fn(&DirEntry) -> bool,
    ) -> Result<Self> {
        let mut tree = Tree {
            root: root.to_owned(),
            files: Vec::new(),
            bytes: 0,
            skipped: Skipped::default(),
            first_piece: vec![0],
        };
        // The folder itself may be a link. Links below it are not followed.
        let found = std::fs::metadata(root)
            .with_context(|| format!("reading the folder {} to import", root.display()))?;
        if !found.is_dir() {
            bail!(
                "{}: cannot be imported because it is not a folder",
                root.display()
            );
        }
        let entries = WalkDir::new(root).sort_by_file_name().into_iter();
        for entry in entries.filter_entry(|entry| !leave_out(entry)) {
            tree.add(
                entry.map_err(|error| unreadable(root, error))?,
                longest_prefix,
            )?;
        }
        if tree.files.is_empty() {
            bail!(
                "{}: there is no file to import ({}); choose a folder that contains files",
                root.display(),
                tree.skipped
            );
        }
        Ok(tree)
    }

    fn add(&mut self, entry: DirEntry, longest_prefix: usize) -> Result<()> {
        let kind = entry.file_type();
        if kind.is_dir() || entry.depth() == 0 {
            return Ok(());
        }
        if kind.is_symlink() {
            self.skipped.links += 1;
            return Ok(());
        }
        if !kind.is_file() {
            self.skipped.special += 1;
            return Ok(());
        }
        let below = entry
            .path()
            .strip_prefix(&self.root)
            .unwrap_or(entry.path());
        let Some(name) = below
            .to_str()
            .filter(|it| it.len() + longest_prefix <= MAX_NAME_BYTES)
        else {
            self.skipped.names += 1;
            return Ok(());
        };
        let name = name.to_owned();
        let size = entry
            .metadata()
            .map_err(|error| unreadable(&self.root, error))?
            .len();
        let source = Source {
            path: entry.into_path(),
            name,
            size,
        };
        let first = self.first_piece.last().copied().unwrap_or(0);
        self.first_piece.push(first + source.pieces());
        // Sparse files can claim up to 2^63 bytes each, so the sum could overflow.
        self.bytes = self.bytes.saturating_add(size);
        self.files.push(source);
        Ok(())
    }

    /// Returns the size of the largest file in bytes.
    pub fn largest(&self) -> u64 {
        self.files.iter().map(|file| file.size).max().unwrap_or(0)
    }

    /// Returns the number of directories that files lie in, at any depth.
    pub fn directories(&self) -> u64 {
        let mut all = HashSet::new();
        for name in self.files.iter().map(|file| &file.name) {
            all.extend(name.match_indices('/').map(|(end, _)| &name[..end]));
        }
        all.len() as u64
    }

    /// Returns an estimate of the space that the files and directories take in a volume: whole
    /// pages, and logs.
    pub fn bytes_in_volume(&self) -> u64 {
        let of = |file: &Source| (file.size + file.size / 256).saturating_add(8191) / 4096 * 4096;
        let files = self.files.iter().map(of).fold(0, u64::saturating_add);
        files.saturating_add(self.directories() * 8192)
    }

    /// Returns the file and chunk of piece `piece`, or `None` past the last one.
    pub(super) fn piece(&self, piece: usize) -> Option<(usize, usize)> {
        let after = self.first_piece.partition_point(|&first| first <= piece);
        let file = after - 1;
        (file < self.files.len()).then(|| (file, piece - self.first_piece[file]))
    }
}

fn unreadable(root: &Path, error: walkdir::Error) -> anyhow::Error {
    let at = error.path().unwrap_or(root).display().to_string();
    let why = error
        .into_io_error()
        .unwrap_or_else(|| io::Error::other("the folders form a loop"));
    anyhow::Error::new(why).context(format!(
        "{at}: cannot be read, so {} was not imported: make it readable, or import another folder",
        root.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_chunks_of_the_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK];
        for (i, &size) in sizes.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{i}")), vec![1; size as usize]).unwrap();
        }
        let tree = Tree::read(folder.path(), 10, |_| false).unwrap();
        let pieces: Vec<_> = (0..).map_while(|it| tree.piece(it)).collect();
        let wanted = [
            (0, 0),
            (1, 0),
            (2, 0),
            (3, 0),
            (3, 1),
            (4, 0),
            (4, 1),
            (4, 2),
        ];
        assert_eq!(pieces, wanted);
        assert_eq!(tree.files[3].chunk(1), CHUNK..CHUNK + 1);
        assert_eq!(tree.files[0].chunk(0), 0..0);
        assert_eq!((tree.bytes, tree.largest()), (5 * CHUNK + 2, 3 * CHUNK));
    }

    #[test]
    fn links_and_unusable_names_are_skipped_and_counted() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plain"), "x").unwrap();
        std::fs::write(folder.path().join(OsStr::from_bytes(b"latin-\xe9")), "x").unwrap();
        std::os::unix::fs::symlink("plain", folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(".", folder.path().join("loop")).unwrap();
        let tree = Tree::read(folder.path(), 10, |_| false).unwrap();
        let wanted = Skipped {
            links: 2,
            special: 0,
            names: 1,
        };
        assert_eq!((tree.files.len(), tree.skipped), (1, wanted));
        // Names that become too long with the prefix.
        let none = Tree::read(folder.path(), MAX_NAME_BYTES - 4, |_| false).unwrap_err();
        assert!(none.to_string().contains("no file"));
    }
}
