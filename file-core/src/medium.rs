//! Bytes and free pages.

pub(crate) mod alloc;
pub(crate) mod bytes;
pub(crate) mod error;
pub(crate) mod extent;
pub(crate) mod journal;
pub(crate) mod layout;
pub(crate) mod log_page;
pub(crate) mod reports;
pub(crate) mod space;
pub(crate) mod time;
