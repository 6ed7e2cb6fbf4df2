//! Programs: what a suite runs.

use std::fmt;
use std::sync::Arc;

use proptest::strategy::Strategy;
use spanlock_sync::thread;

use crate::info::{Bound, Expected, Fault, Form, Injection, Kind, ProgramInfo};
use crate::mode::Mode;
use crate::oracles::linearizability::{Model, Scenario, Scenarios};
use crate::trace::perform;
use crate::worlds::{self, Search};

/// A property of a primitive, and the few threads that show it.
///
/// Most programs are written as a [scene](Self::scene) and its threads:
///
/// ```
/// use spanlock_sync::atomic::{AtomicU32, Ordering::*};
/// use spanlock_verify::{Program, note};
///
/// let program = Program::new("add", "two additions add up")
///     .scene(|| AtomicU32::new(0))
///     .thread(["add"], |count| note(format!("{}", count.fetch_add(1, Relaxed))))
///     .thread(["add"], |count| note(format!("{}", count.fetch_add(1, Relaxed))))
///     .at_end(|count| assert_eq!(count.load(Relaxed), 2));
/// ```
#[derive(Clone)]
pub struct Program {
    pub(crate) info: ProgramInfo,
    pub(crate) body: Body,
}

/// What a program runs.
#[derive(Clone)]
#[cfg_attr(not(spanlock_shuttle), allow(dead_code))]
pub(crate) enum Body {
    /// Nothing that this process can run: a Promela model, or a program that is not complete.
    None,
    /// One program: this is an execution of it.
    Once(Arc<dyn Fn() + Send + Sync>),
    /// Many programs: this explores them, and returns how many scenarios and histories there were.
    Many(Arc<Explore>),
}

type Explore = dyn Fn(&Search) -> Option<(u64, u64)> + Send + Sync;

/// Operations that random programs perform in all, at the least.
const DRAWN_OPERATIONS: u64 = 1_000_000;

/// Random schedules of each random program.
const SCHEDULES_OF_DRAWN: u64 = 40;

impl Program {
    /// Creates a program that shows a property. `claim` says in a line what that is.
    pub fn new(name: impl Into<String>, claim: impl Into<String>) -> Self {
        Program {
            info: ProgramInfo {
                name: name.into(),
                claim: claim.into(),
                threads: 1,
                has_facade: true,
                ..ProgramInfo::default()
            },
            body: Body::None,
        }
    }

    /// Sets what is shared by the threads: `make` runs at the start of each execution.
    pub fn scene<T: Send + Sync + 'static>(
        self,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Scene<T> {
        Scene {
            program: self,
            make: Arc::new(make),
            threads: Vec::new(),
            at_end: None,
        }
    }

    /// Sets the code of an execution, which starts its threads itself (by
    /// [`spanlock_sync::thread`]). State [`threads`](Self::threads), and call
    /// [`perform`](crate::perform) for what [`performs`](Self::performs) says.
    pub fn run(mut self, run: impl Fn() + Send + Sync + 'static) -> Self {
        self.body = Body::Once(Arc::new(run));
        self
    }

    /// Sets the number of threads, the main thread included.
    pub fn threads(mut self, threads: usize) -> Self {
        self.info.threads = threads as u32;
        self
    }

    /// Sets the number of operations of all threads together, for reports.
    pub fn operations(mut self, operations: usize) -> Self {
        self.info.operations = operations as u32;
        self
    }

    /// Sets the operations that each thread performs, the main thread first; and so the number of
    /// threads and of operations.
    pub fn performs<T, O>(mut self, threads: T) -> Self
    where
        T: IntoIterator<Item = O>,
        O: IntoIterator<Item: Into<String>>,
    {
        let threads = threads.into_iter();
        let performs = threads.map(|ops| ops.into_iter().map(Into::into).collect());
        self.info.performs = performs.collect();
        let operations = self.info.performs.iter().map(Vec::len).sum();
        let threads = self.info.performs.len();
        self.threads(threads).operations(operations)
    }

    /// Adds a fault that belongs to the program: it runs with it in loom's modes, and fails if no
    /// execution reaches it.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.info.faults.push(fault);
        self
    }

    /// States the exact outcomes, for a litmus program.
    pub fn expects(mut self, expected: Expected) -> Self {
        self.info.expected = Some(expected);
        self
    }

    /// Bounds the search to a number of preemptions, because of `reason`.
    pub fn bounded(self, preemptions: u64, reason: impl Into<String>) -> Self {
        self.with_bound(None, preemptions, reason.into())
    }

    /// Bounds the search in one mode to a number of preemptions, because of `reason`.
    pub fn bounded_in(self, mode: Mode, preemptions: u64, reason: impl Into<String>) -> Self {
        self.with_bound(Some(mode), preemptions, reason.into())
    }

    fn with_bound(mut self, mode: Option<Mode>, preemptions: u64, reason: String) -> Self {
        self.info.bounds.push(Bound {
            mode,
            preemptions,
            reason,
        });
        self
    }

    /// Sets how the program is run under fault injection.
    pub fn injection(mut self, injection: Injection) -> Self {
        self.info.injection = injection;
        self
    }

    /// Has the full run search a program of three threads without bound, in loom's weak mode.
    pub fn whole_in_full_run(mut self) -> Self {
        self.info.whole_in_full_run = true;
        self
    }

    /// Says that the code takes its atomics and threads from the checker itself: see
    /// [`Suite::without_facade`](crate::Suite::without_facade).
    pub fn without_facade(mut self) -> Self {
        self.info.has_facade = false;
        self.injection(Injection::None)
    }

    /// Returns the program as a form of a known bug, with `-suffix` behind its name.
    pub(crate) fn in_form(mut self, suffix: &str, form: Form) -> Self {
        self.info.name = format!("{}-{suffix}", self.info.name);
        self.info.form = Some(form);
        self.injection(Injection::None)
    }

    /// Sets a Promela model, which Spin searches: a file of the package, relative to its folder,
    /// and the macros that each inject a bug into it.
    pub fn promela(mut self, file: &str, bugs: &[&str]) -> Self {
        self.info.kind = Kind::Promela {
            file: file.to_owned(),
            bugs: bugs.iter().map(ToString::to_string).collect(),
        };
        self
    }

    /// Runs random programs instead of one: a million operations in all, each program under random
    /// schedules, and a failing one reduced.
    ///
    /// `strategy` runs in an execution, so that it may create the object under test to see what it
    /// can do. `run` executes a drawn program, panics if something is wrong, and returns how many
    /// operations were performed. At most `threads` threads run, the main thread included.
    pub fn drawn<S: Strategy + Send + Sync + 'static>(
        mut self,
        threads: usize,
        strategy: impl Fn() -> S + Send + Sync + 'static,
        run: impl Fn(&S::Value) -> u64 + Send + Sync + 'static,
    ) -> Self
    where
        S::Value: Clone + Send + Sync,
    {
        self.info.kind = Kind::Drawn {
            schedules: SCHEDULES_OF_DRAWN,
        };
        let (strategy, run) = (Arc::new(strategy), Arc::new(run));
        self.body = Body::Many(Arc::new(move |search| {
            worlds::drawn(search, &strategy, &run, DRAWN_OPERATIONS);
            None
        }));
        self.threads(threads).operations(DRAWN_OPERATIONS as usize)
    }

    /// Runs generated scenarios of `model` instead of one program, and judges each history: see
    /// [`crate::oracles::linearizability`].
    pub fn linearizable<M: Model>(mut self, model: M, scenarios: Scenarios) -> Self {
        let (threads, operations, kind) = match scenarios {
            Scenarios::All {
                in_full_run,
                schedules,
                ..
            } => {
                let count = || Scenario::count_of_two(&model, in_full_run) as u64;
                let schedules_in_full_run = schedules.map(|schedules| count() * schedules);
                let kind = Kind::Searched {
                    schedules_in_full_run,
                };
                (2, in_full_run, kind)
            }
            Scenarios::Sampled {
                threads,
                operations,
            } => (threads, operations, Kind::Sampled),
        };
        self.info.kind = kind;
        let model = Arc::new(model);
        let explore = move |search: &Search| worlds::scenarios(search, &model, scenarios);
        self.body = Body::Many(Arc::new(move |search| Some(explore(search))));
        self.threads(threads).operations(threads * operations)
    }

    /// Returns the program without its code.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(f)
    }
}

/// A program whose threads share a `T`.
#[must_use = "a scene is a program once it is added to a suite"]
pub struct Scene<T> {
    program: Program,
    make: Arc<dyn Fn() -> T + Send + Sync>,
    threads: Vec<Thread<T>>,
    at_end: Option<Code<T>>,
}

type Code<T> = Arc<dyn Fn(&T) + Send + Sync>;

struct Thread<T> {
    performs: Vec<String>,
    code: Code<T>,
}

impl<T: Send + Sync + 'static> Scene<T> {
    /// Adds a thread. The first is the main thread, which costs a search less than a further one.
    /// `performs` names the operations that `code` performs, for the table of pairs.
    pub fn thread<O>(mut self, performs: O, code: impl Fn(&T) + Send + Sync + 'static) -> Self
    where
        O: IntoIterator<Item: Into<String>>,
    {
        self.threads.push(Thread {
            performs: performs.into_iter().map(Into::into).collect(),
            code: Arc::new(code),
        });
        self
    }

    /// Sets what the main thread does when all threads have ended.
    pub fn at_end(mut self, code: impl Fn(&T) + Send + Sync + 'static) -> Self {
        self.at_end = Some(Arc::new(code));
        self
    }
}

impl<T> Thread<T> {
    fn work(&self, scene: &T) {
        (self.code)(scene);
        self.performs.iter().for_each(perform);
    }
}

impl<T: Send + Sync + 'static> From<Scene<T>> for Program {
    fn from(scene: Scene<T>) -> Self {
        let threads: Arc<[Thread<T>]> = scene.threads.into();
        let performs: Vec<_> = threads.iter().map(|it| it.performs.clone()).collect();
        let (make, at_end) = (scene.make, scene.at_end);
        let run = move || {
            let scene = Arc::new(make());
            let spawn = |i: usize| {
                let (scene, threads) = (scene.clone(), threads.clone());
                thread::spawn(move || threads[i].work(&scene))
            };
            let others: Vec<_> = (1..threads.len()).map(spawn).collect();
            if let Some(main) = threads.first() {
                main.work(&scene);
            }
            for other in others {
                other.join().expect("a thread panicked");
            }
            if let Some(at_end) = &at_end {
                at_end(&scene);
            }
        };
        scene.program.performs(performs).run(run)
    }
}
