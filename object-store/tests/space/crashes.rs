//! Crashes of random batches on a disk, after every event, with writes lost, reordered and torn.

use std::sync::Arc;
use std::time::Duration;

use spanlock_journal_commit::testing::{History, Loss, Recorded};
use spanlock_object_store::space::{Disk, Options, Vector};

use crate::common::{BLOCK, Content, MEDIUM, OnDisk, create, draw, open, options, perform};

/// The states of a space on a disk, and the events before which they cannot be.
struct Expected {
    /// Each batch: its content, the event at its begin, and the one at its return.
    states: Vec<(Content, usize, usize)>,
}

impl Expected {
    /// Asserts that the image holds a state that a crash after `cut` events may leave.
    fn check(&self, cut: usize, image: Vec<u8>, what: &str) -> Arc<Recorded> {
        let device = Arc::new(Recorded::from_image(image));
        let mut space = match open(Disk::new(device.clone())) {
            Ok(space) => space,
            Err(error) => panic!("{what}: {error}"),
        };
        assert_eq!(space.check().unwrap(), [], "{what}");
        let found = Content::of(&space).unwrap();
        let last = self
            .states
            .iter()
            .rposition(|(_, _, end)| *end <= cut)
            .expect("the first one");
        let begun = self
            .states
            .iter()
            .rposition(|(_, begun, _)| *begun < cut)
            .unwrap_or(0);
        let allowed = &self.states[last..=begun.max(last)];
        assert!(
            allowed.iter().any(|(it, ..)| *it == found),
            "{what}: neither old nor new"
        );
        // The space works, and its places are counted right.
        let used = |space: &OnDisk| space.stats().places - space.stats().free;
        let before = used(&space);
        space.write_batch(&[Vector::write(1 << 35, &[1])]).unwrap();
        assert_eq!(used(&space), before + 1, "{what}");
        space.trim(1 << 35..(1 << 35) + BLOCK).unwrap();
        device
    }
}

fn losses(seed: u64) -> Vec<Loss> {
    let mut losses = vec![Loss::Nothing, Loss::Everything];
    losses.extend((0..2).map(|nth| Loss::Writes(seed ^ nth)));
    losses.extend((0..3).map(|nth| Loss::Sectors(seed ^ nth)));
    losses
}

fn images(history: &History, from: usize) -> impl Iterator<Item = (usize, Loss, Vec<u8>)> {
    (from..=history.len()).flat_map(move |cut| {
        let some = if history.in_flight(cut) == 0 {
            1
        } else {
            usize::MAX
        };
        let losses = losses(cut as u64 * 1000).into_iter().take(some);
        losses.map(move |loss| (cut, loss, history.image(cut, loss)))
    })
}

/// Performs random batches with checkpoints between.
fn script(device: &Arc<Recorded>, options: &Options, seed: u64, batches: u32) -> Expected {
    let space = create(Disk::new(device.clone()), options);
    let mut content = Content::empty();
    let mut states = vec![(content.clone(), 0, device.now())];
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..batches {
        let steps = draw(&mut random);
        let begun = device.now();
        // Each batch comes from another thread, so from another ring if there are several.
        let batch = || perform(&space, &steps).unwrap();
        std::thread::scope(|scope| scope.spawn(batch).join().unwrap());
        content.apply(&steps);
        states.push((content.clone(), begun, device.now()));
        if random.u32(0..8) == 0 {
            space.checkpoint().unwrap();
        }
    }
    Expected { states }
}

#[test]
fn every_cut_on_a_disk_is_all_or_nothing() {
    let mut count = 0;
    for seed in 0..6 {
        let options = options().rings(1 + seed as u32 % 3, 16_384);
        let device = Arc::new(Recorded::new(MEDIUM + 2 * 16_384));
        let expected = script(&device, &options, seed, 40);
        let history = device.history();
        for (cut, loss, image) in images(&history, expected.states[0].2) {
            let what = format!("script {seed}, cut {cut} of {}, {loss:?}", history.len());
            expected.check(cut, image, &what);
            count += 1;
        }
    }
    println!("{count} images");
    assert!(count > 2000, "{count}");
}

#[test]
fn a_crash_during_recovery_from_a_disk_changes_nothing() {
    let mut count = 0;
    for seed in 20..22 {
        let device = Arc::new(Recorded::new(MEDIUM));
        let expected = script(&device, &options(), seed, 25);
        let history = device.history();
        for (cut, loss, image) in images(&history, expected.states[0].2).step_by(23) {
            let second = Arc::new(Recorded::from_image(image));
            let content = Content::of(&open(Disk::new(second.clone())).unwrap()).unwrap();
            for (within, again, image) in images(&second.history(), 0) {
                let what = format!("script {seed}, cut {cut}, {loss:?}, then {within}, {again:?}");
                let third = Arc::new(Recorded::from_image(image));
                let space =
                    open(Disk::new(third)).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(Content::of(&space).unwrap(), content, "{what}");
                count += 1;
            }
        }
    }
    println!("{count} images");
    assert!(count > 500, "{count}");
}

/// Three threads stamp blocks of their own, two of them neighbours and one far away. One of the
/// threads also makes checkpoints. After a crash, all blocks of a thread have one stamp: the last
/// that returned, or that of the batch that was running.
#[test]
fn a_crash_beside_other_writers_is_all_or_nothing() {
    let mut count = 0;
    for rings in 1..4 {
        // Flushes take a while, so that checkpoints begin while commits are in flight.
        let device = Recorded::new(MEDIUM + 2 * 16_384).flush_takes(Duration::from_micros(300));
        let device = Arc::new(device);
        let space = create(Disk::new(device.clone()), &options().rings(rings, 16_384));
        let start = device.now();
        let write = |thread: u64, round: u64| {
            let begun = device.now();
            let data = [round as u8; 2 * BLOCK as usize];
            let far = Vector::write((1 + thread) << 35, &data[..9]);
            let batch = [Vector::write(thread * 4 * BLOCK, &data), far];
            space.write_batch(&batch).unwrap();
            let ended = device.now();
            if thread == 0 && round.is_multiple_of(2) {
                space.checkpoint().unwrap();
            }
            (begun, ended)
        };
        let rounds: Vec<Vec<(usize, usize)>> = std::thread::scope(|scope| {
            let threads = (0..3).map(|thread| {
                scope.spawn(move || (1..=12).map(|round| write(thread, round)).collect())
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        for (cut, loss, image) in images(&device.history(), start) {
            let reopened = open(Disk::new(Arc::new(Recorded::from_image(image))));
            let what = format!("{rings} rings, cut {cut}, {loss:?}");
            let space = reopened.unwrap_or_else(|error| panic!("{what}: {error}"));
            for (thread, rounds) in (0..).zip(&rounds) {
                let mut found = vec![0; 2 * BLOCK as usize + 9];
                let (near, far) = found.split_at_mut(2 * BLOCK as usize);
                space.read(thread * 4 * BLOCK, near).unwrap();
                space.read((1 + thread) << 35, far).unwrap();
                let stamp = usize::from(found[0]);
                let is_whole = found.iter().all(|it| usize::from(*it) == stamp);
                assert!(is_whole, "{what}: thread {thread}");
                let ended = rounds.iter().filter(|(_, ended)| *ended <= cut).count();
                let begun = rounds.iter().filter(|(begun, _)| *begun < cut).count();
                let may_be = ended..=begun.max(ended);
                assert!(
                    may_be.contains(&stamp),
                    "{what}: {stamp}, not in {may_be:?}"
                );
            }
            count += 1;
        }
    }
    println!("{count} images");
    assert!(count > 500, "{count}");
}

/// A creation that a crash interrupts leaves no space, or an empty one; and can be repeated.
#[test]
fn a_crash_during_a_creation_leaves_an_empty_space_or_none() {
    let device = Arc::new(Recorded::new(MEDIUM));
    // With random ids, the start of each ring is wiped first.
    let options = Options::new().block(512).size(1 << 41).rings(1, 16_384);
    drop(create(Disk::new(device.clone()), &options));
    let (mut none, mut empty) = (0, 0);
    for (_, _, image) in images(&device.history(), 0) {
        let device = Arc::new(Recorded::from_image(image));
        let medium = || Disk::new(device.clone());
        let space = match open(medium()) {
            Ok(space) => {
                empty += 1;
                space
            }
            Err(_) => {
                none += 1;
                create(medium(), &options)
            }
        };
        assert_eq!(Content::of(&space).unwrap(), Content::empty());
    }
    assert!(none > 5 && empty > 1, "{none} {empty}");
}
