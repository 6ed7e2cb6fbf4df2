//! Compares long random histories with a map of byte strings. Reopening the volume is one of the
//! operations.

use std::collections::HashMap;

use crate::common::{Handle, PAGE, Volume, content, format, reopen};
use proptest::prelude::*;
use spanlock_file_core::{Error, FormatOptions};

#[derive(Clone, Debug)]
enum Op {
    Create(u8),
    Write {
        name: u8,
        offset: u64,
        len: usize,
        byte: u8,
    },
    Append {
        name: u8,
        len: usize,
        byte: u8,
    },
    Read {
        name: u8,
        offset: u64,
        len: usize,
    },
    Remove(u8),
    Reopen,
}

const NAMES: u8 = 6;

fn op() -> impl Strategy<Value = Op> {
    // Page borders are more likely than other offsets.
    let border =
        (0..5 * PAGE, 0..20_u64).prop_map(|(a, b)| (a / PAGE * PAGE + b).saturating_sub(10));
    let offset = prop_oneof![border, 0..5 * PAGE].boxed();
    let len = prop_oneof![1..50_usize, 4000..4200_usize, 1..20_000_usize].boxed();
    prop_oneof![
        2 => (0..NAMES).prop_map(Op::Create),
        8 => (0..NAMES, offset.clone(), len.clone(), any::<u8>())
            .prop_map(|(name, offset, len, byte)| Op::Write { name, offset, len, byte }),
        2 => (0..NAMES, len.clone(), any::<u8>())
            .prop_map(|(name, len, byte)| Op::Append { name, len, byte }),
        4 => (0..NAMES, offset, len).prop_map(|(name, offset, len)| Op::Read { name, offset, len }),
        1 => (0..NAMES).prop_map(Op::Remove),
        1 => Just(Op::Reopen),
    ]
}

fn name_of(name: u8) -> String {
    format!("{name}").repeat(1 + name as usize * 60)
}

struct Pair {
    volume: Volume,
    model: HashMap<String, Vec<u8>>,
}

impl Pair {
    fn file(&self, name: u8) -> Option<Handle> {
        let name = name_of(name);
        let file = self.volume.open_file(&name);
        assert_eq!(file.is_ok(), self.model.contains_key(&name));
        file.ok()
    }

    fn write(&mut self, name: u8, offset: Option<u64>, data: &[u8]) {
        let Some(file) = self.file(name) else { return };
        let model = self.model.get_mut(&name_of(name)).unwrap();
        let at = offset.unwrap_or(model.len() as u64);
        let result = match offset {
            Some(offset) => file.write_at(data, offset),
            None => file.append(data).map(|found| assert_eq!(found, at)),
        };
        match result {
            Ok(()) => {
                let end = at as usize + data.len();
                model.resize(model.len().max(end), 0);
                model[at as usize..end].copy_from_slice(data);
            }
            Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error}"),
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Create(name) => {
                let name = name_of(name);
                match (self.volume.create(&name), self.model.contains_key(&name)) {
                    (Ok(_), false) => _ = self.model.insert(name, Vec::new()),
                    (Err(Error::NoSpace { .. }), false) => {}
                    (result, _) => assert_eq!(result.unwrap_err(), Error::Exists { name }),
                }
            }
            Op::Write {
                name,
                offset,
                len,
                byte,
            } => self.write(name, Some(offset), &vec![byte; len]),
            Op::Append { name, len, byte } => self.write(name, None, &vec![byte; len]),
            Op::Read { name, offset, len } => {
                let Some(file) = self.file(name) else { return };
                let mut bytes = vec![0xEE; len];
                let n = file.read_at(&mut bytes, offset).unwrap();
                let model = &self.model[&name_of(name)];
                let expected = model.get(offset as usize..).unwrap_or_default();
                assert_eq!(bytes[..n], expected[..expected.len().min(len)]);
            }
            Op::Remove(name) => {
                let name = name_of(name);
                assert_eq!(
                    self.volume.remove(&name).is_ok(),
                    self.model.remove(&name).is_some()
                );
            }
            Op::Reopen => {
                let before = self.volume.stats();
                self.volume = reopen(&self.volume);
                let after = self.volume.stats();
                assert_eq!(before.pages_free, after.pages_free);
                assert_eq!(
                    (before.log_pages, before.inodes_free),
                    (after.log_pages, after.inodes_free)
                );
            }
        }
    }

    fn compare(&self) {
        assert_eq!(self.volume.list().len(), self.model.len());
        for (name, bytes) in &self.model {
            assert_eq!(&content(&self.volume.open_file(name).unwrap()), bytes);
        }
        assert!(self.volume.check().unwrap().damaged.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn a_volume_behaves_like_a_map(ops in prop::collection::vec(op(), 1..200), pages in 24..80_u64, checksums: bool) {
        let options = FormatOptions::new().inodes(32).data_checksums(checksums);
        let mut pair = Pair { volume: format(pages, &options), model: HashMap::new() };
        for op in ops {
            pair.apply(op);
        }
        pair.compare();
        pair.apply(Op::Reopen);
        pair.compare();
    }
}
