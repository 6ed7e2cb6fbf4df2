//! What a thread asks the search to do: one request for each operation of the program.

use core::panic;
use core::sync::atomic::Ordering;

use crate::event::Location;

/// How [`Atomic::update`](crate::Atomic::update) changes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Adds the operand, and wraps around.
    Add,
    /// Subtracts the operand, and wraps around.
    Sub,
    /// Keeps the bits that the operand has.
    And,
    /// Sets the bits of the operand.
    Or,
    /// Inverts the bits of the operand.
    Xor,
    /// Keeps the bits that the operand has, and then inverts all bits.
    Nand,
    /// Takes the greater of the value and the operand.
    Max,
    /// Takes the less of the value and the operand.
    Min,
    /// Takes the greater of the value and the operand as signed numbers of as many bits as the mask
    /// has.
    SignedMax,
    /// Takes the less of them.
    SignedMin,
    /// Replaces the value by the operand.
    Swap,
    /// Clears one of the bits that are set: the `n`-th from below, where `n` is the operand modulo
    /// their number.
    ClearNth,
}

/// A change of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// What is done with the value and the operand.
    pub op: Op,
    /// The operand.
    pub operand: u64,
    /// The bits of the result that are kept: those of a type of fewer than 64 bits.
    pub mask: u64,
}

impl Update {
    /// Returns an update of all 64 bits.
    pub const fn new(op: Op, operand: u64) -> Update {
        Update::masked(op, operand, u64::MAX)
    }

    /// Returns an update of a type that has the bits of `mask`.
    pub const fn masked(op: Op, operand: u64, mask: u64) -> Update {
        Update { op, operand, mask }
    }

    pub(crate) fn apply(self, value: u64) -> u64 {
        let operand = self.operand;
        let signed = |value: u64| (value << self.mask.leading_zeros()) as i64;
        self.mask
            & match self.op {
                Op::Add => value.wrapping_add(operand),
                Op::Sub => value.wrapping_sub(operand),
                Op::And => value & operand,
                Op::Or => value | operand,
                Op::Xor => value ^ operand,
                Op::Nand => !(value & operand),
                Op::Max => value.max(operand),
                Op::Min => value.min(operand),
                Op::SignedMax if signed(value) < signed(operand) => operand,
                Op::SignedMin if signed(value) > signed(operand) => operand,
                Op::SignedMax | Op::SignedMin => value,
                Op::Swap => operand,
                Op::ClearNth if value == 0 => 0,
                Op::ClearNth => {
                    let below = operand % u64::from(value.count_ones());
                    // Each step removes the lowest bit, so that the `n`-th is the lowest at last.
                    let rest = (0..below).fold(value, |rest, _| rest & (rest - 1));
                    value & !(rest & rest.wrapping_neg())
                }
            }
    }
}

/// What [`Atomic::wait_until`](crate::Atomic::wait_until) waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition {
    mask: u64,
    value: u64,
    is_equal: bool,
    is_timed: bool,
}

impl Condition {
    /// Returns the condition that the bits of `mask` are those of `value`; or, without `is_equal`,
    /// that they are not.
    pub const fn masked(mask: u64, value: u64, is_equal: bool) -> Condition {
        Condition {
            mask,
            value,
            is_equal,
            is_timed: false,
        }
    }

    /// Returns the condition that the value is `value`.
    pub const fn equals(value: u64) -> Condition {
        Condition::masked(u64::MAX, value, true)
    }

    /// Returns the condition that the value is not `value`.
    pub const fn differs(value: u64) -> Condition {
        Condition::masked(u64::MAX, value, false)
    }

    /// Returns the same condition for a wait that may time out, which the program explores by
    /// [`choose`](crate::choose): to wait for ever is then no deadlock.
    pub const fn timed(self) -> Condition {
        Condition {
            is_timed: true,
            ..self
        }
    }

    pub(crate) fn is_timed(self) -> bool {
        self.is_timed
    }

    pub(crate) fn is_met(self, value: u64) -> bool {
        (value & self.mask == self.value) == self.is_equal
    }
}

/// One operation of a thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Request {
    Load(Ordering),
    WaitUntil(Condition, Ordering),
    Store(u64, Ordering),
    Update(Update, Ordering),
    UpdateWhen(Condition, Update, Ordering),
    /// With the current and the new value, and the orderings of success and failure.
    CompareExchange(u64, u64, Ordering, Ordering),
    /// With the current and the new value.
    ExchangeWhen(u64, u64, Ordering),
    Fence(Ordering),
    /// The number of alternatives, and whether all but the first are faults.
    Choose(u32, bool),
    Spawn,
    Join(u32),
    /// The end of a spin loop whose rounds were fruitless. It never goes on.
    Cut,
}

/// What a request does to a location if it reads a certain value.
pub(crate) struct Effect {
    pub ordering: Ordering,
    /// The value that is written. `None` for a read that writes nothing.
    pub written: Option<u64>,
    /// Whether the thread cannot go on with this value.
    pub blocks: bool,
}

impl Request {
    /// Returns what the request does if it reads `value`.
    ///
    /// # Panics
    /// If the request reads nothing.
    pub(crate) fn effect(self, value: u64) -> Effect {
        let (ordering, written, blocks) = match self {
            Request::Load(ordering) => (ordering, None, false),
            Request::WaitUntil(condition, ordering) => (ordering, None, !condition.is_met(value)),
            Request::Update(update, ordering) => (ordering, Some(update.apply(value)), false),
            Request::UpdateWhen(condition, update, ordering) => {
                let is_met = condition.is_met(value);
                (ordering, is_met.then(|| update.apply(value)), !is_met)
            }
            Request::CompareExchange(current, new, success, _) if value == current => {
                (success, Some(new), false)
            }
            Request::CompareExchange(.., failure) => (failure, None, false),
            Request::ExchangeWhen(current, new, ordering) => {
                let is_current = value == current;
                (ordering, is_current.then_some(new), !is_current)
            }
            _ => unreachable!("{self:?} reads nothing"),
        };
        Effect {
            ordering,
            written,
            blocks,
        }
    }

    pub(crate) fn reads(self) -> bool {
        use Request::*;
        let is_exchange = matches!(self, CompareExchange(..) | ExchangeWhen(..));
        let is_update = matches!(self, Update(..) | UpdateWhen(..));
        is_exchange || is_update || matches!(self, Load(_) | WaitUntil(..))
    }

    /// Returns whether another execution of the program may make `other` where it made `self`: the
    /// operands may depend on what the thread has read, the kind of operation may not.
    pub(crate) fn is_like(self, other: Request) -> bool {
        core::mem::discriminant(&self) == core::mem::discriminant(&other)
    }
}

/// A request of a thread, with what the graph must know about its location.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub request: Request,
    pub location: Location,
    pub initial: u64,
    pub place: &'static panic::Location<'static>,
}

/// The answer to a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reply {
    /// What was read or chosen, or the number of a thread.
    pub value: u64,
    /// Whether a read-modify-write was done.
    pub exchanged: bool,
}
