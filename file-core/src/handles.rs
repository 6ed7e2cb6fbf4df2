//! What callers hold.

pub(crate) mod check;
pub(crate) mod clean_on_request;
pub(crate) mod dir;
pub(crate) mod file;
pub(crate) mod volume;
