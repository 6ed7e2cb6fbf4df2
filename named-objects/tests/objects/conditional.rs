//! Conditional puts: none with a stale ETag is accepted, and no update is lost.

use std::sync::Arc;

use futures_util::future::join_all;
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion,
};

use crate::common::{InMemory, content, create, device, now, open_image};

fn put(
    store: &InMemory,
    path: &Path,
    text: String,
    mode: PutMode,
) -> impl Future<Output = object_store::Result<PutResult>> {
    let (store, path) = (store.clone(), path.clone());
    async move { (store.put_opts(&path, text.into(), mode.into())).await }
}

fn from(e_tag: &str) -> PutMode {
    PutMode::Update(UpdateVersion {
        e_tag: Some(e_tag.to_owned()),
        version: None,
    })
}

/// 20,000 puts, or as many times more as `SPANLOCK_ROUNDS` says: 200,000 in the full run.
#[test]
fn no_put_with_a_stale_tag_is_accepted() {
    let rounds = std::env::var("SPANLOCK_ROUNDS").map_or(1, |it| it.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(7);
    let device = device();
    let mut store = create(&device);
    let names: Vec<Path> = (0..8).map(|nth| format!("folder/{nth}").into()).collect();
    let mut current: Vec<Option<String>> = vec![None; names.len()];
    let mut stale: Vec<String> = vec!["\"0\"".to_owned(), "*".to_owned(), String::new()];
    let mut refused = 0;
    for nth in 0..20_000 * rounds {
        let at = random.usize(..names.len());
        // Now and then the content changes, but neither its size nor its bytes.
        if nth % 200 == 0 {
            let mode = current[at].as_deref().map_or(PutMode::Create, from);
            let done =
                now(put(&store, &names[at], format!("{at:08}"), mode)).expect("it is current");
            stale.extend(current[at].replace(done.e_tag.expect("a tag")));
        }
        if nth % 2000 == 1 {
            now(store.delete(&names[at])).ok();
            stale.extend(current[at].take());
            store = open_image(device_image(&store));
        }
        let tag = random.choice(&stale).expect("some are stale").clone();
        let others = current.iter().enumerate().filter(|(other, _)| *other != at);
        let of_another = others.filter_map(|(_, tag)| tag.clone()).next();
        let tag = of_another.filter(|_| nth % 5 == 0).unwrap_or(tag);
        let error = now(put(&store, &names[at], "stale!".to_owned(), from(&tag)));
        let error = error.expect_err("a stale tag is refused");
        assert!(matches!(error, Error::Precondition { .. }), "{error}");
        assert!(error.to_string().contains(&tag), "{error}");
        if current[at].is_some() {
            let error = now(put(
                &store,
                &names[at],
                "stale!".to_owned(),
                PutMode::Create,
            ));
            assert!(matches!(error, Err(Error::AlreadyExists { .. })));
        }
        refused += 1;
    }
    assert_eq!(refused, 20_000 * rounds);
    for (at, name) in names.iter().enumerate() {
        let expected = current[at].as_ref().map(|_| format!("{at:08}"));
        let found = content(&store, name.as_ref());
        assert_eq!(found, expected.map(Into::into));
    }
}

/// Returns what the device of a store holds.
fn device_image(store: &InMemory) -> Vec<u8> {
    store.store().space().medium().storage().visible()
}

#[test]
fn an_update_names_a_tag() {
    let store = create(&device());
    let path = Path::from("x");
    now(store.put(&path, "1".into())).expect("room");
    let none = UpdateVersion {
        e_tag: None,
        version: Some("7".to_owned()),
    };
    let error = now(put(&store, &path, "2".to_owned(), PutMode::Update(none)));
    let error = error.expect_err("it has no tag").to_string();
    assert!(error.contains("from the ETag none, but it has"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_update_by_compare_and_swap_is_lost() {
    const TASKS: usize = 6;
    const UPDATES: usize = 40;
    let store = Arc::new(create(&device()));
    let path = Path::from("counter");
    store.put(&path, "0".into()).await.expect("room");
    let tasks = (0..TASKS).map(|task| {
        let (store, path) = (store.clone(), path.clone());
        tokio::spawn(async move {
            let (mut done, mut retries, mut tags) = (0, 0, Vec::new());
            while done < UPDATES {
                let found = store.get(&path).await.expect("it is always there");
                let tag = found.meta.e_tag.clone().expect("a tag");
                let text = found.bytes().await.expect("it is whole");
                let number: usize = std::str::from_utf8(&text).unwrap().parse().unwrap();
                let other = Path::from(format!("other/{task}"));
                let next = PutPayload::from((number + 1).to_string());
                let options = PutOptions::from(from(&tag));
                match store.put_opts(&path, next, options).await {
                    Ok(result) => {
                        done += 1;
                        tags.push(result.e_tag.expect("a tag"));
                        store.put(&other, "beside".into()).await.expect("room");
                    }
                    Err(Error::Precondition { .. }) => retries += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (retries, tags)
        })
    });
    let mut all = Vec::new();
    for task in join_all(tasks).await {
        all.extend(task.expect("no panic").1);
    }
    let counter = store.get(&path).await.expect("it is there");
    let counter = counter.bytes().await.expect("it is read");
    assert_eq!(counter, (TASKS * UPDATES).to_string());
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), TASKS * UPDATES, "a tag was given out twice");
}

/// The content is in the way of the new name, and changes while it is being copied.
#[test]
fn a_rename_to_a_longer_name_takes_an_update_along() {
    let (_folder, store) = crate::readers::sparse();
    let (short, long) = (Path::from("short"), Path::from("x".repeat(5000)));
    let old = vec![1; 40 << 20];
    // An update may come late, after the copy.
    for _ in 0..20 {
        let first = now(store.put(&short, old.clone().into())).expect("room");
        let accepted = std::thread::scope(|scope| {
            let rename = scope.spawn(|| now(store.rename(&short, &long)));
            while store.store().list(0, 9).expect("a list").len() < 2 && !rename.is_finished() {
                std::thread::yield_now();
            }
            let mode = PutMode::Update(first.into());
            let update = now(store.put_opts(&short, "new".into(), mode.into()));
            rename.join().expect("no panic").expect("it is there");
            update.is_ok()
        });
        assert_eq!(content(&store, "short"), None);
        let found = content(&store, long.as_ref()).expect("it is renamed");
        match accepted {
            true => assert_eq!(found.len(), 3),
            false => assert!(found == old),
        }
        now(store.delete(&long)).expect("it is there");
        assert_eq!(store.store().list(0, 9).expect("a list"), []);
        if accepted {
            return;
        }
    }
    panic!("no update was accepted during a rename");
}
