//! NVM node logging. (To be written.)

mod cache;
mod device;
mod error;
mod file;
mod home;
mod inode;
mod log;
mod nids;
mod node;
mod options;
mod rendezvous;
mod superblock;
mod tree;
mod volume;

pub use cache::Lookup;
pub use device::DataDurable;
pub use error::Error;
pub use file::{File, MAX_BYTES as MAX_FILE_BYTES};
pub use home::block::BlockHome;
pub use home::nvm::{Nvm, NvmHome};
pub use home::{Change, Home, Identity, Persisted, Removal, Stored};
pub use node::{BLOCK_BYTES, Block, Nid};
pub use options::Options;
pub use volume::{BlockVolume, NvmVolume, Report, Statistics, Volume};

/// What the models of this crate check by itself.
#[doc(hidden)]
pub mod raw {
    pub use crate::cache::{About, Cache, Captured, Lookup, Replaced};
    pub use crate::device::DataDevice;
    pub use crate::log::{Heat, Log, Owner, Room};
    pub use crate::rendezvous::Rendezvous;
}
