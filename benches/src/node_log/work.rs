//! The cases, with the parameters of the paper, scaled to a small machine.

use super::systems::{Kind, System};

/// FxMark's DWOM, through the page cache.
pub const DWOM: &str = "dwom";
/// The same, past the page cache.
pub const DWOM_DIRECT: &str = "dwom-direct";
/// FxMark's DWSL.
pub const DWSL: &str = "dwsl";
/// Filebench's OLTP.
pub const OLTP: &str = "oltp";
/// Filebench's Varmail.
pub const VARMAIL: &str = "varmail";
/// DWSL while checkpoints are made.
pub const CHECKPOINT: &str = "checkpoint";
/// Lookups of direct nodes.
pub const LOOKUP: &str = "lookup";

/// A case.
#[derive(Debug)]
pub struct Case {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// Whether the disk's file bypasses the page cache.
    pub is_direct: bool,
    /// Bytes of the data half of a volume, and more for each thread.
    pub data: (u64, u64),
}

/// All cases.
#[rustfmt::skip] // A case is one line.
pub static CASES: [Case; 7] = [
    Case { name: DWOM, about: "each thread overwrites its own page of a shared file (Figures 6(a), 7(a) and 8(a))", is_direct: false, data: (64 << 20, 16 << 20) },
    Case { name: DWOM_DIRECT, about: "the same past the page cache (O_DIRECT) (Figures 6(b) and 8(b))", is_direct: true, data: (64 << 20, 16 << 20) },
    Case { name: DWSL, about: "each thread overwrites 4 KiB of its own file, and makes it durable (Figures 6(c), 7(b) and 8(c))", is_direct: false, data: (64 << 20, 0) },
    Case { name: OLTP, about: "so many database writers with 2 KiB each, a quarter as many readers, and a log writer with 256 KiB; each write is made durable (Tables 5 and 7)", is_direct: false, data: (128 << 20, 0) },
    Case { name: VARMAIL, about: "remove; create, append, fsync; read, append, fsync; read: 1,000 small files (Tables 6 and 8)", is_direct: false, data: (192 << 20, 0) },
    Case { name: CHECKPOINT, about: "dwsl, while one more thread makes checkpoints (Figure 7(c))", is_direct: false, data: (64 << 20, 0) },
    Case { name: LOOKUP, about: "finds the block of a page that lies behind an indirect node, with each latch (the poster)", is_direct: false, data: (96 << 20, 16 << 20) },
];

impl Case {
    /// Returns the systems that it measures.
    pub fn systems<'s>(
        &self,
        all: &'s [&'static System],
    ) -> impl Iterator<Item = &'static System> + use<'s> {
        let has_files = self.name != CHECKPOINT;
        let all = all.iter().copied();
        all.filter(move |it| has_files || it.kind != Kind::Files)
    }

    /// Returns the name of the device.
    pub fn device(&self) -> &'static str {
        match self.is_direct {
            true => "disk-direct",
            false => "disk",
        }
    }

    /// Returns the bytes of the data half of a volume.
    pub fn data_bytes(&self, threads: usize) -> u64 {
        self.data.0 + threads as u64 * self.data.1
    }
}

/// Bytes of OLTP's database, and of its log.
pub const OLTP_BYTES: u64 = 10 << 20;
/// Bytes of a read or write of the database.
pub const OLTP_IO: usize = 2 << 10;
/// Bytes of a write of the log.
pub const OLTP_LOG_IO: usize = 256 << 10;
/// For so many writes of the database there is one of the log.
pub const OLTP_WRITES_A_LOG: u64 = 100;
/// For three writes of the database there are so many reads.
pub const OLTP_READS: u64 = 2;

/// Returns how many database writers and readers OLTP has with so many threads: the paper's 16 and
/// 4 with 16.
pub fn oltp_threads(threads: usize) -> (usize, usize) {
    (threads, (threads / 4).max(1))
}

/// Varmail's files. The paper has 10,000.
pub const VARMAIL_FILES: u64 = 1000;
/// The most bytes of an append, and of a new file: Filebench's default.
pub const VARMAIL_APPEND: usize = 16 << 10;
/// Bytes of a read.
pub const VARMAIL_IO: usize = 1 << 20;
/// Filebench's operations in one pass through the loop: those here, with 2 to open a file and 3 to
/// close one.
pub const VARMAIL_OPS: u64 = 13;
