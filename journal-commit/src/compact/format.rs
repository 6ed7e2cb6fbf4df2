//! The bytes of the compact format: superblocks, headers of batches, records. `docs/compact.md` has
//! pictures and tables.

/// The offsets of the superblocks in the storage.
pub(super) const SLOTS: [u64; 2] = [0, 4096];
/// The offset of the ring in the storage.
pub(super) const DATA: u64 = 8192;
/// The length of a superblock: one sector. Disks write a sector completely or not at all.
pub(super) const SUPERBLOCK: usize = 512;
/// The length of a batch's header.
pub(super) const HEADER: usize = DIGEST + 8;
/// The number of bytes before each record: its length and checksum.
pub(super) const RECORD: usize = 8;
/// The version of this format.
pub(super) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"SpanlkWL";
const AT_VERSION: usize = 8;
const AT_CHECKSUM: usize = AT_VERSION + 4;
const AT_FIELDS: usize = AT_CHECKSUM + 4;

const BATCH_MAGIC: [u8; 4] = *b"SpWB";
const AT_SUM: usize = 4;
const ID: usize = AT_SUM + 4;
const EPOCH: usize = ID + 8;
const POSITION: usize = EPOCH + 8;
const FIRST: usize = POSITION + 8;
const LENGTH: usize = FIRST + 8;
const COUNT: usize = LENGTH + 4;
const DIGEST: usize = COUNT + 4;

/// The contents of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) id: u64,
    pub(super) serial: u64,
    pub(super) len: u64,
    pub(super) block: u32,
    pub(super) closed: bool,
    pub(super) epoch: u64,
    pub(super) head: u64,
    pub(super) head_record: u64,
    pub(super) first_record: u64,
    pub(super) settled: u64,
}

/// The possible contents of a superblock's place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Sound(Superblock),
    /// A superblock of another version of this crate.
    Version(u32),
    /// A damaged superblock of this crate.
    Damaged,
    Foreign,
}

impl Superblock {
    /// Returns the superblock of a new log in a storage of `len` bytes, with blocks of `block`.
    pub(super) fn first(id: u64, len: u64, block: u64) -> Self {
        Superblock {
            id,
            serial: 1,
            len,
            block: block as u32,
            closed: false,
            epoch: 1,
            head: 0,
            head_record: 1,
            first_record: 1,
            settled: 0,
        }
    }

    pub(super) fn encode(&self) -> [u8; SUPERBLOCK] {
        let mut bytes = [0; SUPERBLOCK];
        bytes[..8].copy_from_slice(&MAGIC);
        put(&mut bytes, AT_VERSION, VERSION.to_le_bytes());
        let mut fields = Vec::with_capacity(SUPERBLOCK - AT_FIELDS);
        for number in [self.id, self.serial, self.len] {
            fields.extend(number.to_le_bytes());
        }
        for number in [self.block, u32::from(self.closed)] {
            fields.extend(number.to_le_bytes());
        }
        for number in [
            self.epoch,
            self.head,
            self.head_record,
            self.first_record,
            self.settled,
        ] {
            fields.extend(number.to_le_bytes());
        }
        bytes[AT_FIELDS..AT_FIELDS + fields.len()].copy_from_slice(&fields);
        let checksum = crc32c::crc32c(&bytes);
        put(&mut bytes, AT_CHECKSUM, checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; SUPERBLOCK]) -> Slot {
        if bytes[..8] != MAGIC {
            return Slot::Foreign;
        }
        let mut blank = *bytes;
        put(&mut blank, AT_CHECKSUM, [0; 4]);
        let is_sound = crc32c::crc32c(&blank) == u32_at(bytes, AT_CHECKSUM);
        let version = u32_at(bytes, AT_VERSION);
        if !is_sound {
            return Slot::Damaged;
        }
        if version != VERSION {
            return Slot::Version(version);
        }
        Slot::Sound(Superblock {
            id: u64_at(bytes, 16),
            serial: u64_at(bytes, 24),
            len: u64_at(bytes, 32),
            block: u32_at(bytes, 40),
            closed: u32_at(bytes, 44) != 0,
            epoch: u64_at(bytes, 48),
            head: u64_at(bytes, 56),
            head_record: u64_at(bytes, 64),
            first_record: u64_at(bytes, 72),
            settled: u64_at(bytes, 80),
        })
    }
}

/// The header before the records of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: u64,
    pub(super) epoch: u64,
    pub(super) position: u64,
    pub(super) first: u64,
    pub(super) length: u32,
    pub(super) count: u32,
    pub(super) digest: u32,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..AT_SUM].copy_from_slice(&BATCH_MAGIC);
        put(&mut bytes, ID, self.id.to_le_bytes());
        put(&mut bytes, EPOCH, self.epoch.to_le_bytes());
        put(&mut bytes, POSITION, self.position.to_le_bytes());
        put(&mut bytes, FIRST, self.first.to_le_bytes());
        put(&mut bytes, LENGTH, self.length.to_le_bytes());
        put(&mut bytes, COUNT, self.count.to_le_bytes());
        put(&mut bytes, DIGEST, self.digest.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[ID..]);
        put(&mut bytes, AT_SUM, checksum.to_le_bytes());
        bytes
    }

    /// Decodes a header. Returns `None` if the bytes are not a sound header.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.first_chunk::<HEADER>()?;
        let is_sound =
            bytes[..AT_SUM] == BATCH_MAGIC && crc32c::crc32c(&bytes[ID..]) == u32_at(bytes, AT_SUM);
        is_sound.then(|| Header {
            id: u64_at(bytes, ID),
            epoch: u64_at(bytes, EPOCH),
            position: u64_at(bytes, POSITION),
            first: u64_at(bytes, FIRST),
            length: u32_at(bytes, LENGTH),
            count: u32_at(bytes, COUNT),
            digest: u32_at(bytes, DIGEST),
        })
    }
}

/// Returns the header before a record.
pub(super) fn record_header(len: u32, checksum: u32) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    put(&mut bytes, 0, len.to_le_bytes());
    put(&mut bytes, 4, checksum.to_le_bytes());
    bytes
}

/// Splits the first record off `bytes`. Returns the record's header, the record, and the rest, or
/// `None` if the record is cut off or damaged.
pub(super) fn split_record(bytes: &[u8]) -> Option<(&[u8; RECORD], &[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<RECORD>()?;
    let (record, rest) = rest.split_at_checked(u32_at(header, 0) as usize)?;
    (crc32c::crc32c(record) == u32_at(header, 4)).then_some((header, record, rest))
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, what: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&what);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
