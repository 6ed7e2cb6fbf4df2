//! Sets of events, and relations between them, as bits.

use core::ops::{BitAnd, BitOr, BitOrAssign};

/// The largest number of events.
pub(super) const EVENTS: usize = 16;

/// A set of events.
#[derive(Clone, Copy, Default)]
pub(super) struct Set(u16);

impl Set {
    pub(super) fn of(members: impl IntoIterator<Item = usize>) -> Set {
        Set(members.into_iter().fold(0, |set, member| set | 1 << member))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn contains(self, event: usize) -> bool {
        self.0 >> event & 1 == 1
    }

    pub(super) fn complement(self) -> Set {
        Set(!self.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let first = (left != 0).then(|| left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            first
        })
    }
}

impl BitAnd for Set {
    type Output = Set;
    fn bitand(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }
}

impl BitOr for Set {
    type Output = Set;
    fn bitor(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }
}

/// A relation: for each event, the events that it is related to.
#[derive(Clone, Copy, Default)]
pub(super) struct Relation([Set; EVENTS]);

impl Relation {
    /// The identity on a set, written `[set]` in the literature.
    pub(super) fn identity(set: Set) -> Relation {
        let mut all = Relation::default();
        set.iter().for_each(|event| all.insert(event, event));
        all
    }

    pub(super) fn insert(&mut self, from: usize, to: usize) {
        self.0[from] = self.0[from] | Set::of([to]);
    }

    /// Adds a pair to a transitive relation, which remains transitive.
    pub(super) fn connect(&mut self, from: usize, to: usize) {
        let new = self.0[to] | Set::of([to]);
        for (event, row) in self.0.iter_mut().enumerate() {
            if event == from || row.contains(from) {
                *row = *row | new;
            }
        }
    }

    pub(super) fn contains(&self, from: usize, to: usize) -> bool {
        self.0[from].contains(to)
    }

    /// The pairs `(a, c)` for which there is a `b` with `(a, b)` here and `(b, c)` there; written
    /// `self ; next`.
    pub(super) fn then(&self, next: &Relation) -> Relation {
        let row = |set: Set| {
            set.iter()
                .fold(Set::default(), |all, via| all | next.0[via])
        };
        Relation(self.0.map(row))
    }

    /// The pairs that begin in `set`; written `[set] ; self`.
    pub(super) fn from(&self, set: Set) -> Relation {
        let mut rest = *self;
        for (event, row) in rest.0.iter_mut().enumerate() {
            if !set.contains(event) {
                *row = Set::default();
            }
        }
        rest
    }

    /// The pairs that end in `set`; written `self ; [set]`.
    pub(super) fn to(&self, set: Set) -> Relation {
        Relation(self.0.map(|row| row & set))
    }

    pub(super) fn complement(&self) -> Relation {
        Relation(self.0.map(Set::complement))
    }

    pub(super) fn inverse(&self) -> Relation {
        let mut all = Relation::default();
        for (from, row) in self.0.iter().enumerate() {
            row.iter().for_each(|to| all.insert(to, from));
        }
        all
    }

    /// The same without the pairs `(a, a)`.
    pub(super) fn irreflexive(&self) -> Relation {
        let mut rest = *self;
        for (event, row) in rest.0.iter_mut().enumerate() {
            row.0 &= !(1 << event);
        }
        rest
    }

    /// The transitive closure; written `self⁺`.
    pub(super) fn closure(&self) -> Relation {
        let mut all = *self;
        for via in 0..EVENTS {
            let next = all.0[via];
            if next.is_empty() {
                continue;
            }
            for row in &mut all.0 {
                if row.contains(via) {
                    *row = *row | next;
                }
            }
        }
        all
    }

    /// Whether no event is related to itself.
    pub(super) fn is_irreflexive(&self) -> bool {
        self.0
            .iter()
            .enumerate()
            .all(|(event, row)| !row.contains(event))
    }

    pub(super) fn is_acyclic(&self) -> bool {
        self.closure().is_irreflexive()
    }
}

impl BitOr for Relation {
    type Output = Relation;
    fn bitor(mut self, other: Relation) -> Relation {
        self |= other;
        self
    }
}

impl BitOrAssign for Relation {
    fn bitor_assign(&mut self, other: Relation) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(row, more)| *row = *row | more);
    }
}

impl BitAnd for Relation {
    type Output = Relation;
    fn bitand(mut self, other: Relation) -> Relation {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(row, only)| *row = *row & only);
        self
    }
}
