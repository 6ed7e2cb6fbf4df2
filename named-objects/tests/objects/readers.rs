//! Readers of content that is replaced, deleted or renamed meanwhile.

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt};
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::FileMode;
use spanlock_named_objects::NamedObjects;
use spanlock_object_store::space::{self, Disk, Medium, Space};
use spanlock_object_store::{Options, Store};

use crate::common::{FutureExt, content, create, device, now, open_image};

/// Returns how many objects the flat store has.
fn count<M: Medium + 'static>(store: &NamedObjects<M, IntervalLock>) -> usize {
    store.store().list(0, usize::MAX).expect("a list").len()
}

pub(crate) fn sparse() -> (
    tempfile::TempDir,
    NamedObjects<impl Medium + 'static, IntervalLock>,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("objects");
    let file = Disk::create_file(&path, Some(256 << 20), FileMode::Buffered).expect("a file");
    let space = Space::create(file, &space::Options::new(), IntervalLock::new()).expect("a space");
    let store = Store::create(space, &Options::new().region(64 << 20)).expect("a store");
    (folder, NamedObjects::open(store).expect("an empty store"))
}

#[test]
fn a_stream_outlives_what_happens_to_its_name() {
    let (_folder, store) = sparse();
    let (path, other) = (Path::from("a"), Path::from("b"));
    // More than two chunks of a stream.
    let old: Vec<u8> = (0..5_u32 << 20).map(|at| (at >> 10) as u8).collect();
    let changes: [(&str, Option<&str>); 5] = [
        ("put", Some("new")),
        ("delete", None),
        ("copy", Some("other")),
        ("rename", Some("other")),
        ("rename away", None),
    ];
    for (change, expected) in changes {
        now(store.put(&path, old.clone().into())).expect("room");
        now(store.put(&other, "other".into())).expect("room");
        let mut stream = now(store.get(&path)).expect("it is there").into_stream();
        let first = stream
            .next()
            .now_or_never()
            .flatten()
            .expect("a chunk")
            .expect("it is read");
        assert_eq!(first.len(), 1 << 20, "a chunk, not all");
        match change {
            "put" => drop(now(store.put(&path, "new".into())).expect("room")),
            "delete" => now(store.delete(&path)).expect("it is there"),
            "copy" => now(store.copy(&other, &path)).expect("room"),
            "rename" => now(store.rename(&other, &path)).expect("room"),
            _ => {
                now(store.rename(&path, &other)).expect("room");
                now(store.put(&other, "replaced".into())).expect("room");
            }
        }
        assert_eq!(content(&store, "a"), expected.map(Bytes::from), "{change}");
        let mut found = first.to_vec();
        for chunk in now(stream.try_collect::<Vec<_>>()).expect("it is read") {
            found.extend(chunk);
        }
        assert!(found == old, "{change}: the stream is torn");
        // The next change deletes what only the reader had kept.
        now(store.put(&Path::from("c"), "c".into())).expect("room");
        let names = now(store.list(None).try_collect::<Vec<_>>()).expect("a list");
        assert_eq!(count(&store), names.len(), "{change}");
    }
}

#[test]
fn a_replaced_object_that_was_being_read_is_gone_after_a_crash() {
    let device = device();
    let store = create(&device);
    let path = Path::from("a");
    now(store.put(&path, "old".into())).expect("room");
    let reader = now(store.get(&path)).expect("it is there");
    now(store.put(&path, "new".into())).expect("room");
    assert_eq!(count(&store), 2);
    let store = open_image(device.visible());
    assert_eq!(content(&store, "a").unwrap(), "new");
    assert_eq!(count(&store), 1);
    assert_eq!(now(reader.bytes()).expect("it is read"), "old");
}

#[test]
fn a_head_does_not_read() {
    let store = create(&device());
    let path = Path::from("a");
    now(store.put(&path, "12345".into())).expect("room");
    let options = GetOptions::new().with_head(true);
    let found = now(store.get_opts(&path, options)).expect("it is there");
    assert_eq!((found.meta.size, found.range.clone()), (5, 0..5));
    assert_eq!(now(found.bytes()).expect("nothing to read"), "");
}

#[test]
fn ranges_are_all_of_one_object() {
    let store = create(&device());
    let path = Path::from("a");
    now(store.put(&path, "0123456789".into())).expect("room");
    let ranges = [3..5, 0..1, 8..100, 3..5];
    let found = now(store.get_ranges(&path, &ranges)).expect("they are there");
    assert_eq!(found, ["34", "0", "89", "34"]);
    for bad in [10..11, 4..4] {
        let error = now(store.get_ranges(&path, &[0..1, bad])).expect_err("a bad range");
        assert!(error.to_string().contains("a has 10 bytes"), "{error}");
    }
}

/// Writers replace and delete one name, and readers see wholly one content each, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_beside_writers_see_whole_contents() {
    let store = create(&device());
    let path = Path::from("hot");
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|nth| {
            let (store, path, is_over) = (store.clone(), path.clone(), is_over.clone());
            tokio::spawn(async move {
                let (mut found, mut is_last) = (0, false);
                while !is_last {
                    // Acquire: the last round finds what was put before.
                    is_last = is_over.load(std::sync::atomic::Ordering::Acquire);
                    let got = match store.get(&path).await {
                        Err(object_store::Error::NotFound { .. }) => continue,
                        got => got.expect("no other failure"),
                    };
                    // Some keep the object for a while before they read.
                    if nth == 0 {
                        tokio::task::yield_now().await;
                    }
                    let bytes = got
                        .bytes()
                        .await
                        .expect("the content stays while it is read");
                    assert_eq!(bytes, vec![bytes[0]; 100 * usize::from(bytes[0])]);
                    found += 1;
                }
                found
            })
        })
        .collect();
    let writers = (0..2_u8).map(|writer| {
        let (store, path) = (store.clone(), path.clone());
        tokio::spawn(async move {
            for nth in 1..80_u8 {
                let content = vec![nth; 100 * usize::from(nth)];
                store.put(&path, content.into()).await.expect("room");
                if nth % 7 == writer {
                    store.delete(&path).await.ok();
                }
            }
        })
    });
    let written = futures_util::future::join_all(writers).await;
    let last = store.put(&path, "\u{1}".repeat(100).into()).await;
    is_over.store(true, std::sync::atomic::Ordering::Release);
    for writer in written {
        writer.expect("no panic");
    }
    last.expect("room");
    for reader in readers {
        assert!(reader.await.expect("no panic") > 0);
    }
    store
        .put(&Path::from("last"), "x".into())
        .await
        .expect("room");
    assert_eq!(count(&store), 2);
}
