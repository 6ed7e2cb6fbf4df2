//! Encoding and decoding of descriptor, revoke and commit blocks.

use std::time::{SystemTime, UNIX_EPOCH};

use super::checksum::{crc32c, crc32c_without};
use super::format::*;

/// The entry of one data block in a descriptor block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The block's home.
    pub(crate) home: u64,
    /// Whether the data began with the magic, which is zeroed in the log.
    pub(crate) escaped: bool,
    /// With checksums of the third kind: the checksum of the block's bytes in the log.
    pub(crate) checksum: u32,
}

/// A descriptor block under construction.
#[derive(Debug)]
pub(crate) struct Descriptor {
    block: Vec<u8>,
    at: usize,
    /// The offset of the last tag's flags.
    flags: usize,
    tags: usize,
}

impl Descriptor {
    pub(crate) fn new(format: &Format, tid: Tid) -> Self {
        Descriptor {
            block: new_block(format, Kind::Descriptor, tid),
            at: HEADER_BYTES,
            flags: 0,
            tags: 0,
        }
    }

    /// Adds a tag, and after the first tag the journal's UUID. A block has room for
    /// [`Format::tags_per_descriptor`] tags; the caller must not add more.
    pub(crate) fn push(&mut self, format: &Format, uuid: &[u8; UUID_BYTES], tag: Tag) {
        let mut flags = 0;
        if tag.escaped {
            flags |= TAG_ESCAPED;
        }
        if self.tags > 0 {
            flags |= TAG_SAME_UUID;
        }
        put32(&mut self.block, self.at, tag.home as u32);
        // In a tag with 16 bits of flags, the 16 bits before are the checksum of a kind that this
        // crate never writes. They are zero.
        self.flags = self.at + 4;
        put32(&mut self.block, self.flags, flags);
        if format.wide || format.checksums == Checksums::Third {
            put32(&mut self.block, self.at + 8, (tag.home >> 32) as u32);
        }
        if format.checksums == Checksums::Third {
            put32(&mut self.block, self.at + 12, tag.checksum);
        }
        self.at += format.tag_bytes();
        if self.tags == 0 {
            self.block[self.at..self.at + UUID_BYTES].copy_from_slice(uuid);
            self.at += UUID_BYTES;
        }
        self.tags += 1;
    }

    /// Returns the block for the log.
    pub(crate) fn finish(mut self, format: &Format) -> Vec<u8> {
        let flags = get32(&self.block, self.flags) | TAG_LAST;
        put32(&mut self.block, self.flags, flags);
        seal(format, &mut self.block);
        self.block
    }
}

/// Returns the tags of a descriptor block.
pub(crate) fn tags(format: &Format, block: &[u8]) -> Vec<Tag> {
    let mut found = Vec::new();
    let mut at = HEADER_BYTES;
    while at + format.tag_bytes() <= format.body_bytes() {
        let third = format.checksums == Checksums::Third;
        let mut flags = get32(block, at + 4);
        if !third {
            flags &= 0xFFFF;
        }
        let mut home = u64::from(get32(block, at));
        if format.wide {
            home |= u64::from(get32(block, at + 8)) << 32;
        }
        found.push(Tag {
            home,
            escaped: flags & TAG_ESCAPED != 0,
            checksum: if third { get32(block, at + 12) } else { 0 },
        });
        at += format.tag_bytes();
        if flags & TAG_SAME_UUID == 0 {
            at += UUID_BYTES;
        }
        if flags & TAG_LAST != 0 {
            break;
        }
    }
    found
}

/// Returns a revoke block that names `homes`. There must be at most [`Format::revokes_per_block`].
pub(crate) fn revoke(format: &Format, tid: Tid, homes: &[u64]) -> Vec<u8> {
    let mut block = new_block(format, Kind::Revoke, tid);
    let mut at = REVOKE_BYTES;
    for home in homes {
        if format.wide {
            block[at..at + 8].copy_from_slice(&home.to_be_bytes());
        } else {
            put32(&mut block, at, *home as u32);
        }
        at += format.revoke_bytes();
    }
    put32(&mut block, REVOKE_USED_AT, at as u32);
    seal(format, &mut block);
    block
}

/// Returns the blocks that a revoke block names, or `None` if its length field exceeds the block.
pub(crate) fn revoked(format: &Format, block: &[u8]) -> Option<Vec<u64>> {
    let used = get32(block, REVOKE_USED_AT) as usize;
    let names = block[..format.body_bytes()].get(REVOKE_BYTES..used.max(REVOKE_BYTES))?;
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    Some(
        names
            .chunks_exact(format.revoke_bytes())
            .map(number)
            .collect(),
    )
}

/// Returns a commit block. `sum` is the checksum of the first kind over all descriptors and data,
/// in the order of the log.
pub(crate) fn commit(format: &Format, tid: Tid, now: SystemTime, sum: u32) -> Vec<u8> {
    let mut block = new_block(format, Kind::Commit, tid);
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    block[COMMIT_SECONDS_AT..COMMIT_SECONDS_AT + 8].copy_from_slice(&since.as_secs().to_be_bytes());
    put32(&mut block, COMMIT_NANOS_AT, since.subsec_nanos());
    match format.checksums {
        Checksums::None => {}
        Checksums::First => {
            block[COMMIT_KIND_AT] = CRC32_KIND;
            block[COMMIT_SIZE_AT] = CRC32_BYTES;
            put32(&mut block, COMMIT_CHECKSUM_AT, sum);
        }
        Checksums::Third => {
            let sum = crc32c_without(format.seed, &block, COMMIT_CHECKSUM_AT);
            put32(&mut block, COMMIT_CHECKSUM_AT, sum);
        }
    }
    block
}

/// Returns whether a commit block's checksum is right, given `sum` as in [`commit`].
pub(crate) fn is_commit_sound(format: &Format, block: &[u8], sum: u32) -> bool {
    let found = get32(block, COMMIT_CHECKSUM_AT);
    let marks = (block[COMMIT_KIND_AT], block[COMMIT_SIZE_AT]);
    match format.checksums {
        Checksums::None => true,
        // A journal with this feature may hold transactions without checksums. Fields that are all
        // zero mean that there is no checksum.
        Checksums::First if marks == (0, 0) && found == 0 => true,
        Checksums::First => marks == (CRC32_KIND, CRC32_BYTES) && found == sum,
        Checksums::Third => found == crc32c_without(format.seed, block, COMMIT_CHECKSUM_AT),
    }
}

/// Returns the time in a commit block, in whole seconds.
pub(crate) fn commit_seconds(block: &[u8]) -> u64 {
    let bytes = &block[COMMIT_SECONDS_AT..COMMIT_SECONDS_AT + 8];
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

/// Returns the checksum of the third kind for a tag. `data` is the tag's block as it is in the log.
pub(crate) fn data_checksum(format: &Format, tid: Tid, data: &[u8]) -> u32 {
    crc32c(crc32c(format.seed, &tid.0.to_be_bytes()), data)
}

/// Writes the checksum at the end of a descriptor or revoke block, if the format has checksums
/// there.
fn seal(format: &Format, block: &mut [u8]) {
    if format.checksums == Checksums::Third {
        let at = format.body_bytes();
        let sum = crc32c_without(format.seed, block, at);
        put32(block, at, sum);
    }
}

/// Returns whether the checksum at the end of a descriptor or revoke block is correct. If the
/// format has no checksum there, returns true.
pub(crate) fn is_sealed(format: &Format, block: &[u8]) -> bool {
    let at = format.body_bytes();
    format.checksums != Checksums::Third
        || get32(block, at) == crc32c_without(format.seed, block, at)
}

/// Returns whether data must be escaped, because it begins with the magic.
pub(crate) fn must_escape(data: &[u8]) -> bool {
    get32(data, MAGIC_AT) == MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats() -> Vec<Format> {
        let mut all = Vec::new();
        for checksums in [Checksums::None, Checksums::First, Checksums::Third] {
            for wide in [false, true] {
                for block_bytes in [1024, 4096] {
                    all.push(Format {
                        block_bytes,
                        checksums,
                        wide,
                        async_commit: false,
                        seed: 0x1234,
                    });
                }
            }
        }
        all
    }

    #[test]
    fn descriptors_survive_encoding_however_full() {
        for format in formats() {
            let most = format.tags_per_descriptor();
            for count in [1, 2, most - 1, most] {
                let mut descriptor = Descriptor::new(&format, Tid(7));
                let tag = |i: usize| Tag {
                    home: if format.wide {
                        (i as u64) << 31
                    } else {
                        i as u64
                    },
                    escaped: i.is_multiple_of(3),
                    checksum: match format.checksums {
                        Checksums::Third => !(i as u32),
                        _ => 0,
                    },
                };
                let expected: Vec<Tag> = (0..count).map(tag).collect();
                for tag in &expected {
                    descriptor.push(&format, &[9; 16], *tag);
                }
                let mut block = descriptor.finish(&format);
                assert_eq!(block.len(), format.block_bytes);
                assert_eq!(header(&block), Some((Kind::Descriptor, Tid(7))));
                assert_eq!(tags(&format, &block), expected, "{format:?}");
                assert!(is_sealed(&format, &block));
                block[20] ^= 1;
                let noticed = format.checksums == Checksums::Third;
                assert_eq!(is_sealed(&format, &block), !noticed);
            }
        }
    }

    #[test]
    fn revoke_blocks_survive_encoding_however_full() {
        for format in formats() {
            for count in [0, 1, format.revokes_per_block()] {
                let homes: Vec<u64> = (0..count as u64).map(|i| i * 77).collect();
                let mut block = revoke(&format, Tid(!0), &homes);
                assert_eq!(header(&block), Some((Kind::Revoke, Tid(!0))));
                assert_eq!(revoked(&format, &block), Some(homes));
                assert!(is_sealed(&format, &block));
                put32(&mut block, REVOKE_USED_AT, format.block_bytes as u32 + 1);
                assert_eq!(revoked(&format, &block), None);
            }
        }
    }

    #[test]
    fn a_wrong_commit_block_is_detected() {
        for format in formats() {
            let time = UNIX_EPOCH + std::time::Duration::new(5, 6);
            let block = commit(&format, Tid(3), time, 0xABCD);
            assert_eq!(commit_seconds(&block), 5);
            assert!(is_commit_sound(&format, &block, 0xABCD));
            let other_sum = is_commit_sound(&format, &block, 0xABCE);
            assert_eq!(other_sum, format.checksums != Checksums::First);
            let mut torn = block.clone();
            torn[format.block_bytes - 1] = 1;
            let noticed = !is_commit_sound(&format, &torn, 0xABCD);
            assert_eq!(noticed, format.checksums == Checksums::Third);
        }
    }

    #[test]
    fn ids_wrap_around() {
        assert!(Tid(!0).is_before(Tid(0)) && !Tid(0).is_before(Tid(!0)));
        assert_eq!(Tid(!0).next(), Tid(0));
        assert_eq!(Tid(0).previous(), Tid(!0));
    }

    #[test]
    fn block_counts() {
        let format = formats().pop().expect("one");
        assert_eq!(format.tags_per_descriptor(), 254);
        assert_eq!(format.blocks_for(0, 0), 1);
        assert_eq!(format.blocks_for(254, 1), 254 + 1 + 1 + 1);
        assert_eq!(format.blocks_for(255, 0), 255 + 2 + 1);
    }
}
