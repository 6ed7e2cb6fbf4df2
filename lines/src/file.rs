//! The file core: each core overwrites or reads a page of its own of one file.

use std::rc::Rc;

use spanlock_cores::{Outcome, Program, count, goes_on, set_up};
use spanlock_file_core::{FormatOptions, Volume};
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::RawRangeLock;

use crate::locks::{FAR, Needs, Task};
use crate::region::Copying;

const PAGE: usize = 4096;
/// Enough for all pages that the operations take, and for the log.
const VOLUME: u64 = 64 << 20;

/// Nanoseconds that do not count, and that do. The log gets lanes in the former.
pub(crate) const TIMES: (u64, u64) = (500_000, 150_000);

/// The nanoseconds between two steps of the clock, which is as coarse as the volume's own.
const STEP: u64 = 1_000_000;

/// What a core writes from and reads to: a page of memory, as of a program that shares none.
#[repr(align(4096))]
struct Aligned([u8; PAGE]);

pub(crate) struct OnFile {
    pub(crate) writes: bool,
    pub(crate) cores: usize,
    pub(crate) program: Program,
    /// How many nanoseconds it takes to copy a page, on average.
    pub(crate) page_ns: u32,
}

impl Task for OnFile {
    type Output = Outcome;

    fn run<L: RawRangeLock + 'static>(self, make: fn(Needs) -> L) -> Outcome {
        let OnFile {
            writes,
            cores,
            program,
            page_ns,
        } = self;
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let path = folder.path().join("volume");
        let set_up_file = || {
            let pmem = MappedFile::create(&path, VOLUME, Options::new()).expect("there is room");
            let largest = cores as u64 * FAR;
            let options = FormatOptions::new()
                .inodes(64)
                .max_file_size(largest)
                .clock(|| spanlock_cores::now() / STEP * STEP);
            let lock = move |capacity| make(Needs { capacity, cores });
            let pmem = Copying { pmem, page_ns };
            let volume = Volume::format(pmem, &options, lock).expect("the options fit the volume");
            let file = volume.create("file").expect("there is room");
            for core in 0..cores {
                let written = file.write_at(&[1; PAGE], core as u64 * FAR);
                written.expect("there is room");
            }
            (volume, Rc::new(file))
        };
        // SAFETY: this is the only call.
        let (volume, file) = unsafe { set_up(0, set_up_file) };
        let outcome = program.run(move |core| {
            let mut page = Box::new(Aligned([2; PAGE]));
            let at = core as u64 * FAR;
            while goes_on() {
                if writes {
                    file.write_at(&page.0, at).expect("there is room");
                } else {
                    let read = file.read_at(&mut page.0, at);
                    assert_eq!(read.ok(), Some(PAGE), "the page was written");
                }
                count();
            }
        });
        drop(volume);
        outcome
    }
}
