//! A log and a journal with a single thread.
//!
//! `.ci/wasm` runs these tests on `wasm32-unknown-unknown` as well. That target has no clock, no
//! second thread and no files, and std panics where a program asks for one of the first two.

use std::sync::Arc;

use spanlock::journal_commit::compact::{GroupCommit, Log, Options};
use spanlock::journal_commit::jbd2::{self, Error, FormatOptions, Journal};
use spanlock::journal_commit::testing::Recorded;

#[test]
fn a_log_needs_no_clock() {
    for way in [GroupCommit::Plain, GroupCommit::Rendezvous] {
        let device = Arc::new(Recorded::new(1 << 20));
        let options = Options::new().group_commit(way);
        let log = Log::create(device.clone(), &options).unwrap();
        for record in 0..40 {
            log.append_durable(&[record]).unwrap();
        }
        drop(log);

        let log = Log::open(device, &options).unwrap();
        let found: Vec<u8> = log.records().map(|it| it.unwrap().data[0]).collect();
        assert_eq!(found, Vec::from_iter(0..40));
    }
}

/// Where no thread can be started, opening says so.
#[test]
fn a_journal_needs_a_thread() {
    let [log, home] = [(); 2].map(|()| Arc::new(Recorded::new(1 << 20)));
    jbd2::format(log.clone(), &FormatOptions::new(4096)).unwrap();
    match Journal::open(log, home, jbd2::Options::new(4096)) {
        Ok(journal) if !cfg!(target_family = "wasm") => journal.close().unwrap(),
        Err(Error::Io { source, .. }) if cfg!(target_family = "wasm") => {
            assert_eq!(source.kind(), std::io::ErrorKind::Unsupported);
        }
        other => panic!("{:?}", other.map(drop)),
    }
}
