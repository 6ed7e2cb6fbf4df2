//! Single and double faults are found by running.

use spanlock_verify::command::{Built, Ended, build, explore};
use spanlock_verify::plan::{self, Checker, Job, jobs};

fn job(name: &str) -> Job {
    plan::job(name).unwrap_or_else(|| panic!("no row is called {name}"))
}

fn run(built: &Built, name: &str, more: &[&str]) -> Ended {
    explore(built, &job(name), more, None).expect("the model runs")
}

/// Each program of two threads that is no litmus program, in both modes, under single and under double faults.
#[test]
fn every_program_of_two_threads_meets_faults() {
    let jobs = jobs();
    for job in &jobs {
        let (program, mode) = (&job.program, job.mode);
        if mode.checker() != Checker::Loom || job.faults > 0 || job.long {
            continue;
        }
        for faults in [1, 2] {
            let same = |other: &&Job| {
                let key = |job: &Job| (job.program.primitive, job.program.property, job.mode);
                key(other) == key(job) && other.faults == faults
            };
            let is_there = jobs.iter().any(|job| same(&job));
            let meets = program.threads == 2 && program.expected.is_none();
            assert_eq!(is_there, meets && program.faults.is_empty(), "{job:?}");
        }
    }
}

#[test]
fn a_second_fault_adds_plans() {
    let built = build(&[Checker::Loom]).expect("the models build");
    for mode in ["weak", "rmw-load"] {
        let found = |faults: &str| {
            let name = format!("rw-word/give-up/loom/{mode}{faults}");
            let ended = run(&built, &name, &[]);
            ended
                .found()
                .cloned()
                .unwrap_or_else(|| panic!("{name}: {}", ended.stderr))
        };
        let (none, single, double) = (
            found(""),
            found("/single-faults"),
            found("/double-faults/long"),
        );
        assert_eq!((none.plans, none.injected), (0, 0));
        // A take that fails, a sleep that ends by itself, a deadline that passes: three, at the least.
        assert!(single.plans > 2, "{}", single.plans);
        assert!(double.plans > 2 * single.plans, "{}", double.plans);
        assert!(none.executions < single.executions && single.executions < double.executions);
        // It gives up only if its deadline passes, and that is a fault.
        let gives_up = |outcomes: &[String]| outcomes.iter().any(|it| it.contains("gave up"));
        assert!(!gives_up(&none.outcomes) && gives_up(&single.outcomes));
    }
}
