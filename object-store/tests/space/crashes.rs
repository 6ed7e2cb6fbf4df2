//! Crashes at every step. On a disk: after every event, with writes lost, reordered and torn. On
//! persistent memory: every image that the x86 model allows, and every crash during the recovery
//! from it.

use std::sync::Arc;

use spanlock_journal_commit::testing::{History, Loss, Recorded};
use spanlock_object_store::space::{Disk, Options, Persistent, Vector};
use spanlock_pmem::simulated::{Judged, Method, Search, Simulated, Subject};

use crate::common::{
    BLOCK, Content, MEDIUM, OnDisk, OnPmem, Step, WINDOWS, create, draw, open, options, perform,
};

/// The states of a space on a disk, and the events before which they cannot be.
struct Expected {
    /// Each batch: its content, the event at its begin, and the one at its return.
    states: Vec<(Content, usize, usize)>,
}

impl Expected {
    /// Asserts that the image holds a state that a crash after `cut` events may leave.
    fn check(&self, cut: usize, image: Vec<u8>, what: &str) -> Arc<Recorded> {
        let device = Arc::new(Recorded::from_image(image));
        let space = match open(Disk::new(device.clone())) {
            Ok(space) => space,
            Err(error) => panic!("{what}: {error}"),
        };
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

/// The operations of the searches on persistent memory.
const OPERATIONS: [&str; 5] = ["write", "overwrite", "batch", "trim", "checkpoint"];

fn steps(operation: u32) -> Vec<Step> {
    let write = |at, byte, len| Step::Write { at, byte, len };
    match OPERATIONS[operation as usize] {
        "write" => vec![write(3 * BLOCK, 1, 100)],
        "overwrite" => vec![write(5, 2, 600)],
        "batch" => vec![
            write(BLOCK, 3, BLOCK),
            write(WINDOWS[1], 4, 8),
            Step::Trim(0..BLOCK),
        ],
        "trim" => vec![Step::Trim(0..2 * BLOCK)],
        _ => Vec::new(),
    }
}

struct Pmem;

impl Subject for Pmem {
    type Store = (OnPmem, Arc<Simulated>);
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Self::Store, String> {
        let space = open(Persistent::new(region.clone())).map_err(|why| why.to_string())?;
        Ok((space, region.clone()))
    }

    fn state(&self, (space, _): &Self::Store) -> Result<Content, String> {
        Content::of(space).map_err(|why| why.to_string())
    }

    fn go_on(&self, (space, region): &Self::Store) -> Result<(), String> {
        let mut content = Content::of(space).map_err(|why| why.to_string())?;
        // More blocks than there are free places.
        for round in 0..8 {
            let steps = [Step::Write {
                at: round % 2 * BLOCK,
                byte: round as u8,
                len: 2 * BLOCK,
            }];
            perform(space, &steps).map_err(|why| why.to_string())?;
            content.apply(&steps);
        }
        let again = self.recover(&Simulated::new(&region.bytes()))?;
        match (
            self.state(&again)? == content,
            again.0.stats().free == space.stats().free,
        ) {
            (true, true) => Ok(()),
            differs => Err(format!("content, free places: {differs:?}")),
        }
    }

    fn apply(&self, state: &Content, operation: u32, _: Option<&str>) -> Option<Content> {
        let mut after = state.clone();
        after.apply(&steps(operation));
        Some(after)
    }

    fn name(&self, operation: u32) -> String {
        OPERATIONS[operation as usize].to_owned()
    }
}

/// Returns the bytes of a region whose space has two blocks, in the table or in a record.
fn region_with(checkpoint: bool) -> Vec<u8> {
    let region = Simulated::new(&vec![0; 8192 + 16_384 + 4096 + 16 * 512]);
    let space = create(Persistent::new(region.clone()), &options());
    space
        .write_batch(&[Vector::write(0, &[9; 2 * BLOCK as usize])])
        .unwrap();
    if checkpoint {
        space.checkpoint().unwrap();
    }
    region.bytes()
}

/// Judges all images of a run of operations.
fn judge(bytes: &[u8], operations: &[u32]) -> Judged {
    let search = Search::new(bytes, Method::Global, || 0);
    let region = search.region();
    let space = open(Persistent::new(region.clone())).unwrap();
    region.watch();
    for &operation in operations {
        region.perform(operation, || {
            match OPERATIONS[operation as usize] {
                "checkpoint" => space.checkpoint().unwrap(),
                _ => perform(&space, &steps(operation)).unwrap(),
            }
            String::new()
        });
    }
    search.end(&region);
    let judged = search.judge(&Arc::new(Pmem), |run| run());
    judged.unwrap_or_else(|wrong| panic!("{operations:?}: {}", wrong.text))
}

/// The short searches; with `SPANLOCK_ROUNDS`, all of them.
#[test]
fn every_image_of_persistent_memory_is_all_or_nothing() {
    // After a checkpoint, and before the first one; and the operation.
    let mut runs = vec![(true, 1), (true, 3), (false, 4)];
    if std::env::var_os("SPANLOCK_ROUNDS").is_some() {
        runs.extend([(true, 0), (true, 2), (false, 1), (false, 2)]);
    }
    let mut judged = Judged::default();
    for (checkpoint, operation) in runs {
        let its = judge(&region_with(checkpoint), &[operation]);
        judged.images += its.images;
        judged.during_recovery += its.during_recovery;
    }
    println!("{judged:?}");
    assert!(
        judged.images > 80 && judged.during_recovery > 1000,
        "{judged:?}"
    );
}
