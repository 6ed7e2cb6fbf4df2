//! A cache line: which cores have it, and when it gets from one to the next.
//!
//! The protocol is MESI with a directory. A transfer is reserved when a core asks for the line, and
//! transfers of one line take place one after the other. So while one is under way, the line's
//! *tenures* are known in advance: who has it alone, from when, until when.

use std::collections::VecDeque;

use crate::machine::{self, FILL, Percent, SHARE, Time};

/// How an access uses its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    /// A read-modify-write.
    Rmw,
}

/// When a core has the line that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) source: Source,
}

/// Where the line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The core has it already.
    Own,
    /// No other core has it.
    Memory,
    /// Another core has it: this is a transfer.
    Core,
}

/// The time in which a core has a line alone.
#[derive(Clone, Copy, Debug)]
struct Tenure {
    core: usize,
    from: Time,
    /// [`Time::MAX`] until another core asks.
    until: Time,
}

#[derive(Debug, Default)]
pub(crate) struct Line {
    /// In order. All but the last have an end.
    tenures: VecDeque<Tenure>,
    /// The cores that have the line, as bits, while none has it alone.
    sharers: u128,
    /// When the last transfer so far is over.
    busy: Time,
}

impl Line {
    /// Gets the line for an access by `core` at `now`.
    pub(crate) fn reach(
        &mut self,
        core: usize,
        access: Access,
        now: Time,
        percent: Percent,
    ) -> Arrival {
        while self.tenures.front().is_some_and(|it| it.until < now) {
            self.tenures.pop_front();
        }
        let me = 1 << core;
        let own = self.tenures.iter().find(|it| it.core == core);
        let shared = access == Access::Load && self.sharers & me != 0;
        if shared || own.is_some() {
            let at = own.map_or(now, |it| now.max(it.from));
            let source = Source::Own;
            return Arrival { at, source };
        }
        let start = now.max(self.busy);
        let owner = self.tenures.back().filter(|it| it.until == Time::MAX);
        let others = match owner {
            Some(owner) => 1 << owner.core,
            None => self.sharers & !me,
        };
        if access == Access::Load && owner.is_none() && others != 0 {
            self.sharers |= me;
            self.busy = start + SHARE;
            let at = start
                + distances(others, core, percent)
                    .min()
                    .expect("there are others");
            return Arrival {
                at,
                source: Source::Core,
            };
        }
        let (latency, source) = match distances(others, core, percent).max() {
            Some(distance) => (distance, Source::Core),
            None if self.sharers & me != 0 => (SHARE, Source::Own),
            None => (FILL, Source::Memory),
        };
        let at = start + latency;
        let owner = self.tenures.back_mut().filter(|it| it.until == Time::MAX);
        let had_owner = owner.is_some();
        if let Some(owner) = owner {
            owner.until = machine::lost(start, latency);
        }
        self.busy = at;
        if access == Access::Load && had_owner {
            self.sharers = others | me;
        } else {
            // A core that loads a line that nobody has gets it for itself.
            self.sharers = 0;
            self.tenures.push_back(Tenure {
                core,
                from: at,
                until: Time::MAX,
            });
        }
        Arrival { at, source }
    }
}

/// Returns how far each of these cores is.
fn distances(mut cores: u128, to: usize, percent: Percent) -> impl Iterator<Item = Time> {
    core::iter::from_fn(move || {
        let first = (cores != 0).then(|| cores.trailing_zeros() as usize)?;
        cores &= cores - 1;
        Some(percent.distance(first, to))
    })
}

#[cfg(test)]
mod tests {
    use super::Access::*;
    use super::Source::*;
    use super::*;

    const USUAL: Percent = Percent {
        transfers: 100,
        system: 100,
    };

    /// Returns where the line comes from for each access, if each begins when all before are over.
    fn sources(accesses: &[(usize, Access)]) -> Vec<Source> {
        let mut line = Line::default();
        let far_apart = (0..).step_by(1 << 20);
        let accesses = accesses.iter().zip(far_apart);
        accesses
            .map(|(&(core, access), now)| line.reach(core, access, now, USUAL).source)
            .collect()
    }

    #[test]
    fn a_line_moves_when_another_core_has_it_as_the_access_needs() {
        assert_eq!(
            sources(&[(0, Load), (0, Rmw), (0, Load)]),
            [Memory, Own, Own]
        );
        assert_eq!(
            sources(&[(0, Rmw), (1, Load), (0, Load)]),
            [Memory, Core, Own]
        );
        let shared = [
            (0, Load),
            (1, Load),
            (2, Load),
            (1, Store),
            (2, Load),
            (1, Load),
        ];
        assert_eq!(sources(&shared), [Memory, Core, Core, Core, Core, Own]);
        assert_eq!(
            sources(&[(0, Rmw), (1, Rmw), (0, Rmw)]),
            [Memory, Core, Core]
        );
    }

    #[test]
    fn transfers_of_a_line_take_place_one_after_the_other() {
        let mut line = Line::default();
        let [first, second, third] = [0, 1, 40].map(|core| line.reach(core, Rmw, 0, USUAL).at);
        assert_eq!(first, FILL);
        assert_eq!(second - first, USUAL.distance(0, 1));
        assert_eq!(third - second, USUAL.distance(1, 40));
        // The first core still has it when it uses it again at once; later, it has lost it.
        assert_eq!(line.reach(0, Load, first, USUAL).source, Own);
        assert_eq!(line.reach(0, Load, second, USUAL).source, Core);
    }
}
