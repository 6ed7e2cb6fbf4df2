//! Recovery.

pub(crate) mod claims;
pub(crate) mod damage;
pub(crate) mod file_scan;
#[cfg(test)]
pub(crate) mod forged;
pub(crate) mod mend;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod replay;
pub(crate) mod runs;
pub(crate) mod survey;
#[cfg(test)]
pub(crate) mod tests;
