//! Journals and logs, ours and others', on the same flushes.

pub mod calls;
pub mod peers;
