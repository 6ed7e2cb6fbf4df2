//! Crashes of a log after every event on its device, with writes lost, reordered and torn. Each
//! test recovers every crash image and compares it with the acknowledged records.

#![cfg(feature = "compact")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use spanlock_journal_commit::compact::{GroupCommit, Log, Lsn, Options};
use spanlock_journal_commit::testing::{History, Loss, Recorded};

use crate::rounds::scaled;

/// The state expected after a crash.
#[derive(Clone, Debug)]
struct Expected {
    /// The lowest and highest possible first record, before the truncations in `truncated`.
    first: (u64, u64),
    /// All records appended, from number 1 on.
    appended: Vec<Vec<u8>>,
    /// Pairs of an event and the last record that was acknowledged by then.
    acknowledged: Vec<(usize, u64)>,
    /// Truncations: the events at the start and the end of each, and the first record left.
    truncated: Vec<(usize, usize, u64)>,
}

impl Expected {
    fn new() -> Self {
        Expected {
            first: (1, 1),
            appended: Vec::new(),
            acknowledged: Vec::new(),
            truncated: Vec::new(),
        }
    }

    fn acknowledged_at(&self, cut: usize) -> u64 {
        let before = self.acknowledged.iter().filter(|(event, _)| *event <= cut);
        before.map(|(_, last)| *last).max().unwrap_or(0)
    }

    /// Returns the lowest and highest possible first record after a crash at `cut`.
    fn first_at(&self, cut: usize) -> (u64, u64) {
        let over = self.truncated.iter().filter(|(_, end, _)| *end <= cut);
        let begun = self.truncated.iter().filter(|(begun, ..)| *begun < cut);
        let least = over.map(|(.., first)| *first).fold(self.first.0, u64::max);
        let most = begun.map(|(.., first)| *first).fold(self.first.1, u64::max);
        (least, most.max(least))
    }

    /// Opens the log that a crash left, and compares its records with the expected ones.
    fn check(&self, cut: usize, storage: &Recorded, what: &str) {
        let log = match Log::open(storage, &Options::new()) {
            Ok(log) => log,
            Err(error) => panic!("{what}: {error}"),
        };
        let (least, most) = self.first_at(cut);
        let first = log.first().get();
        assert!(
            (least..=most).contains(&first),
            "{what}: starts at {first}, not in {least}..={most}"
        );
        let mut next = first;
        for record in log.records() {
            let record = record.unwrap();
            assert_eq!(record.lsn.get(), next, "{what}: a hole");
            let appended = self.appended.get(next as usize - 1);
            assert_eq!(
                Some(&record.data),
                appended,
                "{what}: record {next} differs from what was appended"
            );
            next += 1;
        }
        assert_eq!(log.recovery().next.get(), next, "{what}");
        let acknowledged = self.acknowledged_at(cut);
        assert!(
            next > acknowledged,
            "{what}: {acknowledged} was acknowledged, but the log ends before {next}"
        );
    }
}

/// Appends, commits, truncates, closes and opens a log at random.
fn script(storage: &Recorded, seed: u64, steps: u32, expected: &mut Expected) {
    let mut random = fastrand::Rng::with_seed(seed);
    let options = Options::new();
    let is_new = storage.visible().iter().all(|&byte| byte == 0);
    let log = if is_new { Log::create } else { Log::open };
    let mut log = log(storage, &options).unwrap();
    for _ in 0..steps {
        match random.u8(0..20) {
            0..12 => {
                let mut data = vec![0; random.usize(0..1200)];
                random.fill(&mut data);
                if log.append(&data).is_ok() {
                    expected.appended.push(data);
                } else {
                    log.commit().unwrap();
                    truncate(storage, &log, log.durable().get(), expected);
                }
            }
            12..17 => {
                log.commit().unwrap();
                let last = log.durable().get();
                expected.acknowledged.push((storage.now(), last));
            }
            17 => {
                let (first, last) = (log.first().get(), log.durable().get());
                truncate(storage, &log, random.u64(first..=last + 1), expected);
            }
            18 => {
                // Closing acknowledges all records.
                log.close().unwrap();
                let last = expected.appended.len() as u64;
                expected.acknowledged.push((storage.now(), last));
                log = Log::open(storage, &options).unwrap();
            }
            _ => {
                // Simulate a process that dies on a machine that continues: uncommitted records
                // are lost.
                drop(log);
                log = Log::open(storage, &options).unwrap();
                expected.appended.truncate(log.durable().get() as usize);
            }
        }
    }
}

fn truncate(storage: &Recorded, log: &Log<&Recorded>, first: u64, expected: &mut Expected) {
    let begun = storage.now();
    log.truncate(Lsn::new(first)).unwrap();
    // All records before a truncation are committed.
    expected.acknowledged.push((begun, first - 1));
    expected.truncated.push((begun, storage.now(), first));
}

fn losses(seed: u64) -> Vec<Loss> {
    let mut losses = vec![Loss::Nothing, Loss::Everything];
    losses.extend((0..3).map(|nth| Loss::Writes(seed ^ nth)));
    losses.extend((0..5).map(|nth| Loss::Sectors(seed ^ nth)));
    losses
}

/// Returns the image after a crash at each cut from `from` on, with each loss.
fn images(history: &History, from: usize) -> impl Iterator<Item = (usize, Loss, Vec<u8>)> {
    (from..=history.len()).flat_map(move |cut| {
        let losses = losses(cut as u64 * 1000);
        // If no write is in flight, nothing can be lost.
        let some = if history.in_flight(cut) == 0 {
            1
        } else {
            losses.len()
        };
        (losses.into_iter().take(some)).map(move |loss| (cut, loss, history.image(cut, loss)))
    })
}

#[test]
fn every_cut_is_recovered() {
    let mut count = 0;
    for seed in 0..8 {
        let storage = Recorded::new(8192 + 24 * 512);
        let mut expected = Expected::new();
        // The creation makes two durable writes. Before the end of the first, there is no log.
        script(&storage, seed, 150, &mut expected);
        let history = storage.history();
        for (cut, loss, image) in images(&history, 4) {
            let what = format!("script {seed}, cut {cut} of {}, {loss:?}", history.len());
            expected.check(cut, &Recorded::from_image(image), &what);
            count += 1;
        }
    }
    println!("{count} images");
    assert!(count >= 2000, "{count}");
}

/// A crash during the recovery from a crash is recovered too.
#[test]
fn a_crashed_recovery_is_recovered() {
    let mut count = 0;
    for seed in 100..103 {
        let storage = Recorded::new(8192 + 24 * 512);
        let mut expected = Expected::new();
        script(&storage, seed, 60, &mut expected);
        let history = storage.history();
        for (cut, loss, image) in images(&history, 4).step_by(7) {
            let second = Recorded::from_image(image);
            expected.check(cut, &second, "the first recovery");
            let recovery = second.history();
            for (within, again, image) in images(&recovery, 0) {
                let what =
                    format!("script {seed}, cut {cut}, {loss:?}, recovery cut {within}, {again:?}");
                expected.check(cut, &Recorded::from_image(image), &what);
                count += 1;
            }
        }
    }
    println!("{count} images");
    assert!(count >= 1000, "{count}");
}

/// Crashes one log many times. A record that a recovery returned stays in the log, and a torn batch
/// never comes back later. The logs perform 7,500 operations; `SPANLOCK_ROUNDS` multiplies them.
#[test]
fn records_survive_generations_of_crashes() {
    let mut random = fastrand::Rng::with_seed(4);
    for seed in 0..scaled(20) as u64 {
        let mut image = vec![0; 8192 + 32 * 512];
        let mut expected = Expected::new();
        for generation in 0..25 {
            let storage = Recorded::from_image(image);
            let what = format!("log {seed}, generation {generation}");
            if generation > 0 {
                expected.check(0, &storage, &what);
                settle(&storage, &mut expected);
            }
            let before = storage.now();
            script(&storage, seed * 1000 + generation, 15, &mut expected);
            let history = storage.history();
            let cut = match generation {
                0 => history.len(),
                _ => random.usize(before..=history.len()),
            };
            let loss = match random.u8(0..4) {
                0 => Loss::Nothing,
                1 => Loss::Writes(random.u64(..)),
                _ => Loss::Sectors(random.u64(..)),
            };
            image = history.image(cut, loss);
            // Events of the next generation count from 0 again.
            expected.first = expected.first_at(cut);
            expected.acknowledged = vec![(0, expected.acknowledged_at(cut))];
            expected.truncated.clear();
        }
    }
}

/// Makes the recovered records the expected ones.
fn settle(storage: &Recorded, expected: &mut Expected) {
    let log = Log::open(storage, &Options::new()).unwrap();
    let last = log.durable().get();
    expected.appended.truncate(last as usize);
    expected.acknowledged = vec![(0, last)];
    expected.first = (log.first().get(), log.first().get());
    expected.truncated.clear();
}

/// Crashes a run of eight threads at any event. After recovery, the records acknowledged to each
/// thread are there, in the order of their numbers.
#[test]
fn crashes_of_eight_threads_are_recovered() {
    for group_commit in [GroupCommit::Plain, GroupCommit::Rendezvous] {
        let storage = Recorded::new(1 << 17).flush_takes(Duration::from_micros(100));
        let options = Options::new().group_commit(group_commit);
        let log = Log::create(&storage, &options).unwrap();
        let appended = Mutex::new(BTreeMap::new());
        let acknowledged = Mutex::new(Vec::new());
        let thread = |thread: u64| {
            let mut random = fastrand::Rng::with_seed(thread);
            for _ in 0..12 {
                let mut data = vec![0; random.usize(8..800)];
                random.fill(&mut data);
                let lsn = log.append(&data).unwrap();
                appended.lock().unwrap().insert(lsn, data);
                if random.u8(0..3) > 0 {
                    log.wait(lsn).unwrap();
                    let event = storage.now();
                    acknowledged.lock().unwrap().push((event, lsn.get()));
                }
            }
        };
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || thread(number));
            }
        });
        log.commit().unwrap();
        let expected = Expected {
            appended: appended.into_inner().unwrap().into_values().collect(),
            acknowledged: acknowledged.into_inner().unwrap(),
            ..Expected::new()
        };
        assert_eq!(expected.appended.len(), 96);
        let history = storage.history();
        for (cut, loss, image) in images(&history, 4) {
            let what = format!("{group_commit:?}, cut {cut} of {}, {loss:?}", history.len());
            expected.check(cut, &Recorded::from_image(image), &what);
        }
    }
}
