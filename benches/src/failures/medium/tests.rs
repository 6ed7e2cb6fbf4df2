//! The medium's durable content, lost data, and reported errors.

use super::*;

const NAME: &str = "file";

struct Scene {
    medium: Medium,
    file: File,
    _folder: tempfile::TempDir,
}

/// Creates a file of zeros on a medium with this plan.
fn scene(plan: &str) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let [files, durable] = ["files", "durable"].map(|it| folder.path().join(it));
    fs::create_dir(&files).unwrap();
    fs::write(files.join(NAME), [0; 8]).unwrap();
    let medium = Medium::new(&files, &durable, || ()).unwrap();
    medium.arm(plan.parse().ok()).unwrap();
    let options = OpenOptions::new().read(true).write(true).clone();
    Scene {
        medium,
        file: options.open(files.join(NAME)).unwrap(),
        _folder: folder,
    }
}

impl Scene {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        let write = |data: &[u8]| self.file.write_at(data, offset);
        self.medium.write(Path::new(NAME), offset, data, &write)
    }

    fn flush(&self) -> io::Result<()> {
        self.medium.flush(Path::new(NAME))
    }

    fn visible(&self) -> Vec<u8> {
        fs::read(self.medium.files.join(NAME)).unwrap()
    }

    fn durable(&self) -> Vec<u8> {
        fs::read(self.medium.durable.join(NAME)).unwrap()
    }
}

fn number<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

#[test]
fn flushed_data_is_durable() {
    let scene = scene("none");
    scene.write(0, &[1, 2]).unwrap();
    assert_eq!((scene.visible()[0], scene.durable()[0]), (1, 0));
    scene.flush().unwrap();
    scene.write(8, &[3]).unwrap();
    assert_eq!(scene.durable(), [1, 2, 0, 0, 0, 0, 0, 0]);
    scene.flush().unwrap();
    assert_eq!(scene.durable(), scene.visible());
    let direct = |data: &[u8], at| scene.file.write_at(data, at);
    scene.write(0, &[9]).unwrap();
    (scene
        .medium
        .write_durably(Path::new(NAME), 2, &[4, 5], &direct))
    .unwrap();
    assert_eq!(scene.durable(), [1, 2, 4, 5, 0, 0, 0, 0, 3]);
    assert_eq!(scene.medium.counts(), (4, 2));
}

#[test]
fn a_flush_fails_once() {
    for (plan, seen, later) in [
        ("flush-1", 2, 2),
        ("flush-1-lost", 1, 1),
        ("flush-1-cached", 2, 1),
    ] {
        let scene = scene(plan);
        scene.write(0, &[1]).unwrap();
        scene.flush().unwrap();
        scene.write(0, &[2]).unwrap();
        assert_eq!(number(scene.flush()), libc::EIO);
        assert_eq!(
            (scene.visible()[0], scene.durable()[0]),
            (seen, 1),
            "{plan}"
        );
        scene.flush().unwrap();
        assert_eq!(
            (scene.visible()[0], scene.durable()[0]),
            (seen, later),
            "{plan}"
        );
    }
}

/// The kernel writes back whole pages, so lost data returns together with the bytes next to it.
#[test]
fn a_cached_page_is_dirty_as_a_whole() {
    let scene = scene("flush-0-cached");
    scene.write(0, &[1]).unwrap();
    scene.write(PAGE, &[1]).unwrap();
    assert_eq!(number(scene.flush()), libc::EIO);
    scene.write(2, &[3]).unwrap();
    scene.flush().unwrap();
    let durable = scene.durable();
    assert_eq!(
        (&durable[..4], durable[PAGE as usize]),
        (&[1, 0, 3, 0][..], 0)
    );
}

#[test]
fn a_write_fails_once() {
    let scene = scene("write-1-lost");
    scene.write(0, &[1]).unwrap();
    assert_eq!(number(scene.write(1, &[1])), libc::EIO);
    assert_eq!(scene.visible(), [0; 8]);
    assert_eq!(
        number(scene.flush()),
        libc::EIO,
        "the next flush reports the loss"
    );
    scene.write(1, &[1]).unwrap();
    scene.flush().unwrap();
    assert_eq!(scene.durable()[..2], [0, 1]);
}

#[test]
fn a_write_is_cut_short() {
    let scene = scene("short-write-0");
    assert_eq!(scene.write(0, &[1; 4]).unwrap(), 2);
    scene.write(4, &[7]).unwrap();
    assert_eq!(number(scene.write(2, &[1; 2])), libc::ENOSPC);
    scene.flush().unwrap();
    assert_eq!(scene.durable(), [1, 1, 0, 0, 7, 0, 0, 0]);
}

/// A durable write stays intact when an older, larger write becomes durable.
#[test]
fn an_older_write_never_overwrites_a_durable_one() {
    let scene = scene("none");
    scene.write(0, &[1; 4]).unwrap();
    let direct = |data: &[u8], at| scene.file.write_at(data, at);
    (scene
        .medium
        .write_durably(Path::new(NAME), 2, &[2; 4], &direct))
    .unwrap();
    assert_eq!(scene.durable(), [0, 0, 2, 2, 2, 2, 0, 0]);
    scene.flush().unwrap();
    assert_eq!(scene.durable(), [1, 1, 2, 2, 2, 2, 0, 0]);
}
