//! The data half: blocks, and the flush whose token a commit needs.

use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_sync::{Mutex, is_flush_left_out};

use crate::error::Error;
use crate::node::{BLOCK_BYTES, Block};
use crate::rendezvous::Rendezvous;

/// A proof that the data written before a [flush](DataDevice::flush) is durable. Only that flush
/// returns one, and a commit of nodes takes one. So nodes cannot become durable before the data
/// that they name.
#[must_use]
#[derive(Debug)]
pub struct DataDurable(());

/// The blocks of the data half.
#[derive(Debug)]
pub struct DataDevice<S> {
    storage: S,
    flushes: Rendezvous,
    trust: Mutex<Trust>,
}

/// Whether a flush can still be relied on.
#[derive(Debug)]
enum Trust {
    /// Every flush has succeeded.
    Sound,
    /// A flush is under way, or one has panicked.
    Flushing,
    /// A flush has failed. The medium may have dropped the writes that it should have made durable,
    /// so a later success would prove nothing.
    Failed(Arc<str>),
}

impl<S: Storage> DataDevice<S> {
    /// Creates the device of a medium on which no flush has failed.
    pub fn new(storage: S) -> Self {
        DataDevice {
            storage,
            flushes: Rendezvous::new(),
            trust: Mutex::new(Trust::Sound),
        }
    }

    /// Returns the medium.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Fills `into` with the bytes that begin `offset` bytes after the start of `block`. They may
    /// reach into the following blocks.
    pub fn read(&self, block: Block, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        let at = u64::from(block) * BLOCK_BYTES as u64 + offset as u64;
        (self.storage.read_at(into, at)).map_err(Error::io("reading data"))
    }

    /// Writes whole consecutive blocks.
    pub fn write(&self, block: Block, data: &[u8]) -> Result<(), Error> {
        debug_assert!(data.len().is_multiple_of(BLOCK_BYTES));
        let at = u64::from(block) * BLOCK_BYTES as u64;
        (self.storage.write_at(data, at)).map_err(Error::io("writing data"))
    }

    /// Makes durable every write that returned before this call. Threads that flush at the same
    /// time share the flush of the medium. The first failure is final.
    pub fn flush(&self) -> Result<DataDurable, Error> {
        self.flushes.pass(|| self.flush_alone())?;
        Ok(DataDurable(()))
    }

    fn flush_alone(&self) -> Result<(), Error> {
        let mut trust = self.trust.lock();
        let first = match &*trust {
            Trust::Sound => None,
            Trust::Flushing => Some("a flush of the data half panicked".into()),
            Trust::Failed(first) => Some(first.clone()),
        };
        if let Some(first) = first {
            return Err(Error::Failed { first });
        }
        *trust = Trust::Flushing;
        let flushed = match is_flush_left_out() {
            true => Ok(()),
            false => (self.storage.flush()).map_err(Error::io("flushing the data half")),
        };
        *trust = match &flushed {
            Ok(()) => Trust::Sound,
            Err(error) => Trust::Failed(error.to_string().into()),
        };
        flushed
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use super::*;

    type Flush = fn() -> io::Result<()>;

    /// Bytes in memory whose flushes do what `flush` says next, and succeed after that.
    struct Memory {
        bytes: Mutex<Vec<u8>>,
        flushes: Mutex<Vec<Flush>>,
    }

    impl Storage for Memory {
        fn len(&self) -> u64 {
            self.bytes.lock().unwrap().len() as u64
        }

        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            let bytes = self.bytes.lock().unwrap();
            let from = bytes
                .get(offset as usize..)
                .and_then(|it| it.get(..buf.len()));
            buf.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }

        fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
            let mut bytes = self.bytes.lock().unwrap();
            let to = bytes
                .get_mut(offset as usize..)
                .and_then(|it| it.get_mut(..data.len()));
            to.ok_or(io::ErrorKind::UnexpectedEof)?
                .copy_from_slice(data);
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            let next = self.flushes.lock().unwrap().pop();
            next.map_or(Ok(()), |next| next())
        }

        fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
            self.write_at(data, offset)
        }
    }

    fn device(flush: Flush) -> DataDevice<Memory> {
        DataDevice::new(Memory {
            bytes: Mutex::new(vec![0; 4 * BLOCK_BYTES]),
            flushes: Mutex::new(vec![flush]),
        })
    }

    #[test]
    fn what_is_written_is_read_and_the_end_is_an_error() {
        let device = device(|| Ok(()));
        let data: Vec<u8> = (0..2 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
        device.write(1, &data).unwrap();
        let mut part = [0; 100];
        device.read(1, BLOCK_BYTES - 50, &mut part).unwrap();
        assert_eq!(part, data[BLOCK_BYTES - 50..][..100]);
        assert!(matches!(device.write(3, &data), Err(Error::Io { .. })));
        assert!(matches!(
            device.read(4, 0, &mut part),
            Err(Error::Io { .. })
        ));
        let _ = device.flush().unwrap();
    }

    #[test]
    fn a_flush_that_fails_is_the_last_one() {
        let device = device(|| Err(io::Error::other("a worn-out cell")));
        assert!(matches!(device.flush(), Err(Error::Io { .. })));
        for _ in 0..2 {
            let Err(Error::Failed { first }) = device.flush() else {
                panic!("the first failure is final");
            };
            assert!(first.contains("a worn-out cell"), "{first}");
        }
        device.read(0, 0, &mut [0; 8]).unwrap();
    }

    #[test]
    fn a_flush_that_panics_is_the_last_one() {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        let device = device(|| panic!("a medium panics"));
        assert!(catch_unwind(AssertUnwindSafe(|| device.flush())).is_err());
        assert!(matches!(device.flush(), Err(Error::Failed { .. })));
    }
}
