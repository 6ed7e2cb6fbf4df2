//! Programs: the small concurrent tests that a suite runs.

use std::sync::Arc;

use proptest::strategy::Strategy;
use spanlock_sync::thread;

use crate::crashes::Crashes;
use crate::execution::Search;
use crate::info::{Expected, Fault, Kind, ProgramInfo};
use crate::oracles::linearizability::{self, Model, Scenario, Scenarios};
use crate::trace::perform;
use crate::worlds;

/// A few threads that use a primitive, and the property that they check.
///
/// Most programs consist of a [scene](Self::scene) and its threads: see the [example of this
/// crate](crate#set-up-a-crate).
#[derive(Clone)]
pub struct Program {
    pub(crate) info: ProgramInfo,
    pub(crate) body: Body,
    pub(crate) crashes: Option<Arc<dyn Crashes>>,
}

/// What a program runs.
#[derive(Clone)]
#[cfg_attr(not(spanlock_shuttle), allow(dead_code))]
pub(crate) enum Body {
    /// Nothing that this process can run: a Promela model, or an incomplete program.
    None,
    /// One program. The function runs one execution of it.
    Once(Arc<dyn Fn() + Send + Sync>),
    /// Many programs. The function explores all of them.
    Many(Arc<dyn Fn(&Search) + Send + Sync>),
}

/// The least number of operations that the random programs of a row perform together.
const DRAWN_OPERATIONS: u64 = 1_000_000;

impl Program {
    /// Creates a program. `claim` states in one line the property that it checks.
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
            crashes: None,
        }
    }

    /// Sets the value that the threads share. `make` creates it at the start of each execution.
    pub fn scene<T: Send + Sync + 'static>(
        self,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Scene<T> {
        Scene {
            program: self,
            make: Box::new(make),
            performs: Vec::new(),
            threads: Vec::new(),
            at_end: Box::new(|_| ()),
        }
    }

    /// Sets the code of an execution, which starts its own threads with [`spanlock_sync::thread`].
    /// State their number with [`threads`](Self::threads). The code calls
    /// [`perform`](crate::perform) for each operation that [`performs`](Self::performs) states.
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

    /// Sets the operations that each thread performs, the main thread first. This also sets the
    /// numbers of threads and operations.
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

    /// Adds a fault to every execution of the program, in place of those that the explorer chooses.
    /// The row fails if no execution reaches the fault.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.info.faults.push(fault);
        self
    }

    /// Sets the exact outcomes that this litmus program must show.
    pub fn expects(mut self, expected: Expected) -> Self {
        self.info.expected = Some(expected);
        self
    }

    /// Bounds the number of preemptions in a search [with crashes](Self::crashes), for the given
    /// `reason`. Instead of the explorer, shuttle then explores every interleaving within the
    /// bound. A switch at the point where a thread has just been spawned does not count.
    pub fn bounded(mut self, preemptions: u64, reason: impl Into<String>) -> Self {
        self.info.bound = Some((preemptions, reason.into()));
        self
    }

    /// Leaves out the row of the explorer, for the given `reason`.
    pub fn unexplored(mut self, reason: impl Into<String>) -> Self {
        self.info.unexplored = Some(reason.into());
        self
    }

    /// Says that a thread catches a panic while others go on. Only shuttle runs such a program,
    /// with a bound on preemptions. With loom, another thread that unlocks a mutex meanwhile would
    /// poison it; in the explorer, a thread that unwinds cannot wait for another one.
    pub fn unwinds(mut self) -> Self {
        self.info.unwinds = true;
        self
    }

    /// Judges the images that crashes of the program's executions may leave. The program runs under
    /// the explorer, or, if it is [`bounded`](Self::bounded), under shuttle. Programs of one thread
    /// run in [`Mode::Sequence`](crate::Mode::Sequence).
    pub fn crashes(mut self, crashes: Arc<dyn Crashes>) -> Self {
        self.info.has_crashes = true;
        self.crashes = Some(crashes);
        self
    }

    /// Says that the code takes its atomics and threads from the checker itself: see
    /// [`Suite::without_facade`](crate::Suite::without_facade).
    pub fn without_facade(mut self) -> Self {
        self.info.has_facade = false;
        self
    }

    /// Sets a Promela model, which Spin searches. The path of `file` is relative to the package's
    /// folder. Each macro in `bugs` injects a bug into the model.
    pub fn promela(mut self, file: &str, bugs: &[&str]) -> Self {
        self.info.kind = Kind::Promela {
            file: file.to_owned(),
            bugs: bugs.iter().map(ToString::to_string).collect(),
        };
        self
    }

    /// Runs random programs instead of one, each under random schedules, until they have performed
    /// a million operations. Reduces a failing program to a smaller one.
    ///
    /// `strategy` runs inside an execution, so it may create the object under test to see what the
    /// object can do. `run` executes a drawn program, panics on an error, and returns the number of
    /// operations performed. At most `threads` threads run, the main thread included.
    pub fn drawn<S: Strategy + Send + Sync + 'static>(
        mut self,
        threads: usize,
        strategy: impl Fn() -> S + Send + Sync + 'static,
        run: impl Fn(&S::Value) -> u64 + Send + Sync + 'static,
    ) -> Self
    where
        S::Value: Clone + Send + Sync,
    {
        self.info.kind = Kind::Drawn;
        let (strategy, run) = (Arc::new(strategy), Arc::new(run));
        self.body = Body::Many(Arc::new(move |search| {
            worlds::drawn(search, &strategy, &run, DRAWN_OPERATIONS);
        }));
        self.threads(threads).operations(DRAWN_OPERATIONS as usize)
    }

    /// Runs generated scenarios of `model` instead of one program. Each history must be
    /// linearizable: see [`crate::oracles::linearizability`].
    pub fn linearizable<M: Model>(mut self, model: M, scenarios: Scenarios) -> Self {
        let (threads, operations, kind) = match scenarios {
            Scenarios::All {
                in_full_run,
                schedules,
                ..
            } => {
                let count = || Scenario::count_of_two(&model, in_full_run) as u64;
                let schedules = schedules.map(|of_each| count() * of_each);
                (2, in_full_run, Kind::Searched { schedules })
            }
            Scenarios::Sampled {
                threads,
                operations,
            } => (threads, operations, Kind::Sampled),
        };
        self.info.kind = kind;
        let model = Arc::new(model);
        self.body = Body::Many(Arc::new(move |search| {
            linearizability::explore(search, &model, scenarios);
        }));
        self.threads(threads).operations(threads * operations)
    }

    /// Returns a message that says what to change, if the program is invalid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let info = &self.info;
        let is_bad = |name: &str| name.is_empty() || name.contains(['/', ' ', '\t']);
        let runs_code = !matches!(info.kind, Kind::Promela { .. });
        if is_bad(&info.name) || is_bad(&info.suite) {
            Some("a name must not be empty, or contain a slash, space or tab")
        } else if runs_code && (matches!(self.body, Body::None) || info.threads == 0) {
            Some("it has nothing to run: give it a scene with threads, or `run`")
        } else if !info.faults.is_empty() && !info.has_facade {
            Some("it states faults but uses no facade, and only the facade can inject them")
        } else if info.bound.is_some() && !(info.has_crashes && info.threads > 1) {
            Some("`bounded` is for threads with crashes: remove it")
        } else {
            None
        }
    }

    /// Returns the program without its code.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }
}

/// A program whose threads share a `T`.
#[must_use = "a scene does nothing until it is added to a suite"]
pub struct Scene<T> {
    program: Program,
    make: Box<dyn Fn() -> T + Send + Sync>,
    performs: Vec<Vec<String>>,
    threads: Vec<Code<T>>,
    at_end: Code<T>,
}

type Code<T> = Box<dyn Fn(&T) + Send + Sync>;

impl<T: Send + Sync + 'static> Scene<T> {
    /// Adds a thread. The first is the main thread, which is cheaper to search than a spawned one.
    /// `performs` names the operations that `code` performs, for the table of pairs.
    pub fn thread<O>(mut self, performs: O, code: impl Fn(&T) + Send + Sync + 'static) -> Self
    where
        O: IntoIterator<Item: Into<String>>,
    {
        let performs: Vec<String> = performs.into_iter().map(Into::into).collect();
        self.performs.push(performs.clone());
        self.threads.push(Box::new(move |scene| {
            code(scene);
            performs.iter().for_each(perform);
        }));
        self
    }

    /// Sets the code that the main thread runs after all threads have ended.
    pub fn at_end(mut self, code: impl Fn(&T) + Send + Sync + 'static) -> Self {
        self.at_end = Box::new(code);
        self
    }
}

impl<T: Send + Sync + 'static> From<Scene<T>> for Program {
    fn from(scene: Scene<T>) -> Self {
        let threads: Arc<[Code<T>]> = scene.threads.into();
        let run = move || {
            let shared = Arc::new((scene.make)());
            let spawn = |i: usize| {
                let (shared, threads) = (shared.clone(), threads.clone());
                thread::spawn(move || threads[i](&shared))
            };
            let others: Vec<_> = (1..threads.len()).map(spawn).collect();
            if let Some(main) = threads.first() {
                main(&shared);
            }
            for other in others {
                other.join().expect("a thread panicked");
            }
            (scene.at_end)(&shared);
        };
        scene.program.performs(scene.performs).run(run)
    }
}
