//! A recovery in a separate process, so that its heap holds nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use rayon::ThreadPoolBuilder;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use spanlock_file_core::Volume;
use spanlock_pmem::{MappedFile, Options};
use spanlock_srl::SrlTree;

use super::heap;
use crate::scratch::Scratch;

/// The result of one recovery, which the child prints as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Recovered {
    /// Files in the volume.
    pub files: u64,
    /// The duration of the call that opens the volume.
    pub seconds: f64,
    /// The [most heap](heap::peak) in use during this call. `None` if it was not counted.
    pub peak_bytes: Option<u64>,
}

/// The arguments of a child process, for internal use only.
#[derive(Args, Clone, Debug)]
pub struct RecoveryChild {
    /// The volume.
    path: PathBuf,
    /// The number of threads.
    threads: usize,
    /// Count the heap. This takes time, most of all with several threads.
    #[arg(long)]
    count_heap: bool,
}

impl RecoveryChild {
    /// Recovers the volume and prints the result.
    ///
    /// # Errors
    /// Same as [`recover`].
    pub fn run(&self) -> Result<()> {
        // A child must not outlive its parent.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let recovered = recover(&self.path, self.threads, self.count_heap)?;
        println!("{}", serde_json::to_string(&recovered)?);
        Ok(())
    }
}

/// Recovers the volume at `path` in this process, inside a rayon pool of `threads` threads.
///
/// The lock is the one that takes the most memory, so that a recovery that makes locks shows.
///
/// # Errors
/// The volume cannot be opened, or the pool cannot be created.
pub fn recover(path: &Path, threads: usize, counts: bool) -> Result<Recovered> {
    let region = MappedFile::open(path, Options::new())?;
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.context("starting the threads of the pool")?;
    // The threads allocate when they start: let them do so before anything is counted or timed.
    pool.broadcast(|_| ());
    if counts {
        heap::count();
    }
    let started = Instant::now();
    let opened = pool.install(|| Volume::try_open(region, SrlTree::new));
    let seconds = started.elapsed().as_secs_f64();
    let peak_bytes = counts.then(heap::peak);
    let (_volume, report) = opened?;
    Ok(Recovered {
        files: report.files,
        seconds,
        peak_bytes,
    })
}

/// Recovers the volume in a child process.
///
/// # Errors
/// The child cannot be started, or fails.
pub fn recover_in_child(volume: &Scratch, threads: usize, counts: bool) -> Result<Recovered> {
    let own = std::env::current_exe().context("finding the path of this program")?;
    let mut command = Command::new(own);
    command.arg("recovery-child").arg(volume.path());
    command.arg(threads.to_string());
    if counts {
        command.arg("--count-heap");
    }
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("starting a child")?;
    ensure!(
        output.status.success(),
        "the process that recovers the volume with {threads} threads failed ({}); after \
         signal 9 there may be too little memory: use fewer --files",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("reading the child's result")
}
