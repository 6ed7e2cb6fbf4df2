//! The address space, split into stripes: each stripe belongs to a shard, and each shard has its
//! own mutex around its own [`Requests`].
//!
//! # How
//! A *stripe* is an aligned run of positions, by default 64 Ki of them. A hash of its number
//! chooses the shard of a stripe. With at least eight shards, stripes a power of two apart have
//! different shards, neighbours included. Other stripes may share one.
//!
//! ```text
//!   positions   0        64Ki      128Ki     192Ki     256Ki
//!   stripes     ├────0────┼────1────┼────2────┼────3────┤
//!   shards           0         4         1         6             (of 8)
//!
//!   A           ├───┤                                            locks shard 0
//!   B                             ├──────┤                       locks shard 1
//!   C                 ├────────────────┤                         locks shards 0, 1 and 4
//! ```
//!
//! A request *touches* the shards of the stripes that it overlaps. It has one node in each of them,
//! with its whole span. Each operation on a request locks all the shards that the request touches.
//!
//! # Invariants
//! - **IL-S1** Two requests that overlap share a position, hence a stripe, hence a shard. So each
//!   conflict is found in at least one shard. One that is found in several counts once in each.
//! - **IL-S2** A thread that locks several shards locks them in ascending order, and changes
//!   nothing until it has locked them all. So threads cannot wait for mutexes in a cycle, and each
//!   operation takes effect at one moment.
//! - **IL-S3** Each shard has a next number. A request gets the greatest next number of the shards
//!   that it touches, and all of them continue from there. So its number is greater than those of
//!   all earlier requests in these shards, and requests that conflict are numbered in order of
//!   arrival. Shards that nobody locks together have independent numbers.
//! - **IL-S4** A request for a part of a span touches no shard that the request for the whole span
//!   does not touch.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use spanlock_range_lock::{Access, NoMemory, Span};
use spanlock_sync::{Mutex, MutexGuard, const_if_shipped, injected_bug};

use crate::requests::{Requests, Stage};
use crate::tree::Index;

/// The greatest number of shards.
pub(crate) const MAX_SHARDS: usize = 16;

/// A stripe's number times this factor, of which the highest bits count, is the stripe's hash. No
/// three bits in a row are equal. So for two stripes 2 to the power *k* apart, the three highest
/// bits of the difference between their products, which is the factor shifted left by *k*, are
/// neither 000 nor 111; hence their three highest bits differ. Threads that use ranges at
/// multiples of a power of two are common, above all in benchmarks. Among the odd factors with
/// this property, this one also spreads multiples of 3, 5 and 7 times a power of two well.
const FACTOR: u64 = 0x9A99_6B4A_A659_4B35;

/// All requests of a lock, and the mutexes that protect them.
pub(crate) struct Shards {
    /// The only shard, if `many` is empty.
    one: Mutex<Requests>,
    many: Vec<Aligned>,
    /// The length of a stripe is 2 to this power.
    stripe_bits: u32,
    /// How far to shift the hash of a stripe for the number of its shard.
    hash_shift: u32,
    /// The factor that hashes the number of a stripe; 0 if there is one shard.
    multiplier: u64,
}

/// A shard on cache lines of its own. Processors fetch lines in pairs.
#[repr(align(128))]
struct Aligned(Mutex<Requests>);

/// Spans that are held or requested, each with its access.
type Spans = Vec<(Span, Access)>;

/// A set of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask(u32);

impl Mask {
    pub(crate) const NONE: Mask = Mask(0);

    pub(crate) fn union(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }

    pub(crate) fn with(self, shard: usize) -> Mask {
        Mask(self.0 | 1 << shard)
    }

    pub(crate) fn has(self, shard: usize) -> bool {
        self.0 >> shard & 1 == 1
    }

    /// Returns the lowest shard; the set must not be empty.
    pub(crate) fn first(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    pub(crate) fn is_one(self) -> bool {
        self.0.is_power_of_two()
    }

    /// Returns the shards in ascending order.
    pub(crate) fn shards(self) -> impl Iterator<Item = usize> {
        let mut left = self;
        core::iter::from_fn(move || {
            let shard = left.first();
            left.0 &= left.0.wrapping_sub(1);
            (shard < 32).then_some(shard)
        })
    }

    /// Returns the shards in descending order.
    pub(crate) fn descending(self) -> impl Iterator<Item = usize> {
        let mut left = self;
        core::iter::from_fn(move || {
            let shard = left.0.checked_ilog2()?;
            left.0 &= !(1 << shard);
            Some(shard as usize)
        })
    }
}

impl Shards {
    const_if_shipped! {
        /// Creates one shard, which has allocated nothing.
        pub(crate) fn one() -> Self {
            Shards {
                one: Mutex::new(Requests::new()),
                many: Vec::new(),
                stripe_bits: 63,
                hash_shift: 63,
                multiplier: 0,
            }
        }
    }

    /// Creates shards, each with room for `nodes` nodes.
    ///
    /// Rounds `shards` and `stripe` up to powers of two, and limits `shards` to [`MAX_SHARDS`].
    pub(crate) fn new(shards: usize, stripe: u64, nodes: usize) -> Result<Self, TryReserveError> {
        let count = shards.clamp(1, MAX_SHARDS).next_power_of_two();
        let stripe = stripe.max(1).checked_next_power_of_two();
        let shard = |nodes| -> Result<_, TryReserveError> {
            let mut requests = Requests::new();
            requests.try_reserve(nodes)?;
            Ok(Mutex::new(requests))
        };
        let (own, others) = if count == 1 { (nodes, 0) } else { (0, count) };
        let mut many = Vec::new();
        many.try_reserve_exact(others)?;
        for _ in 0..others {
            many.push(Aligned(shard(nodes)?));
        }
        Ok(Shards {
            one: shard(own)?,
            many,
            stripe_bits: stripe.map_or(63, u64::trailing_zeros),
            hash_shift: (64 - count.trailing_zeros()).min(63),
            multiplier: if count == 1 { 0 } else { FACTOR },
        })
    }

    /// Makes room for this number of nodes in each shard.
    pub(crate) fn try_reserve(&self, nodes: usize) -> Result<(), TryReserveError> {
        (0..self.count()).try_for_each(|shard| self.at(shard).lock().try_reserve(nodes))
    }

    fn count(&self) -> usize {
        self.many.len().max(1)
    }

    #[inline]
    fn at(&self, shard: usize) -> &Mutex<Requests> {
        match self.many.get(shard) {
            Some(Aligned(shard)) => shard,
            None => &self.one,
        }
    }

    #[inline]
    fn of_stripe(&self, stripe: u64) -> usize {
        (stripe.wrapping_mul(self.multiplier) >> self.hash_shift) as usize
    }

    /// Returns the shard that `span` touches, if it is only one.
    #[inline]
    pub(crate) fn home(&self, span: Span) -> Option<&Mutex<Requests>> {
        let stripe = span.start() >> self.stripe_bits;
        if (span.end() - 1) >> self.stripe_bits == stripe {
            return Some(self.at(self.of_stripe(stripe)));
        }
        self.home_of_stripes(span)
    }

    #[cold]
    fn home_of_stripes(&self, span: Span) -> Option<&Mutex<Requests>> {
        let touched = self.touched(span);
        touched.is_one().then(|| self.at(touched.first()))
    }

    /// Returns the shards that `span` touches.
    pub(crate) fn touched(&self, span: Span) -> Mask {
        let [first, last] = [span.start(), span.end() - 1].map(|at| at >> self.stripe_bits);
        if first == last {
            return Mask(1 << self.of_stripe(first));
        }
        let all = Mask((1 << self.count()) - 1);
        if last - first >= 4 * self.count() as u64 {
            return all;
        }
        let bits = (first..=last).map(|stripe| 1 << self.of_stripe(stripe));
        Mask(bits.fold(0, |set, bit| set | bit))
    }

    /// Returns how many nodes a batch has in each shard, and the shards in which it has any.
    pub(crate) fn nodes(&self, batch: &[(Span, Access)]) -> ([usize; MAX_SHARDS], Mask) {
        let (mut nodes, mut all) = ([0; MAX_SHARDS], Mask::NONE);
        for &(span, _) in batch {
            let touched = self.touched(span);
            all = all.union(touched);
            for shard in touched.shards() {
                nodes[shard] += 1;
            }
        }
        (nodes, all)
    }

    /// Returns all shards.
    pub(crate) fn all(&self) -> Mask {
        self.touched(Span::FULL)
    }

    /// Locks these shards.
    pub(crate) fn lock(&self, mask: Mask) -> Locked<'_> {
        let mut guards = [const { None }; MAX_SHARDS];
        // In ascending order (IL-S2).
        for shard in mask.shards() {
            guards[shard] = Some(self.at(shard).lock());
        }
        Locked { guards }
    }

    /// Locks these shards, for a release.
    pub(crate) fn lock_to_release(&self, mask: Mask) -> Locked<'_> {
        if !injected_bug!(
            "shards-descending",
            "a release locks its shards in descending order",
            killed_by = "interval-tree-sharded/deadlock"
        ) {
            return self.lock(mask);
        }
        let mut guards = [const { None }; MAX_SHARDS];
        for shard in mask.descending() {
            guards[shard] = Some(self.at(shard).lock());
        }
        Locked { guards }
    }

    /// Returns the number of spans that are held or requested in such a stage.
    pub(crate) fn count_spans(&self, counts: impl Fn(Stage) -> bool) -> usize {
        let mut locked = self.lock(self.all());
        let each = locked.each().map(|(shard, requests)| {
            let nodes = requests.nodes();
            nodes
                .filter(|node| counts(node.2) && self.is_first(shard, node.0))
                .count()
        });
        each.sum()
    }

    /// Returns the spans that are held and those that wait, in the order of their starts. The hold
    /// of a waiting upgrade is held as [`Access::Upgradable`], and waits as [`Access::Write`].
    pub(crate) fn ranges(&self) -> (Spans, Spans) {
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        let mut locked = self.lock(self.all());
        for (shard, requests) in locked.each() {
            for (span, access, stage) in requests.nodes() {
                if !self.is_first(shard, span) {
                    continue;
                }
                match stage {
                    Stage::Held => held.push((span, access)),
                    Stage::Upgrading => held.push((span, Access::Upgradable)),
                    Stage::Waiting => {}
                }
                if stage != Stage::Held {
                    waiting.push((span, access));
                }
            }
        }
        drop(locked);
        let start = |&(span, _): &(Span, Access)| span.start();
        held.sort_by_key(start);
        waiting.sort_by_key(start);
        (held, waiting)
    }

    /// Returns whether `shard` is the first that `span` touches.
    fn is_first(&self, shard: usize, span: Span) -> bool {
        self.touched(span).first() == shard
    }

    /// Returns the size of everything that the shards have allocated, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let mut locked = self.lock(self.all());
        let requests = locked.each().map(|(_, requests)| requests.memory_usage());
        requests.sum::<usize>() + size_of_val(&*self.many)
    }
}

/// Shards that this thread has locked.
pub(crate) struct Locked<'a> {
    guards: [Option<MutexGuard<'a, Requests>>; MAX_SHARDS],
}

impl Locked<'_> {
    /// Returns the requests of a shard, which must be locked.
    pub(crate) fn shard(&mut self, shard: usize) -> &mut Requests {
        self.guards[shard].as_mut().expect("the shard is locked")
    }

    /// Returns the locked shards.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = (usize, &mut Requests)> {
        let guards = self.guards.iter_mut().enumerate();
        guards.filter_map(|(shard, guard)| Some((shard, &mut **guard.as_mut()?)))
    }

    /// Makes room for the nodes of a request in all locked shards. `nodes` says how many each gets.
    pub(crate) fn reserve(&mut self, nodes: &[usize; MAX_SHARDS]) -> Result<(), NoMemory> {
        self.each()
            .try_for_each(|(shard, requests)| requests.reserve(nodes[shard]))
    }

    /// Draws the number of a new request that touches all locked shards (IL-S3).
    pub(crate) fn new_number(&mut self) -> u64 {
        let numbers = self.each().map(|(_, requests)| requests.next_number());
        let number = numbers.max().unwrap_or(0);
        for (_, requests) in self.each() {
            requests.numbers_used(number);
        }
        number
    }

    /// Calls `f` with each node of a span that touches the shards `touched`. `first` is its node in
    /// the lowest of them. `f` may remove the node.
    pub(crate) fn nodes(
        &mut self,
        touched: Mask,
        first: Index,
        mut f: impl FnMut(usize, &mut Requests, Index),
    ) {
        let mut index = first;
        for shard in touched.shards() {
            let requests = self.shard(shard);
            let next = requests.next(index);
            f(shard, requests, index);
            index = next;
        }
    }
}
