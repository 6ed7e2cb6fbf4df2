//! Logs.

pub(crate) mod append;
pub(crate) mod chain;
pub(crate) mod clean;
pub(crate) mod live;
pub(crate) mod record;
pub(crate) mod reservation;
pub(crate) mod tail;
