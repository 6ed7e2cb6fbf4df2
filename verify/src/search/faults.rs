//! All plans of so many faults, found by running.
//!
//! A plan's occasions are those that its executions have. So the search of a program without faults says which single faults there are, and the search with a
//! fault which ones there can be beside it, those too that are there only because of the first. Nothing is listed by hand.
//!
//! Why these are all: let an execution have two faults. As it goes until the second comes, so goes one that has the first alone, and the second is an
//! occasion there. (The reverse is not so: the second can come earlier in its thread, and if it fails too the first may never come. Such a plan is searched, and
//! not counted.)

use std::collections::BTreeSet;

use spanlock_sync::check;

/// Calls `search`, which searches a program, once for no faults and once for each plan of at most `most` of them. Says how many plans there are of which an
/// execution had all faults.
pub(crate) fn every_plan(most: usize, mut search: impl FnMut(&[check::Occasion])) -> u64 {
    let mut plans = 0;
    let mut of_this_size = BTreeSet::from([Vec::new()]);
    for size in 0..=most {
        let mut larger = BTreeSet::new();
        for plan in of_this_size {
            check::set_faults(plan.clone());
            search(&plan);
            // Of executions that had them all.
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
