//! What a crash during the creation of a file leaves: nothing under the file's name, or all of it.
//! A temporary file that it leaves is in nobody's way.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::{assert_holds, folder};
use spanlock_pmem::{MappedFile, Options, Pmem, PmemError};

const LEN: u64 = 1 << 20;

fn create(path: &Path) -> Result<MappedFile, PmemError> {
    MappedFile::create(path, LEN, Options::new())
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("spanlock-new")
}

/// The temporary file after each step of a creation.
#[test]
fn an_interrupted_creation_can_be_repeated() {
    for len in [0, 100, 4096, LEN - 4096, LEN, 2 * LEN] {
        let folder = folder();
        let path = folder.path().join("region");
        fs::write(temporary(&path), vec![7; len as usize]).unwrap();
        let opened = MappedFile::open(&path, Options::new());
        assert!(matches!(opened, Err(PmemError::NotFound { .. })), "{len}");
        let region = create(&path).unwrap();
        assert_eq!(region.len(), LEN);
        assert_holds(&region, 0, &vec![0; LEN as usize]);
        drop(region);
        let names = fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["region"]);
        MappedFile::open(&path, Options::new()).unwrap();
    }
}

#[test]
fn one_of_several_creators_gets_the_file() {
    let folder = folder();
    let path = folder.path().join("region");
    for _ in 0..20 {
        let made = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| create(&path)));
            threads.map(|thread| thread.join().unwrap())
        });
        for refused in made.iter().filter_map(|it| it.as_ref().err()) {
            let is_taken = matches!(
                refused,
                PmemError::AlreadyExists { .. } | PmemError::InUse { .. }
            );
            assert!(is_taken, "{refused:?}");
        }
        assert_eq!(made.iter().filter(|it| it.is_ok()).count(), 1);
        drop(made);
        assert!(!temporary(&path).exists());
        assert_eq!(fs::metadata(&path).unwrap().len(), LEN);
        fs::remove_file(&path).unwrap();
    }
}

/// Programs write the next version of a file to a file with `.new` at the end.
#[test]
fn a_file_whose_name_ends_in_new_is_left_as_it_is() {
    let folder = folder();
    let next = folder.path().join("region.new");
    fs::write(&next, "content").unwrap();
    drop(create(&folder.path().join("region")).unwrap());
    assert_eq!(fs::read(&next).unwrap(), b"content");
}

/// The name of the temporary file can be guessed, so others may have put something there.
#[test]
fn what_is_in_the_way_is_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("region");
    let other = folder.path().join("somebody's");
    fs::write(&other, "content").unwrap();
    symlink(&other, temporary(&path)).unwrap();
    let error = create(&path).unwrap_err();
    assert!(matches!(error, PmemError::Io { .. }), "{error:?}");
    assert_eq!(fs::read(&other).unwrap(), b"content");
    fs::remove_file(temporary(&path)).unwrap();
    fs::create_dir(temporary(&path)).unwrap();
    assert!(create(&path).is_err() && !path.exists());
}
