//! The executions of a scenario under shuttle.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use shuttle::scheduler::{RandomScheduler, Schedule, Scheduler, Task, TaskId};

use super::super::history::Recorder;
use super::super::judge::judge;
use super::super::model::Model;
use super::subject::{Shown, Subject};
use crate::worlds::under;

/// Draws schedules until one shows a history without an explanation.
///
/// # Errors
/// The message of a panic.
pub(super) fn search<M: Model>(
    subject: &Subject<M>,
    recorder: &Recorder<M::Op, M::Answer>,
    body: impl Fn() + Send + Sync + 'static,
) -> Result<Shown<M>, String> {
    // The histories so far, and the one without an explanation, if any.
    let shown = Rc::new(RefCell::new((HashSet::new(), None)));
    let (into, model, record) = (shown.clone(), subject.model.clone(), recorder.clone());
    let judge = move || {
        let (history, _) = record.history(&|a, b| a < b);
        let (histories, wrong) = &mut *into.borrow_mut();
        if histories.insert(history.clone()) {
            *wrong = judge(&history, &*model).err().map(|it| (history, it));
        }
        wrong.is_none()
    };
    let scheduler = Watched {
        scheduler: RandomScheduler::new_from_seed(1, subject.schedules),
        begun: false,
        goes_on: Box::new(judge),
    };
    let run = || under(scheduler, subject.steps, body);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let why = text.or_else(|| panic.downcast_ref::<&str>().copied());
        return Err(why.unwrap_or("a panic").to_owned());
    }
    let (histories, wrong) = shown.take();
    Ok((histories.len() as u64, wrong))
}

/// Asks after each execution whether to go on.
struct Watched {
    scheduler: RandomScheduler,
    begun: bool,
    goes_on: Box<dyn FnMut() -> bool>,
}

impl Scheduler for Watched {
    fn new_execution(&mut self) -> Option<Schedule> {
        if std::mem::replace(&mut self.begun, true) && !(self.goes_on)() {
            return None;
        }
        self.scheduler.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        yields: bool,
    ) -> Option<TaskId> {
        self.scheduler.next_task(runnable, current, yields)
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}
