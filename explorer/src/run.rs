//! Executions: the program's threads are coroutines, which the search resumes one at a time.

use core::cell::{Cell, RefCell};
use core::panic;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::MAX_THREADS;
use crate::arena::{self, Switch};
use crate::event::Location;
use crate::failure::Reason;
use crate::plain::Access;
use crate::request::{Ask, Reply, Request};
use crate::state::{State, Status};

/// What a coroutine returns: the message of a panic, if there was one.
type Ended = Result<(), String>;
type Thread = Coroutine<Reply, (), Ended, DefaultStack>;
type Suspend = Yielder<Reply, ()>;

/// A search, as the program that it explores reaches it.
pub(crate) struct Runtime {
    pub(crate) state: RefCell<State>,
    threads: RefCell<[Option<Thread>; MAX_THREADS]>,
    /// Suspends the thread that runs. Valid while its coroutine exists.
    suspend: [Cell<*const Suspend>; MAX_THREADS],
    stacks: RefCell<Vec<DefaultStack>>,
    /// The number of the execution, of all that this process has explored.
    execution: Cell<u64>,
    has_arena: Cell<bool>,
}

std::thread_local! {
    static CURRENT: Cell<*const Runtime> = const { Cell::new(core::ptr::null()) };
}

/// Returns a number that no other execution of this process has. 0 stands for none.
fn new_execution() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the number's uniqueness matters.
    LAST.fetch_add(1, Relaxed) + 1
}

/// The executions that run now, in any thread of the system.
static RUNNING: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u64>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the execution of this number runs now.
pub(crate) fn is_running(execution: u64) -> bool {
    execution != 0 && running().contains(&execution)
}

/// Returns the search whose program the calling thread runs.
pub(crate) fn current<'a>() -> Option<&'a Runtime> {
    // SAFETY: `Entered` keeps the search alive while the pointer is set. Its program, which calls
    // this, does not outlive it.
    unsafe { CURRENT.get().as_ref() }
}

/// The system's thread runs a search, until this is dropped.
pub(crate) struct Entered<'a> {
    runtime: &'a Runtime,
    before: *const Runtime,
}

impl Entered<'_> {
    pub(crate) fn new(runtime: &Runtime) -> Entered<'_> {
        let before = CURRENT.replace(runtime);
        Entered { runtime, before }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        debug_assert!(core::ptr::eq(self.runtime, CURRENT.get()));
        CURRENT.set(self.before);
    }
}

impl Runtime {
    pub(crate) fn new(state: State) -> Runtime {
        Runtime {
            state: RefCell::new(state),
            threads: RefCell::default(),
            suspend: [const { Cell::new(core::ptr::null()) }; MAX_THREADS],
            stacks: RefCell::default(),
            execution: Cell::new(0),
            has_arena: Cell::new(false),
        }
    }

    pub(crate) fn execution(&self) -> u64 {
        self.execution.get()
    }

    /// Lets the threads of the program allocate from the arena, from now on, if it is the global
    /// allocator. Returns whether it is.
    pub(crate) fn use_arena(&self) -> bool {
        self.has_arena.set(arena::prepare());
        self.has_arena.get()
    }

    /// Runs an execution: the graph, and what the search adds to it.
    pub(crate) fn run(&self, body: &Rc<dyn Fn()>) {
        self.execution.set(new_execution());
        running().insert(self.execution());
        let body = body.clone();
        self.state.borrow_mut().begin(Box::new(move || body()));
        loop {
            let next = self.state.borrow_mut().repeatable();
            let Some(thread) = next else { break };
            self.go_on(thread);
        }
        self.state.borrow_mut().go_live();
        loop {
            let next = self.state.borrow_mut().proceed();
            let Some(thread) = next else { break };
            self.go_on(thread);
        }
        let probed = self.state.borrow_mut().begin_probe();
        if let Some(thread) = probed {
            self.go_on(thread);
            self.state.borrow_mut().end_probe();
        }
        running().remove(&self.execution());
        self.clear();
    }

    /// Starts or resumes a thread, until it waits or ends.
    fn go_on(&self, thread: usize) {
        let mut state = self.state.borrow_mut();
        state.current = thread;
        let its = &mut state.threads[thread];
        let (reply, body) = (its.reply, its.body.take());
        its.status = Status::Running;
        let stack_size = state.settings.stack;
        drop(state);
        let coroutine = body.map(|body| self.coroutine(thread, body, stack_size));
        let coroutine = coroutine.or_else(|| self.threads.borrow_mut()[thread].take());
        let mut coroutine = coroutine.expect("a thread that was started");
        let result = {
            let _its_memory = Switch::to(self.has_arena.get().then_some(thread));
            coroutine.resume(reply)
        };
        self.threads.borrow_mut()[thread] = Some(coroutine);
        if let CoroutineResult::Return(ended) = result {
            let mut state = self.state.borrow_mut();
            state.threads[thread].status = Status::Finished;
            state.threads[thread].pending = None;
            if let Err(message) = ended {
                state.fail(Reason::Panic, format!("T{thread} panicked: {message}"));
            }
        }
    }

    fn coroutine(&self, thread: usize, body: Box<dyn FnOnce()>, stack: usize) -> Thread {
        let kept = self.stacks.borrow_mut().pop();
        let stack = kept.map_or_else(|| DefaultStack::new(stack), Ok);
        let stack = stack.expect("the system has memory for a stack");
        Coroutine::with_stack(stack, move |suspend: &Suspend, _| {
            let runtime = current().expect("the coroutine runs within the search");
            runtime.suspend[thread].set(suspend);
            // What a thread may have broken by its panic is not used again.
            let result = catch_unwind(AssertUnwindSafe(body));
            result.map_err(|payload| arena::outside(|| message(&*payload)))
        })
    }

    /// Suspends the current thread.
    fn suspend(&self) -> Reply {
        let thread = self.state.borrow().current;
        // SAFETY: the current thread calls this on its own stack, so its coroutine exists.
        unsafe { (*self.suspend[thread].get()).suspend(()) }
    }

    /// Asks for an operation of the current thread. Returns when the search lets it go on, if ever.
    pub(crate) fn ask(&self, ask: Ask) -> Reply {
        let _outside = Switch::to(None);
        let reply = self.state.borrow_mut().answer(ask);
        reply.unwrap_or_else(|| self.suspend())
    }

    /// Records a failure, and never lets the current thread go on.
    pub(crate) fn fail(&self, reason: Reason, message: impl FnOnce() -> String) -> ! {
        self.end(reason, None, message)
    }

    /// Fails because two accesses to plain memory race.
    pub(crate) fn fail_by(&self, raced: [Access; 2], message: impl FnOnce() -> String) -> ! {
        self.end(Reason::Race, Some(raced), message)
    }

    fn end(
        &self,
        reason: Reason,
        raced: Option<[Access; 2]>,
        message: impl FnOnce() -> String,
    ) -> ! {
        {
            let _outside = Switch::to(None);
            self.state.borrow_mut().stop(reason, raced, message());
        }
        loop {
            self.suspend();
        }
    }

    /// Throws the threads away. No destructor of theirs runs.
    fn clear(&self) {
        for thread in 0..MAX_THREADS {
            // A thread that was never started would drop what it has captured.
            core::mem::forget(self.state.borrow_mut().threads[thread].body.take());
            let Some(mut coroutine) = self.threads.borrow_mut()[thread].take() else {
                continue;
            };
            if !coroutine.done() {
                // SAFETY: nothing refers to the stack any more. The locations and cells that were
                // on it, or that it owned, are those of an execution that has ended.
                unsafe { coroutine.force_reset() };
            }
            self.stacks.borrow_mut().push(coroutine.into_stack());
        }
        if self.has_arena.get() {
            arena::reset();
        }
    }
}

/// Asks for an operation that concerns no location. Returns `None` outside an execution.
pub(crate) fn ask(request: Request, place: &'static panic::Location<'static>) -> Option<Reply> {
    let ask = Ask {
        request,
        location: Location::NONE,
        initial: 0,
        place,
    };
    Some(current()?.ask(ask))
}

/// Returns the message of a panic.
fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
