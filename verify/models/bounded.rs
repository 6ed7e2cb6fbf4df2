//! Searches with a bound on preemptions: each must explore every schedule within the bound, and no
//! other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::task::Waker;

use spanlock_sync::atomic::{AtomicU32, Ordering::Relaxed};
use spanlock_sync::{Mutex, Park, Parker, thread};
use spanlock_verify::{ComesBefore, Crashes, Images, Program, Suite, WithOrder, perform};

use Step::{Lock, Own, Sleep, Spawn, Unlock, Wake};

/// One step of a thread.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Touches nothing that another thread touches.
    Own,
    /// Starts the next thread.
    Spawn,
    Lock,
    Unlock,
    /// Waits for another thread's `Wake`.
    Sleep,
    Wake,
}

/// The steps of each thread, the main thread's first.
type Threads = &'static [&'static [Step]];

const PROGRAMS: [(&str, Threads); 5] = [
    ("independent", &[&[Spawn, Own, Own, Own], &[Own, Own, Own]]),
    ("late-spawn", &[&[Own, Own, Spawn, Own], &[Own, Own]]),
    (
        "three",
        &[&[Spawn, Own, Spawn, Own], &[Own, Own], &[Own, Own]],
    ),
    (
        "mutex",
        &[&[Spawn, Lock, Own, Unlock], &[Own, Lock, Unlock, Own]],
    ),
    ("parking", &[&[Spawn, Own, Sleep, Own], &[Own, Wake, Own]]),
];

/// The bound on preemptions of each program.
const BOUNDS: [u64; 3] = [0, 1, 2];

pub(crate) fn suite() -> Suite {
    let claim = "a search explores every schedule within its bound, and no other";
    let why = "the program tests this bound";
    let suite = Suite::new("bounded-search");
    PROGRAMS.into_iter().fold(suite, |suite, (name, threads)| {
        suite.programs(BOUNDS.map(|bound| {
            let orders = Arc::new(Orders::new(threads, bound));
            let seen = orders.clone();
            Program::new(format!("{name}-{bound}"), claim)
                .performs(threads.iter().map(|_| ["steps"]))
                .run(move || seen.run())
                .crashes(orders)
                .bounded(bound, why)
        }))
    })
}

/// The orders of the threads' steps, as the threads' letters.
struct Orders {
    threads: Threads,
    bound: u64,
    current: StdMutex<String>,
    seen: StdMutex<BTreeSet<String>>,
}

/// The mutex and the waker that the threads of an execution share.
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
        }
    }

    fn run(self: &Arc<Self>) {
        Parker::with(|parker| {
            let shared = Arc::new(Shared {
                mutex: Mutex::new(()),
                sleeper: parker.waker().clone(),
            });
            for other in self.steps(0, &shared, parker) {
                other.join().expect("the thread does not panic");
            }
        });
        let order = std::mem::take(&mut *get(&self.current));
        get(&self.seen).insert(order);
    }

    /// Performs a thread's steps. Returns the threads that it has started.
    fn steps(
        self: &Arc<Self>,
        thread: usize,
        shared: &Arc<Shared>,
        parker: &Parker,
    ) -> Vec<thread::JoinHandle<()>> {
        let own = AtomicU32::new(0);
        let mut guard = None;
        let mut others = Vec::new();
        for step in self.threads[thread] {
            match step {
                Own => drop(own.fetch_add(1, Relaxed)),
                Spawn => {
                    let (orders, shared) = (self.clone(), shared.clone());
                    let next = others.len() + 1;
                    others.push(thread::spawn(move || {
                        Parker::with(|parker| drop(orders.steps(next, &shared, parker)));
                    }));
                }
                Lock => guard = Some(shared.mutex.lock()),
                Unlock => drop(guard.take()),
                Sleep => parker.park(),
                Wake => shared.sleeper.wake_by_ref(),
            }
            get(&self.current).push(LETTERS[thread]);
        }
        perform("steps");
        others
    }
}

const LETTERS: [char; 3] = ['a', 'b', 'c'];

impl Crashes for Orders {
    fn executed(&self, _: &ComesBefore<'_>, _: &WithOrder<'_>) {
        unreachable!("only the explorer calls this");
    }

    fn judge(&self) -> Result<Images, String> {
        let mut expected = BTreeSet::new();
        extend(&mut expected, self.threads, String::new(), self.bound);
        let seen = get(&self.seen);
        match *seen == expected {
            true => Ok(Images::default()),
            false => Err(format!("explored {seen:?}, expected {expected:?}")),
        }
    }
}

/// Adds all orders that begin with `order` and have at most `bound` preemptions from there on.
fn extend(orders: &mut BTreeSet<String>, threads: Threads, order: String, bound: u64) {
    let done = |thread: usize| order.matches(LETTERS[thread]).count();
    let has_done = |step| {
        let of = |thread: usize| threads[thread][..done(thread)].iter();
        let all = (0..threads.len()).flat_map(of);
        all.filter(|it| **it == step).count()
    };
    let can_go_on = |thread: usize| match threads[thread].get(done(thread)) {
        _ if thread > has_done(Spawn) => false,
        None => false,
        Some(Lock) => has_done(Lock) == has_done(Unlock),
        Some(Sleep) => has_done(Wake) > 0,
        Some(_) => true,
    };
    let last = LETTERS.iter().position(|it| order.ends_with(*it));
    // After a spawn, each thread may go on.
    let last = last.filter(|last| threads[*last][done(*last) - 1] != Spawn);
    let mut is_over = true;
    for thread in (0..threads.len()).filter(|thread| can_go_on(*thread)) {
        is_over = false;
        let preempts = last.is_some_and(|last| last != thread && can_go_on(last));
        if let Some(left) = bound.checked_sub(u64::from(preempts)) {
            let longer = format!("{order}{}", LETTERS[thread]);
            extend(orders, threads, longer, left);
        }
    }
    if is_over {
        orders.insert(order);
    }
}

fn get<T>(mutex: &StdMutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
