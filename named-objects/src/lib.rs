//! TODO
mod error;
mod head;
mod names;
mod objects;
mod parts;
mod store;
mod upload;

pub use error::Error;
pub use store::NamedObjects;
