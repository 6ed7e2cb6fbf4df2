//! What callers hold.

pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod dir;
pub(crate) mod file;
pub(crate) mod volume;
