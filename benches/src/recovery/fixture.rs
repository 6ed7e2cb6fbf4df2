//! The volumes that are recovered.

use std::path::Path;

use anyhow::{Context, Result};
use spanlock_file_core::{Error, FormatOptions};
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RwCounter;

use crate::scratch::Scratch;

type Volume = spanlock_file_core::Volume<MappedFile, RwCounter>;

const PAGE_BYTES: u64 = 4096;
/// Bytes of a small write.
const SMALL: usize = 64;

/// The content of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// This many files, each with one small write.
    Files(u32),
    /// One file of this many bytes, written in pieces of 4 KiB.
    OneFile(u64),
    /// One directory with this many names of empty files.
    Names(u32),
}

impl Content {
    /// Returns the name of the case.
    pub fn name(self) -> &'static str {
        match self {
            Content::Files(_) => "files",
            Content::OneFile(_) => "one-file",
            Content::Names(_) => "one-directory",
        }
    }

    /// Returns the number of files.
    pub fn files(self) -> u32 {
        match self {
            Content::Files(files) | Content::Names(files) => files,
            Content::OneFile(_) => 1,
        }
    }

    /// Creates a volume with this content in `dir`, or in the default folder. `done` is called now
    /// and then with the share that is finished, from 0 to 1.
    ///
    /// # Errors
    /// The folder cannot hold the volume.
    pub fn make(self, dir: Option<&Path>, done: impl Fn(f64)) -> Result<Scratch> {
        let scratch = Scratch::new(dir, self.bytes())?;
        let volume = Volume::format(scratch.map()?, &self.format(), |_| RwCounter::new())?;
        let filled = match self {
            Content::Files(files) => each(files, done, |nth| small_file(&volume, nth)),
            Content::Names(files) => each(files, done, |nth| volume.create(&name(nth)).map(drop)),
            Content::OneFile(bytes) => one_file(&volume, bytes, done),
        };
        filled.with_context(|| format!("filling the volume of the case {}", self.name()))?;
        Ok(scratch)
    }

    /// Returns the size of the volume, with a margin.
    fn bytes(self) -> u64 {
        let files = u64::from(self.files());
        // An inode, and a name in the log of the directory.
        let metadata = files * (128 + 192);
        let pages = match self {
            // A page of the log and a page of data.
            Content::Files(_) => 2 * files,
            Content::Names(_) => 0,
            // The data, and a slot for each page of it.
            Content::OneFile(bytes) => bytes.div_ceil(PAGE_BYTES) * 64 / 62,
        };
        metadata + pages * PAGE_BYTES + (16 << 20)
    }

    fn format(self) -> FormatOptions {
        let largest = match self {
            Content::OneFile(bytes) => bytes,
            Content::Files(_) | Content::Names(_) => PAGE_BYTES,
        };
        let inodes = self.files().saturating_add(64);
        FormatOptions::new().inodes(inodes).max_file_size(largest)
    }
}

fn name(nth: u32) -> String {
    format!("file-{nth:08}")
}

fn small_file(volume: &Volume, nth: u32) -> Result<(), Error> {
    let file = volume.create(&name(nth))?;
    file.write_at(&[nth as u8; SMALL], 0)
}

fn one_file(volume: &Volume, bytes: u64, done: impl Fn(f64)) -> Result<(), Error> {
    let file = volume.create(&name(0))?;
    let page = [7; PAGE_BYTES as usize];
    let pages = bytes.div_ceil(PAGE_BYTES) as u32;
    each(pages, done, |nth| {
        file.write_at(&page, u64::from(nth) * PAGE_BYTES)
    })
}

/// Calls `step` for 0 to `count`, and `done` about a hundred times meanwhile.
fn each(
    count: u32,
    done: impl Fn(f64),
    mut step: impl FnMut(u32) -> Result<(), Error>,
) -> Result<(), Error> {
    let every = (count / 100).max(1);
    for nth in 0..count {
        step(nth)?;
        if (nth + 1).is_multiple_of(every) || nth + 1 == count {
            done(f64::from(nth + 1) / f64::from(count));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::recovery::child::recover;

    #[test]
    fn every_content_is_recovered() {
        for (content, files) in [
            (Content::Files(300), 300),
            (Content::OneFile(3 << 20), 1),
            (Content::Names(300), 300),
        ] {
            let last = Cell::new(0.0);
            let scratch = content.make(None, |share| last.set(share)).unwrap();
            assert_eq!(last.get(), 1.0);
            let recovered = recover(scratch.path(), 2, false).unwrap();
            assert_eq!(recovered.files, files, "{content:?}");
            assert!(recovered.seconds > 0.0 && recovered.peak_bytes.is_none());
        }
    }
}
