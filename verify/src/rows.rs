//! Rows (a row is one program in one mode of a checker), their records, and tables of pairs.

pub mod counts;
pub mod pairs;
pub mod row;
pub mod verdict;
