//! The integration suite of `object_store`, all of it.

use std::path::Path;

use object_store::integration;
use object_store::prefix::PrefixStore;
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_named_objects::NamedObjects;
use spanlock_object_store::space::{self, Disk, Space};
use spanlock_object_store::{Layout, Mode, Options, Store};

type InFile = NamedObjects<Disk<FileStorage>, IntervalLock>;

fn create(path: &Path, layout: Layout, mode: Mode) -> InFile {
    let file = Disk::create_file(path, Some(1 << 30), FileMode::Buffered).expect("a file");
    let space = Space::create(file, &space::Options::new(), IntervalLock::new()).expect("a space");
    let options = Options::new().layout(layout).mode(mode).region(64 << 20);
    let store = Store::create(space, &options).expect("a store");
    NamedObjects::open(store).expect("an empty store")
}

fn reopen(path: &Path) -> InFile {
    let file = Disk::open_file(path, FileMode::Buffered).expect("a file");
    let space = Space::open(file, IntervalLock::new()).expect("a space");
    let store = Store::open(space, &Options::new()).expect("a store");
    NamedObjects::open(store).expect("named objects")
}

async fn pass(store: &InFile) {
    integration::put_get_delete_list(store).await;
    integration::put_get_attributes(store).await;
    integration::get_opts(store).await;
    integration::put_opts(store, true).await;
    integration::list_uses_directories_correctly(store).await;
    integration::list_with_delimiter(store).await;
    integration::list_with_offset_exclusivity(store).await;
    integration::list_paginated(store, store).await;
    let missing = integration::get_nonexistent_object(store, None).await;
    assert!(matches!(missing, Err(object_store::Error::NotFound { .. })));
    integration::rename_and_copy(store).await;
    integration::copy_if_not_exists(store).await;
    integration::copy_rename_nonexistent_object(store).await;
    // Again, because it begins by deleting all: `stream_get` expects an empty store.
    integration::list_uses_directories_correctly(store).await;
    let files = [
        object_store::path::Path::from("foo/x.json"),
        "foo.bar/y.json".into(),
    ];
    for file in files {
        object_store::ObjectStoreExt::delete(store, &file)
            .await
            .expect("it is there");
    }
    integration::stream_get(store).await;
    integration::multipart(store, store).await;
    integration::multipart_with_opts(store, store).await;
    integration::multipart_put_part_out_of_order(store, store).await;
    integration::multipart_race_condition(store, true).await;
    integration::multipart_out_of_order(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_integration_suite_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("objects");
    let store = create(&path, Layout::Packed, Mode::DirectSized);
    pass(&store).await;
    let names = |store: &InFile| {
        let listed = futures_util::TryStreamExt::try_collect::<Vec<_>>(
            object_store::ObjectStore::list(store, None),
        );
        futures_util::FutureExt::now_or_never(listed).expect("a list in memory")
    };
    let before = names(&store).expect("a list");
    assert!(!before.is_empty());
    drop(store);
    assert_eq!(names(&reopen(&path)).expect("a list"), before);
}

#[tokio::test]
async fn the_integration_suite_passes_with_heads_in_their_regions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("objects");
    pass(&create(&path, Layout::Region, Mode::Direct)).await;
}

#[tokio::test]
async fn the_suite_passes_below_a_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("objects");
    let store = create(&path, Layout::Packed, Mode::DirectSized);
    let store = PrefixStore::new(store, "some/folder");
    integration::put_get_delete_list(&store).await;
    integration::get_opts(&store).await;
    integration::list_with_delimiter(&store).await;
    integration::rename_and_copy(&store).await;
}
