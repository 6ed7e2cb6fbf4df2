//! Without shuttle nothing is drawn: `explore` has refused the row.

use std::sync::Arc;

use super::Search;

pub(crate) fn drawn<S, R>(_: &Search, _: &Arc<S>, _: &Arc<R>, _: u64) {}

pub(crate) fn scenarios<M, S>(_: &Search, _: &Arc<M>, _: S) {}
