//! Rows (programs in one mode of a checker): results, verdicts, records, tables of pairs.

pub mod counts;
pub mod pairs;
pub mod row;
pub mod verdict;
