//! Random operations against a plain map of byte vectors, with reopenings.

use std::collections::BTreeMap;

use spanlock_node_log::Lookup;

use crate::common::{BLOCK, SEGMENTS, World, check, content, for_each_world, options, pattern};

/// The pages near which operations take place, among them the first ones of two direct nodes.
const PAGES: [u64; 4] = [0, 920, 1937, 2953];

fn random_operations_do_what_they_do_to_bytes<W: World>() {
    for (seed, lookup) in (0..).zip([Lookup::Optimistic, Lookup::Shared, Lookup::Exclusive]) {
        let mut random = fastrand::Rng::with_seed(seed);
        let world = W::new(SEGMENTS);
        // Few nodes in memory, so that others are loaded again.
        let options = options().lookup(lookup).cached_nodes(4);
        let mut volume = world.create(&options).unwrap();
        let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for nth in 0..400 {
            let name = format!("file {}", random.u32(0..4));
            let file = match (volume.open_file(&name), model.get_mut(&name)) {
                (Ok(file), Some(bytes)) => Some((file, bytes)),
                (Err(_), None) => None,
                (file, bytes) => panic!("{file:?}, {bytes:?}"),
            };
            let Some((file, bytes)) = file else {
                volume.create_file(&name).unwrap();
                model.insert(name, Vec::new());
                continue;
            };
            let base = PAGES[random.usize(0..4)] * BLOCK as u64;
            let offset = (base + random.u64(0..5 * BLOCK as u64)) as usize;
            let data = pattern(nth, random.usize(1..3 * BLOCK));
            match random.u32(0..20) {
                0..8 => {
                    file.write_at(&data, offset as u64).unwrap();
                    bytes.resize(bytes.len().max(offset + data.len()), 0);
                    bytes[offset..offset + data.len()].copy_from_slice(&data);
                }
                8..11 => {
                    assert_eq!(file.append(&data).unwrap(), bytes.len() as u64);
                    bytes.extend(&data);
                }
                11..13 => {
                    file.truncate(offset as u64).unwrap();
                    bytes.resize(offset, 0);
                }
                13..16 => file.fsync().unwrap(),
                16 => {
                    volume.remove(&name).unwrap();
                    model.remove(&name);
                }
                17 => {
                    volume.clean().unwrap();
                }
                18 => volume.checkpoint().unwrap(),
                _ => {
                    drop(file);
                    check::<W>(&mut volume);
                    drop(volume);
                    volume = world.open(&options).unwrap();
                    check::<W>(&mut volume);
                    for (name, bytes) in &model {
                        assert!(content::<W>(&volume, name) == *bytes, "{nth}: {name}");
                    }
                }
            }
            if let Some(bytes) = model.get(&name) {
                let file = volume.open_file(&name).unwrap();
                let mut found = vec![0; 2 * BLOCK];
                let count = file.read_at(&mut found, offset as u64).unwrap();
                let end = bytes.len().min(offset + found.len());
                assert!(
                    found[..count] == bytes[offset.min(end)..end],
                    "{nth}: {name}"
                );
                assert_eq!(file.len(), bytes.len() as u64);
            }
        }
        assert!(volume.names().into_iter().eq(model.into_keys()));
        check::<W>(&mut volume);
    }
}

for_each_world! {
    random_operations_do_what_they_do_to_bytes
}
