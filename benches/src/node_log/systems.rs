//! The systems that are compared: the paper's four, its steps, and files.

/// The lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// One reader-writer lock for the whole file.
    Whole,
    /// The interval tree of ranges.
    Range,
}

/// Where nodes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// In blocks of the disk's file, beside the data.
    Disk,
    /// In the same blocks, but in persistent memory.
    BlocksInMemory,
    /// In persistent memory, 4 KiB for each node, with pin-point updates of the address table.
    WholeBlocks,
    /// In persistent memory, with pin-point updates, as many bytes as a node needs.
    FineGrained,
}

/// What stores files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A volume.
    Volume(Lock, Nodes),
    /// Files of the disk's file system.
    Files,
}

/// A system.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// What it is.
    pub kind: Kind,
}

/// The system to which the others are compared.
pub const BASELINE: &str = "baseline";
/// The paper's *F2FS(RL)*.
pub const RL: &str = "rl";
/// The paper's *F2FS(NL)*.
pub const NL: &str = "nl";
/// The paper's *F2FS(Integrated)*.
pub const INTEGRATED: &str = "integrated";
/// Files.
pub const FILES: &str = "files";

/// All systems. The first four are the paper's.
#[rustfmt::skip] // A system is one line.
pub static SYSTEMS: [System; 7] = [
    System { name: BASELINE, about: "a whole-file lock, and nodes in blocks of the disk: native F2FS", kind: Kind::Volume(Lock::Whole, Nodes::Disk) },
    System { name: RL, about: "a range lock, and nodes in blocks of the disk", kind: Kind::Volume(Lock::Range, Nodes::Disk) },
    System { name: NL, about: "a whole-file lock, and NVM node logging", kind: Kind::Volume(Lock::Whole, Nodes::FineGrained) },
    System { name: INTEGRATED, about: "a range lock, and NVM node logging", kind: Kind::Volume(Lock::Range, Nodes::FineGrained) },
    System { name: "nvm-blocks", about: "the baseline with its blocks of nodes in persistent memory: the first step towards nl", kind: Kind::Volume(Lock::Whole, Nodes::BlocksInMemory) },
    System { name: "nvm-pin-point", about: "the same with pin-point updates, and still 4 KiB for each node: the second step; the third, fine-grained nodes, makes it nl", kind: Kind::Volume(Lock::Whole, Nodes::WholeBlocks) },
    System { name: FILES, about: "files of the disk's file system; a flush is fdatasync", kind: Kind::Files },
];
