//! Every bad input is an error that says what is wrong, and changes nothing.

use std::io;
use std::sync::{Arc, Mutex};

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::testing::{Fault, FaultAt, FaultKind, Loss, Recorded};
use spanlock_object_store::space::{Disk, Error, Options, Persistent, Space, Vector};
use spanlock_pmem::simulated::Simulated;
use spanlock_range_lock::Access;

use crate::common::{BLOCK, Content, MEDIUM, OnPmem, create, open, options};

fn small() -> OnPmem {
    let space = create(
        Persistent::new(Simulated::new(&vec![0; MEDIUM])),
        &options(),
    );
    space.write_batch(&[Vector::write(0, &[5; 2000])]).unwrap();
    space
}

/// Asserts that a batch is refused with an error that says this, and that nothing has changed.
fn assert_refused(space: &OnPmem, vectors: &[Vector<'_>], why: &str) -> Error {
    let before = (Content::of(space).unwrap(), space.stats());
    let error = space.write_batch(vectors).unwrap_err();
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!((Content::of(space).unwrap(), space.stats()), before);
    error
}

#[test]
fn batches_that_cannot_be_are_refused() {
    let space = small();
    let many: Vec<_> = (0..129)
        .map(|nth| Vector::write(nth * BLOCK, &[1]))
        .collect();
    assert_refused(&space, &many, "129 vectors, but at most 128");
    space.write_batch(&many[..70]).unwrap();
    let [a, b] = [Vector::write(0, &[1; 10]), Vector::write(9, &[2; 10])];
    assert_refused(
        &space,
        &[b.clone(), a.clone()],
        "0..10 and 9..19 of one batch overlap",
    );
    assert_refused(&space, &[a, Vector::trim(0..512)], "overlap");
    assert_refused(
        &space,
        &[Vector::trim(1..512)],
        "1..512 must begin and end at a multiple of 512",
    );
    assert_refused(&space, &[Vector::trim(0..513)], "must begin and end");
    let end = space.size();
    assert_refused(
        &space,
        &[Vector::write(end - 1, &[1; 2])],
        "does not lie in the space",
    );
    assert_refused(
        &space,
        &[Vector::write(u64::MAX, &[1; 2])],
        "does not lie in the space",
    );
    assert_refused(
        &space,
        &[Vector::trim(end..end + 512)],
        "does not lie in the space",
    );
    #[allow(clippy::reversed_empty_ranges, reason = "it is refused")]
    let reversed = Vector::trim(1024..512);
    assert_refused(&space, &[reversed], "does not lie in the space");
    // Neither an empty batch nor an empty vector does anything, wherever it is.
    let commits = space.stats().commits;
    space.write_batch(&[]).unwrap();
    space
        .write_batch(&[Vector::write(7, &[]), Vector::trim(512..512)])
        .unwrap();
    assert_eq!(space.stats().commits, commits);
    // The last byte can be written.
    space.write_batch(&[Vector::write(end - 1, &[1])]).unwrap();
    assert!(matches!(
        space.read(end, &mut [0]),
        Err(Error::OutOfRange { .. })
    ));
    assert!(space.read(end, &mut []).is_ok());
}

#[test]
fn a_batch_needs_its_hold() {
    let space = small();
    let mut held = space
        .hold([(0..512, Access::Write), (512..1024, Access::Read)])
        .unwrap();
    held.write_batch(&[Vector::write(100, b"held")]).unwrap();
    let error = held
        .write_batch(&[Vector::write(510, b"half")])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "0..1024 is not held exclusively: name it when you call `hold`"
    );
    held.read(500, &mut [0; 524]).unwrap();
    assert!(matches!(
        held.read(500, &mut [0; 525]),
        Err(Error::NotHeld { .. })
    ));
    drop(held);
    let outside = space.hold([(0..space.size() + 1, Access::Read)]);
    assert!(matches!(outside, Err(Error::OutOfRange { .. })));
}

#[test]
fn a_full_medium_loses_nothing_and_can_be_trimmed() {
    let space = small();
    let (places, mut at) = (space.stats().places, 1 << 30);
    // One of so few places is kept for batches that give places back.
    while space.stats().free > 1 {
        space.write_batch(&[Vector::write(at, &[1])]).unwrap();
        at += BLOCK;
    }
    // Overwriting takes a place before it frees one.
    let error = assert_refused(
        &space,
        &[Vector::write(0, &[1; 600])],
        "needs 2 blocks, but only 0 are free",
    );
    assert!(matches!(error, Error::NoSpace { needed: 2, free: 0 }));
    space.trim(1 << 30..(1 << 30) + 2 * BLOCK).unwrap();
    space.write_batch(&[Vector::write(0, &[1; 600])]).unwrap();
    assert_eq!(space.stats().places, places);
}

#[test]
fn a_batch_whose_record_is_too_long_is_refused() {
    let space = create(
        Persistent::new(Simulated::new(&vec![0; 1 << 20])),
        &options(),
    );
    // A record has 16 bytes, and 32 for each run; a quarter of the ring has 2048.
    let apart: Vec<_> = (0..32).map(|nth| Vector::write(nth << 20, &[1])).collect();
    let error = space.write_batch(&apart).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLong {
                record: 1040,
                max: 1024
            }
        ),
        "{error}"
    );
    assert_eq!(space.stats().free, space.stats().places);
    space.write_batch(&apart[..31]).unwrap();
    // If its blocks and places are neighbours, a long batch is one run.
    space
        .write_batch(&[Vector::write(1 << 30, &[1; 300 * BLOCK as usize])])
        .unwrap();
    assert_eq!(space.stats().free, space.stats().places - 331);
}

#[test]
fn options_that_cannot_be_are_refused() {
    let cases = [
        (Options::new().block(256), "the block size is 256"),
        (Options::new().block(0), "the block size is 0"),
        (Options::new().block(1000), "a power of two"),
        (options().rings(0, 16_384), "the number of rings is 0"),
        (options().rings(65, 16_384), "the number of rings is 65"),
        (options().rings(1, 16_000), "the ring size is 16000"),
        (options().rings(1, 8192), "the ring size is 8192"),
        (
            options().size(511),
            "the number of blocks of the space is 0",
        ),
        (
            options().size(1 << 57),
            "the number of blocks of the space is",
        ),
        (options().rings(60, 16_384), "the number of places is 0"),
    ];
    for (options, why) in cases {
        let device = Arc::new(Recorded::new(MEDIUM));
        let error =
            Space::create(Disk::new(device.clone()), &options, IntervalLock::new()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(device.writes(), 0);
    }
}

#[test]
fn a_medium_that_has_no_space_or_has_one_is_recognized() {
    let region = Simulated::new(&vec![0; MEDIUM]);
    let medium = || Persistent::new(region.clone());
    assert!(matches!(open(medium()), Err(Error::NotASpace)));
    drop(create(medium(), &options()));
    let again = Space::create(medium(), &options(), IntervalLock::new());
    assert!(matches!(again, Err(Error::Occupied)));
    let mut bytes = region.bytes();
    bytes.truncate(MEDIUM - 512);
    let cut = open(Persistent::new(Simulated::new(&bytes))).unwrap_err();
    assert!(cut.to_string().contains("cut short"), "{cut}");
}

/// Flips a bit of each byte of the superblocks, of the ring's, of a truncated batch and of the
/// table, one at a time. Then the space is refused, or opens with the same content.
#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let region = Simulated::new(&vec![0; MEDIUM]);
    let space = create(Persistent::new(region.clone()), &options());
    space
        .write_batch(&[
            Vector::write(0, &[5; 2000]),
            Vector::write(1 << 40, &[6; 700]),
        ])
        .unwrap();
    space.checkpoint().unwrap();
    space.write_batch(&[Vector::write(512, &[7; 600])]).unwrap();
    space.trim(1024..1536).unwrap();
    let content = Content::of(&space).unwrap();
    let bytes = region.bytes();
    let (mut refused, mut harmless) = (0, 0);
    // The superblocks, the ring's superblock and first batches, and the table.
    let parts = [
        0..72,
        4096..4168,
        8192..8280,
        16_384..16_600,
        24_576..24_800,
    ];
    for at in parts.into_iter().flatten() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        let found = open(Persistent::new(Simulated::new(&bytes)));
        match found.and_then(|space| Content::of(&space)) {
            Ok(found) if found == content => harmless += 1,
            Ok(_) => panic!("the flipped bit at {at} changes the content"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 50 && harmless > 300, "{refused} {harmless}");
}

/// If data cannot be written, as on a full disk, nothing has happened.
#[test]
fn a_write_of_data_that_fails_changes_nothing() {
    let device = Arc::new(Recorded::new(MEDIUM));
    let space = create(Disk::new(device.clone()), &options());
    space.write_batch(&[Vector::write(0, &[1; 100])]).unwrap();
    let free = space.stats().free;
    let at = FaultAt::Write(device.writes());
    device.plan(Fault {
        at,
        kind: FaultKind::Error,
        for_ever: false,
        drop_dirty: false,
    });
    let error = space.write_batch(&[Vector::write(0, &[2; 100])]);
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let mut found = [0; 100];
    space.read(0, &mut found).unwrap();
    assert_eq!((found, space.stats().free), ([1; 100], free));
    space.write_batch(&[Vector::write(0, &[3; 100])]).unwrap();
}

/// After a failed flush, the space refuses to write, and the next opening finds all of the batch or
/// nothing.
#[test]
fn a_failed_flush_fails_the_space() {
    for drop_dirty in [false, true] {
        let device = Arc::new(Recorded::new(MEDIUM));
        let space = create(Disk::new(device.clone()), &options());
        space.write_batch(&[Vector::write(0, &[1; 100])]).unwrap();
        let at = FaultAt::Flush(device.flushes());
        device.plan(Fault {
            at,
            kind: FaultKind::Error,
            for_ever: false,
            drop_dirty,
        });
        let write = |byte| space.write_batch(&[Vector::write(0, &[byte; 100])]);
        let found = |space: &Space<_, _>| {
            let mut found = [0; 100];
            space.read(0, &mut found).unwrap();
            found
        };
        for byte in [2, 3] {
            let error = write(byte).unwrap_err();
            assert!(matches!(error, Error::Failed { .. }), "{error}");
            assert_eq!(found(&space), [1; 100]);
        }
        assert!(matches!(space.checkpoint(), Err(Error::Failed { .. })));
        let image = match drop_dirty {
            true => device.medium(),
            false => device.visible(),
        };
        let reopened = open(Disk::new(Arc::new(Recorded::from_image(image)))).unwrap();
        assert_eq!(
            found(&reopened),
            [[2; 100], [1; 100]][usize::from(drop_dirty)]
        );
    }
}

/// A device that does something in the middle of its next write to the table, which then fails.
struct Interrupted {
    device: Recorded,
    next: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Storage for Interrupted {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.device.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if offset == 24_576
            && let Some(next) = self.next.lock().unwrap().take()
        {
            next();
            return Err(io::Error::other("planned"));
        }
        self.device.write_at(data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_fua(data, offset)
    }
}

/// A batch during a checkpoint that fails has newer entries of the table than those that the
/// checkpoint could not write.
#[test]
fn a_failed_checkpoint_keeps_what_is_newer() {
    let device = Arc::new(Interrupted {
        device: Recorded::new(MEDIUM),
        next: Mutex::default(),
    });
    let space = Arc::new(create(Disk::new(device.clone()), &options()));
    space.write_batch(&[Vector::write(0, &[1; 1024])]).unwrap();
    let beside = space.clone();
    let batch = move || beside.write_batch(&[Vector::write(0, &[2; 512])]).unwrap();
    *device.next.lock().unwrap() = Some(Box::new(|| std::thread::spawn(batch).join().unwrap()));
    assert!(matches!(space.checkpoint(), Err(Error::Io { .. })));
    space.checkpoint().unwrap();
    let image = Arc::new(Recorded::from_image(device.device.medium()));
    let reopened = open(Disk::new(image)).unwrap();
    assert_eq!(
        Content::of(&reopened).unwrap(),
        Content::of(&space).unwrap()
    );
    assert_eq!(reopened.stats().free, space.stats().free);
}

#[test]
fn a_panic_of_the_medium_fails_the_space() {
    let device = Arc::new(Recorded::new(MEDIUM));
    let space = create(Disk::new(device.clone()), &options());
    let at = FaultAt::Write(device.writes() + 1);
    device.plan(Fault {
        at,
        kind: FaultKind::Panic,
        for_ever: false,
        drop_dirty: false,
    });
    let write = || space.write_batch(&[Vector::write(0, &[2; 100])]);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).is_err());
    assert!(matches!(write(), Err(Error::Failed { .. })));
    assert!(matches!(space.checkpoint(), Err(Error::Failed { .. })));
    space.read(0, &mut [0; 10]).unwrap();
}

/// A checkpoint that fails loses nothing: the rings keep their records, and another one succeeds.
/// Nor does a crash during that other one.
#[test]
fn a_failed_checkpoint_can_be_repeated() {
    // The page of the table, and both superblocks.
    for failing in 0..3 {
        let device = Arc::new(Recorded::new(MEDIUM));
        let space = create(Disk::new(device.clone()), &options());
        space.write_batch(&[Vector::write(0, &[1; 2000])]).unwrap();
        let at = FaultAt::Write(device.writes() + failing);
        device.plan(Fault {
            at,
            kind: FaultKind::Short,
            for_ever: false,
            drop_dirty: false,
        });
        let error = space.checkpoint().unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        space.trim(512..1024).unwrap();
        let begun = device.now();
        space.checkpoint().unwrap();
        let content = Content::of(&space).unwrap();
        let history = device.history();
        for cut in begun..=history.len() {
            for loss in [Loss::Nothing, Loss::Everything, Loss::Sectors(1)] {
                let image = Arc::new(Recorded::from_image(history.image(cut, loss)));
                let reopened = open(Disk::new(image));
                let reopened = reopened.unwrap_or_else(|it| panic!("{failing} {cut}: {it}"));
                assert_eq!(Content::of(&reopened).unwrap(), content);
                assert_eq!(reopened.stats().free, space.stats().free);
            }
        }
    }
}

/// The table is damaged while the space is open. A check finds it; an opening would refuse it.
#[test]
fn a_check_finds_what_is_wrong_with_the_table() {
    let device = Arc::new(Recorded::new(MEDIUM));
    let mut space = create(Disk::new(device.clone()), &options());
    space.write_batch(&[Vector::write(0, &[5; 2000])]).unwrap();
    assert_eq!(space.check().unwrap(), []);
    // The table begins after the superblocks and the ring.
    let table = 8192 + 16_384;
    let mut first = [0; 8];
    device.read_at(&mut first, table).unwrap();
    device.write_at(&[!first[0]], table).unwrap();
    let found = space.check().unwrap();
    assert!(
        found[0].to_string().contains("an entry of the table"),
        "{found:?}"
    );
    // An entry that is sound, but of another time.
    let mut free = [0; 8];
    device.read_at(&mut free, table + 50 * 8).unwrap();
    device.write_at(&first, table).unwrap();
    space.trim(0..512).unwrap();
    space.write_batch(&[Vector::write(0, &[6])]).unwrap();
    space.checkpoint().unwrap();
    let mut now = [0; 8];
    device.read_at(&mut now, table).unwrap();
    space.trim(0..512).unwrap();
    space.checkpoint().unwrap();
    device.write_at(&now, table).unwrap();
    let found = space.check().unwrap();
    assert!(
        found[0].to_string().contains("a place that is not its own"),
        "{found:?}"
    );
}
