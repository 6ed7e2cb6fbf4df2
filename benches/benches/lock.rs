//! Lock and unlock without contention: the cases and locks of `cargo compare --micro`, measured by
//! criterion.
//!
//! A lock that cannot run a case is left out of its group; `cargo compare --micro` reports why.

use criterion::{Criterion, criterion_group, criterion_main};
use spanlock_benches::micro::{CASES, Case, candidates};

fn all(criterion: &mut Criterion) {
    for case in &CASES {
        group(criterion, case);
    }
}

fn group(criterion: &mut Criterion, case: &Case) {
    let mut group = criterion.benchmark_group(case.name);
    // The smallest sample size that criterion allows, because some cases last milliseconds.
    group.sample_size(if case.is_long() { 10 } else { 100 });
    for candidate in candidates() {
        let lock = match candidate.make() {
            Ok(lock) => lock,
            Err(error) => {
                eprintln!("{}: {error:#}", candidate.name);
                continue;
            }
        };
        if let Ok(mut runner) = lock.prepare(case) {
            group.bench_function(candidate.name, |bench| bench.iter_custom(&mut runner));
        }
    }
    group.finish();
}

criterion_group!(benches, all);
criterion_main!(benches);
