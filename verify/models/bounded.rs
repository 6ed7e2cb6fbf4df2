//! Searches with crashes and a bound on preemptions: each must explore every interleaving within
//! the bound, and no other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::task::Waker;

use spanlock_sync::atomic::{AtomicU32, Ordering::Relaxed};
use spanlock_sync::{Mutex, Park, Parker, thread};
use spanlock_verify::{Crashes, Images, Mode, Program, Suite, perform};

use Step::{Lock, Own, Sleep, Unlock, Wake};

/// One step of a thread.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Touches nothing that the other thread touches.
    Own,
    Lock,
    Unlock,
    /// Waits for the other thread's `Wake`.
    Sleep,
    Wake,
}

type Threads = [&'static [Step]; 2];

/// The steps of the main thread and of another one. In the first, no two steps of different threads
/// depend on each other, so a reduced search would explore one execution.
const PROGRAMS: [(&str, Threads); 3] = [
    ("independent", [&[Own, Own, Own], &[Own, Own, Own]]),
    ("mutex", [&[Lock, Own, Unlock], &[Own, Lock, Unlock, Own]]),
    ("parking", [&[Own, Sleep, Own], &[Own, Wake, Own]]),
];

/// The bounds. Searches for mutants have at most two preemptions, and these programs must have all.
const BOUNDS: [u64; 3] = [0, 1, 2];

pub(crate) fn suite() -> Suite {
    let claim = "a search explores every interleaving within its bound, and no other";
    let why = "the program tests this bound";
    let same = "the programs have a thread of each kind";
    let suite = Suite::new("bounded-search")
        .no_pair("one", "one", same)
        .no_pair("other", "other", same);
    PROGRAMS.into_iter().fold(suite, |suite, (name, threads)| {
        suite.programs(BOUNDS.map(|bound| {
            let orders = Arc::new(Orders::new(threads, bound));
            let seen = orders.clone();
            Program::new(format!("{name}-{bound}"), claim)
                .performs([["one"], ["other"]])
                .run(move || seen.run())
                .crashes(&[Mode::Cut], orders)
                .bounded_in(Mode::Cut, bound, why)
        }))
    })
}

/// The orders of the steps of two threads, as the threads' letters.
struct Orders {
    threads: Threads,
    bound: u64,
    current: StdMutex<String>,
    seen: StdMutex<BTreeSet<String>>,
    /// The number of executions of which the search has shown the steps.
    shown: StdMutex<usize>,
}

/// What the threads of an execution share.
struct Shared {
    mutex: Mutex<()>,
    sleeper: Waker,
}

impl Orders {
    fn new(threads: Threads, bound: u64) -> Orders {
        Orders {
            threads,
            bound,
            current: StdMutex::default(),
            seen: StdMutex::default(),
            shown: StdMutex::default(),
        }
    }

    fn run(self: &Arc<Self>) {
        Parker::with(|parker| {
            let shared = Arc::new(Shared {
                mutex: Mutex::new(()),
                sleeper: parker.waker().clone(),
            });
            let (other, its) = (self.clone(), shared.clone());
            let other = thread::spawn(move || {
                Parker::with(|parker| other.steps(1, &its, parker));
                perform("other");
            });
            self.steps(0, &shared, parker);
            perform("one");
            other.join().expect("the thread does not panic");
        });
        let order = std::mem::take(&mut *get(&self.current));
        get(&self.seen).insert(order);
    }

    fn steps(&self, thread: usize, shared: &Shared, parker: &Parker) {
        let own = AtomicU32::new(0);
        let mut guard = None;
        for step in self.threads[thread] {
            match step {
                Own => drop(own.fetch_add(1, Relaxed)),
                Lock => guard = Some(shared.mutex.lock()),
                Unlock => drop(guard.take()),
                Sleep => parker.park(),
                Wake => shared.sleeper.wake_by_ref(),
            }
            get(&self.current).push(LETTERS[thread]);
        }
    }
}

const LETTERS: [char; 2] = ['a', 'b'];

impl Crashes for Orders {
    fn executed(&self, _: &dyn Fn(u32, u32) -> bool) {
        *get(&self.shown) += 1;
    }

    fn judge(&self) -> Result<Images, String> {
        let mut expected = BTreeSet::new();
        extend(&mut expected, self.threads, String::new(), self.bound);
        let (seen, shown) = (get(&self.seen), *get(&self.shown));
        if *seen != expected {
            return Err(format!("explored {seen:?}, expected {expected:?}"));
        }
        // Where a thread ends or waits for the other, a switch can come a step earlier or later.
        if shown < seen.len() {
            return Err(format!("{} orders, but {shown} executions", seen.len()));
        }
        Ok(Images::default())
    }
}

/// Adds all orders that begin with `order` and have at most `bound` preemptions from there on.
fn extend(orders: &mut BTreeSet<String>, threads: Threads, order: String, bound: u64) {
    let done = |thread: usize| order.matches(LETTERS[thread]).count();
    let has_done = |step| {
        let of = |thread: usize| threads[thread][..done(thread)].iter();
        of(0).chain(of(1)).filter(|it| **it == step).count()
    };
    let can_go_on = |thread: usize| match threads[thread].get(done(thread)) {
        None => false,
        Some(Lock) => has_done(Lock) == has_done(Unlock),
        Some(Sleep) => has_done(Wake) > 0,
        Some(_) => true,
    };
    let last = LETTERS.iter().position(|it| order.ends_with(*it));
    let next = [0, 1].into_iter().filter(|thread| can_go_on(*thread));
    let mut is_over = true;
    for thread in next {
        is_over = false;
        let preempts = last.is_some_and(|last| last != thread && can_go_on(last));
        let Some(left) = bound.checked_sub(u64::from(preempts)) else {
            continue;
        };
        let longer = format!("{order}{}", LETTERS[thread]);
        extend(orders, threads, longer, left);
    }
    if is_over {
        orders.insert(order);
    }
}

fn get<T>(mutex: &StdMutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
