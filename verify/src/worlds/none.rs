//! Without shuttle nothing is drawn.

use std::sync::Arc;

use super::{Search, refuse};

const NEEDS: &str =
    "random programs and scenarios need a build for shuttle, which `cargo verify` makes";

pub(crate) fn drawn<S, R>(_: &Search, _: &Arc<S>, _: &Arc<R>, _: u64) {
    refuse(NEEDS);
}

pub(crate) fn scenarios<M, S>(_: &Search, _: &Arc<M>, _: S) -> (u64, u64) {
    refuse(NEEDS)
}
