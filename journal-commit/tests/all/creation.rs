//! What a crash during the creation of a log or journal leaves. Every image opens, or is recognized
//! as an interrupted creation, and can then be created again.

#![cfg(all(feature = "jbd2", feature = "compact"))]

use std::sync::{Arc, Mutex};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Error, Log, Options};
use spanlock_journal_commit::jbd2::{self, Flushes, FormatOptions, Journal};
use spanlock_journal_commit::storage::PmemStorage;
use spanlock_journal_commit::testing::{Loss, Recorded};
use spanlock_pmem::simulated::Simulated;

/// The length of a storage: a ring of 16 KiB, so that blocks of 1024 bytes are allowed.
const LEN: usize = 8192 + 16384;
/// Persistent memory tears at words; disks tear at sectors, which are sets of words.
const WORD: usize = 8;

/// A storage that notes its writes.
struct Noting {
    content: Recorded,
    writes: Mutex<Vec<(usize, Vec<u8>)>>,
}

impl Noting {
    fn new(image: &[u8]) -> Self {
        Noting {
            content: Recorded::from_image(image.to_vec()),
            writes: Mutex::new(Vec::new()),
        }
    }

    /// Returns every image that a crash can leave: the writes before one, and of that one any set
    /// of the words that it changes.
    fn images(self) -> Vec<Vec<u8>> {
        let mut now = self.content.medium();
        let mut images = vec![now.clone()];
        for (at, data) in self.writes.into_inner().unwrap() {
            let words = (0..data.len()).step_by(WORD);
            let changed: Vec<usize> = words
                .filter(|word| now[at + word..][..WORD] != data[*word..][..WORD])
                .collect();
            assert!(changed.len() < 12, "too many images");
            for which in 1..1_u32 << changed.len() {
                let mut image = now.clone();
                for (nth, word) in changed.iter().enumerate() {
                    if which >> nth & 1 == 1 {
                        image[at + word..][..WORD].copy_from_slice(&data[*word..][..WORD]);
                    }
                }
                images.push(image);
            }
            now[at..][..data.len()].copy_from_slice(&data);
        }
        images
    }
}

impl Storage for Noting {
    fn len(&self) -> u64 {
        self.content.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.content.read_at(buf, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        panic!("the creation of a log makes durable writes only");
    }

    fn flush(&self) -> std::io::Result<()> {
        panic!("the creation of a log makes durable writes only");
    }

    /// The content stays as it was before the creation.
    fn write_fua(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
        let mut writes = self.writes.lock().unwrap();
        writes.push((offset as usize, data.to_vec()));
        Ok(())
    }
}

/// A way to open a log.
type Open<S> = fn(S, &Options) -> Result<Log<S>, Error>;

/// Opens an image in every way. Creates the log again where an error says so.
fn check<S: Storage + Clone>(image: &[u8], options: &Options, make: impl Fn(&[u8]) -> S) {
    let ways: [(&str, Open<S>); 4] = [
        ("open", Log::open),
        ("salvage", Log::salvage),
        ("open_lazily", Log::open_lazily),
        ("create", Log::create),
    ];
    for (name, open) in ways {
        let storage = make(image);
        let log = open(storage.clone(), options).or_else(|error| {
            let text = error.to_string();
            let (advice, instead): (_, Open<S>) = match error {
                Error::Unfinished => ("create it again with `Log::create`", Log::create),
                Error::NotALog { .. } => ("create a log", Log::create),
                Error::Occupied => ("open the log", Log::open),
                other => panic!("{name}: {other}"),
            };
            assert!(text.contains(advice), "{name}: {text}");
            instead(storage.clone(), options)
        });
        let log = log.unwrap_or_else(|error| panic!("{name} and what it advises: {error}"));
        assert_eq!(log.records().count(), 0, "{name}");
        log.append_durable(b"first").unwrap();
        drop(log);
        let log = Log::open(storage, options).unwrap();
        assert_eq!(log.records().count(), 1, "{name}");
    }
}

fn recorded(image: &[u8]) -> Arc<Recorded> {
    Arc::new(Recorded::from_image(image.to_vec()))
}

fn persistent(image: &[u8]) -> Arc<PmemStorage<Arc<Simulated>>> {
    Arc::new(PmemStorage::new(Simulated::new(image)))
}

/// The second creation may have other options than the first.
#[test]
fn every_image_of_a_creation_opens_or_can_be_created_again() {
    let (random, given) = (Options::new(), Options::new().id(7).block_bytes(1024));
    for (first, again) in [(&random, &random), (&given, &given), (&random, &given)] {
        let storage = Noting::new(&vec![0; LEN]);
        drop(Log::create(&storage, first).unwrap());
        let images = storage.images();
        assert!(images.len() > 1000, "{}", images.len());
        for (nth, image) in images.iter().enumerate() {
            check(image, again, recorded);
            if nth % 8 == 0 {
                check(image, again, persistent);
            }
        }
    }
}

/// `Log::wipe` leaves the batches of the earlier log.
#[test]
fn remains_of_an_earlier_log_do_not_matter() {
    let options = Options::new();
    let earlier = recorded(&vec![0; LEN]);
    let log = Log::create(&earlier, &options).unwrap();
    log.append_durable(&[1; 3000]).unwrap();
    drop(log);
    Log::wipe(&earlier).unwrap();
    let storage = Noting::new(&earlier.visible());
    drop(Log::create(&storage, &options).unwrap());
    let images = storage.images();
    assert!(images.iter().all(|image| image[8192..] != [0; 16384]));
    for image in images.iter().step_by(5) {
        check(image, &options, recorded);
    }
}

#[test]
fn an_interrupted_creation_is_told_from_other_contents() {
    let options = Options::new();
    let storage = Noting::new(&vec![0; LEN]);
    drop(Log::create(&storage, &options).unwrap());
    let images = storage.images();
    let kind = |image: &[u8]| Log::open(recorded(image), &options).err();
    let unfinished = |image: &&Vec<u8>| matches!(kind(image), Some(Error::Unfinished));
    let begun: Vec<_> = images.iter().filter(unfinished).collect();
    // Of nine words that are not zero: all sets but the empty one and the whole superblock.
    assert_eq!(begun.len(), (1 << 9) - 2);
    for image in begun {
        // Something in slot 1, something behind the superblock, and another serial number.
        for (at, byte) in [(4096, 1), (300, 1), (24, 2)] {
            let mut other = image.clone();
            other[at] = byte;
            let refused = Log::create(recorded(&other), &options).unwrap_err();
            assert!(matches!(refused, Error::Occupied), "{at}: {refused}");
        }
    }
}

/// The same for a journal of blocks, in a new place and over an earlier journal.
#[test]
fn every_image_of_formatting_opens_or_can_be_formatted_again() {
    const BLOCK: u32 = 1024;
    const BLOCKS: usize = 64;
    let home = || Recorded::new(4 * BLOCK as usize);
    for flushes in [Flushes::One, Flushes::Two] {
        let new = || FormatOptions::new(BLOCK).flushes(flushes);
        let earlier = recorded(&vec![0; BLOCKS * BLOCK as usize]);
        let empty = earlier.visible();
        jbd2::format(earlier.clone(), &new()).unwrap();
        let options = || jbd2::Options::new(BLOCK);
        let journal = Journal::open(earlier.clone(), home(), options()).unwrap();
        for number in [1, 2, 1] {
            let handle = journal.begin(1).unwrap();
            handle.get_write(number).unwrap().dirty().unwrap();
            handle.stop_durable().unwrap();
        }
        drop(journal);
        let mut places = 0;
        for base in [empty.clone(), earlier.visible()] {
            let storage = recorded(&base);
            let is_new = base == empty;
            if !is_new {
                let error = jbd2::format(storage.clone(), &new()).unwrap_err();
                assert!(matches!(error, jbd2::Error::Occupied), "{error}");
            }
            jbd2::format(storage.clone(), &new().overwrite()).unwrap();
            let history = storage.history();
            for cut in 0..=history.len() {
                let torn = (0..4).map(|seed| Loss::Sectors(seed + cut as u64));
                for loss in [Loss::Nothing, Loss::Everything].into_iter().chain(torn) {
                    let image = history.image(cut, loss);
                    if is_new {
                        let storage = recorded(&image);
                        Journal::open_or_create(storage, home(), options(), flushes).unwrap();
                    }
                    let storage = recorded(&image);
                    let opened = Journal::open(storage.clone(), home(), options());
                    let Err(error) = opened else { continue };
                    let is_none = matches!(error, jbd2::Error::NotAJournal { .. });
                    assert!(is_none, "cut {cut}, {loss:?}: {error}");
                    assert!(error.to_string().contains("format this place"), "{error}");
                    jbd2::format(storage.clone(), &new()).unwrap();
                    Journal::open(storage, home(), options()).unwrap();
                    places += 1;
                }
            }
        }
        assert!(places > 100, "{places}");
    }
}

#[test]
fn a_journal_is_created_only_in_zeros() {
    const BLOCK: usize = 1024;
    let home = || Recorded::new(4 * BLOCK);
    let create = |log: Arc<Recorded>| {
        let options = jbd2::Options::new(BLOCK as u32);
        Journal::open_or_create(log, home(), options, Flushes::Two)
    };
    for at in [0, 4, 200, 1023, 1024, 63 * BLOCK + 1023] {
        let mut image = vec![0; 64 * BLOCK];
        image[at] = 0x80;
        let log = recorded(&image);
        let error = create(log.clone()).unwrap_err();
        assert!(
            matches!(error, jbd2::Error::NotAJournal { .. }),
            "{at}: {error}"
        );
        assert_eq!(log.visible(), image, "byte {at}");
    }
    let log = recorded(&vec![0; 64 * BLOCK]);
    let error = create(recorded(&[])).unwrap_err();
    assert!(matches!(error, jbd2::Error::TooSmall { .. }), "{error}");
    let handle_of = |journal: &Journal| journal.begin(1).map(|handle| handle.stop_durable());
    handle_of(&create(log.clone()).unwrap()).unwrap().unwrap();
    assert_eq!(create(log).unwrap().recovery().transactions, 1);
}
