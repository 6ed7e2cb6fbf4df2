//! Every plan of a number of faults, found by running.
//!
//! The faults of a plan must be occasions that an execution has. So the search without faults finds
//! the single faults, and the search with one finds the faults that can come beside it, including
//! those that exist only because of the first.
//!
//! Why no plan is missed: up to its second fault, an execution with two faults runs as one with the
//! first alone, in which the second is an occasion. The converse does not hold: the second may come
//! earlier in its thread, so that the first never comes. Such a plan is searched, and not counted.

use std::collections::BTreeSet;

use spanlock_sync::check;

/// Calls `search` once for no faults and once for each plan of at most `most` faults. Returns the
/// number of plans of which some execution had all faults.
pub(crate) fn every_plan(most: usize, mut search: impl FnMut(&[check::Occasion])) -> u64 {
    let mut plans = 0;
    let mut of_this_size = BTreeSet::from([Vec::new()]);
    for size in 0..=most {
        let mut larger = BTreeSet::new();
        for plan in of_this_size {
            check::set_faults(plan.clone());
            search(&plan);
            // Occasions of the executions that had all faults.
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
