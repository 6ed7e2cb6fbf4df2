//! What an opening finds.

use std::sync::Arc;

use spanlock_journal_commit::testing::{Loss, Recorded};
use spanlock_node_log::Error;

use crate::common::{
    BLOCK, InMemory, SEGMENTS, World, check, content, for_each_world, options, pattern,
};
use crate::memory::broken;

fn what_was_synced_is_there<W: World>() {
    let world = W::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    let synced = volume.create_file("synced").unwrap();
    synced.write_at(&pattern(1, 10_000), 0).unwrap();
    synced.fsync().unwrap();
    synced.append(b"lost").unwrap();
    volume
        .create_file("never synced")
        .unwrap()
        .append(b"lost")
        .unwrap();
    drop(volume);
    let mut volume = world.open(&options()).unwrap();
    assert_eq!(volume.names(), ["synced"]);
    assert_eq!(content::<W>(&volume, "synced"), pattern(1, 10_000));
    check::<W>(&mut volume);
    // A checkpoint makes all files durable.
    for name in ["a", "b"] {
        volume
            .create_file(name)
            .unwrap()
            .append(name.as_bytes())
            .unwrap();
    }
    volume.remove("synced").unwrap();
    volume.checkpoint().unwrap();
    drop(volume);
    let mut volume = world.open(&options()).unwrap();
    assert_eq!(volume.names(), ["a", "b"]);
    assert_eq!(content::<W>(&volume, "b"), b"b");
    check::<W>(&mut volume);
}

/// A name that is used again after the removal of another file is that of the new one.
fn a_name_is_that_of_its_newest_file<W: World>() {
    let world = W::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    for round in 0..3 {
        let file = volume.create_file("name").unwrap();
        file.write_at(&[round; BLOCK], 0).unwrap();
        file.fsync().unwrap();
        if round < 2 {
            volume.remove("name").unwrap();
        }
    }
    drop(volume);
    let mut volume = world.open(&options()).unwrap();
    assert_eq!(content::<W>(&volume, "name"), [2; BLOCK]);
    check::<W>(&mut volume);
    assert_eq!(volume.statistics().used, 1);
}

#[test]
fn of_two_files_of_one_name_the_older_one_goes() {
    let world = InMemory::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    let old = volume.create_file("name").unwrap();
    old.write_at(&[1; BLOCK], 1 << 30).unwrap();
    old.fsync().unwrap();
    let nodes = world.nodes.lock().unwrap().nodes.clone();
    // So that the new file has other ids and blocks.
    volume
        .create_file("other")
        .unwrap()
        .write_at(&[3; BLOCK], 0)
        .unwrap();
    let new = volume.create_file("new").unwrap();
    new.write_at(&[2; BLOCK], 0).unwrap();
    new.fsync().unwrap();
    drop(volume);
    // The new file takes the old one's name.
    let mut kept = world.nodes.lock().unwrap();
    for bytes in kept.nodes.values_mut() {
        let at = bytes.windows(3).position(|it| it == b"new");
        if let Some(at) = at {
            bytes.splice(at..at + 4, *b"name");
            bytes[at - 4] = 4;
        }
    }
    kept.nodes.extend(nodes);
    drop(kept);
    let mut volume = world.open(&options()).unwrap();
    assert_eq!(content::<InMemory>(&volume, "name"), [2; BLOCK]);
    check::<InMemory>(&mut volume);
    assert_eq!(world.nodes.lock().unwrap().nodes.len(), 1);
    assert_eq!(volume.statistics().used, 1);
}

#[test]
fn a_slot_behind_the_end_is_cleared() {
    let world = InMemory::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    file.write_at(&[1; 4 * BLOCK], 0).unwrap();
    file.fsync().unwrap();
    drop(volume);
    // The image of a file whose writer has not grown it yet.
    let size = 5000_u64;
    for bytes in world.nodes.lock().unwrap().nodes.values_mut() {
        bytes[32..40].copy_from_slice(&size.to_le_bytes());
    }
    for syncs in [false, true] {
        let mut volume = world.open(&options()).unwrap();
        assert_eq!(content::<InMemory>(&volume, "file"), [1; 5000]);
        let file = volume.open_file("file").unwrap();
        file.write_at(&[2], 4 * BLOCK as u64 - 1).unwrap();
        let mut model = vec![1; 5000];
        model.resize(4 * BLOCK - 1, 0);
        model.push(2);
        assert_eq!(content::<InMemory>(&volume, "file"), model);
        if syncs {
            file.fsync().unwrap();
            check::<InMemory>(&mut volume);
            // Pages 0, 1 and 3.
            assert_eq!(volume.statistics().used, 3);
            drop(volume);
            let volume = world.open(&options()).unwrap();
            assert_eq!(content::<InMemory>(&volume, "file"), model);
        }
    }
}

#[test]
fn a_node_that_no_file_has_is_forgotten() {
    let world = InMemory::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    file.write_at(&[1], 1 << 40).unwrap();
    file.fsync().unwrap();
    let nodes = world.nodes.lock().unwrap().nodes.clone();
    assert_eq!(nodes.len(), 4);
    volume.remove("file").unwrap();
    drop(volume);
    let children = nodes
        .into_iter()
        .filter(|(nid, bytes)| bytes[4..8] != bytes[8..12] || *nid == 0);
    world.nodes.lock().unwrap().nodes.extend(children);
    let mut volume = world.open(&options()).unwrap();
    check::<InMemory>(&mut volume);
    assert!(world.nodes.lock().unwrap().nodes.is_empty());
    assert_eq!(volume.statistics().free_nodes, 255);
}

fn read_only_writes_nothing<W: World>() {
    let world = W::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    file.append(b"content").unwrap();
    file.fsync().unwrap();
    drop(volume);
    let mut volume = world.open(&options().read_only(true)).unwrap();
    assert_eq!(content::<W>(&volume, "file"), b"content");
    let file = volume.open_file("file").unwrap();
    let refused = |it: Result<(), Error>| matches!(it, Err(Error::ReadOnly));
    assert!(refused(file.write_at(&[1], 0)));
    assert!(refused(file.append(&[1]).map(drop)));
    assert!(refused(file.truncate(0)));
    assert!(refused(file.fsync()));
    assert!(refused(volume.create_file("new").map(drop)));
    assert!(refused(volume.remove("file")));
    assert!(refused(volume.checkpoint()));
    assert!(refused(volume.clean().map(drop)));
    check::<W>(&mut volume);
}

/// Opens with the data or the nodes of an earlier opening, or of another volume.
#[test]
fn halves_that_do_not_fit_are_refused() {
    let world = InMemory::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    file.append(b"old").unwrap();
    file.fsync().unwrap();
    drop(volume);
    let data = world.data.visible();
    let (nodes, identity) = {
        let kept = world.nodes.lock().unwrap();
        (kept.nodes.clone(), kept.identity)
    };
    for _ in 0..2 {
        let volume = world.open(&options()).unwrap();
        volume.open_file("file").unwrap().truncate(0).unwrap();
    }
    let old_data = InMemory {
        data: Arc::new(Recorded::from_image(data)),
        nodes: world.nodes.clone(),
    };
    let error = old_data.open(&options()).unwrap_err();
    let is_older = |error: &Error, old| matches!(error, Error::Older { half, openings: 2, .. } if *half == old);
    assert!(is_older(&error, "data half"), "{error}");
    let old_nodes = InMemory::new(SEGMENTS);
    {
        let mut kept = old_nodes.nodes.lock().unwrap();
        (kept.nodes, kept.identity) = (nodes, identity);
    }
    let old_nodes = InMemory {
        data: world.data.clone(),
        ..old_nodes
    };
    let error = old_nodes.open(&options()).unwrap_err();
    assert!(is_older(&error, "node half"), "{error}");
    // Read-only, it shows what it says.
    let events = world.data.now();
    let volume = old_data.open(&options().read_only(true)).unwrap();
    assert_eq!(content::<InMemory>(&volume, "file"), b"old");
    assert_eq!(world.data.now(), events);
    let other = InMemory::new(SEGMENTS);
    drop(other.create(&options().id(8)).unwrap());
    let strangers = InMemory {
        data: other.data,
        nodes: world.nodes,
    };
    for read_only in [false, true] {
        let error = strangers.open(&options().read_only(read_only)).unwrap_err();
        assert!(
            matches!(error, Error::Strangers { data: 8, nodes: 7 }),
            "{error}"
        );
    }
}

/// An opening that is cut off at any write to the data half can be repeated.
#[test]
fn an_opening_or_creation_that_was_cut_off_can_be_repeated() {
    let world = InMemory::new(SEGMENTS);
    world.nodes.lock().unwrap().fails = Some(broken());
    assert!(world.create(&options()).is_err());
    assert!(world.open(&options()).is_err());
    world.nodes.lock().unwrap().fails = None;
    let volume = world.create(&options()).unwrap();
    volume.create_file("file").unwrap().fsync().unwrap();
    drop(volume);
    let before = world.nodes.lock().unwrap().identity.unwrap();
    let start = world.data.now();
    drop(world.open(&options()).unwrap());
    let end = world.data.now();
    let history = world.data.history();
    for events in start..=end {
        for is_opening in [true, false] {
            let image = history.image(events, Loss::Nothing);
            let world = InMemory {
                data: Arc::new(Recorded::from_image(image)),
                nodes: world.nodes.clone(),
            };
            let mut identity = before;
            identity.generation += 1;
            identity.is_opening = is_opening;
            world.nodes.lock().unwrap().identity = Some(identity);
            let opened = world.open(&options());
            // The home is settled only after both superblocks are written.
            assert!(
                opened.is_ok() || !is_opening,
                "{opened:?} after {events} events"
            );
        }
    }
}

#[test]
fn a_creation_over_one_that_was_cut_off_late_leaves_it_as_it_is() {
    let world = InMemory::new(SEGMENTS);
    drop(world.create(&options()).unwrap());
    let history = world.data.history();
    for events in 0..=world.data.now() {
        let image = history.image(events, Loss::Nothing);
        let world = InMemory {
            data: Arc::new(Recorded::from_image(image)),
            nodes: world.nodes.clone(),
        };
        // The node half has been stamped for the first time, and no more.
        let mut identity = world.nodes.lock().unwrap().identity.unwrap();
        (identity.generation, identity.is_opening) = (1, true);
        world.nodes.lock().unwrap().identity = Some(identity);
        let is_volume = world.data.visible()[..BLOCK].iter().any(|it| *it != 0);
        if is_volume {
            let error = world.create(&options().id(9)).unwrap_err();
            assert!(matches!(error, Error::Occupied { .. }), "{error}");
            drop(world.open(&options()).unwrap());
        }
    }
}

#[test]
fn read_only_saves_what_a_damaged_node_leaves() {
    let world = InMemory::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    for name in ["sound", "damaged"] {
        let file = volume.create_file(name).unwrap();
        file.write_at(&[1; BLOCK], 0).unwrap();
        file.write_at(&[2; BLOCK], 930 * BLOCK as u64).unwrap();
        file.fsync().unwrap();
    }
    drop(volume);
    let last = *world.nodes.lock().unwrap().nodes.keys().last().unwrap();
    world.nodes.lock().unwrap().nodes.get_mut(&last).unwrap()[4] ^= 1;
    let error = world.open(&options()).unwrap_err();
    assert!(
        matches!(error, Error::DamagedNode { nid, .. } if nid == last),
        "{error}"
    );
    let mut volume = world.open(&options().read_only(true)).unwrap();
    assert_eq!(content::<InMemory>(&volume, "sound").len(), 931 * BLOCK);
    let file = volume.open_file("damaged").unwrap();
    let mut page = [0; BLOCK];
    file.read_at(&mut page, 0).unwrap();
    assert_eq!(page, [1; BLOCK]);
    let error = file.read_at(&mut page, 930 * BLOCK as u64).unwrap_err();
    assert!(matches!(error, Error::DamagedNode { .. }), "{error}");
    assert!(!volume.check().unwrap().findings.is_empty());
}

for_each_world! {
    what_was_synced_is_there
    a_name_is_that_of_its_newest_file
    read_only_writes_nothing
}
