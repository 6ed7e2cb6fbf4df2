//! Uploads in parts.

use futures_util::TryStreamExt;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectStore, ObjectStoreExt};

use crate::common::{BLOCK, FutureExt, REGION, content, create, device, now, open_image};

#[test]
fn parts_of_any_size_follow_each_other() {
    let store = create(&device());
    let path = Path::from("a/long name ".repeat(60));
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::ContentType, "text/plain".into());
    let mut upload = now(store.put_multipart_opts(&path, attributes.clone().into())).expect("room");
    let mut parts = Vec::new();
    let mut expected = Vec::new();
    for (nth, len) in (1..).zip([1, 511, 0, 513, 1200, 3]) {
        parts.push(upload.put_part(vec![nth; len].into()));
        expected.extend(vec![nth; len]);
    }
    // In any order.
    for nth in [3, 0, 2, 1, 0, 0] {
        now(parts.remove(nth)).expect("room");
    }
    assert_eq!(content(&store, path.as_ref()), None);
    now(upload.complete()).expect("it is complete");
    assert_eq!(content(&store, path.as_ref()).unwrap(), expected);
    let got = now(store.get(&path)).expect("it is there");
    assert_eq!(got.attributes, attributes);
    // An upload that has ended says so.
    for error in [
        now(upload.put_part("x".into())).map(drop),
        now(upload.complete()).map(drop),
        now(upload.abort()),
    ] {
        let error = error.expect_err("it has ended").to_string();
        assert!(error.contains("has ended"), "{error}");
    }
}

#[test]
fn an_upload_with_a_part_that_failed_or_was_not_written_is_not_completed() {
    let store = create(&device());
    let path = Path::from("a");
    let mut upload = now(store.put_multipart(&path)).expect("room");
    now(upload.put_part("12345".into())).expect("room");
    let waiting = upload.put_part("67".into());
    let error = now(upload.complete())
        .expect_err("a part is missing")
        .to_string();
    assert!(error.contains("not written yet, or failed"), "{error}");
    now(waiting).expect("room");
    let too_large = now(upload.put_part(vec![0; (REGION - BLOCK) as usize].into()));
    let error = too_large.expect_err("the object is too large").to_string();
    assert!(error.contains("larger regions"), "{error}");
    now(upload.complete()).expect_err("a part failed");
    now(upload.abort()).expect("it is aborted");
    assert_eq!(content(&store, "a"), None);
    assert_eq!(store.store().list(0, 9).expect("a list"), []);
}

#[test]
fn unfinished_uploads_vanish_when_dropped_or_after_a_crash() {
    let device = device();
    let store = create(&device);
    let path = Path::from("a");
    let mut upload = now(store.put_multipart(&path)).expect("room");
    now(upload.put_part("12345".into())).expect("room");
    let id = now(store.create_multipart(&path)).expect("room");
    now(MultipartStore::put_part(
        &store,
        &path,
        &id,
        0,
        "part".into(),
    ))
    .expect("room");
    assert_eq!(store.store().list(0, 9).expect("a list").len(), 3);
    let other = open_image(device.visible());
    assert_eq!(other.store().list(0, 9).expect("a list"), []);

    now(store.abort_multipart(&path, &id)).expect("it is there");
    assert_eq!(store.store().list(0, 9).expect("a list").len(), 1);
    drop(upload);
    now(store.put(&path, "x".into())).expect("room");
    assert_eq!(store.store().list(0, 9).expect("a list").len(), 1);
    let names = now(store.list(None).try_collect::<Vec<_>>()).expect("a list");
    assert_eq!(names.len(), 1);
}

#[test]
fn uploads_by_number_are_completed_with_the_parts_that_were_written() {
    let store = create(&device());
    let path = Path::from("a");
    let id = now(store.create_multipart(&path)).expect("room");
    let part = |nth, text: &'static str| {
        now(MultipartStore::put_part(
            &store,
            &path,
            &id,
            nth,
            text.into(),
        ))
        .expect("room")
    };
    let (last, first, old) = (part(2, "three"), part(0, "one"), part(1, "old"));
    let middle = part(1, "two");
    let complete = |parts: &[&object_store::multipart::PartId]| {
        let parts = parts.iter().map(|it| (*it).clone()).collect();
        now(store.complete_multipart(&path, &id, parts))
    };
    for wrong in [
        &[&first, &old, &last][..],
        &[&first, &middle],
        &[&first, &last, &middle],
        &[],
    ] {
        let error = complete(wrong).expect_err("wrong parts").to_string();
        assert!(error.contains("other parts"), "{error}");
    }
    complete(&[&first, &middle, &last]).expect("it is complete");
    assert_eq!(content(&store, "a").unwrap(), "onetwothree");
    let error = complete(&[]).expect_err("it has ended").to_string();
    assert!(error.contains("has ended, never began"), "{error}");
    now(store.put(&path, "x".into())).expect("room");
    assert_eq!(store.store().list(0, 9).expect("a list").len(), 1);
}

#[test]
fn an_upload_by_number_is_to_one_path() {
    let store = create(&device());
    let (path, other) = (Path::from("a"), Path::from("b"));
    let id = now(store.create_multipart(&path)).expect("room");
    let put = |path| now(MultipartStore::put_part(&store, path, &id, 0, "x".into()));
    let part = put(&path).expect("room");
    let complete = |path| now(store.complete_multipart(path, &id, vec![part.clone()]));
    let errors = [
        put(&other).map(drop),
        complete(&other).map(drop),
        now(store.abort_multipart(&other, &id)),
    ];
    for error in errors {
        let error = error.expect_err("another path").to_string();
        assert!(error.contains("is to another path"), "{error}");
    }
    complete(&path).expect("it goes on");
    assert_eq!(content(&store, "a").unwrap(), "x");
    assert_eq!(content(&store, "b"), None);
}

/// The work of a dropped future goes on, and fails.
#[test]
fn a_completion_that_is_dropped_and_fails_keeps_the_upload() {
    let store = create(&device());
    let path = Path::from("a");
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // One thread, so that the second completion waits for the first.
    let runtime = runtime.max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        let id = store.create_multipart(&path).await.expect("room");
        let part = MultipartStore::put_part(&store, &path, &id, 0, "x".into()).await;
        let wrong = store.complete_multipart(&path, &id, vec![]);
        drop(wrong.now_or_never());
        let right = store.complete_multipart(&path, &id, vec![part.expect("room")]);
        right.await.expect("the upload goes on");
    });
    assert_eq!(content(&store, "a").unwrap(), "x");
}

/// Content that is too much for one batch, which is put or copied.
#[test]
fn large_content_is_put_and_copied() {
    let (_folder, store) = crate::readers::sparse();
    let large: Vec<u8> = (0..20_000_001_u32).map(|at| (at >> 8) as u8).collect();
    now(store.put(&"a".into(), large.clone().into())).expect("room");
    now(store.copy(&"a".into(), &"b".into())).expect("room");
    now(store.put(&"a".into(), "small".into())).expect("room");
    assert!(content(&store, "b").unwrap() == large);
    let stale = now(store.head(&"b".into())).expect("it is there").e_tag;
    now(store.put(&"b".into(), "small".into())).expect("room");
    let mode = object_store::PutMode::Update(object_store::UpdateVersion {
        e_tag: stale,
        version: None,
    });
    now(store.put_opts(&"b".into(), large.into(), mode.into())).expect_err("it is stale");
    assert_eq!(content(&store, "b").unwrap(), "small");
    assert_eq!(store.store().list(0, 9).expect("a list").len(), 2);
}
