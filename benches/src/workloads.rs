//! The workloads, each in a separate file.

mod pages;
mod places;
mod shared_file;

pub use pages::{Bytes, PAGE, PAGES_APART};
pub use places::Places;
pub use shared_file::{SharedFile, fill};

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
        places: Places::Own,
    },
    SharedFile {
        name: "drbm",
        about: "each thread reads its own page of a shared file",
        writes: 0,
        reads: 1,
        places: Places::Own,
    },
    SharedFile {
        name: "mix-3-1",
        about: "each thread writes three times, then reads once",
        writes: 3,
        reads: 1,
        places: Places::Own,
    },
    SharedFile {
        name: "mix-1-3",
        about: "each thread writes once, then reads three times",
        writes: 1,
        reads: 3,
        places: Places::Own,
    },
];

/// Further workloads of [SRL], which only `papers` measures. They run after those above, because
/// some replace the pages of the threads.
///
/// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
#[rustfmt::skip] // A workload is one line.
pub const OF_PAPERS: [SharedFile; 7] = [
    SharedFile { name: "roles", about: "half of the threads overwrite their pages, the others read theirs", writes: 1, reads: 1, places: Places::OwnByRole },
    SharedFile { name: "checkpoint", about: "each thread overwrites its own 8 MiB from start to end, 1 MiB at a time", writes: 1, reads: 0, places: Places::InOrder },
    SharedFile { name: "random-9-1", about: "each thread reads nine random pages, then overwrites one", writes: 1, reads: 9, places: Places::Random { mebibytes: 8, own: false } },
    SharedFile { name: "random-write-2m", about: "each thread overwrites random pages, and no other thread's", writes: 1, reads: 0, places: Places::Random { mebibytes: 2, own: true } },
    SharedFile { name: "random-write-8m", about: "the same in a file four times as large", writes: 1, reads: 0, places: Places::Random { mebibytes: 8, own: true } },
    SharedFile { name: "random-read-2m", about: "each thread reads random pages, and no other thread's", writes: 0, reads: 1, places: Places::Random { mebibytes: 2, own: true } },
    SharedFile { name: "random-read-8m", about: "the same in a file four times as large", writes: 0, reads: 1, places: Places::Random { mebibytes: 8, own: true } },
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
