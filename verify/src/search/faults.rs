//! Fault injection: finds every *plan* (set of faults) that an execution can have, and searches it.
//!
//! An *occasion* is a point where a fault can happen. The search without faults finds all occasions
//! for a first fault. The search with one fault finds the occasions for a second, including those
//! that exist only because of the first.
//!
//! No plan is missed: up to its second fault, an execution with two faults equals one with the
//! first fault alone, which reaches the occasion of the second. But some plans are impossible,
//! since the second fault may come earlier and prevent the first. They are searched, not counted.

use std::collections::BTreeSet;

use spanlock_sync::check;

/// Calls `search` once without faults and once for each plan of at most `most` faults. Returns the
/// number of plans with an execution that had every fault of the plan.
pub(crate) fn every_plan(most: usize, mut search: impl FnMut(&[check::Occasion])) -> u64 {
    let mut plans = 0;
    let mut of_this_size = BTreeSet::from([Vec::new()]);
    for size in 0..=most {
        let mut larger = BTreeSet::new();
        for plan in of_this_size {
            check::set_faults(plan.clone());
            search(&plan);
            // The occasions in executions that had every fault of the plan.
            let occasions = check::occasions();
            let is_reached = plan.iter().all(|fault| occasions.contains(fault));
            plans += u64::from(is_reached && !plan.is_empty());
            for another in occasions {
                if size < most && !plan.contains(&another) {
                    let mut both = plan.clone();
                    both.push(another);
                    both.sort_unstable();
                    larger.insert(both);
                }
            }
        }
        of_this_size = larger;
    }
    plans
}
