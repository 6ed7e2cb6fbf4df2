//! A store for tests.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::testing::Recorded;
use spanlock_named_objects::NamedObjects;
use spanlock_object_store::space::{self, Disk, Space};
use spanlock_object_store::{Options, Store};

pub(crate) const BLOCK: u64 = 512;
/// Bytes of a region.
pub(crate) const REGION: u64 = 128 * BLOCK;

pub(crate) type InMemory = NamedObjects<Disk<Arc<Recorded>>, IntervalLock>;

pub(crate) fn device() -> Arc<Recorded> {
    Arc::new(Recorded::new(256 << 10))
}

pub(crate) fn flat(device: &Arc<Recorded>) -> Store<Disk<Arc<Recorded>>, IntervalLock> {
    let of_space = space::Options::new().block(BLOCK as u32).size(1 << 28);
    let of_space = of_space.rings(1, 32_768).id(3);
    let medium = Disk::new(device.clone());
    let space = Space::create(medium, &of_space, IntervalLock::new()).expect("a space");
    Store::create(space, &Options::new().region(REGION)).expect("a store")
}

pub(crate) fn create(device: &Arc<Recorded>) -> InMemory {
    NamedObjects::open(flat(device)).expect("an empty store")
}

/// Opens the flat store on a device.
pub(crate) fn reopen_flat(device: &Arc<Recorded>) -> Store<Disk<Arc<Recorded>>, IntervalLock> {
    let space = Space::open(Disk::new(device.clone()), IntervalLock::new()).expect("a space");
    Store::open(space, &Options::new()).expect("a store")
}

/// Opens an image of a device, on another one.
pub(crate) fn open_image(image: Vec<u8>) -> InMemory {
    let device = Arc::new(Recorded::from_image(image));
    NamedObjects::open(reopen_flat(&device)).expect("named objects")
}

/// Runs a future without a runtime: then the store blocks in this thread.
pub(crate) use futures_util::FutureExt;
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("without a runtime, nothing is pending")
}

/// Returns the content of a name, if there is one.
pub(crate) fn content(store: &dyn ObjectStore, name: &str) -> Option<Bytes> {
    match now(store.get(&Path::from(name))) {
        Ok(found) => Some(now(found.bytes()).expect("it can be read")),
        Err(object_store::Error::NotFound { .. }) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}
