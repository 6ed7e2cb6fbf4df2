//! Functions that several test programs use.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Returns what the program returns in its executions.
pub(crate) fn outcomes<T: Ord + Debug + Send + 'static>(
    program: impl Fn() -> T + Send + Sync + 'static,
) -> Vec<T> {
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let all = found.clone();
    loom::model(move || {
        let outcome = program();
        all.lock().unwrap().insert(outcome);
    });
    let mut found = found.lock().unwrap();
    std::mem::take(&mut *found).into_iter().collect()
}

/// Returns the message with which the model fails.
pub(crate) fn failure(program: impl Fn() + Send + Sync + 'static) -> String {
    let failed = catch_unwind(AssertUnwindSafe(|| loom::model(program)));
    let payload = failed.expect_err("the model fails");
    payload.downcast_ref::<String>().expect("a message").clone()
}
