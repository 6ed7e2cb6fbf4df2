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
mod volume;

pub use device::DataDurable;
pub use error::Error;
pub use home::block::BlockHome;
pub use home::nvm::NvmHome;
pub use home::{Change, Home, Identity, Persisted, Removal, Stored};

/// What the models of this crate check by itself.
#[doc(hidden)]
pub mod raw {
    pub use crate::cache::{About, Cache, Captured, Lookup, Replaced};
    pub use crate::device::DataDevice;
    pub use crate::log::{Heat, Log, Owner, Room};
    pub use crate::rendezvous::Rendezvous;
}
