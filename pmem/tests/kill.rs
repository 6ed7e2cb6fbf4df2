//! Kills a process with SIGKILL at any instruction. The next process finds every published value,
//! together with the data that each value covers.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use common::{assert_holds, child, folder, pattern};
use spanlock_pmem::{Durable, MappedFile, Options, Pmem};

const PATH: &str = "SPANLOCK_KILL_TEST_PATH";
const MSYNC: &str = "SPANLOCK_KILL_TEST_MSYNC";

/// Records of 200 bytes, each beginning in the middle of a line, after a page that holds their
/// count.
const RECORD_BYTES: usize = 200;
const RECORDS: u64 = 20_000;
const LEN: u64 = (4096 + RECORDS * RECORD_BYTES as u64).next_multiple_of(4096);

fn record_at(index: u64) -> u64 {
    4096 + index * RECORD_BYTES as u64
}

fn record(index: u64) -> Vec<u8> {
    pattern(index as usize + 1, RECORD_BYTES)
}

/// The child's part: appends records as fast as it can, and reports each record once it is durable.
#[test]
fn child_appends() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let options = Options::new().msync(std::env::var_os(MSYNC).is_some());
    let region = MappedFile::open(path, options).unwrap();
    let mut out = std::io::stdout().lock();
    for index in region.load(0)..RECORDS {
        let record = record(index);
        // SAFETY: only one thread runs, and it accesses nothing before the fence.
        let flushed = unsafe {
            if index.is_multiple_of(2) {
                region.flush(region.write(record_at(index), &record))
            } else {
                region.write_streaming(record_at(index), &record)
            }
        };
        let mark = region.publish(0, index + 1, region.fence(flushed));
        region.persist(mark);
        writeln!(out, "durable: {}", index + 1).unwrap();
    }
    // It never ends by itself: the test kills it.
    loop {
        std::thread::park();
    }
}

/// Runs the child until it has reported `said` more durable records, and kills it. Returns the last
/// count reported.
fn kill_after(path: &Path, msync: bool, said: usize) -> u64 {
    let mut command = child("child_appends", PATH, path);
    if msync {
        command.env(MSYNC, "1");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut counts = lines.filter_map(|line| {
        let line = line.ok()?;
        let (_, count) = line.split_once("durable: ")?;
        count.parse().ok()
    });
    let mut last: u64 = counts
        .by_ref()
        .nth(said - 1)
        .expect("the child runs until it is killed");
    child.kill().unwrap();
    // Counts still in the pipe were reported, so those records must be durable too. A line that the
    // kill cut short is harmless: its beginning is a smaller number.
    last = counts.fold(last, u64::max);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    last
}

fn survives_kills(msync: bool, rounds: &[usize]) {
    let folder = folder();
    let path = folder.path().join("region");
    let region = MappedFile::create(&path, LEN, Options::new()).unwrap();
    let mark = region.publish(0, 0, Durable::at_rest());
    region.persist(mark);
    drop(region);
    for &said in rounds {
        let durable = kill_after(&path, msync, said);
        // Opening succeeds at once: the lock died with its holder.
        let region = MappedFile::open(&path, Options::new()).unwrap();
        let published = region.load(0);
        assert!(
            published >= durable,
            "{durable} were durable, but only {published} are there"
        );
        for index in 0..published {
            assert_holds(&region, record_at(index), &record(index));
        }
    }
}

#[test]
fn every_published_record_survives_kills() {
    survives_kills(false, &[1, 700, 37, 1500, 2]);
}

#[test]
fn every_published_record_survives_kills_with_msync() {
    survives_kills(true, &[1, 20, 7]);
}
