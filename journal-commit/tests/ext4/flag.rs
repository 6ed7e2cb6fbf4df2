//! The flag `needs_recovery` of an ext4 file system. After a crash at any event, from before the
//! journal inside the file system is opened until after it is closed, `e2fsck -p` and the running
//! kernel keep every acknowledged change. Both replay a journal only if the flag is set.

mod own;

use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{Error, FormatOptions, Journal, Options, format, recover};
use spanlock_journal_commit::testing::{Fault, FaultAt, FaultKind, History, Loss, Recorded};

use crate::images::{self, Image};

/// Block size and features of the file systems: with and without a checksum in the superblock, and
/// with the superblock in a block of its own and in a part of block 0.
const KINDS: [(u32, &str); 3] = [
    (1024, "metadata_csum,64bit"),
    (1024, "^metadata_csum,^64bit"),
    (4096, "metadata_csum,64bit"),
];
const RECOVER: u8 = 4;
const ROUNDS: u8 = 2;

fn open(image: &Image, device: &Arc<Recorded>) -> Journal {
    let options = Options::new(image.block_bytes).place(image.place());
    Journal::open(device.clone(), device.clone(), options).unwrap()
}

/// Fills the first block of the file, durably.
fn fill(journal: &Journal, image: &Image, byte: u8) {
    let handle = journal.begin(1).unwrap();
    let mut block = handle.get_write(image.file[0]).unwrap();
    block.fill(byte);
    block.dirty().unwrap();
    handle.stop_durable().unwrap();
}

fn is_flag_set(image: &[u8]) -> bool {
    image[1024 + 0x60] & RECOVER != 0
}

/// Returns the byte that fills the first block of the file, of which there must be one.
fn byte_of(image: &Image, bytes: &[u8]) -> u8 {
    let file = image.file_of(bytes);
    assert!(file.iter().all(|byte| *byte == file[0]), "half of a block");
    file[0]
}

/// Runs `e2fsck -p`, as a system does when it starts. Returns its exit status, the image and the
/// output.
fn preen(image: &Image, bytes: &[u8]) -> (i32, Vec<u8>, String) {
    let path = image.folder().join("preen");
    images::overwrite(&path, bytes);
    let done = images::tool("e2fsck")
        .arg("-p")
        .arg(&path)
        .output()
        .unwrap();
    let code = done.status.code().expect("an exit status");
    (code, std::fs::read(&path).unwrap(), images::text(&done))
}

/// An open journal, each event of which can be the last before a crash.
struct Run {
    image: Image,
    history: History,
    /// Pairs of an event and the byte that was acknowledged by then.
    acknowledged: Vec<(usize, u8)>,
}

impl Run {
    fn new(block_bytes: u32, features: &str) -> Run {
        let image = Image::new(block_bytes, features, 1);
        let device = Arc::new(Recorded::from_image(image.bytes()));
        let mut acknowledged = Vec::new();
        // The second opening finds the flag and a log with transactions.
        for opening in 0..2 {
            let journal = open(&image, &device);
            for round in 1..=ROUNDS {
                let byte = opening * ROUNDS + round;
                fill(&journal, &image, byte);
                acknowledged.push((device.now(), byte));
            }
            assert!(is_flag_set(&device.medium()));
            match opening {
                0 => drop(journal),
                _ => journal.close().unwrap(),
            }
        }
        assert!(!is_flag_set(&device.medium()));
        Run {
            image,
            history: device.history(),
            acknowledged,
        }
    }

    /// Checks what a crash leaves after the programs that recover it.
    fn check(&self, cut: usize, loss: Loss, mount: bool, torn: &mut usize) {
        let crashed = self.history.image(cut, loss);
        let before = self.acknowledged.iter().filter(|(at, _)| *at <= cut);
        let least = before.map(|(_, byte)| *byte).max().unwrap_or(0);
        let check = |who: &str, bytes: &[u8]| {
            let found = byte_of(&self.image, bytes);
            // At first, the file has another byte.
            let found = if found == b'a' { 0 } else { found };
            assert!(
                found >= least,
                "{who}: {found} < {least}, cut {cut}, {loss:?}"
            );
        };
        let device = Arc::new(Recorded::from_image(crashed.clone()));
        let (size, place) = (self.image.block_bytes, self.image.place());
        recover(device.clone(), device.clone(), size, &place).unwrap();
        let ours = device.medium();
        assert!(!is_flag_set(&ours));
        check("we", &ours);
        if cut.is_multiple_of(4) {
            let (code, checked, text) = preen(&self.image, &ours);
            assert_eq!(code, 0, "cut {cut}, {loss:?}: {text}");
            check("e2fsck after us", &checked);
        }

        let (code, checked, text) = preen(&self.image, &crashed);
        if code >= 4 {
            // The flag is there and its checksum is not, or the reverse. This small file system
            // has no second superblock that `e2fsck` could take instead.
            assert!(text.contains("checksum"), "cut {cut}, {loss:?}: {text}");
            *torn += 1;
            return;
        }
        check("e2fsck", &checked);
        if mount {
            let mounted = images::kernel(&self.image, &crashed);
            check(
                "the kernel",
                &mounted.unwrap_or_else(|error| panic!("{error}")),
            );
        }
    }
}

#[test]
fn acknowledged_changes_survive_e2fsck_and_a_mount() {
    if !images::have_e2fsprogs() {
        return;
    }
    let mount = images::kernel_mounts();
    let mut torn = 0;
    for (block_bytes, features) in KINDS {
        let run = Run::new(block_bytes, features);
        for cut in 0..=run.history.len() {
            // Mounting takes longest. The flag changes near both ends.
            let to_end = cut.min(run.history.len() - cut);
            let mount = mount && (to_end < 6 || cut.is_multiple_of(4));
            run.check(cut, Loss::Nothing, mount, &mut torn);
            if run.history.in_flight(cut) > 0 {
                run.check(cut, Loss::Everything, mount, &mut torn);
                run.check(cut, Loss::Writes(cut as u64), false, &mut torn);
            }
        }
        assert_eq!(torn, 0);
    }
}

/// The flag and the checksum of the superblock lie in two sectors. If a crash keeps one of them,
/// nothing is lost, because the log is empty.
#[test]
fn a_torn_change_of_the_flag_loses_nothing() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[0];
    let run = Run::new(block_bytes, features);
    let mut torn = 0;
    for cut in 0..=run.history.len() {
        let (kept, lost) = (Loss::Nothing, Loss::Everything);
        let [kept, lost] = [kept, lost].map(|loss| run.history.image(cut, loss));
        if is_flag_set(&kept) != is_flag_set(&lost) {
            for seed in 0..8 {
                run.check(cut, Loss::Sectors(seed), false, &mut torn);
            }
        }
    }
    assert!(torn > 0);
}

/// A caller may journal the superblock itself, and may have read it before the flag was set.
#[test]
fn a_journaled_superblock_keeps_the_flag() {
    if !images::have_e2fsprogs() {
        return;
    }
    let mount = images::kernel_mounts();
    for (block_bytes, features) in KINDS {
        let image = Image::new(block_bytes, features, 1);
        let device = Arc::new(Recorded::from_image(image.bytes()));
        let size = block_bytes as usize;
        let number = 1024 / u64::from(block_bytes);
        let old = device.visible()[number as usize * size..][..size].to_vec();
        let journal = open(&image, &device);
        let handle = journal.begin(1).unwrap();
        let mut block = handle.get_write(number).unwrap();
        block.copy_from_slice(&old);
        block.dirty().unwrap();
        handle.stop_durable().unwrap();
        // A checkpoint writes the superblock home, while the log has more transactions.
        while journal.stats().checkpoints == 0 {
            fill(&journal, &image, 7);
        }
        fill(&journal, &image, 8);
        drop(journal);
        let crashed = device.medium();
        assert!(is_flag_set(&crashed));
        let (code, checked, text) = preen(&image, &crashed);
        assert!(code < 4, "{text}");
        assert_eq!(byte_of(&image, &checked), 8);
        if mount {
            assert_eq!(
                byte_of(&image, &images::kernel(&image, &crashed).unwrap()),
                8
            );
        }
        let journal = open(&image, &device);
        journal.close().unwrap();
        assert_eq!(device.medium()[1024..2048], image.bytes()[1024..2048]);
    }
}

/// Recovery sets a flag that somebody else forgot before it writes the first block home.
#[test]
fn recovery_does_not_need_the_flag() {
    if !images::have_e2fsprogs() {
        return;
    }
    let mount = images::kernel_mounts();
    let (block_bytes, features) = KINDS[0];
    let image = Image::new(block_bytes, features, 2);
    let device = Arc::new(Recorded::from_image(image.bytes()));
    let journal = open(&image, &device);
    let handle = journal.begin(2).unwrap();
    for number in &image.file {
        let mut block = handle.get_write(*number).unwrap();
        block.fill(9);
        block.dirty().unwrap();
    }
    handle.stop_durable().unwrap();
    drop(journal);
    let path = image.folder().join("forgotten");
    images::overwrite(&path, &device.medium());
    images::debugfs(&path, "feature ^needs_recovery");
    let forgotten = std::fs::read(&path).unwrap();
    assert!(!is_flag_set(&forgotten));

    let device = Arc::new(Recorded::from_image(forgotten));
    recover(device.clone(), device.clone(), block_bytes, &image.place()).unwrap();
    assert!(!is_flag_set(&device.medium()));
    let history = device.history();
    for cut in 0..=history.len() {
        let crashed = history.image(cut, Loss::Nothing);
        let file = image.file_of(&crashed);
        let is_begun = file.contains(&9);
        let (code, checked, text) = preen(&image, &crashed);
        assert!(code < 4 || !is_begun, "cut {cut}: {text}");
        let mounted = mount.then(|| images::kernel(&image, &crashed).unwrap());
        for recovered in mounted.into_iter().chain((code < 4).then_some(checked)) {
            assert!(!is_begun || byte_of(&image, &recovered) == 9, "cut {cut}");
        }
    }
}

/// The journal's own superblock stays unchanged if the flag cannot be set.
#[test]
fn without_the_flag_there_is_no_journal() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[0];
    let image = Image::new(block_bytes, features, 1);
    let device = Arc::new(Recorded::from_image(image.bytes()));
    device.plan(Fault {
        at: FaultAt::Write(0),
        kind: FaultKind::Error,
        for_ever: false,
        drop_dirty: false,
    });
    let options = Options::new(block_bytes).place(image.place());
    let error = Journal::open(device.clone(), device.clone(), options).unwrap_err();
    assert!(error.to_string().contains("flag"), "{error}");
    assert_eq!(device.medium(), image.bytes());
}

/// The flag is not changed in what is not an ext4 file system with this block size and a journal,
/// and a damaged one is refused.
#[test]
fn other_contents_stay_as_they_are() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[0];
    let image = Image::new(block_bytes, features, 1);
    let other = |at: usize, bytes: &[u8]| {
        let mut image = image.bytes();
        image[1024 + at..][..bytes.len()].copy_from_slice(bytes);
        image
    };
    let run = |content: Vec<u8>| {
        let device = Arc::new(Recorded::from_image(content.clone()));
        let options = Options::new(block_bytes).place(image.place());
        let journal = Journal::open(device.clone(), device.clone(), options)?;
        fill(&journal, &image, 5);
        drop(journal);
        assert_eq!(device.medium()[1024..2048], content[1024..2048]);
        Ok::<(), Error>(())
    };
    // The magic, the block size, no blocks, no journal, an external journal.
    for (at, bytes) in [
        (0x38, &[0, 0][..]),
        (0x18, &[2, 0, 0, 0]),
        (0x04, &[0; 4]),
        (0x5C, &[0x38, 0, 0, 0]),
        (0x60, &[8, 0, 0, 0]),
    ] {
        run(other(at, bytes)).unwrap();
    }
    // The label, the number of blocks.
    for (at, bytes) in [(0x78, &b"label"[..]), (0x04, &[0xFF; 4])] {
        let error = run(other(at, bytes)).unwrap_err();
        assert!(matches!(error, Error::BadFileSystem), "{error}");
        assert!(error.to_string().contains("e2fsck"), "{error}");
    }
}

/// If the journal ignored such a file system, the flag would be missing.
#[test]
fn a_file_system_that_is_cut_short_is_refused() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[0];
    let image = Image::new(block_bytes, features, 1);
    let device = Arc::new(Recorded::from_image(image.bytes()));
    fill(&open(&image, &device), &image, 3);
    // As long as `PmemStorage::sectors` shows a region that the file system fills.
    let visible = image.bytes().len() - 1024;
    for content in [image.bytes(), device.medium()] {
        let home = Arc::new(Recorded::from_image(content[..visible].to_vec()));
        let (place, log) = (image.place(), home.clone());
        let options = Options::new(block_bytes).place(place.clone());
        let opened = Journal::open(log.clone(), home.clone(), options).map(drop);
        let recovered = recover(log, home.clone(), block_bytes, &place).map(drop);
        for error in [opened, recovered].map(Result::unwrap_err) {
            let text = error.to_string();
            assert!(text.contains("has 3072 blocks"), "{text}");
            assert!(text.contains("has only 3071"), "{text}");
        }
        assert!(home.medium() == content[..visible]);
    }
}

/// A crash tears the superblock while a checkpoint writes it home. The log has all of it.
#[test]
fn a_superblock_torn_on_its_way_home_is_recovered() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[0];
    let image = Image::new(block_bytes, features, 1);
    let device = Arc::new(Recorded::from_image(image.bytes()));
    let journal = open(&image, &device);
    let handle = journal.begin(1).unwrap();
    let mut block = handle.get_write(1).unwrap();
    // The label and the last bytes before the checksum lie in different sectors.
    block[0x78..][..5].copy_from_slice(b"label");
    block[0x3F8..][..4].fill(1);
    block.dirty().unwrap();
    handle.stop_durable().unwrap();
    let acknowledged = device.now();
    journal.close().unwrap();
    let after = device.medium()[1024..2048].to_vec();
    let history = device.history();
    let mut torn = 0;
    for cut in acknowledged..=history.len() {
        for seed in 0..8 {
            let crashed = history.image(cut, Loss::Sectors(seed));
            let (half, other) = (&crashed[1024..1536], &crashed[1536..2048]);
            torn += u32::from((half == &after[..512]) != (other == &after[512..]));
            let device = Arc::new(Recorded::from_image(crashed));
            recover(device.clone(), device.clone(), block_bytes, &image.place())
                .unwrap_or_else(|error| panic!("cut {cut}, seed {seed}: {error}"));
            assert_eq!(device.medium()[1024..2048], after, "cut {cut}, seed {seed}");
        }
    }
    assert!(torn > 0);
}

/// The flag may be in the page cache only: the process that set it was killed, and the medium does
/// not have it yet.
#[test]
fn a_flag_that_is_there_already_becomes_durable() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[1];
    let image = Image::new(block_bytes, features, 1).bytes();
    let home = Arc::new(Recorded::from_image(image.clone()));
    let mut superblock = image[1024..2048].to_vec();
    superblock[0x60] |= RECOVER;
    home.write_at(&superblock, 1024).unwrap();
    assert!(!is_flag_set(&home.medium()));
    let log = Arc::new(Recorded::new(64 * block_bytes as usize));
    format(log.clone(), &FormatOptions::new(block_bytes)).unwrap();
    let journal = Journal::open(log, home.clone(), Options::new(block_bytes)).unwrap();
    assert!(is_flag_set(&home.medium()));
    drop(journal);
}

/// A program uses a device that has an old ext4 file system for contents of its own.
#[test]
fn what_replaces_the_superblock_stays_as_it_is() {
    if !images::have_e2fsprogs() {
        return;
    }
    for (block_bytes, features) in KINDS {
        let image = Image::new(block_bytes, features, 1);
        for closes in [true, false] {
            let device = Arc::new(Recorded::from_image(image.bytes()));
            let journal = open(&image, &device);
            let handle = journal.begin(1).unwrap();
            let mut block = handle.get_write(1024 / u64::from(block_bytes)).unwrap();
            block.fill(0xFF);
            // Where the flag was.
            let (_, superblock) = block.split_at_mut(1024 % block_bytes as usize);
            superblock[0x60] = 0;
            let own = superblock[..1024].to_vec();
            block.dirty().unwrap();
            handle.stop_durable().unwrap();
            match closes {
                true => journal.close().unwrap(),
                false => {
                    drop(journal);
                    let (size, place) = (block_bytes, image.place());
                    recover(device.clone(), device.clone(), size, &place).unwrap();
                }
            }
            assert!(device.medium()[1024..2048] == own);
        }
    }
}
