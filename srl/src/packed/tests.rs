//! Every state of a lane and everything that can be done to it, against a plain model; in each lane, between neighbours that must not change.

use super::*;
use Access::{Read, Upgradable, Write};

const ALL: [Access; 3] = [Read, Upgradable, Write];

/// Who holds a lane: what its bits stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Holders {
    /// Plain readers.
    readers: u32,
    upgradable: bool,
    writer: bool,
}

impl Holders {
    /// What four bits stand for, if anything.
    fn of(bits: u64) -> Option<Self> {
        let nobody = Holders::default();
        let upgradable = bits & 0b1000 != 0;
        match (upgradable, (bits & 0b0111) as u32) {
            (true, 7) => Some(Holders {
                writer: true,
                ..nobody
            }),
            (true, 0) | (false, 7) => None,
            (upgradable, all) => Some(Holders {
                readers: all - u32::from(upgradable),
                upgradable,
                ..nobody
            }),
        }
    }

    fn conflicts(self, access: Access) -> bool {
        match access {
            Read => self.writer,
            Upgradable => self.writer || self.upgradable,
            Write => self != Holders::default(),
        }
    }

    fn admits(self, access: Access) -> bool {
        let readers = self.readers + u32::from(self.upgradable);
        !self.conflicts(access) && (access == Write || readers < MAX_READERS)
    }

    fn holds(self, access: Access) -> bool {
        match access {
            Read => self.readers > 0,
            Upgradable => self.upgradable,
            Write => self.writer,
        }
    }

    fn with(mut self, access: Access) -> Self {
        match access {
            Read => self.readers += 1,
            Upgradable => self.upgradable = true,
            Write => self.writer = true,
        }
        self
    }

    fn without(mut self, access: Access) -> Self {
        match access {
            Read => self.readers -= 1,
            Upgradable => self.upgradable = false,
            Write => self.writer = false,
        }
        self
    }

    /// Whether somebody who was kept out may get in, or see the lane free, now that it is `after`.
    fn lets_in(self, after: Self) -> bool {
        ALL.iter().any(|&access| {
            !self.admits(access) && after.admits(access)
                || self.conflicts(access) && !after.conflicts(access)
        })
    }
}

/// All bits of a lane that stand for something.
fn states() -> impl Iterator<Item = (u64, Holders)> {
    (0..16).filter_map(|bits| Some((bits, Holders::of(bits)?)))
}

/// Neighbours as they may be, beside lane `lane` with these bits.
fn words(lane: u32, bits: u64) -> impl Iterator<Item = PackedWord> {
    let shift = lane * BITS;
    states().map(move |(other, _)| {
        let others = (EACH * other) & !(WRITER << shift);
        PackedWord(AtomicU64::new(others | bits << shift))
    })
}

/// What is in the lane now; the neighbours are as they were.
fn after(word: &PackedWord, before: u64, lane: u32) -> Holders {
    let (now, shift) = (word.0.load(Relaxed), lane * BITS);
    assert_eq!(
        (now ^ before) & !(WRITER << shift),
        0,
        "{before:x} became {now:x}"
    );
    Holders::of(now >> shift & WRITER).expect("a state that stands for something")
}

/// Calls `f` with every lane, state and neighbours.
fn each(mut f: impl FnMut(PackedWord, u64, u32, Holders)) {
    for lane in 0..LANES {
        for (bits, holders) in states() {
            for word in words(lane, bits) {
                // Relaxed: one thread.
                let before = word.0.load(Relaxed);
                f(word, before, lane, holders);
            }
        }
    }
}

#[test]
fn two_states_of_sixteen_never_are() {
    assert_eq!(states().count(), 14);
    assert_eq!((Holders::of(0b0111), Holders::of(0b1000)), (None, None));
}

#[test]
fn taking() {
    for access in ALL {
        each(|word, before, lane, holders| {
            let taken = word.take(lane, lane + 1, access, 1) > lane;
            assert_eq!(taken, holders.admits(access), "{access:?} of {holders:?}");
            let expected = if taken { holders.with(access) } else { holders };
            assert_eq!(after(&word, before, lane), expected);
        });
    }
}

#[test]
fn looking() {
    for access in ALL {
        each(|word, before, lane, holders| {
            let free = word.free_until(lane, lane + 1, access) > lane;
            assert_eq!(free, !holders.conflicts(access), "{access:?} {holders:?}");
            assert_eq!(after(&word, before, lane), holders);
        });
    }
}

/// Whoever lets somebody in says so; and a reader who does not says so too.
#[test]
fn giving_back() {
    for access in ALL {
        each(|word, before, lane, holders| {
            if !holders.holds(access) {
                return;
            }
            // SAFETY: held, says the model.
            let wakes = unsafe { word.release(lane, lane + 1, access) };
            let now = after(&word, before, lane);
            assert_eq!(now, holders.without(access));
            let lets_in = holders.lets_in(now);
            assert!(wakes || !lets_in, "{access:?} left {holders:?} in silence");
            assert!(access != Read || wakes == lets_in, "{holders:?}");
        });
    }
}

#[test]
fn weakening() {
    for (from, to) in [(Write, Read), (Write, Upgradable), (Upgradable, Read)] {
        each(|word, before, lane, holders| {
            if !holders.holds(from) {
                return;
            }
            // SAFETY: held, says the model.
            unsafe { word.downgrade(lane, lane + 1, from, to) };
            let expected = holders.without(from).with(to);
            assert_eq!(after(&word, before, lane), expected);
        });
    }
}

#[test]
fn strengthening() {
    for from in [Read, Upgradable] {
        each(|word, before, lane, holders| {
            if !holders.holds(from) {
                return;
            }
            // SAFETY: held, says the model.
            let alone = unsafe { word.try_upgrade(lane, lane + 1, from) };
            let others = holders.without(from);
            assert_eq!(alone, others == Holders::default(), "{holders:?}");
            let expected = if alone { others.with(Write) } else { holders };
            assert_eq!(after(&word, before, lane), expected);
        });
    }
}

/// A run takes the lanes before the first that refuses it, and all lanes of a word are no other case than some.
#[test]
fn runs_of_lanes() {
    for access in ALL {
        for (bits, holders) in states() {
            for busy in 0..LANES {
                let word = PackedWord(AtomicU64::new(bits << (busy * BITS)));
                let end = if holders.admits(access) { LANES } else { busy };
                assert_eq!(word.take(0, LANES, access, LANES), end / LANES * LANES);
                let free = if holders.conflicts(access) {
                    busy
                } else {
                    LANES
                };
                let word = PackedWord(AtomicU64::new(bits << (busy * BITS)));
                assert_eq!(word.free_until(0, LANES, access), free);
                assert_eq!(word.take(0, LANES, access, 1), end);
            }
        }
        let word = PackedWord::new();
        assert_eq!(word.take(0, LANES, access, LANES), LANES);
        // SAFETY: taken just now.
        assert!(unsafe { word.release(0, LANES, access) });
        assert_eq!(word.0.load(Relaxed), 0);
    }
}
