//! Random calls of several owners, under random schedules.

use std::ops::Range;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use spanlock_record_lock::{Error, Mode, Owner, RecordLock};
use spanlock_sync::atomic::{AtomicU32, Ordering::SeqCst};
use spanlock_sync::thread;
use spanlock_verify::Program;

const OWNERS: usize = 4;
const BYTES: u64 = 4;
/// What a writer adds to the users of a byte. A reader adds one.
const WRITER: u32 = 1000;

#[derive(Clone, Copy, Debug)]
enum What {
    Lock,
    Try,
    /// Polls a request once, and drops it.
    Poll,
    Unlock,
    Release,
}

#[derive(Clone, Debug)]
struct Call {
    what: What,
    mode: Mode,
    range: Range<u64>,
}

pub(crate) fn program() -> Program {
    Program::new(
        "random",
        "four owners exclude each other, and every wait ends: with the lock, or in a circle",
    )
    .drawn(1 + OWNERS, calls, run)
}

fn calls() -> impl Strategy<Value = Vec<Vec<Call>>> {
    let what = prop_oneof![
        6 => Just(What::Lock),
        2 => Just(What::Try),
        1 => Just(What::Poll),
        3 => Just(What::Unlock),
        1 => Just(What::Release),
    ];
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write)];
    let range = (0..BYTES, 1..=BYTES).prop_map(|(start, len)| start..BYTES.min(start + len));
    let call = (what, mode, range).prop_map(|(what, mode, range)| Call { what, mode, range });
    vec(vec(call, 1..6), OWNERS)
}

fn run(calls: &Vec<Vec<Call>>) -> u64 {
    let table = RecordLock::new();
    let users: Arc<[AtomicU32; BYTES as usize]> = Arc::new([0; 4].map(AtomicU32::new));
    let threads: Vec<_> = (0..)
        .zip(calls)
        .map(|(id, calls)| {
            let owner = table.owner(id).expect("is new");
            let (users, calls) = (users.clone(), calls.clone());
            thread::spawn(move || perform(owner, &*users, &calls))
        })
        .collect();
    for thread in threads {
        thread.join().expect("does not panic");
    }
    assert_eq!((table.holds(..), table.waiting()), (Ok(vec![]), Ok(vec![])));
    calls.iter().map(|calls| calls.len() as u64).sum()
}

fn perform(owner: Owner, users: &[AtomicU32], calls: &[Call]) {
    for Call { what, mode, range } in calls {
        let locked = match what {
            What::Lock => owner.lock(range.clone(), *mode).wait(),
            What::Try => owner.try_lock(range.clone(), *mode),
            What::Poll => match crate::poll(&mut owner.lock(range.clone(), *mode)) {
                std::task::Poll::Ready(result) => result,
                std::task::Poll::Pending => continue,
            },
            What::Unlock => {
                owner.unlock(range.clone()).expect("there is memory");
                continue;
            }
            What::Release => break,
        };
        match locked {
            Ok(()) => visit(users, range, *mode),
            Err(Error::Deadlock(_)) => owner.unlock(..).expect("there is memory"),
            Err(error) => assert!(matches!(error, Error::Conflict(_)), "{error}"),
        }
    }
    owner.release();
}

/// Uses bytes that the owner holds.
fn visit(users: &[AtomicU32], range: &Range<u64>, mode: Mode) {
    let (mine, most) = match mode {
        Mode::Read => (1, WRITER - 1),
        Mode::Write => (WRITER, 0),
    };
    for at in range.clone() {
        let before = users[at as usize].fetch_add(mine, SeqCst);
        assert!(before <= most, "{mode:?} of {at}, with users {before}");
    }
    thread::yield_now();
    for at in range.clone() {
        users[at as usize].fetch_sub(mine, SeqCst);
    }
}
