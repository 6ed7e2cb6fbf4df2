//! Bad input, full media, and media that fail.

use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::testing::{Fault, FaultAt, FaultKind, Recorded};
use spanlock_node_log::{Error, Options, Volume};
use spanlock_range_lock::RawRangeLock;

use crate::common::{BLOCK, InMemory, SEGMENTS, World, check, content, for_each_world, options};
use crate::memory::{MemoryHome, broken};

fn fault(at: FaultAt) -> Fault {
    Fault {
        at,
        kind: FaultKind::Error,
        for_ever: false,
        drop_dirty: false,
    }
}

#[test]
fn options_and_media_are_checked() {
    let refused = |world: &InMemory, options: &Options| {
        let error = world.create(options).unwrap_err();
        assert!(matches!(error, Error::BadOption { .. }), "{error}");
        assert!(world.data.visible().iter().all(|it| *it == 0));
    };
    let world = InMemory::new(SEGMENTS);
    for blocks in [0, 4, 12, 1024] {
        refused(&world, &options().segment_blocks(blocks));
    }
    for nodes in [0, 7, u32::MAX] {
        refused(&world, &options().nodes(nodes));
    }
    refused(&InMemory::new(7), &options());
    let error = world.create(&options().read_only(true)).unwrap_err();
    assert!(matches!(error, Error::ReadOnly));
    let error = world.open(&options()).unwrap_err();
    assert!(matches!(error, Error::NotAVolume { .. }), "{error}");
    drop(world.create(&options()).unwrap());
    let error = world.create(&options()).unwrap_err();
    assert!(matches!(error, Error::Occupied { .. }), "{error}");
    // Shorter than it was.
    let mut image = world.data.visible();
    image.truncate(100 * BLOCK);
    let short = InMemory {
        data: Arc::new(Recorded::from_image(image)),
        nodes: world.nodes,
    };
    let error = short.open(&options()).unwrap_err();
    assert!(matches!(error, Error::TooSmall { .. }), "{error}");
    // Other data.
    let world = InMemory::new(SEGMENTS);
    world.data.write_at(&[1], 5000).unwrap();
    let error = world.create(&options()).unwrap_err();
    assert!(matches!(error, Error::Occupied { .. }), "{error}");
}

#[test]
fn either_superblock_suffices() {
    for copies in [vec![0], vec![1], vec![0, 1]] {
        let world = InMemory::new(SEGMENTS);
        let volume = world.create(&options()).unwrap();
        volume.create_file("file").unwrap().fsync().unwrap();
        drop(volume);
        for copy in &copies {
            world.data.write_at(&[1; 512], copy * BLOCK as u64).unwrap();
        }
        match world.open(&options()) {
            Ok(volume) => assert_eq!((volume.names().len(), copies.len()), (1, 1)),
            Err(error) => {
                assert!(matches!(error, Error::NotAVolume { .. }), "{error}");
                assert_eq!(copies.len(), 2);
            }
        }
    }
}

fn a_full_data_log_is_an_error_until_there_is_room<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    let mut written = 0;
    let error = loop {
        match file.append(&[7; BLOCK]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full { .. }), "{error}");
    // All but the segments that are kept for cleaning.
    assert!(written > (SEGMENTS - 6) * 8, "{written}");
    assert_eq!(content::<W>(&volume, "file"), vec![7; written * BLOCK]);
    // No room, but nothing is lost either.
    file.fsync().unwrap();
    file.truncate(file.len() / 2).unwrap();
    file.fsync().unwrap();
    for _ in 0..written / 3 {
        file.append(&[8; BLOCK]).unwrap();
    }
    let mut model = vec![7; written / 2 * BLOCK];
    model.resize(file.len() as usize - written / 3 * BLOCK, 7);
    model.resize(file.len() as usize, 8);
    assert!(content::<W>(&volume, "file") == model);
    check::<W>(&mut volume);
    // A removal frees what the file had.
    volume.remove("file").unwrap();
    let file = volume.create_file("file").unwrap();
    for _ in 0..written {
        file.append(&[9; BLOCK]).unwrap();
    }
    let longer = file.write_at(&vec![1; 2 * SEGMENTS * 8 * BLOCK], 0);
    assert!(matches!(longer, Err(Error::Full { .. })));
    check::<W>(&mut volume);
}

fn a_file_shrinks_when_no_block_is_free<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let [file, last] = ["file", "last"].map(|it| volume.create_file(it).unwrap());
    last.write_at(&[1], 0).unwrap();
    last.fsync().unwrap();
    while volume.statistics().room > 3 {
        file.append(&[7; BLOCK]).unwrap();
    }
    // It takes two blocks, and one to clear what is behind the end.
    last.write_at(&[1; 2], 2 * BLOCK as u64 - 1).unwrap();
    assert_eq!(volume.statistics().room, 0);
    assert!(matches!(last.append(&[1]), Err(Error::Full { .. })));
    assert!(matches!(
        last.truncate(3 * BLOCK as u64),
        Err(Error::Full { .. })
    ));
    file.truncate(5).unwrap();
    file.fsync().unwrap();
    last.truncate(3 * BLOCK as u64).unwrap();
    assert_eq!(content::<W>(&volume, "file"), [7; 5]);
    drop((file, last));
    check::<W>(&mut volume);
}

fn node_ids_are_used_up<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options().nodes(16)).unwrap();
    for nth in 0..15 {
        volume.create_file(&nth.to_string()).unwrap();
    }
    let error = volume.create_file("more").unwrap_err();
    assert!(matches!(error, Error::NoNodes { nodes: 16 }), "{error}");
    let file = volume.open_file("3").unwrap();
    let error = file.write_at(&[1], 1 << 30).unwrap_err();
    assert!(matches!(error, Error::NoNodes { nodes: 16 }), "{error}");
    assert_eq!(file.len(), 0);
    file.write_at(&[1], 0).unwrap();
    volume.remove("5").unwrap();
    volume.create_file("more").unwrap();
    check::<W>(&mut volume);
}

#[test]
fn a_write_that_fails_changes_nothing() {
    let world = InMemory::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    file.write_at(&[1; 3 * BLOCK], 0).unwrap();
    file.fsync().unwrap();
    let used = volume.statistics().used;
    world.data.plan(fault(FaultAt::Write(world.data.writes())));
    let error = file.write_at(&[2; 3 * BLOCK], BLOCK as u64).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_eq!(world.data.failures(), 1);
    assert_eq!(content::<InMemory>(&volume, "file"), [1; 3 * BLOCK]);
    assert_eq!(volume.statistics().used, used);
    file.write_at(&[2; 3 * BLOCK], BLOCK as u64).unwrap();
    file.fsync().unwrap();
    check::<InMemory>(&mut volume);
}

/// After it, nothing is acknowledged, and everything can be read.
#[test]
fn a_flush_or_commit_that_fails_is_final() {
    for flush_fails in [true, false] {
        let world = InMemory::new(SEGMENTS);
        let volume = world.create(&options()).unwrap();
        let file = volume.create_file("file").unwrap();
        file.write_at(&[1; BLOCK], 0).unwrap();
        file.fsync().unwrap();
        file.write_at(&[2; BLOCK], 0).unwrap();
        match flush_fails {
            true => {
                world.data.plan(fault(FaultAt::Flush(world.data.flushes())));
            }
            false => world.nodes.lock().unwrap().fails = Some(broken()),
        }
        let error = file.fsync().unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        world.nodes.lock().unwrap().fails = None;
        let failed = |it: Result<(), Error>| matches!(it, Err(Error::Failed { .. }));
        assert!(failed(file.fsync()));
        assert!(failed(file.write_at(&[3], 0)));
        assert!(failed(file.truncate(0)));
        assert!(failed(volume.create_file("new").map(drop)));
        assert!(failed(volume.remove("file")));
        assert!(failed(volume.checkpoint()));
        assert!(content::<InMemory>(&volume, "file") == [2; BLOCK]);
        drop(volume);
        let volume = world.open(&options()).unwrap();
        assert!(content::<InMemory>(&volume, "file") == [1; BLOCK]);
    }
}

#[test]
fn a_full_node_half_takes_the_same_change_later() {
    let world = InMemory::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    file.write_at(&[1; BLOCK], 0).unwrap();
    file.write_at(&[1; BLOCK], 930 * BLOCK as u64).unwrap();
    file.fsync().unwrap();
    world.nodes.lock().unwrap().fails = Some(Error::NodesFull { needed: 64 });
    file.write_at(&[2; BLOCK], 0).unwrap();
    assert!(matches!(file.fsync(), Err(Error::NodesFull { .. })));
    file.write_at(&[3; BLOCK], 0).unwrap();
    file.truncate(930 * BLOCK as u64).unwrap();
    assert!(matches!(volume.checkpoint(), Err(Error::NodesFull { .. })));
    world.nodes.lock().unwrap().fails = None;
    file.fsync().unwrap();
    check::<InMemory>(&mut volume);
    assert_eq!(volume.statistics().used, 1);
    drop(volume);
    let volume = world.open(&options()).unwrap();
    let mut model = vec![3; BLOCK];
    model.resize(930 * BLOCK, 0);
    assert!(content::<InMemory>(&volume, "file") == model);
}

#[test]
fn a_lock_that_is_too_small_refuses() {
    let world = InMemory::new(SEGMENTS);
    let lock = |_| spanlock_interval_lock::IntervalLock::new();
    let capacity = lock(0).capacity();
    assert!(capacity >= spanlock_node_log::MAX_FILE_BYTES);
    let volume: Volume<MemoryHome, _, _> =
        Volume::create(world.data(), world.nodes(), &options(), |_| Small).unwrap();
    let file = volume.create_file("file").unwrap();
    file.write_at(&[1; 2 * BLOCK], 0).unwrap();
    let error = file.append(&[1]).unwrap_err();
    assert!(matches!(error, Error::Lock(_)), "{error}");
    let error = file.truncate(2 * BLOCK as u64 + 1).unwrap_err();
    assert!(matches!(error, Error::Lock(_)), "{error}");
    assert_eq!(file.read_at(&mut [0; 3 * BLOCK], 1).unwrap(), 2 * BLOCK - 1);
    file.truncate(5).unwrap();
    volume.remove("file").unwrap();
}

use small::Small;

mod small {
    use spanlock_range_lock::{Access, RangeError, RawRangeLock, Span, Token, TryLockError};

    /// A lock for one thread, of two pages.
    pub(crate) struct Small;

    // SAFETY: used by one thread, which takes one hold at a time.
    unsafe impl RawRangeLock for Small {
        fn capacity(&self) -> u64 {
            8192
        }

        fn lock(&self, span: Span, _: Access) -> Result<Token, RangeError> {
            match span.end() <= 8192 {
                true => Ok(Token::NONE),
                false => Err(RangeError::PastCapacity {
                    start: span.start(),
                    end: span.end(),
                    capacity: 8192,
                }),
            }
        }

        fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
            Ok(self.lock(span, access)?)
        }

        unsafe fn unlock(&self, _: Span, _: Access, _: Token) {}
    }
}

for_each_world! {
    a_full_data_log_is_an_error_until_there_is_room
    a_file_shrinks_when_no_block_is_free
    node_ids_are_used_up
}
