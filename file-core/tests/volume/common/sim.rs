//! Simulates what reaches the medium, by the x86 model. Each line persists a prefix of its stores;
//! lines persist in any order; streaming stores persist individually. A fence makes durable what
//! its own thread has flushed before.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::thread::{self, ThreadId};

const LINE: u64 = 64;

/// A store of 8 bytes that may not have reached the medium.
#[derive(Clone, Copy)]
struct Store {
    /// The index of the word in the region.
    word: usize,
    value: u64,
    /// The store's number, counting all stores.
    number: u64,
    streaming: bool,
}

/// The medium, and the stores on their way to it.
pub(crate) struct Sim {
    medium: Vec<u64>,
    /// Pending stores by line, in order.
    pending: BTreeMap<u64, Vec<Store>>,
    /// For each thread, the lines that its next fence makes durable, up to the store with this
    /// number.
    flushed: HashMap<ThreadId, Vec<(u64, u64)>>,
    stores: u64,
    rng: Rng,
}

impl Sim {
    pub(crate) fn new(medium: Vec<u64>, seed: u64) -> Sim {
        Sim {
            medium,
            pending: BTreeMap::new(),
            flushed: HashMap::new(),
            stores: 0,
            rng: Rng::new(seed),
        }
    }

    pub(crate) fn store(&mut self, at: u64, data: &[u8], streaming: bool) {
        for (i, value) in data.chunks_exact(8).enumerate() {
            let at = at + i as u64 * 8;
            self.stores += 1;
            let store = Store {
                word: at as usize / 8,
                value: super::word(value),
                number: self.stores,
                streaming,
            };
            self.pending.entry(at / LINE).or_default().push(store);
        }
        if streaming {
            self.flush(at..at + data.len() as u64);
        }
    }

    pub(crate) fn flush(&mut self, range: Range<u64>) {
        let mine = self.flushed.entry(thread::current().id()).or_default();
        let lines = range.start / LINE..range.end.div_ceil(LINE);
        mine.extend(lines.map(|line| (line, self.stores)));
    }

    pub(crate) fn fence(&mut self) {
        let mine = self
            .flushed
            .remove(&thread::current().id())
            .unwrap_or_default();
        for (line, upto) in mine {
            let Some(stores) = self.pending.get_mut(&line) else {
                continue;
            };
            let durable = stores.iter().take_while(|s| s.number <= upto).count();
            for store in stores.drain(..durable) {
                self.medium[store.word] = store.value;
            }
            if stores.is_empty() {
                self.pending.remove(&line);
            }
        }
    }

    /// Returns one random image that a crash now may leave. It chooses among three kinds: every
    /// line independent of the others, everything persisted, or a single line persisted as far as
    /// allowed and nothing else.
    pub(crate) fn crash_image(&mut self) -> Vec<u64> {
        let mut medium = self.medium.clone();
        let lines = self.pending.len() as u64;
        let (way, chosen) = (self.rng.below(4), self.rng.below(lines.max(1)));
        for (i, stores) in self.pending.values().enumerate() {
            let chance = match way {
                0 => u64::from(i as u64 == chosen) * 4,
                1 => u64::from(i as u64 != chosen) * 4,
                2 => 4,
                _ => self.rng.below(5),
            };
            let cached = stores.iter().filter(|s| !s.streaming).count() as u64;
            let mut prefix = if chance == 4 {
                cached
            } else {
                self.rng.below(cached + 1)
            };
            if chance == 0 {
                prefix = 0;
            }
            for store in stores {
                let persists = if store.streaming {
                    self.rng.below(4) < chance
                } else {
                    prefix > 0 && {
                        prefix -= 1;
                        true
                    }
                };
                if persists {
                    medium[store.word] = store.value;
                }
            }
        }
        medium
    }
}

/// A generator of pseudorandom numbers with a fixed sequence for each seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number less than `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }
}
