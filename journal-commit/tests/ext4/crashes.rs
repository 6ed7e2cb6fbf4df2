//! Crash images of a journal inside an ext4 image. This crate and `e2fsck -fy` recover each image,
//! and so does the running kernel if it can mount images. The results must agree in the journaled
//! blocks and hold all acknowledged changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{
    CommitWay, Flushes, FormatOptions, Journal, Options, Place, Recovery, Tid, format, recover,
};
use spanlock_journal_commit::testing::{History, Loss, Recorded};

use crate::images::{self, Image};
use crate::rounds::scaled;

/// The changes of a handle: its transaction, its blocks, and the byte with which it filled them, or
/// `None` if it revoked them.
struct Step {
    tid: Tid,
    changes: Vec<(u64, Option<u8>)>,
}

/// A recorded run.
struct Run {
    flushes: Flushes,
    image: Image,
    history: History,
    /// The event at which the run itself begins.
    first_cut: usize,
    /// The handles of each thread, in order.
    steps: Vec<Vec<Step>>,
    /// Pairs of a cut and the transaction that was acknowledged by then.
    acknowledged: Vec<(usize, Tid)>,
}

const THREADS: usize = 3;

impl Run {
    fn new(flushes: Flushes, way: CommitWay, block_bytes: u32, rounds: u8) -> Run {
        let features = match flushes {
            Flushes::Two => "metadata_csum,64bit",
            _ => "^metadata_csum,64bit",
        };
        let image = Image::new(block_bytes, features, 48);
        images::debugfs(&image.path, "feature needs_recovery");
        let device = Arc::new(Recorded::from_image(image.bytes()));
        let new = FormatOptions::new(block_bytes)
            .place(image.place())
            .overwrite();
        format(device.clone(), &new.flushes(flushes)).unwrap();
        // Fill the log with bytes other than zero, so that a torn block is visible.
        for block in &image.journal[1..] {
            let junk = vec![0xEE; block_bytes as usize];
            device
                .write_fua(&junk, block * u64::from(block_bytes))
                .unwrap();
        }
        let options = Options::new(block_bytes)
            .place(image.place())
            .way(way)
            .run_bytes(4 * block_bytes as usize);
        let journal = Journal::open(device.clone(), device.clone(), options).unwrap();
        let first_cut = device.now();

        let threads = std::thread::scope(|scope| {
            let run = |thread: usize| {
                let (journal, device, file) = (&journal, &device, &image.file);
                let mut random = fastrand::Rng::with_seed(thread as u64);
                move || {
                    let mine: Vec<u64> =
                        file.iter().skip(thread).step_by(THREADS).copied().collect();
                    let mut steps = Vec::new();
                    let mut acknowledged = Vec::new();
                    for round in 1..=rounds {
                        let step = one_handle(journal, &mine, round, &mut random);
                        if random.u8(..4) > 0 {
                            journal.wait(step.tid).unwrap();
                            acknowledged.push((device.now(), step.tid));
                        }
                        steps.push(step);
                    }
                    (steps, acknowledged)
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|it| scope.spawn(run(it))).collect();
            threads
                .into_iter()
                .map(|it| it.join().unwrap())
                .collect::<Vec<_>>()
        });
        let (steps, acknowledged): (Vec<_>, Vec<_>) = threads.into_iter().unzip();
        Run {
            flushes,
            history: device.history(),
            acknowledged: acknowledged.concat(),
            image,
            first_cut,
            steps,
        }
    }

    /// Returns the state of the file's blocks after a transaction: the byte that fills each block,
    /// or `None` if its content is undefined.
    fn state(&self, tid: Tid) -> BTreeMap<u64, Option<u8>> {
        let mut state: BTreeMap<_, _> =
            self.image.file.iter().map(|it| (*it, Some(b'a'))).collect();
        for step in self.steps.iter().flatten() {
            if !tid.is_before(step.tid) {
                state.extend(step.changes.iter().copied());
            }
        }
        state
    }

    /// Checks that acknowledged transactions are complete, and that nothing uncommitted is there.
    fn check(&self, cut: usize, recovered: &[u8], done: &Recovery) {
        let last = done
            .dropped
            .map_or(done.next.previous().previous(), |it| it.previous());
        for (at, tid) in &self.acknowledged {
            assert!(
                *at > cut || !last.is_before(*tid),
                "{tid} was acknowledged: {done:?}"
            );
        }
        self.check_state(last, recovered);
    }

    /// Checks that the file is in the state after a transaction.
    fn check_state(&self, last: Tid, recovered: &[u8]) {
        let size = self.image.block_bytes as usize;
        for (block, byte) in self.state(last) {
            let found = &recovered[block as usize * size..][..size];
            // Some blocks begin with the journal's magic, so skip the first bytes.
            let expected = |found: &u8| byte.is_none_or(|byte| *found == byte);
            assert!(
                found[4..].iter().all(expected),
                "block {block} after {last}"
            );
        }
    }
}

fn one_handle(journal: &Journal, mine: &[u64], byte: u8, random: &mut fastrand::Rng) -> Step {
    let handle = journal.begin(8).unwrap();
    let mut changes = Vec::new();
    for _ in 0..random.usize(1..5) {
        let number = mine[random.usize(..mine.len())];
        let mut block = handle.get_write(number).unwrap();
        block.fill(byte);
        if random.u8(..5) == 0 {
            block[..4].copy_from_slice(&0xC03B_3998_u32.to_be_bytes());
        }
        block.dirty().unwrap();
        changes.push((number, Some(byte)));
    }
    if random.u8(..10) == 0 {
        let number = mine[random.usize(..mine.len())];
        handle.revoke(number).unwrap();
        changes.push((number, None));
    }
    let tid = handle.stop();
    Step { tid, changes }
}

fn ours(image: &Image, crashed: &[u8]) -> (Vec<u8>, Recovery) {
    let device = Arc::new(Recorded::from_image(crashed.to_vec()));
    let (bytes, place) = (image.block_bytes, image.place());
    let done = recover(device.clone(), device.clone(), bytes, &place).unwrap();
    (device.visible(), done)
}

/// The minimum numbers of images, of images with torn writes, and of dropped transactions. They
/// grow with the number of rounds: see `scaled`.
const IMAGES: usize = 250;
const TORN: usize = 50;
const DROPPED: usize = 10;

#[derive(Debug, Default)]
struct Tally {
    images: usize,
    dropped: usize,
    torn: usize,
    mounted: u32,
    torn_but_taken: u32,
    refused: u32,
}

impl Tally {
    fn is_enough(&self, flushes: Flushes) -> bool {
        // The format with one flush must yield torn transactions.
        let dropped = flushes == Flushes::Two || self.dropped > scaled(DROPPED);
        self.images >= scaled(IMAGES) && self.torn > scaled(TORN) && dropped
    }

    fn image(&mut self, run: &Run, cut: usize, loss: Loss, mount: bool) {
        let crashed = run.history.image(cut, loss);
        let (recovered, done) = ours(&run.image, &crashed);
        run.check(cut, &recovered, &done);
        let our_file = run.image.file_of(&recovered);
        let (checked, text) = run.image.fsck(&crashed);
        let what = format!("cut {cut}, {loss:?}: {done:?}\n{text}");
        assert!(
            run.image.file_of(&checked) == our_file,
            "e2fsck differs: {what}"
        );
        self.images += 1;
        self.dropped += usize::from(done.dropped.is_some());
        self.torn +=
            usize::from(matches!(loss, Loss::Sectors(_)) && run.history.in_flight(cut) > 0);
        if !mount {
            return;
        }
        match images::kernel(&run.image, &crashed) {
            Ok(mounted) if run.image.file_of(&mounted) == our_file => self.mounted += 1,
            // The commit block is torn and has a checksum of the third kind. Newer kernels accept
            // the transaction if the used part is sound, because its data had been flushed.
            Ok(mounted) => {
                let torn = (done.dropped).unwrap_or_else(|| panic!("the kernel differs: {what}"));
                assert_eq!(run.flushes, Flushes::Two, "the kernel differs: {what}");
                run.check_state(torn, &mounted);
                self.torn_but_taken += 1;
            }
            // Older kernels refuse a torn commit block. A crash can cause no other refusal.
            Err(error) => {
                assert!(done.dropped.is_some(), "the kernel refuses: {error} {what}");
                self.refused += 1;
            }
        }
    }
}

/// Checks all cuts of a run. If writes are in flight at a cut, checks some of the possible losses.
fn all_cuts(run: &Run, mount: bool, tally: &mut Tally) {
    for cut in run.first_cut..=run.history.len() {
        let seed = cut as u64;
        let some = match (run.history.in_flight(cut), cut % 4) {
            (0, _) => vec![Loss::Nothing],
            (_, 0) => vec![Loss::Nothing, Loss::Sectors(seed)],
            (_, 1) => vec![Loss::Everything, Loss::Sectors(seed)],
            (_, _) => vec![
                Loss::Writes(seed),
                Loss::Sectors(seed),
                Loss::Sectors(!seed),
            ],
        };
        for (number, loss) in some.into_iter().enumerate() {
            tally.image(run, cut, loss, mount && (cut + number) % 3 == 0);
        }
    }
}

fn crash_images_of(flushes: Flushes) -> Tally {
    let mut tally = Tally::default();
    let mount = images::kernel_mounts();
    // The scheduler decides how many handles share a commit, and thereby the number of images.
    for _ in 0..4 {
        for (way, block_bytes, rounds) in [
            (CommitWay::Serial, 1024, 3),
            (CommitWay::Coalesced, 1024, 9),
            (CommitWay::Cooperative, 1024, 3),
            (CommitWay::Cooperative, 4096, 2),
        ] {
            let rounds = u8::try_from(scaled(rounds)).expect("SPANLOCK_ROUNDS is small");
            let run = Run::new(flushes, way, block_bytes, rounds);
            all_cuts(&run, mount, &mut tally);
            println!("{flushes:?}, {way:?}, blocks of {block_bytes}: so far {tally:?}");
        }
        if tally.is_enough(flushes) {
            return tally;
        }
    }
    panic!("too few images: {tally:?}");
}

#[test]
fn two_flushes() {
    if images::have_e2fsprogs() {
        crash_images_of(Flushes::Two);
    }
}

#[test]
fn one_flush() {
    if images::have_e2fsprogs() {
        let tally = crash_images_of(Flushes::One);
        assert_eq!(tally.refused, 0);
    }
}

/// `debugfs` shows the transactions without complaint.
#[test]
fn debugfs_reads_the_journal() {
    if !images::have_e2fsprogs() {
        return;
    }
    for flushes in [Flushes::Two, Flushes::One] {
        let run = Run::new(flushes, CommitWay::Coalesced, 1024, 10);
        let path = run.image.folder().join("dumped");
        std::fs::write(&path, run.history.image(run.history.len(), Loss::Nothing)).unwrap();
        let text = images::debugfs(&path, "logdump -a");
        let first = run.steps.iter().flatten().map(|it| it.tid.0).min().unwrap();
        let last = run.acknowledged.iter().map(|(_, tid)| tid.0).max().unwrap();
        for tid in first..=last {
            let line = format!("sequence {tid}, type 2 (commit block)");
            assert!(text.contains(&line), "{line}: {text}");
        }
        for (block, _) in run.steps.iter().flatten().flat_map(|it| &it.changes) {
            assert!(
                text.contains(&format!("FS block {block}")),
                "{block}: {text}"
            );
        }
    }
}

/// This crate can continue journals that mke2fs and debugfs made: without checksums, with checksums
/// of the first kind and two flushes, or with checksums of the third kind.
#[test]
fn journals_of_e2fsprogs_can_be_continued() {
    if !images::have_e2fsprogs() {
        return;
    }
    for (features, script) in [
        ("^metadata_csum,64bit", None),
        ("^metadata_csum,^64bit", None),
        ("^metadata_csum,64bit", Some("jo -c\njc\n")),
        ("metadata_csum,64bit", Some("jo -c\njc\n")),
    ] {
        let image = Image::new(1024, features, 24);
        if let Some(script) = script {
            image.script(script);
        }
        images::debugfs(&image.path, "feature needs_recovery");
        let device = Arc::new(Recorded::from_image(image.bytes()));
        let options = Options::new(1024).place(image.place());
        let journal = Journal::open(device.clone(), device.clone(), options).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        for round in 1..20 {
            let step = one_handle(&journal, &image.file, round, &mut random);
            journal.wait(step.tid).unwrap();
        }
        drop(journal);
        let crashed = device.medium();
        let (recovered, done) = ours(&image, &crashed);
        assert_eq!(done.transactions, 19, "{features} {script:?}");
        let (checked, text) = image.fsck(&crashed);
        assert!(text.contains("recovering journal"), "{text}");
        assert!(
            image.file_of(&checked) == image.file_of(&recovered),
            "{text}"
        );
    }
}

/// `debugfs` shows an external journal on a device that mke2fs made for it.
#[test]
fn an_external_journal() {
    if !images::have_e2fsprogs() {
        return;
    }
    for block_bytes in [1024, 4096] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let device = std::fs::File::create(&path).unwrap();
        device.set_len(u64::from(block_bytes) * 2048).unwrap();
        let mut make = images::tool("mke2fs");
        make.args([
            "-q",
            "-F",
            "-O",
            "journal_dev",
            "-b",
            &block_bytes.to_string(),
        ]);
        images::run(make.arg(&path));
        let place = Place::external(block_bytes);
        let log = Arc::new(Recorded::from_image(std::fs::read(&path).unwrap()));
        let home = Arc::new(Recorded::new(64 * block_bytes as usize));
        let options = Options::new(block_bytes).place(place.clone());
        let journal = Journal::open(log.clone(), home.clone(), options).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut last = None;
        for round in 1..10 {
            let step = one_handle(&journal, &[17, 23, 42], round, &mut random);
            journal.wait(step.tid).unwrap();
            last = Some(step.tid);
        }
        drop(journal);
        std::fs::write(&path, log.medium()).unwrap();
        // `debugfs` reads the block size from a file system's image.
        let image = Image::new(block_bytes, "64bit", 4);
        let text = images::debugfs(&image.path, &format!("logdump -a -f {}", path.display()));
        let line = format!("sequence {}, type 2 (commit block)", last.unwrap());
        assert!(text.contains(&line), "{line}: {text}");
        assert!(text.contains("FS block 42"), "{text}");
        let done = recover(log, home, block_bytes, &place).unwrap();
        assert_eq!(done.transactions, 9);
    }
}
