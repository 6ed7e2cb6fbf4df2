//! Prints what the verbs cost on this machine.
//!
//! `cargo run --release -p spanlock-pmem --example costs [FOLDER]`
//!
//! Each line is the fastest of several runs, so that a busy machine affects it least.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use spanlock_pmem::{Durable, Flushed, MappedFile, Options, Pmem};

const LEN: u64 = 1 << 20;
const PAGES: u64 = LEN / 4096;
const RUNS: usize = 15;
const ROUNDS: u64 = 20_000;

/// Prints the nanoseconds of one call of `operation`, which gets the round's number.
fn measure(name: &str, mut operation: impl FnMut(u64)) {
    let fastest = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(&mut operation);
            start.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<48} {fastest:8.1} ns");
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os()
        .nth(1)
        .map_or_else(env::temp_dir, PathBuf::from);
    let path = folder.join(format!("spanlock-costs-{}", std::process::id()));
    let region = MappedFile::create(&path, LEN, Options::new())?;
    // The region keeps the file open; the name should not outlive an interrupted run.
    std::fs::remove_file(&path)?;
    match region.flush_instruction() {
        Some(instruction) => println!("flushed by {instruction}; {}\n", region.durability()),
        None => println!("not flushed at all; {}\n", region.durability()),
    }

    let page = |round: u64| round % (PAGES - 1) * 4096;
    let data = [7; 4096];
    // Touch every page once, so that no measurement includes page faults.
    for round in 0..PAGES {
        // SAFETY: only this thread uses the region.
        let written = unsafe { region.write(round * 4096, &data) };
        region.persist(written);
    }

    measure("store, flush, fence", |round| {
        let mark = region.publish(page(round), round, Durable::at_rest());
        region.persist(mark);
    });
    measure("store, flush", |round| {
        let mark = region.publish(page(round), round, Durable::at_rest());
        // Not fenced on purpose: this measures the store and the flush.
        drop(region.flush(mark));
    });
    measure("fence alone", |_| {
        region.fence(Flushed::nothing());
    });
    measure("copy of 4 KiB, nothing flushed", |round| {
        // SAFETY: only this thread uses the region.
        drop(unsafe { region.write(page(round), &data) });
    });
    measure("copy of 4 KiB, flush, fence", |round| {
        // SAFETY: only this thread uses the region.
        let written = unsafe { region.write(page(round), &data) };
        region.persist(written);
    });
    measure("non-temporal copy of 4 KiB, fence", |round| {
        // SAFETY: only this thread uses the region, and the bytes are fenced before they are
        // accessed.
        let flushed = unsafe { region.write_streaming(page(round), &data) };
        region.fence(flushed);
    });
    measure("non-temporal page and entry, fence; mark, fence", |round| {
        let entry = LEN - 4096 + round % 63 * 64;
        // SAFETY: as above.
        let flushed = unsafe {
            let page = region.write_streaming(page(round), &data);
            page.and(region.flush(region.write(entry, &data[..64])))
        };
        let mark = region.publish(LEN - 64, round, region.fence(flushed));
        region.persist(mark);
    });
    Ok(())
}
