//! The volumes that crash, their operations, and a model of them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use spanlock_file_core::{Error, File, FormatOptions, OpenOptions};
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_srl::SrlArray;
use spanlock_testkit::crashes::Crashable;

pub(crate) const PAGE: u64 = 4096;
/// The largest size of a file.
pub(crate) const LARGEST: u64 = 16 * PAGE;

/// The bytes at the start of each page that the model compares. The operations change no others.
const KEPT: usize = 64;

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Overwrites 8 bytes at the start of the file.
    Patch,
    /// Overwrites 8 bytes of the file's second page.
    Second,
    /// Writes 8 bytes beyond the file's end.
    Extend,
    Append,
    /// Cuts the file off in its second page.
    Truncate,
    /// Makes a hole of the file's second and third page and the start of the fourth.
    Punch,
    /// Maps the first four pages.
    Allocate,
    /// Creates another file.
    Create,
    /// Removes the file.
    Remove,
    /// Makes a hole of the file's first page. It takes no page for data, so a search that an
    /// overwrite would make too long ends soon.
    First,
    /// As `First`, of the second page.
    Other,
    /// Cleans the file's log.
    Clean,
    /// Renames the file within the root.
    Rename,
    /// Renames the file into the directory [`DIRECTORY`].
    Across,
}

/// The kinds in the order of their numbers.
const ALL: [Kind; 14] = [
    Kind::Patch,
    Kind::Second,
    Kind::Extend,
    Kind::Append,
    Kind::Truncate,
    Kind::Punch,
    Kind::Allocate,
    Kind::Create,
    Kind::Remove,
    Kind::First,
    Kind::Other,
    Kind::Clean,
    Kind::Rename,
    Kind::Across,
];

/// The kinds of which each pair is searched: those up to `Remove`.
pub(crate) const KINDS: [Kind; 9] = *ALL.first_chunk().expect("there are more");

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Patch => "patch",
            Kind::Second => "second",
            Kind::Extend => "extend",
            Kind::Append => "append",
            Kind::Truncate => "truncate",
            Kind::Punch => "punch",
            Kind::Allocate => "allocate",
            Kind::Create => "create",
            Kind::Remove => "remove",
            Kind::First => "hole-first",
            Kind::Other => "hole-second",
            Kind::Clean => "clean",
            Kind::Rename => "rename",
            Kind::Across => "rename-across",
        }
    }
}

/// Returns the number of an operation. The bytes that it writes depend on `thread`.
pub(crate) fn number(kind: Kind, thread: u32) -> u32 {
    kind as u32 + thread * ALL.len() as u32
}

fn kind(operation: u32) -> Kind {
    ALL[operation as usize % ALL.len()]
}

/// The size that a truncation sets, and the ranges of `Punch` and of an allocation.
const CUT: u64 = PAGE + 4;
const HOLE: Range<u64> = PAGE..3 * PAGE + 4;
const ALLOCATED: Range<u64> = 0..4 * PAGE;

/// Returns the bytes of which an operation makes a hole.
fn hole(kind: Kind) -> Range<u64> {
    match kind {
        Kind::First => 0..PAGE,
        Kind::Other => PAGE..2 * PAGE,
        _ => HOLE,
    }
}

/// Returns the name that a rename gives the file.
fn new_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Across => MOVED,
        _ => RENAMED,
    }
}

/// Returns the bytes that an operation writes.
fn bytes(operation: u32) -> [u8; 8] {
    [b'A' + operation as u8; 8]
}

pub(crate) type Volume = spanlock_file_core::Volume<Arc<Simulated>, SrlArray>;

pub(crate) type Handle = File<Arc<Simulated>, SrlArray>;

/// An open volume, and the file that the operations use.
pub(crate) struct Open {
    pub(crate) volume: Volume,
    pub(crate) file: Option<Handle>,
}

impl Open {
    pub(crate) fn new(volume: Volume) -> Open {
        let file = volume.open_file(FILE).ok();
        Open { volume, file }
    }

    pub(crate) fn file(&self) -> &Handle {
        self.file.as_ref().expect("the medium has the file")
    }
}

/// The file that the operations use, and one that fills the volume.
pub(crate) const FILE: &str = "a";
const HOG: &str = "hog";

/// The directory that a rename moves the file to, and the names that a rename gives the file.
pub(crate) const DIRECTORY: &str = "d";
const RENAMED: &str = "c";
const MOVED: &str = "d/c";

/// The result of an operation that has changed nothing.
const NO_SPACE: &str = "no space";

/// The names of the files, and what they contain.
pub(crate) type Content = BTreeMap<String, Vec<u8>>;

/// The file core, as a store that crashes.
pub(crate) struct Files {
    /// The name of the file that is created.
    pub(crate) created: &'static str,
    /// The size of the range lock's segments.
    pub(crate) segment: u64,
    /// The threads that get pages of the file's log, in this order.
    pub(crate) lanes: &'static [usize],
}

/// A name of one slot of the directory's log.
pub(crate) const SHORT: &str = "b";
/// A name of two slots.
pub(crate) const LONG: &str = "b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-b-";

pub(crate) fn lock(capacity: u64) -> SrlArray {
    lock_of(capacity, PAGE)
}

pub(crate) fn lock_of(capacity: u64, segment: u64) -> SrlArray {
    SrlArray::with_segment_size(capacity, segment).expect("memory, and a power of two")
}

/// Why a search of crashes is bounded.
pub(crate) const WHY_BOUNDED: &str = "the search has not ended in 45 seconds";

/// Opens a volume with a clock that stands still, so that images do not depend on the time.
pub(crate) fn open(region: Arc<Simulated>) -> Result<Volume, Error> {
    open_with(region, PAGE)
}

/// Opens a volume as [`open`] does, whose locks have segments of this size.
fn open_with(region: Arc<Simulated>, segment: u64) -> Result<Volume, Error> {
    let options = OpenOptions::new().clock(|| 0);
    let locks = move |capacity| Ok::<_, Infallible>(lock_of(capacity, segment));
    Volume::open_with(region, &options, locks).map(|(volume, _)| volume)
}

pub(crate) fn content(volume: &Volume) -> Result<Content, String> {
    let report = volume.check().map_err(|why| why.to_string())?;
    if !report.damaged.is_empty() {
        return Err(format!("damaged pages: {:?}", report.damaged));
    }
    let read = |(name, size): (String, u64)| {
        let file = volume.open_file(&name).map_err(|why| why.to_string())?;
        let mut bytes = vec![0; size as usize];
        let read = file.read_at(&mut bytes, 0).map_err(|why| why.to_string())?;
        match read == bytes.len() {
            true => Ok((name, shortened(bytes))),
            false => Err(format!("{name}: {read} of {size} bytes can be read")),
        }
    };
    volume.list().into_iter().map(read).collect()
}

/// Returns the size, and the first bytes of each page.
fn shortened(bytes: Vec<u8>) -> Vec<u8> {
    let mut short = (bytes.len() as u64).to_le_bytes().to_vec();
    for page in bytes.chunks(PAGE as usize) {
        short.extend(&page[..page.len().min(KEPT)]);
    }
    short
}

impl Subject for Files {
    type Store = Open;
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Open, String> {
        let volume = open_with(region.clone(), self.segment).map_err(|why| why.to_string())?;
        let open = Open::new(volume);
        if let (Some(file), [_, ..]) = (&open.file, self.lanes) {
            file.give_lanes(self.lanes).map_err(|why| why.to_string())?;
        }
        Ok(open)
    }

    fn state(&self, open: &Open) -> Result<Content, String> {
        content(&open.volume)
    }

    /// Overwrites, makes room, creates and removes. Then what memory says must be what another
    /// recovery finds.
    fn go_on(&self, Open { volume, file }: &Open) -> Result<(), String> {
        let told = |why: Error| format!("the volume does not go on working: {why}");
        if let Some(file) = file {
            file.write_at(b"goes on!", 0).map_err(told)?;
        }
        for name in [HOG, FILE] {
            if volume.exists(name) {
                volume.remove(name).map_err(told)?;
            }
        }
        let file = volume.create("new").map_err(told)?;
        for _ in 0..3 {
            file.append(&[7; 5000]).map_err(told)?;
        }
        let region = Simulated::new(&volume.pmem().bytes());
        let again = self.recover(&region)?;
        let (memory, medium) = (content(volume)?, content(&again.volume)?);
        match memory == medium {
            true => Ok(()),
            false => Err(format!("memory has {memory:?}, the medium {medium:?}")),
        }
    }

    fn apply(&self, state: &Content, operation: u32, result: Option<&str>) -> Option<Content> {
        let end = end(state);
        let has_file = state.contains_key(FILE);
        let expected = match kind(operation) {
            _ if result == Some(NO_SPACE) => return Some(state.clone()),
            Kind::Create => {
                let is_new = !state.contains_key(self.created);
                ["there is one", "done"][usize::from(is_new)].to_owned()
            }
            Kind::Remove | Kind::Rename | Kind::Across => {
                ["there is none", "done"][usize::from(has_file)].to_owned()
            }
            // A removed file lives on only in memory.
            _ if !has_file => return Some(state.clone()),
            Kind::Append => format!("at {end}"),
            _ => "done".to_owned(),
        };
        let is_expected = result.is_none_or(|it| it == expected);
        is_expected.then(|| self.effect(state, operation))
    }

    fn name(&self, operation: u32) -> String {
        kind(operation).name().to_owned()
    }
}

impl Files {
    /// Returns what becomes of `state` by an operation that succeeds.
    fn effect(&self, state: &Content, operation: u32) -> Content {
        let (end, mut state) = (end(state), state.clone());
        match kind(operation) {
            Kind::Create => {
                let empty = || shortened(Vec::new());
                state.entry(self.created.to_owned()).or_insert_with(empty);
                return state;
            }
            Kind::Remove => {
                state.remove(FILE);
                return state;
            }
            renaming @ (Kind::Rename | Kind::Across) => {
                if let Some(file) = state.remove(FILE) {
                    state.insert(new_name(renaming).to_owned(), file);
                }
                return state;
            }
            Kind::Clean => return state,
            _ => {}
        }
        let Some(file) = state.get_mut(FILE) else {
            return state;
        };
        let bytes = bytes(operation);
        match kind(operation) {
            Kind::Second => write(file, PAGE, &bytes),
            Kind::Extend => write(file, 3 * PAGE, &bytes),
            Kind::Append => write(file, end, &bytes),
            Kind::Truncate => change(file, |whole| whole.resize(CUT as usize, 0)),
            Kind::Punch | Kind::First | Kind::Other => change(file, |whole| {
                let Range { start, end } = hole(kind(operation));
                let [start, end] = [start, end].map(|at| whole.len().min(at as usize));
                whole[start..end].fill(0);
            }),
            Kind::Allocate => change(file, |whole| {
                whole.resize(whole.len().max(ALLOCATED.end as usize), 0);
            }),
            _ => write(file, 0, &bytes),
        }
        state
    }
}

/// Returns the size of the file; 0 if there is none.
fn end(state: &Content) -> u64 {
    state.get(FILE).map_or(0, |file| size_of(file))
}

fn size_of(file: &[u8]) -> u64 {
    u64::from_le_bytes(file[..8].try_into().expect("8 bytes"))
}

/// Writes into the shortened content of a file.
fn write(file: &mut Vec<u8>, offset: u64, data: &[u8]) {
    change(file, |whole| {
        let end = offset as usize + data.len();
        whole.resize(whole.len().max(end), 0);
        whole[offset as usize..end].copy_from_slice(data);
    });
}

/// Changes the whole content of a file whose shortened content is given.
fn change(file: &mut Vec<u8>, act: impl FnOnce(&mut Vec<u8>)) {
    let mut whole = vec![0; size_of(file) as usize];
    let mut short = &file[8..];
    for page in whole.chunks_mut(PAGE as usize) {
        let kept = page.len().min(KEPT);
        page[..kept].copy_from_slice(&short[..kept]);
        short = &short[kept..];
    }
    act(&mut whole);
    *file = shortened(whole);
}

impl Crashable for Files {
    fn perform(&self, open: &Open, operation: u32) -> String {
        let (volume, data) = (&open.volume, bytes(operation));
        let file = || open.file();
        let done = match kind(operation) {
            Kind::Patch => file().write_at(&data, 0),
            Kind::Second => file().write_at(&data, PAGE),
            Kind::Extend => file().write_at(&data, 3 * PAGE),
            Kind::Append => match file().append(&data) {
                Ok(at) => return format!("at {at}"),
                Err(error) => Err(error),
            },
            Kind::Truncate => file().truncate(CUT),
            hole @ (Kind::Punch | Kind::First | Kind::Other) => file().punch_hole(self::hole(hole)),
            Kind::Allocate => file().allocate(ALLOCATED),
            Kind::Create => volume.create(self.created).map(drop),
            Kind::Remove => volume.remove(FILE),
            Kind::Clean => file().clean().map(drop),
            renaming @ (Kind::Rename | Kind::Across) => volume.rename(FILE, new_name(renaming)),
        };
        match done {
            Ok(()) => "done".to_owned(),
            Err(Error::Exists { .. }) => "there is one".to_owned(),
            Err(Error::NotFound { .. }) => "there is none".to_owned(),
            Err(Error::NoSpace { .. }) => NO_SPACE.to_owned(),
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn format(pages: u64) -> Volume {
    let region = Simulated::new(&vec![0; (pages * PAGE) as usize]);
    let options = FormatOptions::new().clock(|| 0);
    let options = options.inodes(32).max_file_size(LARGEST);
    let options = options.data_checksums(true);
    let volume = Volume::format(region, &options, lock).expect("there is room");
    let file = volume.create(FILE).expect("there is room");
    file.write_at(b"content.", 0).expect("there is room");
    file.write_at(b"content.", PAGE).expect("there is room");
    volume
}

/// A volume with much free space, whose file has a log of one page.
pub(crate) fn roomy() -> Vec<u8> {
    format(32).pmem().bytes()
}

/// A volume with free space, in which the next group of the file's log and of the directory's log
/// each needs another page.
pub(crate) fn at_page_end() -> Vec<u8> {
    filled(32, 0).pmem().bytes()
}

/// A volume as [`at_page_end`], without free pages but its reserve. The next group of a log needs a
/// compaction.
pub(crate) fn full() -> Vec<u8> {
    full_but_for(0)
}

/// A volume as [`full`], in which the file's log has room for so many groups.
pub(crate) fn full_but_for(groups: u32) -> Vec<u8> {
    let volume = filled(24, groups);
    fill_up(&volume);
    let file = volume.open_file(FILE).expect("it is there");
    let again = open(Simulated::new(&volume.pmem().bytes())).expect("sound");
    for _ in 0..=groups {
        file.write_at(b"more", 0).expect("the reserve is for this");
    }
    assert_eq!(volume.stats().compactions, 1, "the log is not full");
    again.pmem().bytes()
}

/// A volume whose file has a log of four full pages: one that is needed, one that is needed because
/// it makes a hole, one of which nothing is needed, and the last. The next group unlinks the third.
/// No pages are free but the reserve, so that the page is used again at once.
pub(crate) fn cleaned() -> Vec<u8> {
    let volume = format(32);
    let file = volume.open_file(FILE).expect("it is there");
    let overwrite = |file: &Handle| {
        file.write_at(b"content.", 0).expect("there is room");
    };
    let fill = || {
        let again = |it: &Volume| overwrite(&it.open_file(FILE).expect("it is there"));
        while !needs_a_page(&volume, again) {
            overwrite(&file);
        }
    };
    file.write_at(b"content.", 2 * PAGE).expect("there is room");
    fill();
    file.punch_hole(2 * PAGE..3 * PAGE).expect("there is room");
    fill();
    for _ in 0..2 {
        overwrite(&file);
        fill();
    }
    assert_eq!(volume.stats().unlinked_pages, 0);
    fill_up(&volume);
    volume.pmem().bytes()
}

/// Fills a volume with another file.
fn fill_up(volume: &Volume) {
    let hog = volume.open_or_create(HOG).expect("there is room");
    // Few words of a page differ from zero, so that a crash may leave few images.
    let mut page = [0; PAGE as usize];
    page[0] = 9;
    while hog.append(&page).is_ok() {}
}

/// Returns a volume whose logs are at the end of their pages. The file's log has room for so many
/// groups.
fn filled(pages: u64, groups: u32) -> Volume {
    let volume = format(pages);
    volume.create(HOG).expect("there is room");
    fill_log(&volume, groups);
    fill_names(&volume, "");
    volume
}

/// Fills the log of the file until it has room for so many groups only.
pub(crate) fn fill_log(volume: &Volume, groups: u32) {
    let overwrite = |volume: &Volume| {
        let file = volume.open_file(FILE).expect("it is there");
        file.write_at(b"content.", 0).expect("there is room");
    };
    let overwrite_often = |volume: &Volume| (0..=groups).for_each(|_| overwrite(volume));
    while !needs_a_page(volume, overwrite_often) {
        overwrite(volume);
    }
}

/// Fills the log of a directory, whose path is empty or ends in a slash. The log drops what is
/// dead, so it is filled with files that stay: first with long names, of many slots each.
pub(crate) fn fill_names(volume: &Volume, directory: &str) {
    let create = |volume: &Volume, name: &str| {
        let path = format!("{directory}{name}");
        volume.create(&path).expect("there is room");
    };
    for len in [600, 20] {
        for number in b'A'..=b'Z' {
            let name = [number].repeat(len);
            let name = str::from_utf8(&name).expect("letters");
            if needs_a_page(volume, |it| create(it, name)) {
                break;
            }
            create(volume, name);
        }
    }
    assert!(needs_a_page(volume, |it| create(it, SHORT)));
}

/// Whether an operation would add a page to a log.
pub(crate) fn needs_a_page(volume: &Volume, operation: impl Fn(&Volume)) -> bool {
    let again = open(Simulated::new(&volume.pmem().bytes())).expect("it is sound");
    let before = again.stats().log_pages;
    operation(&again);
    let stats = again.stats();
    stats.log_pages + stats.unlinked_pages > before
}
