//! A search with crashes and a bound on preemptions: it must explore every interleaving within the
//! bound, and no other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use spanlock_sync::atomic::{AtomicU32, Ordering::Relaxed};
use spanlock_sync::thread;
use spanlock_verify::{Crashes, Images, Mode, Program, Suite, perform};

/// The steps of each of the two threads. No two steps of different threads depend on each other, so
/// a reduced search explores one execution.
const STEPS: usize = 3;

pub(crate) fn suite() -> Suite {
    let claim = "a search explores every interleaving within its bound, and no other";
    let why = "the program tests this bound";
    let same = "the program has a thread of each kind";
    Suite::new("bounded-search")
        .no_pair("one", "one", same)
        .no_pair("other", "other", same)
        // Searches for mutants have at most two preemptions, and these programs must have all.
        .programs([0, 1, 2].map(|bound| {
            let orders = Arc::new(Orders::new(bound));
            let seen = orders.clone();
            Program::new(format!("preemptions-{bound}"), claim)
                .performs([["one"], ["other"]])
                .run(move || seen.run())
                .crashes(&[Mode::Cut], orders)
                .bounded_in(Mode::Cut, bound, why)
        }))
}

/// The orders of the steps of two threads, as the threads' letters.
struct Orders {
    bound: u64,
    current: Mutex<String>,
    seen: Mutex<BTreeSet<String>>,
    /// The number of executions of which the search has shown the steps.
    shown: Mutex<usize>,
}

impl Orders {
    fn new(bound: u64) -> Orders {
        Orders {
            bound,
            current: Mutex::default(),
            seen: Mutex::default(),
            shown: Mutex::default(),
        }
    }

    fn run(self: &Arc<Self>) {
        let other = self.clone();
        let other = thread::spawn(move || other.steps('b', "other"));
        self.steps('a', "one");
        other.join().expect("the thread does not panic");
        let order = std::mem::take(&mut *get(&self.current));
        get(&self.seen).insert(order);
    }

    fn steps(&self, letter: char, operation: &str) {
        let own = AtomicU32::new(0);
        for _ in 0..STEPS {
            own.fetch_add(1, Relaxed);
            get(&self.current).push(letter);
        }
        perform(operation);
    }
}

impl Crashes for Orders {
    fn executed(&self, _: &dyn Fn(u32, u32) -> bool) {
        *get(&self.shown) += 1;
    }

    fn judge(&self) -> Result<Images, String> {
        let mut expected = BTreeSet::new();
        extend(&mut expected, String::new(), self.bound);
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
fn extend(orders: &mut BTreeSet<String>, order: String, bound: u64) {
    let left = |letter| STEPS - order.matches(letter).count();
    let last = order.chars().last().unwrap_or('a');
    if left('a') + left('b') == 0 {
        orders.insert(order);
        return;
    }
    for letter in ['a', 'b'].into_iter().filter(|letter| left(*letter) > 0) {
        let preempts = u64::from(letter != last && left(last) > 0);
        if preempts <= bound {
            extend(orders, format!("{order}{letter}"), bound - preempts);
        }
    }
}

fn get<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
