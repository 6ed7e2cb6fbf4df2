//! What is measured: the cases, and who takes turns in each.

use spanlock_object_store::{Layout, Mode};

/// Creations of objects and files.
pub const CREATE: &str = "create";
/// The longest creations.
pub const CHECKPOINTS: &str = "checkpoints";
/// Batches of a space.
pub const VECTORS: &str = "vectors";
/// Writes.
pub const WRITE: &str = "write";
/// Reads.
pub const READ: &str = "read";
/// Small objects, created and written.
pub const PUT: &str = "put";

/// All groups of cases, each with a description.
pub const GROUPS: [(&str, &str); 6] = [
    (
        CREATE,
        "creates empty objects, with the super region written at each creation, every 128 and every 1,024, and 64 heads in a batch; and empty files in one directory (Figures 1, 10 and 11)",
    ),
    (
        CHECKPOINTS,
        "creates objects until five checkpoints were made, and times every creation",
    ),
    (
        VECTORS,
        "writes batches of 1 to 128 vectors of 512 bytes in a space (Figure 2)",
    ),
    (
        WRITE,
        "writes 4 KiB to 1 MiB of objects, and of raw bytes (Figures 8 and 9)",
    ),
    (
        READ,
        "reads 4 KiB to 1 MiB of objects, and of raw bytes (Figure 7)",
    ),
    (
        PUT,
        "creates an object with 4 KiB, in one batch; and the same with object_store's LocalFileSystem",
    ),
];

/// A mode of a store that is measured.
#[derive(Clone, Copy, Debug)]
pub struct StoreMode {
    /// Its name in rows.
    pub name: &'static str,
    /// The mode.
    pub mode: Mode,
    /// Whether creations are measured. In `direct-sized`, they write the same as in `direct`.
    pub creates: bool,
    /// Whether reads are measured. In `versions`, they find the same as in `direct-sized`.
    pub reads: bool,
}

/// Version mode.
pub const VERSIONS: &str = "versions";

/// Bytes of an object's log of versions.
pub const LOG_BYTES: u64 = 4 << 20;

/// All modes that are measured.
#[rustfmt::skip] // A mode is one line.
pub const MODES: [StoreMode; 3] = [
    StoreMode { name: "direct", mode: Mode::Direct, creates: true, reads: true },
    StoreMode { name: "direct-sized", mode: Mode::DirectSized, creates: false, reads: true },
    StoreMode { name: VERSIONS, mode: Mode::Versions { log: LOG_BYTES }, creates: true, reads: false },
];

/// Both layouts, with their names in rows.
pub const LAYOUTS: [(&str, Layout); 2] = [(PACKED, Layout::Packed), (REGION, Layout::Region)];
/// Heads in a table.
pub const PACKED: &str = "packed";
/// Heads in their regions.
pub const REGION: &str = "region";
/// A space without a store.
pub const SPACE: &str = "space";
/// Raw bytes.
pub const RAW: &str = "raw";
/// Files that are created, but not flushed.
pub const FILES: &str = "files";
/// Files that are flushed, and then their directory.
pub const FILES_SYNCED: &str = "files-synced";
/// Files of `LocalFileSystem`.
pub const LOCAL: &str = "local-file-system";
/// The same, flushed.
pub const LOCAL_SYNCED: &str = "local-file-system-synced";

/// How many ids a creation reserves, and how many heads it writes: with its name, and with the name
/// of the case without that optimisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// The name of the case.
    pub case: &'static str,
    /// The skip number.
    pub skip: u64,
    /// The heads that are written at a time.
    pub heads: u64,
    /// The case that shows what the optimisation gains.
    pub off: Option<&'static str>,
}

/// Creations with 64 heads in a batch.
pub const BATCH_64: &str = "create/batch-64";

/// The creations that are compared.
#[rustfmt::skip] // A creation is one line.
pub const CREATIONS: [Creation; 4] = [
    Creation { case: "create/skip-1", skip: 1, heads: 1, off: None },
    Creation { case: "create/skip-1024", skip: 1024, heads: 1, off: Some("create/skip-1") },
    Creation { case: "create/skip-128", skip: 128, heads: 1, off: None },
    Creation { case: BATCH_64, skip: 128, heads: 64, off: Some("create/skip-128") },
];

/// The case of [`CHECKPOINTS`].
pub const CHECKPOINTS_CASE: &str = "create/checkpoints";
/// The case of [`PUT`].
pub const PUT_CASE: &str = "put/4k";
/// The case of [`FILES`].
pub const FILES_CASE: &str = "create/files";

/// Vectors in a batch.
pub const VECTOR_COUNTS: [usize; 5] = [1, 2, 8, 32, 128];
/// Bytes of writes and reads.
pub const SIZES: [usize; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Bytes of a put.
pub const PUT_BYTES: usize = 4 << 10;

/// A way to access an object, or raw bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it writes.
    pub writes: bool,
    /// Whether it goes from place to place at random.
    pub random: bool,
    /// The bytes at a time.
    pub bytes: usize,
}

/// What one contestant does.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Creates objects.
    Create(Creation, StoreMode, Layout),
    /// Creates files, and perhaps flushes them and their directory.
    CreateFiles {
        /// Whether they are flushed.
        synced: bool,
    },
    /// Creates objects until several checkpoints were made.
    Checkpoints(StoreMode, Layout),
    /// Writes batches of so many vectors.
    Vectors(usize),
    /// Writes or reads an object.
    Access(Access, StoreMode),
    /// Writes or reads raw bytes.
    Raw(Access),
    /// Creates objects and writes them.
    Put(Layout),
    /// The same with `LocalFileSystem`.
    PutFiles {
        /// Whether they are flushed.
        synced: bool,
    },
}

impl Work {
    /// Returns the name of the case.
    pub fn case(&self) -> String {
        match self {
            Work::Create(creation, ..) => creation.case.to_owned(),
            Work::CreateFiles { .. } => FILES_CASE.to_owned(),
            Work::Checkpoints(..) => CHECKPOINTS_CASE.to_owned(),
            Work::Vectors(count) => vectors_case(*count),
            Work::Access(access, _) | Work::Raw(access) => access.case(),
            Work::Put(_) | Work::PutFiles { .. } => PUT_CASE.to_owned(),
        }
    }

    /// Returns the layout, or what takes its place.
    pub fn layout(&self) -> &'static str {
        let of = |layout: &Layout| match layout {
            Layout::Packed => PACKED,
            Layout::Region => REGION,
        };
        match self {
            Work::Create(_, _, layout) | Work::Checkpoints(_, layout) | Work::Put(layout) => {
                of(layout)
            }
            Work::Access(..) => PACKED,
            Work::CreateFiles { synced: false } => FILES,
            Work::CreateFiles { synced: true } => FILES_SYNCED,
            Work::Vectors(_) => SPACE,
            Work::Raw(_) => RAW,
            Work::PutFiles { synced: false } => LOCAL,
            Work::PutFiles { synced: true } => LOCAL_SYNCED,
        }
    }

    /// Returns the name of the store's mode.
    pub fn mode(&self) -> Option<&'static str> {
        match self {
            Work::Create(_, mode, _) | Work::Checkpoints(mode, _) | Work::Access(_, mode) => {
                Some(mode.name)
            }
            Work::Put(_) => Some(PUT_MODE.name),
            _ => None,
        }
    }

    /// Returns the bytes that are written or read at a time, if that is what is measured.
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Work::Access(access, _) | Work::Raw(access) => Some(access.bytes),
            _ => None,
        }
    }
}

/// The mode of puts: an object of which nobody knows the size would be of little use.
pub const PUT_MODE: StoreMode = MODES[1];

/// Returns the case of batches of so many vectors.
pub fn vectors_case(count: usize) -> String {
    format!("{VECTORS}/{count}")
}

impl Access {
    /// Returns the name of the case.
    pub fn case(&self) -> String {
        let does = if self.writes { WRITE } else { READ };
        let order = if self.random { "random" } else { "sequential" };
        match self.bytes >> 20 {
            0 => format!("{does}/{order}/{}k", self.bytes >> 10),
            mebibytes => format!("{does}/{order}/{mebibytes}m"),
        }
    }
}

/// Returns the contestants of a group that take turns, cell by cell. The other projects' files are
/// the same on `disk-direct` as on `disk`, so they are left out unless `with_files`.
pub fn cells(group: &str, with_files: bool) -> Vec<Vec<Work>> {
    let creators = || MODES.into_iter().filter(|it| it.creates);
    let layouts = || LAYOUTS.into_iter().map(|it| it.1);
    let files = |of: fn(bool) -> Work| {
        [false, true]
            .map(of)
            .into_iter()
            .filter(move |_| with_files)
    };
    match group {
        CREATE => {
            let mut all = Vec::new();
            for mode in creators() {
                for creation in CREATIONS {
                    all.extend(layouts().map(|layout| Work::Create(creation, mode, layout)));
                }
            }
            all.extend(files(|synced| Work::CreateFiles { synced }));
            vec![all]
        }
        CHECKPOINTS => {
            let of = |mode| layouts().map(move |layout| vec![Work::Checkpoints(mode, layout)]);
            creators().flat_map(of).collect()
        }
        VECTORS => vec![VECTOR_COUNTS.map(Work::Vectors).to_vec()],
        WRITE | READ => {
            let writes = group == WRITE;
            let orders = [false, true].into_iter();
            let each = orders.flat_map(|random| {
                SIZES.map(|bytes| Access {
                    writes,
                    random,
                    bytes,
                })
            });
            let modes = || MODES.into_iter().filter(|it| writes || it.reads);
            each.map(|access| {
                let stores = modes().map(|mode| Work::Access(access, mode));
                stores.chain([Work::Raw(access)]).collect()
            })
            .collect()
        }
        PUT => {
            let mut all: Vec<_> = layouts().map(Work::Put).collect();
            all.extend(files(|synced| Work::PutFiles { synced }));
            vec![all]
        }
        other => unreachable!("no group {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contestant_has_a_place_of_its_own() {
        let all = GROUPS.iter().flat_map(|it| cells(it.0, true));
        let places: Vec<_> = all
            .flatten()
            .map(|it| (it.case(), it.layout(), it.mode()))
            .collect();
        for (nth, place) in places.iter().enumerate() {
            assert!(!places[..nth].contains(place), "{place:?} twice");
        }
        for creation in CREATIONS {
            let off = creation
                .off
                .is_none_or(|off| CREATIONS.iter().any(|it| it.case == off));
            assert!(off, "{creation:?}");
        }
    }

    #[test]
    fn files_are_measured_once_on_a_disk() {
        let layouts = |with_files| -> Vec<_> {
            let cells = cells(PUT, with_files);
            cells.into_iter().flatten().map(|it| it.layout()).collect()
        };
        assert_eq!(layouts(true), [PACKED, REGION, LOCAL, LOCAL_SYNCED]);
        assert_eq!(layouts(false), [PACKED, REGION]);
    }
}
