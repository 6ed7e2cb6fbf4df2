//! The import of a folder: many threads write a real file tree into a volume.
//!
//! The threads take work from one queue, sorted by file name. A file larger than [`CHUNK`] is split
//! into several pieces of work, so several threads write it concurrently. Each thread records the
//! CRC32C of what it read from disk; [`verify()`] reads everything back and compares.
//!
//! The latency of an operation covers only the volume's part: one creation or one write. The time
//! to read the folder counts only towards throughput.

mod progress;
mod tree;
mod verify;

pub use progress::Progress;
pub use tree::{CHUNK, Skipped, Source, Tree};
pub use verify::verify;

use std::fs::File as DiskFile;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use anyhow::{Result, anyhow};
use spanlock_file_core::{Error, File, Volume};
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RawRangeLock;

use crate::measure::{self, Latencies, Round};

/// Called after a chunk's write has returned, with the file's index in the tree and the chunk's
/// index in the file. For an empty file it is called with chunk 0 after the creation.
pub type OnCommitted<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Imports `tree` into `volume`, prefixing all names with `prefix`. On success everything is
/// committed; on failure `progress` shows how much.
///
/// # Errors
/// A file cannot be read or has become shorter; the volume is full; a lock cannot be created; or a
/// thread cannot be started.
pub fn import<L: RawRangeLock + 'static>(
    tree: &Tree,
    volume: &Volume<MappedFile, L>,
    prefix: &str,
    threads: usize,
    progress: &Progress,
    on_committed: OnCommitted<'_>,
) -> Result<Round> {
    let import = Import {
        tree,
        volume,
        prefix,
        progress,
        on_committed,
        open: tree.files.iter().map(|_| OnceLock::new()).collect(),
        next: AtomicUsize::new(0),
        failed: Mutex::new(None),
    };
    let started = Instant::now();
    let done: Vec<_> = std::thread::scope(|scope| {
        let import = &import;
        let mut workers = Vec::new();
        for worker in 0..threads {
            match measure::spawn(scope, worker, move || import.work(worker, threads)) {
                Ok(started) => workers.push(started),
                Err(error) => {
                    import.fail(error);
                    break;
                }
            }
        }
        workers.into_iter().map(measure::joined).collect()
    });
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    if let Some(error) = import
        .failed
        .into_inner()
        .unwrap_or_else(|it| it.into_inner())
    {
        return Err(error);
    }
    let (mut ops, mut latencies) = (0, measure::latencies());
    for (of_thread, its_latencies) in done {
        ops += of_thread;
        latencies += its_latencies;
    }
    Ok(Round {
        ops_per_s: ops as f64 / seconds,
        whole_ops_per_s: ops as f64 / seconds,
        bytes_per_s: tree.bytes as f64 / seconds,
        latencies,
        cpu_ns_per_op: 0.0,
    })
}

/// The state shared by the threads of an import.
struct Import<'a, L: RawRangeLock> {
    tree: &'a Tree,
    volume: &'a Volume<MappedFile, L>,
    prefix: &'a str,
    progress: &'a Progress,
    on_committed: OnCommitted<'a>,
    /// The files in the volume, `None` if one could not be created. The first thread to need a file
    /// creates it.
    open: Vec<OnceLock<Option<File<MappedFile, L>>>>,
    /// The next piece of work.
    next: AtomicUsize,
    /// The first failure. The threads stop once there is one.
    failed: Mutex<Option<anyhow::Error>>,
}

/// The state that a thread keeps between pieces of work.
struct Worker {
    ops: u64,
    latencies: Latencies,
    buffer: Vec<u8>,
    /// The disk file that the thread read last, and its index in the tree.
    reading: Option<(usize, DiskFile)>,
}

impl<L: RawRangeLock + 'static> Import<'_, L> {
    /// Runs one thread's share of the work. Returns its number of operations and their latencies.
    fn work(&self, worker: usize, threads: usize) -> (u64, Latencies) {
        measure::pin(worker, threads);
        let mut state = Worker {
            ops: 0,
            latencies: measure::latencies(),
            buffer: vec![0; CHUNK as usize],
            reading: None,
        };
        while !self.has_failed() {
            // Relaxed: only hands out unique numbers.
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((file, chunk)) = self.tree.piece(piece) else {
                break;
            };
            if let Err(error) = self.write(file, chunk, &mut state) {
                self.fail(importing(&self.tree.files[file], error));
            }
        }
        (state.ops, state.latencies)
    }

    /// Writes one chunk of a file, creating the file first if needed.
    fn write(&self, file: usize, chunk: usize, worker: &mut Worker) -> Result<()> {
        let (source, progress) = (&self.tree.files[file], &self.progress.files[file]);
        let range = source.chunk(chunk);
        let content = &mut worker.buffer[..(range.end - range.start) as usize];
        if !content.is_empty() {
            let on_disk = match &mut worker.reading {
                Some((reading, on_disk)) if *reading == file => on_disk,
                other => &mut other.insert((file, DiskFile::open(&source.path)?)).1,
            };
            on_disk.read_exact_at(content, range.start).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => anyhow!(
                    "it has become shorter than the {} bytes it had when the run began: do not change the folder during the import",
                    source.size
                ),
                _ => error.into(),
            })?;
            // Relaxed: read only after the threads have ended.
            let checksum = crc32c::crc32c(content);
            progress.chunks[chunk].0.store(checksum, Ordering::Relaxed);
        }

        let created = self.open[file].get_or_init(|| {
            let started = Instant::now();
            let created = self.create(source);
            measure::record(&mut worker.latencies, started.elapsed());
            worker.ops += 1;
            created
        });
        let Some(created) = created else {
            // The thread that tried to create the file has reported the error.
            return Ok(());
        };
        // Relaxed, both: read only after the threads have ended.
        progress.created.store(true, Ordering::Relaxed);
        if !content.is_empty() {
            let started = Instant::now();
            created.write_at(content, range.start)?;
            measure::record(&mut worker.latencies, started.elapsed());
            worker.ops += 1;
            progress.chunks[chunk].1.store(true, Ordering::Relaxed);
        }
        // Relaxed: read only after the threads have ended.
        progress.left.fetch_sub(1, Ordering::Relaxed);
        (self.on_committed)(file, chunk);
        Ok(())
    }

    /// Creates a file in the volume, and the directories that it lies in. If that fails, the import
    /// fails.
    fn create(&self, source: &Source) -> Option<File<MappedFile, L>> {
        let name = format!("{}{}", self.prefix, source.name);
        let created = match (self.volume.create(&name), name.rsplit_once('/')) {
            (Err(Error::NotFound { .. }), Some((parent, _))) => (self.volume)
                .create_dir_all(parent)
                .and_then(|()| self.volume.create(&name)),
            (created, _) => created,
        };
        created
            .map_err(|error| self.fail(importing(source, error.into())))
            .ok()
    }

    fn has_failed(&self) -> bool {
        self.failed.lock().is_ok_and(|it| it.is_some())
    }

    fn fail(&self, error: anyhow::Error) {
        let mut failed = self.failed.lock().unwrap_or_else(|it| it.into_inner());
        failed.get_or_insert(error);
    }
}

fn importing(source: &Source, error: anyhow::Error) -> anyhow::Error {
    error.context(format!("importing {}", source.path.display()))
}
