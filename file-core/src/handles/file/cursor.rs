//! A position in a file, for the traits of `std::io`.

use core::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;

use crate::handles::file::File;

/// A handle to a file with a position, from [`File::cursor`].
///
/// Each call of `write` writes the whole buffer in one atomic write, durable on return like
/// [`File::write_at`]. So `flush` does nothing. Several calls are not atomic together.
///
/// ```
/// use std::io::{Read, Seek, Write};
/// # use spanlock_file_core::{FormatOptions, Volume};
/// # use spanlock_pmem::{MappedFile, Options};
/// # use spanlock_range_lock::RwCounter;
/// # let folder = tempfile::tempdir()?;
/// # let region = MappedFile::create(folder.path().join("v"), 1 << 20, Options::default())?;
/// # let volume = Volume::format(region, &FormatOptions::new(), |_| RwCounter::new())?;
///
/// let mut cursor = volume.create("greeting")?.cursor();
/// cursor.write_all(b"hello")?;
/// cursor.rewind()?;
/// let mut text = String::new();
/// cursor.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor<P: Pmem, L: RawRangeLock> {
    file: File<P, L>,
    position: u64,
}

impl<P: Pmem, L: RawRangeLock> File<P, L> {
    /// Returns a handle with a position at the start of the file, for the traits of `std::io`.
    pub fn cursor(&self) -> Cursor<P, L> {
        Cursor {
            file: self.clone(),
            position: 0,
        }
    }
}

impl<P: Pmem, L: RawRangeLock> Cursor<P, L> {
    /// Returns the file.
    pub fn file(&self) -> &File<P, L> {
        &self.file
    }
}

impl<P: Pmem, L: RawRangeLock> Read for Cursor<P, L> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buf, self.position)?;
        self.position += read as u64;
        Ok(read)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let read = self.file.read_vectored_at(bufs, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<P: Pmem, L: RawRangeLock> Write for Cursor<P, L> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write_at(buf, self.position)?;
        self.position += buf.len() as u64;
        Ok(buf.len())
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_vectored_at(bufs, self.position)?;
        let written: usize = bufs.iter().map(|buf| buf.len()).sum();
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<P: Pmem, L: RawRangeLock> Seek for Cursor<P, L> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.file.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "seek to a position before the start of the file or past 2^64",
            )
        })?;
        Ok(self.position)
    }
}

impl<P: Pmem, L: RawRangeLock> fmt::Debug for Cursor<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("file", &self.file)
            .field("position", &self.position)
            .finish()
    }
}
