#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod array;
mod batch;
mod gate;
mod lock;
pub mod packed;
mod powers;
mod request;
mod segment;
mod space;
mod surely;
mod tree;

pub use array::{Array, SrlArray, SrlPacked};
pub use lock::Srl;
pub use packed::PackedWord;
pub use request::SrlRequest;
pub use segment::{SegmentError, Segments};
pub use space::{Piece, Space};
pub use tree::{Shape, SrlTree, SrlTreePacked, Tree};
