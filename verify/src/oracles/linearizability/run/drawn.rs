//! The executions of a scenario under shuttle.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use shuttle::scheduler::RandomScheduler;

use super::super::history::Recorder;
use super::super::judge::judge;
use super::super::model::Model;
use super::subject::{Shown, Subject};
use crate::worlds::{Asking, under};

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
    let mut begun = false;
    let goes_on = move || {
        // Before the first execution, there is no history.
        if !std::mem::replace(&mut begun, true) {
            return true;
        }
        let (history, _) = record.history(&|a, b| a < b);
        let (histories, wrong) = &mut *into.borrow_mut();
        if histories.insert(history.clone()) {
            *wrong = judge(&history, &*model).err().map(|it| (history, it));
        }
        wrong.is_none()
    };
    let scheduler = Asking {
        scheduler: Box::new(RandomScheduler::new_from_seed(1, subject.schedules)),
        goes_on: Box::new(goes_on),
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
