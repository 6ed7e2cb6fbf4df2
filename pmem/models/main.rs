//! A toy of a log in persistent memory, with the bugs that such logs have had: controls that the
//! searches of crashes must find.
//!
//! An append reserves a slot, makes the record durable, and then commits it. With a *mark* in each
//! slot, an append commits only itself. With a *tail pointer*, as in NOVA, the second of two
//! appends that run at once also commits the first one's unfinished record.
//!
//! And a toy of a register, which must keep the order of writes that did not overlap.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_pmem::{Durable, Flushed, Pmem, Written};
use spanlock_sync::atomic::{AtomicU64, Ordering::Relaxed};
use spanlock_sync::injected_bug;
use spanlock_testkit::crashes::{Crashable, MakeMedium, threads};
use spanlock_verify::Suite;

fn main() -> ExitCode {
    spanlock_verify::main([toy(), register()])
}

fn toy() -> Suite {
    let toy = Arc::new(Toy);
    let medium: MakeMedium = Arc::new(|| vec![0; 1024]);
    let program = |name, operations: &[&[u32]]| threads(name, CLAIM, &toy, &medium, operations);
    Suite::new("toy-log")
        .step_bound(400)
        .program(program("append-append", &[&[1], &[2]]))
        .program(program("append-3", &[&[1], &[2], &[3]]))
}

const CLAIM: &str =
    "an append that returned is there after a crash, and no other record is there in part";

/// The offset of the tail pointer, which only an injected bug uses.
const TAIL: u64 = 0;
/// The offset of a slot: a line with the mark, and a line with the record.
fn slot(number: u64) -> u64 {
    64 + number * 128
}
const SLOTS: u64 = 4;

struct Toy;

struct Log {
    region: Arc<Simulated>,
    next: AtomicU64,
    /// How many appends have left their fence to others, if a bug is injected.
    left: Mutex<u64>,
}

fn uses_tail() -> bool {
    injected_bug!(
        "tail-pointer",
        "an append commits by moving the tail behind its slot",
        killed_by = "append-append, append-3"
    )
}

impl Subject for Toy {
    type Store = Log;
    type State = BTreeSet<u64>;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Log, String> {
        Ok(Log {
            region: region.clone(),
            next: AtomicU64::new(0),
            left: Mutex::new(0),
        })
    }

    fn state(&self, log: &Log) -> Result<BTreeSet<u64>, String> {
        let committed = |&number: &u64| match uses_tail() {
            true => log.region.load(TAIL) > number,
            false => log.region.load(slot(number)) == 1,
        };
        let record = |number| log.region.load(slot(number) + 64);
        Ok((0..SLOTS).filter(committed).map(record).collect())
    }

    fn go_on(&self, _: &Log) -> Result<(), String> {
        Ok(())
    }

    fn apply(&self, state: &Self::State, operation: u32, _: Option<&str>) -> Option<Self::State> {
        let mut state = state.clone();
        state.insert(operation.into());
        Some(state)
    }

    fn name(&self, _: u32) -> String {
        "append".to_owned()
    }
}

impl Crashable for Toy {
    fn perform(&self, log: &Log, operation: u32) -> String {
        let region = &log.region;
        // Relaxed: only the number matters.
        let number = log.next.fetch_add(1, Relaxed);
        let record = u64::from(operation).to_le_bytes();
        // SAFETY: nobody else has this slot.
        let written = unsafe { region.write(slot(number) + 64, &record) };
        let durable = make_durable(log, written);
        let mark = match uses_tail() {
            true => region.publish(TAIL, number + 1, durable),
            false => region.publish(slot(number), 1, durable),
        };
        let _ = region.persist(mark);
        "done".to_owned()
    }
}

/// Makes a record durable, unless a bug is injected.
fn make_durable(log: &Log, written: Written) -> Durable {
    let region = &log.region;
    if injected_bug!(
        "no-flush",
        "an append fences without a flush",
        killed_by = "append-append, append-3"
    ) {
        drop(written);
        return region.fence(Flushed::nothing());
    }
    let flushed = region.flush(written);
    if injected_bug!(
        "no-fence",
        "an append commits its record without a fence",
        killed_by = "append-append, append-3"
    ) {
        drop(flushed);
        return Durable::at_rest();
    }
    if injected_bug!(
        "fence-of-another-thread",
        "an append leaves the fence to the next thread that appends",
        killed_by = "append-append, append-3"
    ) {
        drop(flushed);
        let mut left = log.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left += 1;
        return match *left {
            1 => Durable::at_rest(),
            _ => region.fence(Flushed::nothing()),
        };
    }
    region.fence(flushed)
}

fn register() -> Suite {
    let register = Arc::new(Register);
    let medium: MakeMedium = Arc::new(|| vec![0; 1024]);
    let claim = "of two writes, recovery finds the later one, unless they overlapped";
    Suite::new("toy-register").step_bound(400).program(threads(
        "write-write",
        claim,
        &register,
        &medium,
        &[&[1], &[2]],
    ))
}

/// A register: each write has a slot of its own, and the highest number there counts.
struct Register;

impl Subject for Register {
    type Store = Log;
    type State = u64;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Log, String> {
        Toy.recover(region)
    }

    fn state(&self, log: &Log) -> Result<u64, String> {
        let words = [1, 2].map(|it| log.region.load(slot(it)));
        let first = words.iter().find(|word| **word != 0);
        let newest = words.iter().max_by_key(|word| *word >> 32);
        let word = match injected_bug!(
            "first-slot",
            "recovery takes the first slot that has a value, not the newest one",
            killed_by = "write-write"
        ) {
            true => first,
            false => newest,
        };
        Ok(word.map_or(0, |word| word & u64::from(u32::MAX)))
    }

    fn go_on(&self, _: &Log) -> Result<(), String> {
        Ok(())
    }

    fn apply(&self, _: &u64, operation: u32, _: Option<&str>) -> Option<u64> {
        Some(operation.into())
    }

    fn name(&self, _: u32) -> String {
        "write".to_owned()
    }
}

impl Crashable for Register {
    fn perform(&self, log: &Log, operation: u32) -> String {
        // Relaxed: only the number matters.
        let number = log.next.fetch_add(1, Relaxed) + 1;
        let word = number << 32 | u64::from(operation);
        let mark = log
            .region
            .publish(slot(operation.into()), word, Durable::at_rest());
        let _ = log.region.persist(mark);
        "done".to_owned()
    }
}
