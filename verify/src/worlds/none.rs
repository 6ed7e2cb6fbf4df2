//! Without a checker nothing is explored.

use std::sync::Arc;

use proptest::strategy::Strategy;

use super::{Search, refuse};
use crate::oracles::linearizability::{Model, Scenarios};

const BUILT_WITHOUT: &str = "built without a checker; `cargo verify` builds it with one";

pub(crate) fn drawn<S: Strategy>(
    _: &Search,
    _: &Arc<impl Fn() -> S>,
    _: &Arc<impl Fn(&S::Value) -> u64>,
    _: u64,
) {
    refuse(BUILT_WITHOUT);
}

pub(crate) fn scenarios<M: Model>(_: &Search, _: &Arc<M>, _: Scenarios, _: u64) -> (u64, u64) {
    refuse(BUILT_WITHOUT);
}
