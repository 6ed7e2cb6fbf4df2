//! Runs scenarios under shuttle, judges their histories, and reduces a scenario that fails.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use shuttle::scheduler::RandomScheduler;
use spanlock_sync::thread;

use super::history::Recorder;
use super::judge::judge;
use super::model::Model;
use super::scenario::Scenario;
use super::table;
use crate::execution::begin_execution;
use crate::search::order::{Watch, Watched};
use crate::search::reduction::Reduced;
use crate::worlds::under;

/// The model of the scenarios, and how to run them.
pub struct Subject<M> {
    /// The model.
    pub model: Arc<M>,
    /// The number of random schedules of each scenario (from seed 1), or `None` for a search.
    pub schedules: Option<usize>,
    /// The most steps of all threads between two finished operations.
    pub steps: u64,
}

/// A scenario that fails, and a text that shows the failure.
type Failure<M> = (Scenario<<M as Model>::Op>, String);

/// Runs the scenarios until one fails. Returns how many scenarios and histories there are.
///
/// # Errors
/// Returns the failing scenario after reduction, and a text that shows the failure.
pub fn all<M: Model>(
    subject: &Subject<M>,
    scenarios: impl IntoIterator<Item = Scenario<M::Op>>,
) -> Result<(u64, u64), Failure<M>> {
    // Print no panics: the caller reports only the reduced failure.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut scenarios = scenarios.into_iter();
    let result = scenarios.try_fold((0, 0), |(count, histories), scenario| {
        match search(subject, &scenario) {
            Ok(more) => Ok((count + 1, histories + more)),
            Err(why) => Err(reduced(subject, scenario, why)),
        }
    });
    std::panic::set_hook(hook);
    result
}

/// Removes threads and operations as long as the scenario still fails.
fn reduced<M: Model>(subject: &Subject<M>, scenario: Scenario<M::Op>, why: String) -> Failure<M> {
    let fails = |smaller: Scenario<M::Op>| {
        let why = search(subject, &smaller).err()?;
        Some((smaller, why))
    };
    let smaller = scenario.smaller(&*subject.model);
    match smaller.into_iter().find_map(fails) {
        Some((smaller, why)) => reduced(subject, smaller, why),
        None => {
            // Run it again, so that the reported scenario is the last that ran.
            let why = search(subject, &scenario).err().unwrap_or(why);
            (scenario, why)
        }
    }
}

/// Runs the executions of a scenario. Returns how many histories differ, or shows a failure.
fn search<M: Model>(subject: &Subject<M>, scenario: &Scenario<M::Op>) -> Result<u64, String> {
    // The histories so far, and the one without an explanation, if any.
    let seen = Rc::new(RefCell::new((HashSet::new(), None)));
    let recorder = Recorder::default();
    let (watched, model, record) = (seen.clone(), subject.model.clone(), recorder.clone());
    let watch: Watch = Box::new(move |steps| {
        let history = record.history(steps);
        let (histories, wrong) = &mut *watched.borrow_mut();
        if histories.insert(history.clone()) {
            *wrong = judge(&history, &*model).err().map(|it| (history, it));
        }
        wrong.is_none()
    });
    let threads: Arc<[_]> = scenario.0.clone().into();
    let (model, record) = (subject.model.clone(), recorder.clone());
    let body = move || execution(&model, &threads, &record);
    let run = || match subject.schedules {
        None => under(Reduced::new(None, Some(watch)), subject.steps, body),
        Some(schedules) => {
            let (scheduler, steps) = (RandomScheduler::new_from_seed(1, schedules), Vec::new());
            let watched = Watched {
                scheduler,
                steps,
                watch,
            };
            under(watched, subject.steps, body);
        }
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let why = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let why = why.unwrap_or("a panic");
        let told = table::unfinished(&recorder.so_far());
        return Err(format!("{told}{why}\n"));
    }
    match &*seen.borrow() {
        (_, Some((history, wrong))) => Err(table::table(&*subject.model, history, wrong)),
        (histories, None) => Ok(histories.len() as u64),
    }
}

/// Runs one execution: each thread performs its operations. The main thread is the first.
fn execution<M: Model>(
    model: &Arc<M>,
    threads: &Arc<[Vec<M::Op>]>,
    recorder: &Recorder<M::Op, M::Answer>,
) {
    begin_execution();
    recorder.begin();
    let object = Arc::new(model.object());
    let others: Vec<_> = (1..threads.len())
        .map(|me| {
            let (model, threads) = (model.clone(), threads.clone());
            let (object, recorder) = (object.clone(), recorder.clone());
            thread::spawn(move || model.work(&object, me, &threads[me], &recorder))
        })
        .collect();
    model.work(&object, 0, &threads[0], recorder);
    for other in others {
        other.join().expect("a thread panicked");
    }
    model.at_end(&object, recorder);
}
