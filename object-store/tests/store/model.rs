//! Random operations, compared with plain bytes in memory, with reopenings between.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spanlock_object_store::space::Error as SpaceError;
use spanlock_object_store::{Error, Mode};

use crate::common::{BLOCK, LAYOUTS, MODES, content, create, device, open, options};

#[derive(Clone, Debug)]
enum Op {
    Create,
    /// The object, counted from the first one there; offset, length.
    Write(usize, u64, usize, u8),
    Delete(usize),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let offset = prop_oneof![0..2000_u64, Just(BLOCK), Just(0)];
    prop_oneof![
        3 => Just(Op::Create),
        6 => (any::<usize>(), offset, 0..1500_usize, any::<u8>())
            .prop_map(|(nth, at, len, byte)| Op::Write(nth, at, len, byte)),
        1 => any::<usize>().prop_map(Op::Delete),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_store_is_a_map_of_bytes(
        ops in prop::collection::vec(op(), 1..60),
        layout in 0..2_usize,
        mode in 0..2_usize,
        (skip, heads) in prop_oneof![Just((1, 1)), Just((4, 3)), Just((64, 20))],
    ) {
        let (device, mode) = (device(), MODES[mode]);
        let options = options(LAYOUTS[layout], mode).skip_number(skip).pre_create(heads);
        let mut store = create(&device, &options);
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut last = 0;
        for op in ops {
            let pick = |nth: usize| model.keys().nth(nth % model.len().max(1)).copied();
            match op {
                Op::Create => {
                    let id = store.create_object().unwrap();
                    prop_assert!(id > last);
                    last = id;
                    model.insert(id, Vec::new());
                }
                Op::Write(nth, at, len, byte) => {
                    let Some(id) = pick(nth) else { continue };
                    match store.write(id, at, &vec![byte; len]) {
                        Err(Error::Space(SpaceError::NoSpace { .. })) => continue,
                        result => result.unwrap(),
                    }
                    let bytes = model.get_mut(&id).unwrap();
                    let end = at as usize + len;
                    if len > 0 {
                        bytes.resize(bytes.len().max(end), 0);
                        bytes[at as usize..end].fill(byte);
                    }
                }
                Op::Delete(nth) => {
                    let Some(id) = pick(nth) else { continue };
                    store.delete(id).unwrap();
                    model.remove(&id);
                    let is_gone = matches!(content(&store, id), Err(Error::UnknownId { .. }));
                    prop_assert!(is_gone);
                }
                Op::Reopen => {
                    drop(store);
                    store = open(&device, &options).unwrap();
                }
            }
            for (id, bytes) in &model {
                let mut expected = bytes.clone();
                if mode == Mode::Direct {
                    expected.resize(4096, 0);
                }
                prop_assert_eq!(&content(&store, *id).unwrap(), &expected);
            }
        }
        let report = store.check().unwrap();
        prop_assert_eq!(report.findings, []);
        let listed = store.list(0, usize::MAX).unwrap();
        prop_assert_eq!(report.objects, listed.len() as u64);
        // Without pre-creation, the list is exact; with it, objects may be missing that were never
        // written.
        prop_assert!(listed.iter().all(|id| model.contains_key(id)));
        let missing = model.iter().filter(|(id, _)| !listed.contains(id));
        for (_, bytes) in missing {
            prop_assert!(heads > 1 && bytes.is_empty());
        }
    }
}
