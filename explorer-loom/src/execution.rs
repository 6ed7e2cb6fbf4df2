//! What an execution knows beside the graph: its threads, lazy statics, and what may leak.

use core::any::Any;
use core::cell::RefCell;
use core::mem::ManuallyDrop;
use core::panic::Location;
use std::collections::BTreeMap;
use std::sync::Arc;

use spanlock_explorer::{Atomic, current_thread, fail, is_exploring};

use crate::sync::References;

/// A location of the explorer that is never dropped.
///
/// The explorer takes a drop for an access that excludes all others. It does not see the orderings
/// of std's `Arc`, which programs may use beside loom's types, and would report false races.
pub(crate) type Kept = ManuallyDrop<Atomic>;

pub(crate) fn kept(value: u64) -> Kept {
    ManuallyDrop::new(Atomic::new(value))
}

/// A thread of the execution.
pub(crate) struct Thread {
    pub(crate) name: Option<String>,
    /// Whether `unpark` was called.
    pub(crate) token: Arc<Kept>,
    /// `None` for the main thread, and once another thread joins it.
    pub(crate) handle: Option<spanlock_explorer::Thread>,
    /// How many waits of the thread have timed out.
    pub(crate) timeouts: u32,
    /// The values of the thread's locals, by the addresses of the keys. A value is `None` once the
    /// thread drops it, and all are once they are dropped.
    pub(crate) locals: Option<Vec<(usize, Option<Local>)>>,
}

pub(crate) type Local = Box<dyn Any>;

impl Thread {
    pub(crate) fn new(name: Option<String>, token: Arc<Kept>) -> Thread {
        Thread {
            name,
            token,
            handle: None,
            timeouts: 0,
            locals: Some(Vec::new()),
        }
    }
}

/// A lazy static.
pub(crate) struct Lazy {
    pub(crate) state: Arc<Kept>,
    pub(crate) value: Option<Box<dyn Any>>,
}

/// What an execution shares with those before it in the same search.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// The addresses of the lazy statics. Each execution creates their locations at the beginning,
    /// so that these do not depend on which thread is the first.
    pub(crate) lazies: Vec<usize>,
    /// The most threads of an execution.
    pub(crate) threads: usize,
    /// The most threads that an execution may have.
    pub(crate) most_threads: usize,
    /// Whether a thread asks how many references to an `Arc` there are.
    pub(crate) counts_clones: bool,
    /// Whether a thread has spun.
    pub(crate) has_spun: bool,
    /// Whether an execution has ended because it met something new. Then the search begins again.
    pub(crate) is_new: bool,
}

pub(crate) struct Execution {
    pub(crate) threads: BTreeMap<usize, Thread>,
    pub(crate) lazies: BTreeMap<usize, Lazy>,
    /// The counts of references of all `Arc`s, by the addresses of their values.
    pub(crate) arcs: BTreeMap<usize, Arc<References>>,
    /// What must be freed before the end: by address or number, what it is, and where it was made.
    pub(crate) live: BTreeMap<usize, (&'static str, &'static Location<'static>)>,
    /// The memory of `loom::alloc`, in the same way.
    pub(crate) allocated: BTreeMap<usize, &'static Location<'static>>,
    /// How many numbers have been given to what is live.
    pub(crate) numbers: usize,
}

std::thread_local! {
    static EXECUTION: RefCell<Option<Execution>> = const { RefCell::new(None) };
    static KNOWN: RefCell<Known> = const {
        RefCell::new(Known {
            lazies: Vec::new(),
            threads: 2,
            most_threads: 0,
            counts_clones: false,
            has_spun: false,
            is_new: false,
        })
    };
}

/// Calls `f` with what the search knows.
pub(crate) fn known<R>(f: impl FnOnce(&mut Known) -> R) -> R {
    KNOWN.with_borrow_mut(f)
}

/// Ends the search, which will begin again with what it knows now.
#[track_caller]
pub(crate) fn begin_again() -> ! {
    known(|known| known.is_new = true);
    fail("the search begins again")
}

/// Calls `f` with the execution, if there is one.
pub(crate) fn try_with<R>(f: impl FnOnce(&mut Execution) -> R) -> Option<R> {
    let it = EXECUTION.try_with(|it| it.try_borrow_mut().ok()?.as_mut().map(f));
    it.ok().flatten()
}

/// Calls `f` with the execution, for what may only be called within a model.
#[track_caller]
pub(crate) fn with<R>(what: &str, f: impl FnOnce(&mut Execution) -> R) -> R {
    require(what);
    try_with(f).expect("an execution has begun, and `f` does not call this")
}

/// Calls `f` with the calling thread.
#[track_caller]
pub(crate) fn with_thread<R>(what: &str, f: impl FnOnce(&mut Thread) -> R) -> R {
    let me = current_thread();
    with(what, |it| {
        f(it.threads.get_mut(&me).expect("the thread was spawned"))
    })
}

/// Panics outside a model.
#[track_caller]
pub(crate) fn require(what: &str) {
    if !is_exploring() {
        let at = Location::caller();
        panic!(
            "`loom::{what}` is called at {at}, outside a model. Call it within the closure that \
             `loom::model` runs: each execution has objects of its own. Code that also runs \
             without a model needs the type of std there."
        );
    }
}

impl Execution {
    /// Begins an execution. The one before may have ended in the middle.
    pub(crate) fn begin() {
        Execution::clear();
        let new_lazy = |key| {
            let state = Arc::new(kept(0));
            (key, Lazy { state, value: None })
        };
        let lazies = known(|known| known.lazies.clone());
        let main = Thread::new(None, Arc::new(kept(0)));
        let execution = Execution {
            threads: BTreeMap::from([(0, main)]),
            lazies: lazies.into_iter().map(new_lazy).collect(),
            arcs: BTreeMap::new(),
            live: BTreeMap::new(),
            allocated: BTreeMap::new(),
            numbers: 0,
        };
        EXECUTION.set(Some(execution));
    }

    /// Ends the execution: waits for all threads, and fails if something has leaked.
    pub(crate) fn end() {
        while let Some(thread) = try_with(Execution::unjoined).flatten() {
            thread.join();
        }
        crate::thread::drop_locals();
        let lazies = try_with(|it| core::mem::take(&mut it.lazies));
        drop(lazies);
        if let Some(leaks) = try_with(|it| it.leaks()).filter(|leaks| !leaks.is_empty()) {
            fail(&leaks);
        }
        drop(EXECUTION.take());
    }

    /// Throws away an execution that has not ended. The destructors of its values do not run: they
    /// could use locations of that execution.
    pub(crate) fn clear() {
        let Some(old) = EXECUTION.take() else { return };
        for (_, thread) in old.threads {
            core::mem::forget(thread.locals);
        }
        for (_, lazy) in old.lazies {
            core::mem::forget(lazy.value);
        }
    }

    fn unjoined(&mut self) -> Option<spanlock_explorer::Thread> {
        self.threads.values_mut().find_map(|it| it.handle.take())
    }

    fn leaks(&self) -> String {
        let allocated = self.allocated.values().map(|at| ("allocation", *at));
        let all = self.live.values().copied().chain(allocated);
        let lines = all.map(|(what, at)| format!("Leak: the {what} of {at} was never freed."));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Notes something that must be freed before the end, and returns its number.
    pub(crate) fn made(&mut self, what: &'static str, at: &'static Location<'static>) -> usize {
        self.numbers += 1;
        self.live.insert(self.numbers, (what, at));
        self.numbers
    }
}
