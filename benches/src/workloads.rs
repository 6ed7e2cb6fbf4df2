//! The workloads, each in a separate file.

mod shared_file;

pub use shared_file::{Bytes, PAGE, PAGES_APART, SharedFile, fill};

/// The name of the import workload, which has its own module.
pub const IMPORT: &str = "import";

/// The workloads on a shared file in the evaluation of [SRL], in the order in which they are
/// reported.
///
/// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
pub const SHARED_FILE: [SharedFile; 4] = [
    SharedFile {
        name: "dwom",
        about: "each thread overwrites its own page of a shared file",
        writes: 1,
        reads: 0,
    },
    SharedFile {
        name: "drbm",
        about: "each thread reads its own page of a shared file",
        writes: 0,
        reads: 1,
    },
    SharedFile {
        name: "mix-3-1",
        about: "each thread writes three times, then reads once",
        writes: 3,
        reads: 1,
    },
    SharedFile {
        name: "mix-1-3",
        about: "each thread writes once, then reads three times",
        writes: 1,
        reads: 3,
    },
];

/// Returns the names of all workloads, each with a description.
pub fn all() -> Vec<(&'static str, &'static str)> {
    let import = (
        IMPORT,
        "imports a folder, recovers the volume, and compares every byte",
    );
    let shared = SHARED_FILE.iter().map(|it| (it.name, it.about));
    shared.chain([import]).collect()
}
