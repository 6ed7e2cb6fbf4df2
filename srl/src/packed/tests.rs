//! Every operation on every state of a lane, compared with a plain model.
//!
//! Each case runs in each lane. The other lanes take every state in turn, and must not change.

use super::*;
use Access::{Read, Upgradable, Write};

const ALL: [Access; 3] = [Read, Upgradable, Write];

/// The holders of a lane: what its bits stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Holders {
    /// The number of readers, without the upgradable one.
    readers: u32,
    upgradable: bool,
    writer: bool,
}

impl Holders {
    /// Returns the holders that four bits stand for, if any.
    fn of(bits: u64) -> Option<Self> {
        let free = Holders::default();
        let upgradable = bits & 0b1000 != 0;
        match (upgradable, (bits & 0b0111) as u32) {
            (true, 7) => Some(Holders {
                writer: true,
                ..free
            }),
            (true, 0) | (false, 7) => None,
            (upgradable, all) => Some(Holders {
                readers: all - u32::from(upgradable),
                upgradable,
                ..free
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

    /// Returns whether the change to `after` admits a request, or lets a scan see the lane free.
    fn unblocks(self, after: Self) -> bool {
        ALL.iter().any(|&access| {
            !self.admits(access) && after.admits(access)
                || self.conflicts(access) && !after.conflicts(access)
        })
    }
}

/// Returns all valid states of a lane: their bits and holders.
fn states() -> impl Iterator<Item = (u64, Holders)> {
    (0..16).filter_map(|bits| Some((bits, Holders::of(bits)?)))
}

/// Returns a word for each valid state of the other lanes, with `bits` in lane `lane`.
fn words(lane: u32, bits: u64) -> impl Iterator<Item = PackedWord> {
    let shift = lane * BITS;
    states().map(move |(other, _)| {
        let others = (EACH * other) & !(WRITER << shift);
        PackedWord(AtomicU64::new(others | bits << shift))
    })
}

/// Returns the holders of the lane now; asserts that the other lanes have not changed.
fn after(word: &PackedWord, before: u64, lane: u32) -> Holders {
    let (now, shift) = (word.0.load(Relaxed), lane * BITS);
    assert_eq!(
        (now ^ before) & !(WRITER << shift),
        0,
        "{before:x} became {now:x}"
    );
    Holders::of(now >> shift & WRITER).expect("a valid state")
}

/// Calls `f` for every lane, every state of it, and every state of the other lanes.
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
fn two_of_sixteen_states_are_invalid() {
    assert_eq!(states().count(), 14);
    assert_eq!((Holders::of(0b0111), Holders::of(0b1000)), (None, None));
}

#[test]
fn take_succeeds_exactly_when_the_lane_admits_it() {
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
fn free_until_reports_conflicts_and_changes_nothing() {
    for access in ALL {
        each(|word, before, lane, holders| {
            let free = word.free_until(lane, lane + 1, access) > lane;
            assert_eq!(free, !holders.conflicts(access), "{access:?} {holders:?}");
            assert_eq!(after(&word, before, lane), holders);
        });
    }
}

/// A release that unblocks a request returns true. A reader's release returns true only then.
#[test]
fn a_release_reports_whether_it_unblocks() {
    for access in ALL {
        each(|word, before, lane, holders| {
            if !holders.holds(access) {
                return;
            }
            // SAFETY: the model says that the lane is held.
            let wakes = unsafe { word.release(lane, lane + 1, access) };
            let now = after(&word, before, lane);
            assert_eq!(now, holders.without(access));
            let unblocks = holders.unblocks(now);
            assert!(wakes || !unblocks, "{access:?} left {holders:?} unreported");
            assert!(access != Read || wakes == unblocks, "{holders:?}");
        });
    }
}

#[test]
fn a_downgrade_changes_one_holder() {
    for (from, to) in [(Write, Read), (Write, Upgradable), (Upgradable, Read)] {
        each(|word, before, lane, holders| {
            if !holders.holds(from) {
                return;
            }
            // SAFETY: the model says that the lane is held.
            unsafe { word.downgrade(lane, lane + 1, from, to) };
            let expected = holders.without(from).with(to);
            assert_eq!(after(&word, before, lane), expected);
        });
    }
}

#[test]
fn an_upgrade_succeeds_exactly_for_the_only_holder() {
    for from in [Read, Upgradable] {
        each(|word, before, lane, holders| {
            if !holders.holds(from) {
                return;
            }
            // SAFETY: the model says that the lane is held.
            let alone = unsafe { word.try_upgrade(lane, lane + 1, from) };
            let others = holders.without(from);
            assert_eq!(alone, others == Holders::default(), "{holders:?}");
            let expected = if alone { others.with(Write) } else { holders };
            assert_eq!(after(&word, before, lane), expected);
        });
    }
}

/// A request for many lanes takes the lanes before the first lane that refuses it. A request for
/// all lanes of a word has a fast path, and gets the same result.
#[test]
fn a_run_takes_the_lanes_before_the_first_refusal() {
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
        // SAFETY: the word was taken just now.
        assert!(unsafe { word.release(0, LANES, access) });
        assert_eq!(word.0.load(Relaxed), 0);
    }
}
