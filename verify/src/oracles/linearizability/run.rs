//! Runs scenarios, judges their histories, and reduces a scenario that fails.

use std::sync::Arc;

use spanlock_sync::thread;

use super::history::Recorder;
use super::model::Model;
use super::scenario::Scenario;
use super::table;
use crate::execution::begin_execution;

#[cfg(spanlock_shuttle)]
mod drawn;
#[cfg(spanlock_explorer)]
mod explored;
mod subject;

#[cfg(spanlock_shuttle)]
use drawn as executions;
#[cfg(spanlock_explorer)]
use explored as executions;

pub use subject::Subject;

/// A scenario that fails, and a text that shows the failure.
type Failure<M> = (Scenario<<M as Model>::Op>, String);

/// Runs the scenarios until one fails. Returns how many scenarios and histories there are.
///
/// # Errors
/// Returns the failing scenario, made as small as possible, and a text that shows the failure.
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
    let recorder = Recorder::default();
    let threads: Arc<[_]> = scenario.0.clone().into();
    let (model, record) = (subject.model.clone(), recorder.clone());
    let body = move || execution(&model, &threads, &record);
    match executions::search(subject, &recorder, body) {
        Err(why) => {
            let told = table::unfinished(&recorder.so_far());
            Err(format!("{told}{why}\n"))
        }
        Ok((_, Some((history, wrong)))) => Err(table::table(&*subject.model, &history, &wrong)),
        Ok((histories, None)) => Ok(histories),
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
