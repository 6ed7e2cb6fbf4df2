//! A small store.

use std::sync::Arc;

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::testing::Recorded;
use spanlock_object_store::space::{self, Disk, Space};
use spanlock_object_store::{Error, Layout, Mode, Options, Store};

pub(crate) const BLOCK: u64 = 512;
/// Bytes of a region: 127 blocks of data in the region layout, 128 in the packed one.
pub(crate) const REGION: u64 = 128 * BLOCK;

pub(crate) type OnDisk = Store<Disk<Arc<Recorded>>, IntervalLock>;

pub(crate) const LAYOUTS: [Layout; 2] = [Layout::Region, Layout::Packed];
pub(crate) const MODES: [Mode; 2] = [Mode::Direct, Mode::DirectSized];

pub(crate) fn device() -> Arc<Recorded> {
    Arc::new(Recorded::new(256 << 10))
}

pub(crate) fn options(layout: Layout, mode: Mode) -> Options {
    Options::new().layout(layout).mode(mode).region(REGION)
}

pub(crate) fn create(device: &Arc<Recorded>, options: &Options) -> OnDisk {
    let of_space = space::Options::new().block(BLOCK as u32).size(1 << 28);
    let of_space = of_space.rings(1, 32_768).id(3);
    let medium = Disk::new(device.clone());
    let space = Space::create(medium, &of_space, IntervalLock::new()).expect("a space");
    Store::create(space, options).expect("a store")
}

pub(crate) fn open(device: &Arc<Recorded>, options: &Options) -> Result<OnDisk, Error> {
    Store::open(
        Space::open(Disk::new(device.clone()), IntervalLock::new())?,
        options,
    )
}

/// Opens what the device shows, on another device.
pub(crate) fn reopen(device: &Arc<Recorded>, options: &Options) -> OnDisk {
    open(&Arc::new(Recorded::from_image(device.visible())), options).expect("a store")
}

/// Returns all of an object that its mode shows, up to 4096 bytes.
pub(crate) fn content(store: &OnDisk, id: u64) -> Result<Vec<u8>, Error> {
    let mut found = vec![0xEE; 4096];
    let len = store.read(id, 0, &mut found)?;
    found.truncate(len);
    Ok(found)
}
