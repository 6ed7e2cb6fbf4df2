//! How far an import has come, and the checksums of what it read.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::tree::{Source, Tree};

/// The progress of an import, and the checksums of the data it read.
pub struct Progress {
    pub(super) files: Vec<FileProgress>,
}

/// The progress of one file.
pub(super) struct FileProgress {
    /// The CRC32C of each chunk, and whether the chunk is committed.
    pub(super) chunks: Vec<(AtomicU32, AtomicBool)>,
    pub(super) created: AtomicBool,
    /// Chunks not committed yet. For an empty file it starts at 1, for its creation.
    pub(super) left: AtomicUsize,
}

impl Progress {
    /// Returns the progress of an import of `tree` that has not started.
    pub fn new(tree: &Tree) -> Self {
        let file = |source: &Source| FileProgress {
            chunks: (0..source.chunks()).map(|_| Default::default()).collect(),
            created: AtomicBool::new(false),
            left: AtomicUsize::new(source.pieces()),
        };
        Progress {
            files: tree.files.iter().map(file).collect(),
        }
    }

    /// Returns the number of files that are committed completely.
    pub fn files_committed(&self) -> usize {
        // Relaxed: read only after the threads have ended.
        let whole = |file: &&FileProgress| file.left.load(Ordering::Relaxed) == 0;
        self.files.iter().filter(whole).count()
    }
}
