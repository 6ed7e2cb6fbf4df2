//! What a call would run into, and the message of its panic.

use core::fmt;
use std::collections::BTreeMap;

use super::waits::{Cause, Wait};
use super::{Order, Site};
use crate::raw::{Access, Span};

/// The danger that a request would run into.
pub(super) enum Danger {
    Itself {
        wanted: (Span, Access, Site),
        held: (Span, Access, Site),
    },
    Circle {
        first: u64,
        taken: u64,
        order: Order,
        way: Vec<(u64, u64, Order)>,
    },
    /// The waits that keep each other from ending, the one of the request first.
    Threads(Vec<Wait>),
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Danger::Itself { wanted, held } => {
                let ((span, how, site), (mine, held_how, since)) = (wanted, held);
                write!(
                    f,
                    "deadlock: {span:?} ({how:?}) is requested at {site} by the thread that holds \
                     {mine:?} ({held_how:?}) of the same lock since {since}: it would wait for \
                     itself; release that hold first"
                )
            }
            Danger::Circle {
                first,
                taken,
                order,
                way,
            } => {
                write!(
                    f,
                    "deadlock: locks are taken in opposite orders; choose one order everywhere"
                )?;
                let this = (*first, *taken, *order);
                for (held, taken, order) in std::iter::once(&this).chain(way) {
                    write!(
                        f,
                        "\n  lock {taken} at {}, with lock {held} held since {}",
                        order.taken, order.held
                    )?;
                }
                Ok(())
            }
            Danger::Threads(waits) => {
                let is_full = |wait: &Wait| matches!(wait.cause, Cause::Full { .. });
                f.write_str(if waits.iter().any(is_full) {
                    "deadlock: a range has as many readers as the lock admits, and they would wait \
                     for each other; release a read before the next one"
                } else {
                    "deadlock: threads would wait for each other; request all ranges of a lock in \
                     one call, or release the first"
                })?;
                for wait in waits {
                    let (span, access) = wait.wanted;
                    write!(
                        f,
                        "\n  {span:?} ({access:?}) is requested at {}, ",
                        wait.requested
                    )?;
                    write!(f, "and waits for {}", wait.cause)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Behind {
                span,
                access,
                how,
                site,
            } => write!(f, "{span:?} ({access:?}), {how} at {site}"),
            Cause::Full { readers } => {
                write!(f, "one of {} readers, held at ", readers.len())?;
                let mut times = BTreeMap::new();
                for site in readers {
                    *times.entry(*site).or_insert(0) += 1;
                }
                for (i, (site, times)) in times.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{site} ({times} times)")?;
                }
                Ok(())
            }
        }
    }
}
