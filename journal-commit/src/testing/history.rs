//! The events on a simulated device, and images that a crash at any moment can leave.

use std::collections::HashMap;
use std::sync::Arc;

use super::copy;

/// The unit in which a write tears.
pub const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A write. Reads see it from here on.
    Write {
        offset: u64,
        data: Arc<[u8]>,
        durable: bool,
    },
    FlushBegan,
    /// The end of a flush or a durable write, with the number of the event that began it.
    Ended {
        began: usize,
    },
}

/// Which writes a crash loses, of those that are not yet durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// None of these writes is lost, as when the process dies but the machine continues.
    Nothing,
    /// All these writes are lost.
    Everything,
    /// Each write is lost or kept at random, so later writes may be present without earlier ones.
    /// The number is the random seed.
    Writes(u64),
    /// Each sector of each write is lost or kept at random. The number is the random seed.
    Sectors(u64),
}

/// The events on a device. A *cut* says when a crash came: after that number of events.
#[derive(Clone, Debug)]
pub struct History {
    base: Arc<[u8]>,
    events: Vec<Event>,
}

impl History {
    pub(super) fn new(base: Arc<[u8]>, events: Vec<Event>) -> Self {
        History { base, events }
    }

    /// Returns the number of events, which is the last cut.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the number of writes that are not durable at a cut.
    pub fn in_flight(&self, cut: usize) -> usize {
        let settled = self.settled(cut);
        let writes = self.events[..cut].iter().enumerate();
        writes
            .filter(|(number, event)| matches!(event, Event::Write { .. }) && !settled(*number))
            .count()
    }

    /// Returns the content of the medium after a crash.
    ///
    /// # Panics
    /// If `cut` is more than [`len`](History::len).
    pub fn image(&self, cut: usize, loss: Loss) -> Vec<u8> {
        let settled = self.settled(cut);
        let mut coin = Coin::new(loss);
        let mut image = self.base.to_vec();
        // Apply the writes in order, so that a later write to a sector overwrites an earlier one.
        for (number, event) in self.events[..cut].iter().enumerate() {
            let Event::Write { offset, data, .. } = event else {
                continue;
            };
            if settled(number) {
                copy(&mut image, *offset, data);
                continue;
            }
            match loss {
                Loss::Nothing => copy(&mut image, *offset, data),
                Loss::Everything => {}
                Loss::Writes(_) => {
                    if coin.falls() {
                        copy(&mut image, *offset, data);
                    }
                }
                Loss::Sectors(_) => {
                    for (at, sector) in sectors(*offset, data) {
                        if coin.falls() {
                            copy(&mut image, at, sector);
                        }
                    }
                }
            }
        }
        image
    }

    /// Returns which writes are durable at a cut.
    fn settled(&self, cut: usize) -> impl Fn(usize) -> bool {
        let mut flushed = 0;
        let mut alone = HashMap::new();
        for (number, event) in self.events[..cut].iter().enumerate() {
            match event {
                Event::Write { durable: true, .. } => {
                    alone.insert(number, usize::MAX);
                }
                Event::Ended { began } if matches!(self.events[*began], Event::FlushBegan) => {
                    flushed = flushed.max(*began);
                }
                Event::Ended { began } => {
                    alone.insert(*began, number);
                }
                Event::Write { .. } | Event::FlushBegan => {}
            }
        }
        // A durable write is durable from its end on. A flush does not make it durable earlier.
        move |number| match alone.get(&number) {
            Some(ended) => *ended < cut,
            None => number < flushed,
        }
    }
}

/// Cuts a write at the device's sectors.
fn sectors(offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == data.len() {
            return None;
        }
        let here = offset + at as u64;
        let to_next = SECTOR_BYTES - (here % SECTOR_BYTES as u64) as usize;
        let end = data.len().min(at + to_next);
        let sector = &data[at..end];
        at = end;
        Some((here, sector))
    })
}

/// Random decisions by Splitmix64, which gives the same sequence on every machine.
struct Coin(u64);

impl Coin {
    fn new(loss: Loss) -> Self {
        match loss {
            Loss::Writes(seed) | Loss::Sectors(seed) => Coin(seed),
            Loss::Nothing | Loss::Everything => Coin(0),
        }
    }

    fn falls(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) & 1 == 1
    }
}
