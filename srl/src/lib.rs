#![doc = include_str!("../README.md")]

mod array;
mod batch;
mod gate;
mod lock;
pub mod packed;
mod powers;
mod segment;
mod space;
mod tree;

pub use array::{Array, SrlArray, SrlPacked};
pub use lock::{Srl, SrlRequest};
pub use packed::PackedWord;
pub use segment::{SegmentError, Segments};
pub use space::{Piece, Space};
pub use tree::{Shape, SrlTree, SrlTreePacked, Tree};
