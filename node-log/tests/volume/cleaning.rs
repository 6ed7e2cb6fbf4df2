//! Cleaning of the data log.

use crate::common::{BLOCK, SEGMENTS, World, check, content, for_each_world, options, pattern};

/// Overwrites pages at random until the log has been filled several times.
fn a_log_that_is_nearly_full_is_cleaned<W: World>() {
    for syncs_every in [1, 7, usize::MAX] {
        let world = W::new(SEGMENTS);
        let mut volume = world.create(&options()).unwrap();
        let file = volume.create_file("file").unwrap();
        let pages = (SEGMENTS - 9) * 8;
        let mut model = vec![0; pages * BLOCK];
        let mut random = fastrand::Rng::with_seed(syncs_every as u64);
        for nth in 0..8 * pages {
            // Some pages are written often, so that segments differ.
            let page = match random.bool() {
                true => random.usize(..pages),
                false => random.usize(..pages / 8),
            };
            let data = pattern(nth as u64, BLOCK);
            file.write_at(&data, (page * BLOCK) as u64).unwrap();
            model[page * BLOCK..][..BLOCK].copy_from_slice(&data);
            if nth % syncs_every == 0 {
                file.fsync().unwrap();
            }
        }
        let end = file.len() as usize;
        assert!(content::<W>(&volume, "file") == model[..end]);
        file.fsync().unwrap();
        assert!(volume.statistics().cleaned > 0);
        check::<W>(&mut volume);
        drop(volume);
        let volume = world.open(&options()).unwrap();
        assert!(content::<W>(&volume, "file") == model[..end]);
    }
}

/// Every other page of each segment is free: cleaning gains half of the segments.
fn cleaning_on_request_frees_segments<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    for name in ["kept", "removed"] {
        volume.create_file(name).unwrap();
    }
    for page in 0..64 {
        for name in ["kept", "removed"] {
            let file = volume.open_file(name).unwrap();
            file.write_at(&[page as u8; BLOCK], page * BLOCK as u64)
                .unwrap();
        }
    }
    volume.checkpoint().unwrap();
    let before = volume.statistics().room;
    volume.remove("removed").unwrap();
    volume.checkpoint().unwrap();
    assert_eq!(volume.statistics().used, 64);
    for _ in 0..16 {
        assert!(volume.clean().unwrap());
    }
    let statistics = volume.statistics();
    assert_eq!((statistics.cleaned, statistics.used), (16, 64));
    assert!(statistics.room >= before + 48, "{statistics:?}");
    let model: Vec<u8> = (0..64).flat_map(|page| [page; BLOCK]).collect();
    assert!(content::<W>(&volume, "kept") == model);
    check::<W>(&mut volume);
    drop(volume);
    let mut volume = world.open(&options()).unwrap();
    assert!(content::<W>(&volume, "kept") == model);
    check::<W>(&mut volume);
}

/// Half of each segment is free, and one write needs most of that. Some of the segments that
/// cleaning gains go to the cold head, which is no reason to give up.
fn cleaning_goes_on_until_a_large_write_has_room<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let [kept, removed] = ["kept", "removed"].map(|it| volume.create_file(it).unwrap());
    while volume.statistics().room > 6 {
        kept.append(&[1; BLOCK]).unwrap();
        removed.append(&[2; BLOCK]).unwrap();
    }
    let len = kept.len() as usize;
    volume.remove("removed").unwrap();
    volume.checkpoint().unwrap();
    kept.write_at(&[3; 60 * BLOCK], len as u64).unwrap();
    let found = content::<W>(&volume, "kept");
    assert!(found[..len].iter().all(|it| *it == 1));
    assert!(found[len..] == [3; 60 * BLOCK]);
    drop((kept, removed));
    check::<W>(&mut volume);
}

for_each_world! {
    a_log_that_is_nearly_full_is_cleaned
    cleaning_on_request_frees_segments
    cleaning_goes_on_until_a_large_write_has_room
}
