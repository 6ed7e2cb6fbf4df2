//! Rows tell how long nobody gets on, and how many pass one that waits; and fail by it.

use spanlock_verify::command::{Built, Ended, build, explore};
use spanlock_verify::plan::{self, Checker, Job, jobs};
use spanlock_verify::row::{FAILURE, Found, Overtaking};

fn job(name: &str) -> Job {
    plan::job(name).unwrap_or_else(|| panic!("no row is called {name}"))
}

fn run(built: &Built, name: &str, more: &[&str]) -> Ended {
    explore(built, &job(name), more, None).expect("the model runs")
}

fn found(built: &Built, name: &str, more: &[&str]) -> Found {
    let ended = run(built, name, more);
    ended
        .found()
        .cloned()
        .unwrap_or_else(|| panic!("{name} {more:?}: {}", ended.stderr))
}

/// The bound is on the steps to the next operation that is finished, not on all of an execution, and exceeding it fails the row.
#[test]
fn steps_without_an_operation_finished_are_bounded() {
    let built = build(&[Checker::Shuttle]).expect("the models build");
    for name in [
        "rw-counter/exclusion/shuttle/dfs",
        "interval-tree/poll/shuttle/dfs",
        "rw-word/upgrade/shuttle/dfs",
        "srl-array/exclusion-3/shuttle/random",
        "srl-array/exclusion-3/shuttle/pct",
        "rw-counter/crowd-4/shuttle/urw",
    ] {
        let longest = found(&built, name, &[]).longest.expect("steps are counted");
        let bound = job(name).step_bound().expect("steps are bounded");
        assert!(
            0 < longest && longest < bound,
            "{name}: {longest} of {bound}"
        );
        // The step that begins a thread, and the one that ends it, are nobody's operation.
        let enough = (longest + 2).to_string();
        assert_eq!(
            found(&built, name, &["--steps", &enough]).longest,
            Some(longest)
        );
        let too_few = (longest / 2).to_string();
        let ended = run(&built, name, &["--steps", &too_few]);
        let told = format!("{FAILURE}no operation was finished in {too_few} steps");
        assert!(ended.stderr.contains(&told), "{name}: {}", ended.stderr);
    }
}

/// As many pass as may, and no more, whatever the lock; who would be one more is refused.
#[test]
fn the_bound_on_overtaking_is_reached() {
    let built = build(&Checker::ALL).expect("the models build");
    let rows = jobs().into_iter().filter(|job| {
        job.program.property == "bounded-overtaking" && job.faults == 0 && job.mode.name() != "weak"
    });
    let mut seen = 0;
    for job in rows {
        let name = job.name();
        let overtaking = found(&built, &name, &[]).overtaking;
        let Overtaking {
            bound,
            most,
            refused,
        } = overtaking.expect("somebody passes, or tries to");
        let is_first_come = job.program.primitive == "interval-tree";
        assert_eq!(bound, u32::from(!is_first_come), "{name}");
        assert_eq!(most, bound, "{name}");
        assert!(refused, "{name}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}
