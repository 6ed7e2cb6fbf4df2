//! The options of a mapped file, and what survives in it.

use core::fmt;

use crate::flush::FlushInstruction;

/// How a [`MappedFile`](crate::MappedFile) writes back. The default asks the file system for the
/// strongest guarantee that flush instructions can give, and accepts what it grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Options {
    pub(super) msync: bool,
    pub(super) instruction: Option<FlushInstruction>,
}

impl Options {
    /// The defaults: the best flush instruction of this processor, no msync.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether every flush is a synchronous `msync` of the pages it touches. Default: `false`.
    ///
    /// Durable bytes then survive a power cut on any file system that keeps what it has synced.
    /// Each flush costs a disk write, flushes of one region take turns, and flushes can fail: see
    /// [`MappedFile`](crate::MappedFile#when-writing-back-fails).
    pub fn msync(mut self, on: bool) -> Self {
        self.msync = on;
        self
    }

    /// Sets the only flush instruction to use, for tests and comparisons. Default: the best one.
    ///
    /// Opening fails with [`PmemError::NoSuchInstruction`](crate::PmemError::NoSuchInstruction) if
    /// the processor lacks it. With [`msync`](Options::msync) it is checked but not used.
    pub fn flush_instruction(mut self, instruction: FlushInstruction) -> Self {
        self.instruction = Some(instruction);
        self
    }
}

/// The failures that the bytes of a [`Durable`](crate::Durable) token survive. Each variant
/// includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The death of the process, by any signal at any instruction. Not a crash of the operating
    /// system, nor a power cut.
    ProcessKill,
    /// A killed process, a crash of the operating system, and a power cut, as far as the medium
    /// keeps its own promises.
    PowerFail,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProcessKill => "survives a killed process",
            Self::PowerFail => "survives a power cut",
        })
    }
}
