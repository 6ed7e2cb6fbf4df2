use std::io;

use super::*;

fn storage(len: u64) -> Option<(tempfile::TempDir, QueuedStorage)> {
    let folder = tempfile::tempdir().unwrap();
    match QueuedStorage::create(folder.path().join("file"), len) {
        Ok(storage) => Some((folder, storage)),
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

fn pending(data: &[u8], offset: u64) -> Pending {
    let mut copy = Aligned::new(data.len());
    copy.bytes().copy_from_slice(data);
    Pending {
        data: copy,
        offset,
        len: data.len(),
    }
}

#[test]
fn a_failed_write_fails_everything_later() {
    let Some((_folder, storage)) = storage(8192) else {
        return;
    };
    storage.write_at(&[1; 4096], 0).unwrap();
    let failed = completed(pending(&[2; 512], 4096), -5, &storage.file).unwrap_err();
    storage.queue.lock().fail(&failed);
    for told in [
        storage.write_at(&[3; 512], 0).unwrap_err(),
        storage.write_fua(&[3; 512], 0).unwrap_err(),
        storage.flush().unwrap_err(),
    ] {
        assert!(told.to_string().contains("Input/output error"), "{told}");
    }
    let mut found = [0; 4096];
    storage.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [1; 4096]);
}

#[test]
fn the_rest_of_a_short_write_is_written() {
    let Some((_folder, storage)) = storage(8192) else {
        return;
    };
    let mut data = [4; 4096];
    data[..512].fill(3);
    completed(pending(&data, 4096), 512, &storage.file).unwrap();
    let mut found = [0; 4096];
    storage.read_at(&mut found, 4096).unwrap();
    assert_eq!((found[0], &found[512..]), (0, &data[512..]));
}

#[test]
fn interrupted_calls_are_repeated() {
    let mut calls = 0;
    let result = retried(|| {
        calls += 1;
        match calls {
            1 => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(7),
        }
    });
    assert_eq!((result.unwrap(), calls), (7, 2));
}
