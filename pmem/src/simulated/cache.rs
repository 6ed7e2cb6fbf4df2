//! The bytes that a crash may keep: what is on the medium, and the stores that may not be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// A change of words: the number of each word, and its new value.
pub(super) type Words = [(u32, u64)];

/// The words of an image that differ from the initial content, in order.
pub(super) type Difference = BTreeMap<u32, u64>;

/// The content of an image.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) difference: Difference,
    /// Words that may have their old or their new values, each by itself. `difference` has the old.
    pub(super) torn: BTreeSet<u32>,
}

/// A part of the region whose stores persist in order: of its pending stores, a crash keeps a
/// prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Unit {
    /// A line of 64 bytes.
    Line(u32),
    /// A word that was stored past the cache.
    Word(u32),
    /// Many words that were stored past the cache at once, named by the first. Instead of all their
    /// subsets, the search proves that recovery reads none of them while a crash may keep any.
    Torn(u32),
    /// A sector of 512 bytes of a disk.
    Sector(u32),
}

/// What a thread does to the region.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Stores: in each unit, changes that persist as a whole each.
    Store(Vec<(Unit, Arc<Words>)>),
    /// Starts the write-back of each unit's stores up to a number, counted since the beginning.
    Flush(Vec<(Unit, u32)>),
    /// Waits for the write-backs that this thread has started.
    Fence,
    /// Makes every write to these sectors durable, as their disk's flush does.
    FlushDisk(Range<u32>),
    /// Fails to make any write to these sectors durable. Their disk's cache then takes them for
    /// durable.
    FailedFlush(Range<u32>),
}

impl Act {
    /// Whether the act may take images away. All other acts only add images.
    pub(super) fn loosens(&self) -> bool {
        matches!(self, Act::Fence | Act::FlushDisk(_))
    }
}

/// Returns the units that are these sectors.
fn sectors(disk: &Range<u32>) -> Range<Unit> {
    Unit::Sector(disk.start)..Unit::Sector(disk.end)
}

#[derive(Clone, Debug, Default)]
struct Pending {
    /// How many stores of the unit are durable.
    durable: u32,
    stores: VecDeque<Arc<Words>>,
    /// Whether a disk's cache takes these stores for durable, because their write-back has failed.
    /// Only a store to the same sector changes that.
    is_clean: bool,
}

impl Pending {
    fn fail(&mut self) {
        self.is_clean = !self.stores.is_empty();
    }
}

/// The medium and the stores on their way to it.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    initial: Arc<[u64]>,
    medium: Difference,
    digest: u128,
    units: BTreeMap<Unit, Pending>,
    /// The write-backs that each thread has started since its last fence.
    started: BTreeMap<usize, Vec<(Unit, u32)>>,
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// Returns a hash of a pair. The hash of a set is the exclusive or of its pairs' hashes.
pub(super) fn hash(one: u64, other: u64) -> u128 {
    let low = mix(mix(one.wrapping_add(0x9E37_79B9_7F4A_7C15)) ^ other);
    let high = mix(mix(other.wrapping_add(0xD1B5_4A32_D192_ED03)) ^ one.rotate_left(32) ^ low);
    u128::from(high) << 64 | u128::from(low)
}

/// Returns the part of a digest that a torn word contributes.
pub(super) fn of_torn(word: u32) -> u128 {
    hash(u64::MAX, word.into())
}

impl Cache {
    /// Returns a cache without stores above `medium`, the words that differ from `initial`.
    pub(super) fn new(initial: Arc<[u64]>, medium: Difference) -> Self {
        let mut cache = Cache {
            initial,
            medium: Difference::new(),
            digest: 0,
            units: BTreeMap::new(),
            started: BTreeMap::new(),
        };
        medium
            .into_iter()
            .for_each(|(word, value)| cache.persist(word, value));
        cache
    }

    /// Returns the part of the digest that a word contributes.
    fn part(&self, word: u32, value: u64) -> u128 {
        match self.initial[word as usize] == value {
            true => 0,
            false => hash(word.into(), value),
        }
    }

    fn on_medium(&self, word: u32) -> u64 {
        let initial = self.initial[word as usize];
        self.medium.get(&word).copied().unwrap_or(initial)
    }

    fn persist(&mut self, word: u32, value: u64) {
        self.digest ^= self.part(word, self.on_medium(word)) ^ self.part(word, value);
        set(&self.initial, &mut self.medium, word, value);
    }

    /// Returns the words of the medium.
    pub(super) fn medium(&self) -> Vec<u64> {
        let mut words = self.initial.to_vec();
        for (&word, &value) in &self.medium {
            words[word as usize] = value;
        }
        words
    }

    /// Returns the words of the medium that differ from the initial content.
    pub(super) fn difference(&self) -> &Difference {
        &self.medium
    }

    /// Returns the words whose stores may not be durable.
    pub(super) fn pending(&self) -> BTreeSet<u32> {
        let stores = self.units.values().flat_map(|it| &it.stores);
        let words = stores.flat_map(|words| words.iter().map(|(word, _)| *word));
        words.collect()
    }

    /// Returns how many stores a unit has had.
    pub(super) fn stores(&self, unit: Unit) -> u32 {
        let pending = self.units.get(&unit);
        pending.map_or(0, |it| it.durable + it.stores.len() as u32)
    }

    /// Applies what `thread` does.
    pub(super) fn apply(&mut self, thread: usize, act: &Act) {
        match act {
            Act::Store(stores) => {
                for (unit, words) in stores {
                    let pending = self.units.entry(*unit).or_default();
                    pending.stores.push_back(words.clone());
                    pending.is_clean = false;
                    if let Unit::Word(_) | Unit::Torn(_) = unit {
                        let all = pending.durable + pending.stores.len() as u32;
                        self.started.entry(thread).or_default().push((*unit, all));
                    }
                }
            }
            Act::Flush(units) => self.started.entry(thread).or_default().extend(units),
            Act::Fence => {
                for (unit, until) in self.started.remove(&thread).unwrap_or_default() {
                    self.make_durable(unit, until);
                }
            }
            Act::FlushDisk(disk) => {
                let its = self.units.range(sectors(disk));
                let dirty = its.filter(|(_, it)| !it.is_clean);
                for unit in Vec::from_iter(dirty.map(|(unit, _)| *unit)) {
                    self.make_durable(unit, u32::MAX);
                }
            }
            Act::FailedFlush(disk) => {
                let its = self.units.range_mut(sectors(disk));
                its.for_each(|(_, it)| it.fail());
            }
        }
    }

    /// Kills the process, and lets another one open the medium.
    ///
    /// Persistent memory is as durable as it looks by then ([`Durable::at_rest`]). The worst that
    /// may have happened to a disk's cache is that every write-back has failed.
    ///
    /// [`Durable::at_rest`]: crate::Durable::at_rest
    pub(super) fn kill(&mut self) {
        self.started.clear();
        for unit in Vec::from_iter(self.units.keys().copied()) {
            match unit {
                Unit::Line(_) | Unit::Word(_) | Unit::Torn(_) => self.make_durable(unit, u32::MAX),
                Unit::Sector(_) => self
                    .units
                    .get_mut(&unit)
                    .into_iter()
                    .for_each(Pending::fail),
            }
        }
    }

    /// Whether a disk's cache takes a store for durable that may not be.
    pub(super) fn is_clean(&self, unit: Unit) -> bool {
        self.units.get(&unit).is_some_and(|it| it.is_clean)
    }

    fn make_durable(&mut self, unit: Unit, until: u32) {
        while let Some(pending) = self.units.get_mut(&unit)
            && pending.durable < until
            && let Some(words) = pending.stores.pop_front()
        {
            pending.durable += 1;
            words
                .iter()
                .for_each(|&(word, value)| self.persist(word, value));
        }
    }

    /// Returns a digest of the set of images.
    pub(super) fn state(&self) -> u128 {
        let mut digest = self.digest;
        for (unit, pending) in &self.units {
            let mut chain = match unit {
                Unit::Line(at) => hash(1, (*at).into()),
                Unit::Word(at) => hash(2, (*at).into()),
                Unit::Torn(at) => hash(3, (*at).into()),
                Unit::Sector(at) => hash(4, (*at).into()),
            };
            for &(word, value) in pending.stores.iter().flat_map(|words| words.iter()) {
                chain = hash(chain as u64, hash(word.into(), value) as u64);
            }
            if !pending.stores.is_empty() {
                digest ^= chain;
            }
        }
        digest
    }

    /// Calls `each` with the digest of every image that a crash now may leave, and a function that
    /// makes the image.
    ///
    /// # Panics
    /// If there are more than a million.
    pub(super) fn images(&self, mut each: impl FnMut(u128, &dyn Fn() -> Content)) {
        // For each unit with pending stores: the words after each prefix of them.
        let mut units = Vec::new();
        let mut torn = BTreeSet::new();
        for (unit, pending) in self.units.iter().filter(|(_, it)| !it.stores.is_empty()) {
            if let Unit::Torn(_) = unit {
                let words = pending.stores.iter().flat_map(|words| words.iter());
                torn.extend(words.map(|(word, _)| *word));
                continue;
            }
            let mut after = BTreeMap::new();
            let mut prefixes: Vec<(u128, BTreeMap<u32, u64>)> = vec![(0, after.clone())];
            for words in &pending.stores {
                after.extend(words.iter().copied());
                let parts = after.iter().map(|(&word, &value)| {
                    self.part(word, self.on_medium(word)) ^ self.part(word, value)
                });
                let digest = parts.fold(0, |all, part| all ^ part);
                if prefixes.iter().all(|(other, _)| *other != digest) {
                    prefixes.push((digest, after.clone()));
                }
            }
            units.push(prefixes);
        }
        let many: f64 = units.iter().map(|prefixes| prefixes.len() as f64).product();
        assert!(
            many <= 1e6,
            "a crash may leave {many} images here: store fewer bytes between fences"
        );
        let of_rest = torn
            .iter()
            .map(|&word| of_torn(word))
            .fold(self.digest, |all, part| all ^ part);
        let mut chosen = vec![0; units.len()];
        loop {
            let picked = || {
                units
                    .iter()
                    .zip(&chosen)
                    .map(|(prefixes, &at)| &prefixes[at])
            };
            let digest = picked().fold(of_rest, |all, (part, _)| all ^ part);
            each(digest, &|| {
                let mut image = self.medium.clone();
                for (&word, &value) in picked().flat_map(|(_, words)| words) {
                    set(&self.initial, &mut image, word, value);
                }
                Content {
                    difference: image,
                    torn: torn.clone(),
                }
            });
            let next = (0..units.len()).find(|&at| chosen[at] + 1 < units[at].len());
            let Some(next) = next else { return };
            chosen[next] += 1;
            chosen[..next].fill(0);
        }
    }
}

/// Sets a word of a difference from `initial`.
pub(super) fn set(initial: &[u64], difference: &mut Difference, word: u32, value: u64) {
    match initial[word as usize] == value {
        true => difference.remove(&word),
        false => difference.insert(word, value),
    };
}
