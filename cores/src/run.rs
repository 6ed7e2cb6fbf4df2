//! Running a program: its cores are coroutines, and the one with the smallest clock goes on.

use core::cell::{Cell, RefCell};
use core::cmp::Reverse;
use core::mem::ManuallyDrop;
use core::ops::Range;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::line::{Access, Line, Source};
use crate::machine::{self, NS, Percent, Time};
use crate::outcome::{Counts, Outcome};
use crate::outside::{self, Place};
use crate::usage::{LINE, Usage, WORDS};
use crate::{arena, draw};

type Suspend = Yielder<(), ()>;

/// The stack of a core, in bytes.
const STACK: usize = 256 << 10;
const WORD: usize = LINE / WORDS;

struct Core {
    now: Time,
    /// When its last store has its line.
    drained: Time,
    /// What interrupts have cost since its last step.
    interrupted: Time,
    /// When it goes on, unless it runs or sleeps without a deadline.
    due: Option<Time>,
    sleeps: bool,
    suspend: *const Suspend,
    stack: Range<usize>,
    draws: Cell<u64>,
    /// When the current operation began.
    began: Time,
    /// The counts of the current operation.
    counts: Counts,
}

#[derive(Default)]
struct State {
    cores: Vec<Core>,
    current: usize,
    /// When cores are due. An entry is stale if its core is not.
    ready: BinaryHeap<Reverse<(Time, usize)>>,
    lines: HashMap<usize, (Line, Option<Box<Usage>>)>,
    /// The cores that sleep, by the address of the word.
    sleepers: HashMap<usize, VecDeque<usize>>,
    /// When counting begins.
    warm: Time,
    /// When the program is to end.
    end: Time,
    percent: Percent,
    operations: u64,
    counts: Counts,
}

std::thread_local! {
    static CURRENT: Cell<*const RefCell<State>> = const { Cell::new(core::ptr::null()) };
}

/// Calls `f` with the state, outside of the arena. Returns `None` if no program runs.
fn with<R>(f: impl FnOnce(&RefCell<State>) -> R) -> Option<R> {
    if outside::place() != Place::Core {
        return None;
    }
    let _outside = outside::enter(Place::Outside);
    // SAFETY: on a simulated core, `run` keeps the state alive.
    Some(f(unsafe { &*CURRENT.get() }))
}

impl State {
    fn me(&mut self) -> &mut Core {
        &mut self.cores[self.current]
    }

    /// Makes the current core due now, if another one is due earlier.
    fn gives_way(&mut self) -> bool {
        let current = self.current;
        let me = self.me();
        me.now += core::mem::take(&mut me.interrupted);
        let now = me.now;
        let first = self.ready.peek().map(|it| it.0);
        let gives_way = first.is_some_and(|first| first < (now, current));
        if gives_way {
            self.due(current, now);
        }
        gives_way
    }

    fn due(&mut self, core: usize, at: Time) {
        self.cores[core].due = Some(at);
        self.ready.push(Reverse((at, core)));
    }

    /// Takes the core that is due first.
    fn next(&mut self) -> Option<usize> {
        loop {
            let Reverse((at, core)) = self.ready.pop()?;
            let it = &mut self.cores[core];
            if it.due == Some(at) {
                it.due = None;
                it.now = it.now.max(at);
                self.current = core;
                return Some(core);
            }
        }
    }

    /// Gets the line of some bytes, which lie in one line. Returns when the current core has it.
    fn reach(&mut self, bytes: &Range<usize>, access: Access, now: Time) -> Time {
        let core = self.current;
        let percent = self.percent;
        let (line, usage) = self.lines.entry(bytes.start / LINE).or_default();
        let arrival = line.reach(core, access, now, percent);
        let words = bytes.start % LINE / WORD..(bytes.end - 1) % LINE / WORD + 1;
        let (reads, writes) = (access != Access::Store, access != Access::Load);
        let me = &mut self.cores[core];
        let is_counted = me.began >= self.warm;
        if arrival.source == Source::Core && is_counted {
            me.counts.transfers += 1;
            let usage = usage.get_or_insert_default();
            usage.count(core, words.clone(), writes);
        }
        if let Some(usage) = usage {
            usage.note(core, words, reads, writes);
        }
        if access == Access::Rmw && is_counted {
            me.counts.rmw += 1;
        }
        arrival.at
    }
}

/// Lets the current core go on in its turn.
fn in_turn(state: &RefCell<State>) {
    if state.borrow_mut().gives_way() {
        suspend(state);
    }
}

fn suspend(state: &RefCell<State>) {
    let suspend = state.borrow_mut().me().suspend;
    // SAFETY: the current core calls this on its own stack, so its coroutine exists.
    unsafe { (*suspend).suspend(()) };
}

/// Waits until an atomic access of the current core takes effect.
pub(crate) fn reach(address: usize, size: usize, access: Access) {
    with(|state| {
        in_turn(state);
        let mut its = state.borrow_mut();
        let me = its.me();
        // A read-modify-write waits for the stores before it.
        let now = if access == Access::Rmw {
            me.now.max(me.drained)
        } else {
            me.now
        };
        let at = its.reach(&(address..address + size), access, now);
        let me = its.me();
        if access == Access::Store {
            me.drained = me.drained.max(at);
            me.now = now + machine::HIT;
            return;
        }
        me.now = at;
        drop(its);
        if at > now {
            in_turn(state);
        }
        let cost = if access == Access::Rmw {
            machine::RMW
        } else {
            machine::HIT
        };
        state.borrow_mut().me().now += cost;
    });
}

/// Accounts for an access without atomics. It needs no turn: such data is free of races.
#[cfg(feature = "instrumented")]
pub(crate) fn plain(address: usize, size: usize, writes: bool) {
    with(|state| {
        let mut its = state.borrow_mut();
        let me = its.me();
        me.now += machine::PLAIN;
        if me.stack.contains(&address) || size == 0 {
            return;
        }
        let (mut first, end) = (address, address + size);
        while first < end {
            let next = (first / LINE + 1) * LINE;
            let now = its.me().now;
            let access = if writes { Access::Store } else { Access::Load };
            let at = its.reach(&(first..next.min(end)), access, now);
            let me = its.me();
            if writes {
                me.drained = me.drained.max(at);
            } else {
                me.now = at;
            }
            first = next;
        }
    });
}

/// Lets the current core wait for its stores, as a full fence does.
pub(crate) fn drain() {
    with(|state| {
        let mut its = state.borrow_mut();
        let me = its.me();
        me.now = me.now.max(me.drained) + machine::FENCE;
    });
}

/// Lets the current core spend some time.
pub(crate) fn spend(time: Time) {
    with(|state| {
        state.borrow_mut().me().now += time;
        in_turn(state);
    });
}

/// Lets the current core spend some time in the system.
fn spend_in_system(time: Time) {
    let percent = with(|state| state.borrow().percent);
    spend(percent.unwrap_or_default().system(time));
}

/// Spends about `ns` nanoseconds: from half as many to half more, as drawn.
pub fn work(ns: u32) {
    with(|state| {
        let mut its = state.borrow_mut();
        let drawn = draw::next(&its.me().draws) % (u64::from(ns) + 1);
        its.me().now += (u64::from(ns) / 2 + drawn) * NS;
    });
}

/// Returns the time since the program began, in nanoseconds.
pub fn now() -> u64 {
    with(|state| {
        let mut its = state.borrow_mut();
        its.me().now += machine::CLOCK;
        its.me().now / NS
    })
    .unwrap_or(0)
}

/// Returns the current moment, as std counts moments.
pub(crate) fn instant() -> Instant {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let first = {
        let _outside = outside::enter(Place::Outside);
        *FIRST.get_or_init(Instant::now)
    };
    first + Duration::from_nanos(now())
}

/// Returns the number of the core that runs the caller, or 0 outside of a program.
pub fn core() -> usize {
    with(|state| state.borrow().current).unwrap_or(0)
}

/// Returns the number of cores, or 2 outside of a program.
pub fn cores() -> usize {
    with(|state| state.borrow().cores.len()).unwrap_or(2)
}

/// Returns whether the time of the program is not over, and begins an operation of this core.
pub fn goes_on() -> bool {
    with(|state| {
        in_turn(state);
        let mut its = state.borrow_mut();
        let end = its.end;
        let me = its.me();
        (me.began, me.counts) = (me.now, Counts::default());
        me.now < end
    })
    .unwrap_or(false)
}

/// Ends an operation: its accesses count, unless it began before the counts do.
pub fn count() {
    with(|state| {
        let mut its = state.borrow_mut();
        let warm = its.warm;
        let me = its.me();
        let counts = core::mem::take(&mut me.counts);
        if me.began >= warm {
            its.operations += 1;
            its.counts.add(counts);
        }
    });
}

/// Interrupts all other cores that run, as `membarrier` does.
pub fn interrupt_others() {
    spend_in_system(machine::HEAVY);
    with(|state| {
        let mut its = state.borrow_mut();
        let current = its.current;
        let interrupt = its.percent.system(machine::INTERRUPT);
        let others = its.cores.iter_mut().enumerate();
        let others = others.filter(|(core, it)| *core != current && !it.sleeps);
        others.for_each(|(_, it)| it.interrupted += interrupt);
    });
}

/// Sleeps at a word until [`wake`] names it, unless `is_needed` returns false: a futex. With a
/// deadline, in nanoseconds, sleeps until then at most.
///
/// # Panics
/// Panics outside of a program: nobody could end the sleep.
pub fn sleep(address: usize, deadline: Option<u64>, is_needed: impl FnOnce() -> bool) {
    spend_in_system(machine::SYSCALL);
    if !is_needed() {
        return;
    }
    let slept = with(|state| {
        let mut its = state.borrow_mut();
        let current = its.current;
        its.sleepers.entry(address).or_default().push_back(current);
        its.me().sleeps = true;
        let falls_asleep = its.me().now + its.percent.system(machine::SLEEP);
        its.me().now = falls_asleep;
        if let Some(deadline) = deadline {
            its.due(current, falls_asleep.max(deadline * NS));
        }
        drop(its);
        suspend(state);
        let mut its = state.borrow_mut();
        if core::mem::take(&mut its.me().sleeps) {
            // The deadline has passed.
            if let Some(sleepers) = its.sleepers.get_mut(&address) {
                sleepers.retain(|&core| core != current);
            }
        }
    });
    assert!(
        slept.is_some(),
        "a thread outside of the program's cores would sleep for ever"
    );
}

/// Wakes the cores that have slept longest at a word, at most `most`.
pub fn wake(address: usize, most: usize) {
    spend_in_system(machine::SYSCALL);
    with(|state| {
        let mut its = state.borrow_mut();
        let [wake, wakeup] = [machine::WAKE, machine::WAKEUP].map(|it| its.percent.system(it));
        for _ in 0..most {
            let sleepers = its.sleepers.get_mut(&address);
            let Some(core) = sleepers.and_then(VecDeque::pop_front) else {
                break;
            };
            its.me().now += wake;
            let runs = its.me().now + wakeup - wake;
            its.cores[core].sleeps = false;
            let at = runs.max(its.cores[core].now);
            its.due(core, at);
        }
    });
}

/// Adds a core to the program.
fn coroutine(
    state: &RefCell<State>,
    seed: u64,
    core: usize,
    body: &Rc<dyn Fn(usize)>,
) -> Coroutine<(), (), ()> {
    let stack = DefaultStack::new(STACK).expect("the system has memory for a stack");
    let draws = Cell::new(draw::seeded(seed, core as u64 + 1));
    // So that the cores do not run in step.
    let begins = draw::next(&draws) % 1000 * NS;
    let mut state = state.borrow_mut();
    state.cores.push(Core {
        now: begins,
        drained: 0,
        interrupted: 0,
        due: None,
        sleeps: false,
        suspend: std::ptr::null(),
        stack: stack.limit().get()..stack.base().get(),
        draws,
        began: begins,
        counts: Counts::default(),
    });
    state.due(core, begins);
    let body = body.clone();
    Coroutine::with_stack(stack, move |suspend: &Suspend, ()| {
        let _core = outside::enter(Place::Core);
        with(|state| state.borrow_mut().me().suspend = suspend);
        body(core);
    })
}

/// Runs a program, for times in nanoseconds: those that do not count, and those that do.
pub(crate) fn run(
    cores: usize,
    seed: u64,
    times: (u64, u64),
    percent: Percent,
    body: Rc<dyn Fn(usize)>,
) -> Outcome {
    assert!(CURRENT.get().is_null(), "a program runs within another one");
    arena::prepare();
    let state = RefCell::new(State {
        warm: times.0 * NS,
        end: (times.0 + times.1) * NS,
        percent,
        ..State::default()
    });
    let _entered = Entered::new(&state);
    let coroutines = (0..cores).map(|core| coroutine(&state, seed, core, &body));
    // If a core panics, the others stay where they are.
    let mut coroutines = ManuallyDrop::new(coroutines.collect::<Vec<_>>());
    let mut left = cores;
    while left > 0 {
        let next = state.borrow_mut().next();
        let core = next.expect("a core runs: all that are left sleep, and nobody wakes them");
        if let CoroutineResult::Return(()) = coroutines[core].resume(()) {
            left -= 1;
            state.borrow_mut().cores[core].sleeps = true;
        }
    }
    drop(ManuallyDrop::into_inner(coroutines));
    let state = state.take();
    let lines = state.lines.into_iter();
    let lines = lines.filter_map(|(line, (_, usage))| Some((line * LINE, usage?)));
    let stacks: Vec<_> = state.cores.iter().map(|it| it.stack.clone()).collect();
    let place = |address: usize| {
        let stack = stacks.iter().position(|it| it.contains(&address));
        match (arena::describe(address), stack) {
            (Some(description), _) => description,
            (None, Some(core)) => format!("the stack of core {core}"),
            (None, None) => "memory outside the arena: a static, or mapped".to_owned(),
        }
    };
    Outcome::new(state.operations, state.counts, lines, place)
}

/// The thread runs a program, until this is dropped.
struct Entered {
    _outside: outside::Entered,
}

impl Entered {
    fn new(state: &RefCell<State>) -> Self {
        CURRENT.set(state);
        Entered {
            _outside: outside::enter(Place::Outside),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(core::ptr::null());
    }
}
