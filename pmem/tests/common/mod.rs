//! Shared by the tests. Regions lie in a folder of `SPANLOCK_TEST_DIR`, or of the system's
//! temporary folder if that is not set.

#![allow(dead_code, reason = "each test uses some of it")]

use std::env;
use std::ffi::OsStr;
use std::process::Command;

use spanlock_pmem::{Durable, MappedFile, Options, Pmem};
use tempfile::TempDir;

/// Creates a folder for a test, which is removed at its end.
pub(crate) fn folder() -> TempDir {
    match env::var_os("SPANLOCK_TEST_DIR") {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    }
    .expect("a folder for the test")
}

/// Creates a region of `len` bytes with the default options.
pub(crate) fn region(folder: &TempDir, len: u64) -> MappedFile {
    MappedFile::create(folder.path().join("region"), len, Options::new()).expect("a new region")
}

/// Writes, flushes and fences, as the only user of the region.
pub(crate) fn put(region: &dyn Pmem, at: u64, data: &[u8]) -> Durable {
    // SAFETY: the tests that call this access the region from one thread.
    let written = unsafe { region.write(at, data) };
    region.persist(written)
}

/// Reads, as the only user of the region.
pub(crate) fn get(region: &dyn Pmem, at: u64, len: usize) -> Vec<u8> {
    let mut found = vec![0xa5; len];
    // SAFETY: the tests that call this access the region from one thread.
    unsafe { region.read(at, &mut found) };
    found
}

/// Fails unless the region holds `expected` at `at`, and names the first offset that differs.
#[track_caller]
pub(crate) fn assert_holds(region: &dyn Pmem, at: u64, expected: &[u8]) {
    let found = get(region, at, expected.len());
    if found != expected {
        let wrong = found
            .iter()
            .zip(expected)
            .position(|(found, expected)| found != expected);
        panic!(
            "wrong content from offset {} on",
            at + wrong.unwrap() as u64
        );
    }
}

/// Returns bytes that show their origin: neighbouring offsets and seeds differ.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(167)) as u8 | 1)
        .collect()
}

/// Returns a command that runs this test binary as a child, with only `test`, and with `variable`
/// set. A test that finds its variable unset returns at once: it is a child's part and not a test
/// itself.
pub(crate) fn child(test: &str, variable: &str, value: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this test"));
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(variable, value);
    command
}
