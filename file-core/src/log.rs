//! Logs.

pub(crate) mod chain;
pub(crate) mod clean;
pub(crate) mod record;
pub(crate) mod reservation;
pub(crate) mod tail;
