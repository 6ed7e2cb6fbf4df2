//! Runs the scenarios of a row.

use std::sync::Arc;

use proptest::prelude::Rng as _;

use super::model::Model;
use super::run::{self, Subject};
use super::scenario::{Scenario, Scenarios};
use crate::execution::{SCENARIO, Search, refuse};
use crate::panics::report_panics;
use crate::seeds::{runner, seed};
use crate::trace;

/// The default number of random schedules of a scenario.
const SCHEDULES_OF_EACH: u64 = 100;

/// Runs every scenario of the row, or only the one that the environment variable states.
pub(crate) fn explore<M: Model>(search: &Search, model: &Arc<M>, scenarios: Scenarios) {
    let (job, seed) = (&search.job, seed());
    let (all, of_each): (Box<dyn Iterator<Item = _>>, u64) = match scenarios {
        Scenarios::All {
            operations,
            in_full_run,
            schedules,
        } => {
            let most = if job.long { in_full_run } else { operations };
            let all = Scenario::of_two(&**model, most);
            (Box::new(all), schedules.unwrap_or(SCHEDULES_OF_EACH))
        }
        Scenarios::Sampled {
            threads,
            operations,
        } => {
            let mut source = runner(seed, 1).new_rng();
            let how_many = job.bound.map_or(1, |bound| bound / SCHEDULES_OF_EACH) as usize;
            let size = (threads, operations);
            let drawn = Scenario::drawn(&**model, size, how_many, || source.next_u64());
            (Box::new(drawn.into_iter()), SCHEDULES_OF_EACH)
        }
    };
    let subject = Subject {
        model: model.clone(),
        // Only shuttle counts steps.
        steps: job.step_bound().unwrap_or(u64::MAX),
        schedules: of_each as usize,
    };
    let result = match std::env::var(SCENARIO) {
        Err(_) => run::all(&subject, all),
        Ok(text) => match Scenario::parse(&**model, &text) {
            Ok(scenario) => run::all(&subject, [scenario]),
            Err(why) => refuse(&format!("{SCENARIO}='{text}': {why}")),
        },
    };
    report_panics();
    let explained = result.unwrap_or_else(|(scenario, why)| {
        let mut again = vec![job.name()];
        again.extend(search.mutations.clone());
        panic!(
            "reduced (seed {seed}):\n{why}again: {SCENARIO}='{scenario}' cargo verify --replay {}",
            again.join(" ")
        )
    });
    trace::found().explained = Some(explained);
}
