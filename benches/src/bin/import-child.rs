//! Imports a folder and tells which files are committed, until it is killed: for `tests/kill.rs`.
//!
//! ```text
//! import-child VOLUME LOCK FOLDER PREFIX THREADS
//! ```
//! First it removes from the volume whatever is not under PREFIX. Its lines on stdout: `begin`; each
//! file's name in the folder, once all of the file's writes have returned; `end`. Then it waits to be killed.

use std::path::Path;

use anyhow::{Context, Result, bail};
use spanlock::RawRangeLock;
use spanlock_benches::import::{Progress, Tree, import};
use spanlock_benches::locks::{self, Task};
use spanlock_file_core::FileCore;
use spanlock_pmem::{MappedFile, Options};

struct Child {
    volume: String,
    folder: String,
    prefix: String,
    threads: usize,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [volume, lock, folder, prefix, threads] = args.try_into().unwrap_or_default();
    if threads.is_empty() {
        bail!("usage: import-child VOLUME LOCK FOLDER PREFIX THREADS");
    }
    let child = Child {
        volume,
        folder,
        prefix,
        threads: threads.parse().context("THREADS is no number")?,
    };
    locks::with(&lock, child)
}

impl Task for Child {
    type Output = Result<()>;

    fn run<L: RawRangeLock + 'static>(self, make: fn(u64) -> L) -> Result<()> {
        let tree = Tree::read(Path::new(&self.folder), self.prefix.len(), |_| false)?;
        let region = MappedFile::open(&self.volume, Options::new())?;
        let (volume, _report) = FileCore::open(region, make)?;
        println!("begin");
        for (name, _size) in volume.list() {
            if !name.starts_with(&self.prefix) {
                volume.remove(&name)?;
            }
        }
        let progress = Progress::new(&tree);
        let committed = |file: usize| println!("{}", tree.files[file].name);
        import(
            &tree,
            &volume,
            &self.prefix,
            self.threads,
            &progress,
            &committed,
        )?;
        println!("end");
        loop {
            std::thread::park();
        }
    }
}
