//! To take and to give back one segment while nobody competes: every lock of the registry, beside
//! the reader-writer locks of parking_lot and of std.
//!
//! Each is called by its own type, as in a program that has chosen one, so it can be inlined. Lock
//! and range go through `black_box`: neither is known when this is compiled.

use std::hint::black_box;
use std::ops::Range;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use spanlock::{RangeLockExt, RawRangeLock};
use spanlock_benches::locks::{Make, Visitor, visit_all};

/// Of each lock: 1 GiB.
const CAPACITY: u64 = 1 << 30;

/// One segment of 4 KiB, neither the first nor the last.
const SEGMENT: Range<u64> = 512 << 12..513 << 12;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

struct Write<'g, 'c>(&'g mut Group<'c>);

impl Visitor for Write<'_, '_> {
    fn visit<L: RawRangeLock + 'static>(
        &mut self,
        name: &'static str,
        _about: &'static str,
        make: Make<L>,
    ) {
        let lock = make(CAPACITY).expect("memory for one lock");
        self.0.bench_function(name, |bench| {
            bench.iter(|| {
                let (lock, segment) = black_box((&lock, SEGMENT));
                drop(lock.write(segment).expect("in range"));
            });
        });
    }
}

struct Read<'g, 'c>(&'g mut Group<'c>);

impl Visitor for Read<'_, '_> {
    fn visit<L: RawRangeLock + 'static>(
        &mut self,
        name: &'static str,
        _about: &'static str,
        make: Make<L>,
    ) {
        let lock = make(CAPACITY).expect("memory for one lock");
        self.0.bench_function(name, |bench| {
            bench.iter(|| {
                let (lock, segment) = black_box((&lock, SEGMENT));
                drop(lock.read(segment).expect("in range"));
            });
        });
    }
}

fn write(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("write/1-segment");
    let lock = parking_lot::RwLock::new(());
    group.bench_function("parking_lot::RwLock", |bench| {
        bench.iter(|| drop(black_box(&lock).write()));
    });
    visit_all(&mut Write(&mut group));
    let lock = std::sync::RwLock::new(());
    group.bench_function("std::sync::RwLock", |bench| {
        bench.iter(|| drop(black_box(&lock).write().expect("no panic")));
    });
    group.finish();
}

fn read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read/1-segment");
    let lock = parking_lot::RwLock::new(());
    group.bench_function("parking_lot::RwLock", |bench| {
        bench.iter(|| drop(black_box(&lock).read()));
    });
    visit_all(&mut Read(&mut group));
    let lock = std::sync::RwLock::new(());
    group.bench_function("std::sync::RwLock", |bench| {
        bench.iter(|| drop(black_box(&lock).read().expect("no panic")));
    });
    group.finish();
}

criterion_group!(benches, write, read);
criterion_main!(benches);
