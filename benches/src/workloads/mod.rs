//! The workloads, each in a file of its own.

mod shared_file;

pub use shared_file::{PAGE, PAGES_APART, SharedFile, preallocate};

/// The import of a folder: a workload by name, in a module of its own.
pub const IMPORT: &str = "import";

/// The workloads of [SRL]'s evaluation on a shared file, in the order in which they are reported.
///
/// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
pub const SHARED_FILE: [SharedFile; 4] = [
    SharedFile {
        name: "dwom",
        about: "each thread overwrites a page of its own in one file",
        writes: 1,
        reads: 0,
    },
    SharedFile {
        name: "drbm",
        about: "each thread reads a page of its own in one file",
        writes: 0,
        reads: 1,
    },
    SharedFile {
        name: "mix-3-1",
        about: "both, three writes to each read",
        writes: 3,
        reads: 1,
    },
    SharedFile {
        name: "mix-1-3",
        about: "both, one write to three reads",
        writes: 1,
        reads: 3,
    },
];

/// The names of all workloads, each with what it does.
pub fn all() -> Vec<(&'static str, &'static str)> {
    let import = (
        IMPORT,
        "a folder is imported, the volume recovered, and every byte compared",
    );
    let shared = SHARED_FILE.iter().map(|it| (it.name, it.about));
    shared.chain([import]).collect()
}
