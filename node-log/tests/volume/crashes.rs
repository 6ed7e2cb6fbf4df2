//! What a crash leaves after random operations of one thread. The data half loses any of the writes
//! that were not flushed. On one disk, crashes also come in the middle of an operation.

use std::collections::BTreeMap;

use spanlock_journal_commit::testing::Loss;

use crate::common::{
    BLOCK, SEGMENTS, VolumeOf, World, check, content, for_each_world, options, pattern,
};

/// What may be found under a name: what was last made durable, and everything since.
type Possible = BTreeMap<String, Vec<Option<Vec<u8>>>>;

fn every_sync_that_returned_is_there<W: World>() {
    let rounds = std::env::var("SPANLOCK_ROUNDS").map_or(1, |it| it.parse().expect("a number"));
    for seed in 0..2 * rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let world = W::new(SEGMENTS);
        let volume = world.create(&options()).unwrap();
        let mut possible = Possible::new();
        for nth in 0..40 {
            let (before, start) = (possible.clone(), world.events());
            step::<W>(&volume, &mut possible, &mut random, nth);
            let end = world.events();
            let cut = random.usize(start..=end);
            let loss = [Loss::Everything, Loss::Writes(nth), Loss::Sectors(nth)];
            let crashed = world.crash(cut, loss[random.usize(0..3)]);
            let mut found = crashed.open(&options()).unwrap();
            for name in possible.keys() {
                let is_there = found.names().contains(name);
                let content = is_there.then(|| content::<W>(&found, name));
                let is_new = possible[name].contains(&content);
                let is_old = match before.get(name) {
                    Some(old) => old.contains(&content),
                    None => content.is_none(),
                };
                assert!(
                    is_new || cut < end && is_old,
                    "seed {seed}, step {nth}, {cut} of {start}..{end}: {name}: {is_there}"
                );
            }
            check::<W>(&mut found);
        }
    }
}

/// Performs one operation.
fn step<W: World>(
    volume: &VolumeOf<W>,
    possible: &mut Possible,
    random: &mut fastrand::Rng,
    nth: u64,
) {
    let name = format!("file {}", random.u32(0..3));
    let states = possible.entry(name.clone()).or_insert_with(|| vec![None]);
    let now = states.last().unwrap().clone();
    let Some(mut bytes) = now else {
        volume.create_file(&name).unwrap();
        return states.push(Some(Vec::new()));
    };
    let file = volume.open_file(&name).unwrap();
    let base = [0, 922 * BLOCK, 1938 * BLOCK][random.usize(0..3)];
    let offset = base + random.usize(0..3 * BLOCK);
    let data = pattern(nth, random.usize(1..3 * BLOCK));
    match random.u32(0..16) {
        0..5 => {
            file.write_at(&data, offset as u64).unwrap();
            bytes.resize(bytes.len().max(offset + data.len()), 0);
            bytes[offset..offset + data.len()].copy_from_slice(&data);
        }
        5..7 => {
            file.append(&data).unwrap();
            bytes.extend(data);
        }
        7..9 => {
            file.truncate(offset as u64).unwrap();
            bytes.resize(offset, 0);
        }
        9..13 => {
            file.fsync().unwrap();
            return *states = vec![Some(bytes)];
        }
        13 => {
            volume.remove(&name).unwrap();
            return states.push(None);
        }
        14 => {
            volume.clean().unwrap();
        }
        _ => {
            volume.checkpoint().unwrap();
            for states in possible.values_mut() {
                states.drain(..states.len() - 1);
            }
            return;
        }
    }
    states.push(Some(bytes));
}

for_each_world! {
    every_sync_that_returned_is_there
}
