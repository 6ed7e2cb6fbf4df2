//! Rows: what they say, how they are judged, and what is committed of them.

pub mod counts;
pub mod pairs;
pub mod row;
pub mod verdict;
