//! What is measured, behind traits: a store, a space, and raw bytes, on any medium.

use std::io;

use spanlock_object_store::space::{self, Medium, Space, Vector};
use spanlock_object_store::{Error, Store};
use spanlock_range_lock::RawRangeLockBatch;

/// A store.
pub trait Objects: Send + Sync {
    /// Creates an object.
    ///
    /// # Errors
    /// The store's error.
    fn create(&self) -> Result<u64, Error>;

    /// Creates an object with this content, in one batch.
    ///
    /// # Errors
    /// The store's error.
    fn put(&self, data: &[u8]) -> Result<u64, Error>;

    /// Writes to an object.
    ///
    /// # Errors
    /// The store's error.
    fn write(&self, id: u64, at: u64, data: &[u8]) -> Result<(), Error>;

    /// Reads an object. Returns how many bytes there were.
    ///
    /// # Errors
    /// The store's error.
    fn read(&self, id: u64, at: u64, into: &mut [u8]) -> Result<usize, Error>;

    /// Returns the counters of the space.
    fn stats(&self) -> space::Stats;
}

impl<M: Medium, L: RawRangeLockBatch> Objects for Store<M, L> {
    fn create(&self) -> Result<u64, Error> {
        self.create_object()
    }

    fn put(&self, data: &[u8]) -> Result<u64, Error> {
        self.create_with(&[(0, data)], &[])
    }

    fn write(&self, id: u64, at: u64, data: &[u8]) -> Result<(), Error> {
        Store::write(self, id, at, data)
    }

    fn read(&self, id: u64, at: u64, into: &mut [u8]) -> Result<usize, Error> {
        Store::read(self, id, at, into)
    }

    fn stats(&self) -> space::Stats {
        self.space().stats()
    }
}

/// A space.
pub trait Batches: Send + Sync {
    /// Writes a batch.
    ///
    /// # Errors
    /// The space's error.
    fn write(&self, vectors: &[Vector<'_>]) -> Result<(), space::Error>;

    /// Returns the counters.
    fn stats(&self) -> space::Stats;
}

impl<M: Medium, L: RawRangeLockBatch> Batches for Space<M, L> {
    fn write(&self, vectors: &[Vector<'_>]) -> Result<(), space::Error> {
        self.write_batch(vectors)
    }

    fn stats(&self) -> space::Stats {
        Space::stats(self)
    }
}

/// The raw bytes of one thread.
pub trait Area: Send {
    /// Writes durably.
    ///
    /// # Errors
    /// The device's error.
    fn write(&mut self, at: u64, data: &[u8]) -> io::Result<()>;

    /// Reads.
    ///
    /// # Errors
    /// The device's error.
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()>;
}
