//! The lookup of direct nodes, with each latch: the poster's `get_dnode_of_data`.

use std::time::Duration;

use anyhow::Result;
use spanlock_interval_lock::IntervalLock;
use spanlock_node_log::{Lookup, NvmHome, Volume};
use spanlock_pmem::MappedFile;

use super::drive::Measured;
use super::media::{Disk, Media, options};
use super::meter::{Meter, Timed, run};
use super::work::{CASES, LOOKUP};
use crate::workloads::{PAGE, PAGES_APART, SHARED_FILE, fill};

/// The ways to look a node up, each with its name in rows. The first is the baseline.
pub(super) const WAYS: [(&str, Lookup); 3] = [
    ("exclusive", Lookup::Exclusive),
    ("shared", Lookup::Shared),
    ("optimistic", Lookup::Optimistic),
];

/// The pages of so many threads lie in nodes that the inode names itself.
const BEFORE: usize = 2;
/// Lookups that are counted at once: reading the phase takes a part of one.
const AT_ONCE: u64 = 16;
const SHARED: &str = "shared";

/// A volume with one way to look nodes up.
pub(super) type Looking = Volume<NvmHome<MappedFile>, Disk, IntervalLock>;

/// Creates a volume with the shared file of up to `threads` threads.
///
/// # Errors
/// There is not enough room.
pub(super) fn prepare(media: &Media, way: Lookup, threads: usize) -> Result<Looking> {
    let case = CASES.iter().find(|it| it.name == LOOKUP);
    let bytes = case
        .expect("it is in the list")
        .data_bytes(threads + BEFORE);
    let (data, nodes) = media.halves(bytes)?;
    let volume: Looking =
        Volume::create(data, nodes, &options().lookup(way), |_| IntervalLock::new())?;
    fill(&volume.create_file(SHARED)?, threads + BEFORE)?;
    volume.checkpoint()?;
    Ok(volume)
}

/// Measures lookups for one half of a round, and DWOM's writes of the same pages for the other.
///
/// # Errors
/// An operation fails.
pub(super) fn round(volume: &Looking, threads: usize, duration: Duration) -> Result<Measured> {
    let file = &volume.open_file(SHARED)?;
    let place = |worker: usize| (worker + BEFORE) as u64;
    let (looked, took) = run(threads, duration / 2, |worker| {
        let page = (place(worker) * PAGES_APART / PAGE as u64) as u32;
        Ok(Box::new(move |meter: &mut Meter| {
            for _ in 0..AT_ONCE {
                std::hint::black_box(file.locate(page)?);
            }
            meter.ops += AT_ONCE;
            Ok(())
        }))
    })?;
    let (wrote, writing) = run(threads, duration / 2, |worker| {
        let mut write = SHARED_FILE[0].operations(file, place(worker));
        Ok(Box::new(move |meter: &mut Meter| {
            meter.ops += 1;
            meter.time(Timed::Write, &mut write)
        }))
    })?;
    let per_s = looked.ops as f64 / took.as_secs_f64();
    let writes_per_s = wrote.ops as f64 / writing.as_secs_f64();
    Ok(Measured {
        per_s,
        seconds: writing.as_secs_f64(),
        times: wrote.times,
        stall: None,
        bytes_per_fsync: None,
        lookup_share: Some(writes_per_s / per_s),
    })
}
