//! [`Pmem`] for [`MappedFile`]. All accesses to the mapping's bytes are here.
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | `publish`: `store_release` | Release | B | `published_data_is_complete` (1) |
//! | B | `load`: `load_acquire` | Acquire | A | `published_data_is_complete` (1) |
//!
//! (1) The processor performs this pair even under a checker, because no checker models memory that
//! maps a file. So it is a test, in `tests/all/threads.rs`.

use std::path::Path;

use spanlock_sync::mapped::{load_acquire, store_release};

use super::{MappedFile, WriteBack};
use crate::error::PmemError;
use crate::flush;
use crate::region::Pmem;
use crate::tokens::{Durable, Flushed, Written};

// SAFETY: for one thread, flushes write back every line of a token, at once or by the next fence
// (PM-I2, PM-I3). `durability` names the failures that those bytes survive. An aligned 8-byte store
// is atomic to threads and to the medium. If `durability` promises more than surviving a killed
// process, opening writes back the contents it finds. Every access is checked against the length,
// and every store against PM-I12.
unsafe impl Pmem for MappedFile {
    #[inline]
    fn len(&self) -> u64 {
        self.mapping.len() as u64
    }

    #[inline]
    fn is_read_only(&self) -> bool {
        matches!(self.write_back, WriteBack::ReadOnly)
    }

    #[inline]
    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        let from = self.bytes(at, into.len() as u64);
        // SAFETY: `from` is valid for that many bytes (PM-I6). By the caller's promise no other
        // thread writes them, and no Rust object overlaps the mapping (PM-I11).
        unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        let to = self.bytes_to_store(at, data.len());
        // SAFETY: as in `read`, with no other thread reading or writing, in a writable mapping
        // (PM-I12); then PM-I1, by `bytes` and the copy.
        unsafe {
            to.copy_from_nonoverlapping(data.as_ptr(), data.len());
            Written::new(self.id, at..at + data.len() as u64)
        }
    }

    #[inline]
    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        let to = self.bytes_to_store(at, data.len());
        match self.write_back {
            // SAFETY: `to` is valid for that many bytes (PM-I6, PM-I12) and overlaps no Rust object
            // (PM-I11). By the caller's promise no thread accesses them before the fence. The
            // processor has the instruction (PM-I8). Then PM-I2: bytes that went past the cache
            // need the fence only, and the others are flushed.
            WriteBack::Instruction(instruction) => unsafe {
                flush::stream(instruction, to, data);
                Flushed::new()
            },
            WriteBack::Msync | WriteBack::PageCache | WriteBack::ReadOnly => {
                // SAFETY: the caller gives the same promise.
                let written = unsafe { self.write(at, data) };
                self.flush(written)
            }
        }
    }

    #[inline]
    fn prefetch(&self, at: u64, len: u64) {
        let from = self.bytes(at, len);
        if matches!(self.write_back, WriteBack::Instruction(_)) {
            flush::prefetch(from..from.wrapping_add(len as usize));
        }
    }

    /// With [`Options::msync`](crate::Options::msync) it blocks until the disk has the pages, and
    /// other threads' flushes of this region wait for it.
    ///
    /// # Panics
    /// If writing back fails or has failed before: see
    /// [`MappedFile`](MappedFile#when-writing-back-fails).
    #[inline]
    fn flush(&self, written: Written) -> Flushed {
        match self.try_flush(written) {
            Ok(flushed) => flushed,
            Err(error) => flush_failed(&error),
        }
    }

    /// One fence serves the flushes of every `MappedFile` of this thread.
    #[inline]
    fn fence(&self, _flushed: Flushed) -> Durable {
        flush::fence();
        // SAFETY: PM-I3: this thread made the flushes that the token stands for (PM-I4), and made
        // them before.
        unsafe { Durable::new() }
    }

    #[inline]
    fn publish(&self, at: u64, value: u64, _after: Durable) -> Written {
        self.check_writable();
        let word = self.word(at);
        // Release [A→B], in the callee: a thread that loads the value sees everything written
        // before it.
        // SAFETY: the word is aligned, mapped (`word`, PM-I6), and writable (PM-I12). Other threads
        // access it through this module only, or break the contract of `read` or `write`. Then
        // PM-I1.
        unsafe {
            store_release(word, value.to_le());
            Written::new(self.id, at..at + 8)
        }
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        let word = self.word(at);
        // Acquire [B→A], in the callee: pairs with the Release of `publish` (A).
        // SAFETY: as in `publish`.
        u64::from_le(unsafe { load_acquire(word) })
    }
}

impl MappedFile {
    /// Returns a pointer to the `len` bytes at `at`, all inside the region.
    #[inline]
    #[track_caller]
    fn bytes(&self, at: u64, len: u64) -> *mut u8 {
        match at.checked_add(len) {
            // SAFETY: PM-I6; the offset is at most the mapping's length, so it fits an `isize`, by
            // PM-I7.
            Some(end) if end <= self.len() => unsafe { self.mapping.base().add(at as usize) },
            _ => out_of_bounds(at, len, self.len()),
        }
    }

    /// Returns a pointer to the `len` bytes at `at`, all inside the region, for a store.
    #[inline]
    #[track_caller]
    fn bytes_to_store(&self, at: u64, len: usize) -> *mut u8 {
        self.check_writable();
        self.bytes(at, len as u64)
    }

    /// PM-I12.
    #[inline]
    #[track_caller]
    fn check_writable(&self) {
        if self.is_read_only() {
            store_to_read_only(self.path());
        }
    }

    /// Returns a pointer to the word at `at`, aligned and inside the region.
    #[inline]
    #[track_caller]
    fn word(&self, at: u64) -> *mut u64 {
        assert!(
            at.is_multiple_of(8),
            "offset {at} of a word is not a multiple of 8"
        );
        self.bytes(at, 8).cast()
    }
}

#[cold]
#[track_caller]
fn out_of_bounds(at: u64, len: u64, region: u64) -> ! {
    let end = u128::from(at) + u128::from(len);
    panic!("range {at}..{end} out of bounds of a region of {region} bytes")
}

#[cold]
#[track_caller]
fn store_to_read_only(path: &Path) -> ! {
    panic!(
        "{}: a store to a region that was opened read-only",
        path.display()
    )
}

#[cold]
#[track_caller]
fn flush_failed(error: &PmemError) -> ! {
    let source = std::error::Error::source(error);
    panic!(
        "{error}: {}",
        source.map(ToString::to_string).unwrap_or_default()
    )
}
