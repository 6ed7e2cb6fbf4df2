//! The bottom layer. It owns the bytes of the region and the free pages. While a volume is in use,
//! every store goes through it; formatting, recovery and repair have the region to themselves, and
//! also access it directly (F-M8). All layers above use it.
//!
//! | file | holds |
//! |---|---|
//! | `bytes.rs` | which operation may access which bytes, and the stores themselves |
//! | `space.rs`, `alloc.rs`, `extent.rs` | what is free; the allocator of pages; runs of pages |
//! | `log_page.rs` | for each page of a log, what in it is still needed |
//! | `journal.rs` | the journal's area: changes of several names |
//! | `layout.rs` | the format: the position of every field |
//! | `error.rs`, `reports.rs` | what operations return |
//! | `time.rs` | the clock |

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
