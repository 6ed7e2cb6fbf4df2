//! The superblock of a half: which volume it belongs to, and the sizes of its parts.
//!
//! ```text
//!    0  [u8; 8]  magic: the kind of half       16  u128      id of the volume
//!    8  u32      version of the format         32  u64       generation
//!   12  u32      CRC-32C of all other bytes    40  u64       1 if it is opening, or 0
//!                                              48  [u64; 8]  sizes, as the half defines them
//!                                             112  zeros, up to byte 512
//! ```

use crate::error::Error;
use crate::home::Identity;

/// The size of a superblock in bytes: one sector, which a crash keeps or loses as a whole.
pub(crate) const SUPERBLOCK_BYTES: usize = 512;

/// The version of the format of both halves.
const VERSION: u32 = 1;
const CRC: std::ops::Range<usize> = 12..16;
const NUMBERS: usize = 48;

/// A decoded superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) identity: Identity,
    /// Eight sizes and options whose meaning the half defines.
    pub(crate) numbers: [u64; 8],
}

impl Superblock {
    /// Returns the sector. `magic` names the kind of half.
    pub(crate) fn encode(&self, magic: &[u8; 8]) -> [u8; SUPERBLOCK_BYTES] {
        let mut sector = [0; SUPERBLOCK_BYTES];
        let mut put = |at: usize, bytes: &[u8]| sector[at..][..bytes.len()].copy_from_slice(bytes);
        put(0, magic);
        put(8, &VERSION.to_le_bytes());
        put(16, &self.identity.volume.to_le_bytes());
        put(32, &self.identity.generation.to_le_bytes());
        put(40, &u64::from(self.identity.is_opening).to_le_bytes());
        for (at, number) in (NUMBERS..).step_by(8).zip(self.numbers) {
            put(at, &number.to_le_bytes());
        }
        let crc = checksum(&sector);
        sector[CRC].copy_from_slice(&crc.to_le_bytes());
        sector
    }

    /// Reads a superblock. `Ok(None)`: the sector is all zeros, so none was ever written.
    ///
    /// # Errors
    /// [`Error::NotAVolume`], [`Error::Version`], or [`Error::Corrupt`]. They name the `half`.
    ///
    /// # Panics
    /// If the sector is shorter than [`SUPERBLOCK_BYTES`].
    pub(crate) fn decode(
        sector: &[u8],
        magic: &[u8; 8],
        half: &'static str,
    ) -> Result<Option<Superblock>, Error> {
        let sector: &[u8; SUPERBLOCK_BYTES] = sector.first_chunk().expect("a whole sector");
        if sector.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if !sector.starts_with(magic) {
            return Err(Error::NotAVolume { half });
        }
        let number = |at: usize| u64::from_le_bytes(*sector[at..].first_chunk().expect("inside"));
        let (found, crc) = (number(8) as u32, (number(8) >> 32) as u32);
        let what = match (crc == checksum(sector), number(40)) {
            (true, _) if found != VERSION => {
                return Err(Error::Version {
                    half,
                    found,
                    supported: VERSION,
                });
            }
            (true, 0 | 1) => {
                let identity = Identity {
                    volume: u128::from_le_bytes(*sector[16..].first_chunk().expect("inside")),
                    generation: number(32),
                    is_opening: number(40) == 1,
                };
                let numbers = std::array::from_fn(|nth| number(NUMBERS + 8 * nth));
                return Ok(Some(Superblock { identity, numbers }));
            }
            (true, _) => "the superblock has a mark that this version does not know",
            (false, _) => "the superblock's checksum does not fit",
        };
        Err(Error::Corrupt { what, half, at: 0 })
    }
}

fn checksum(sector: &[u8; SUPERBLOCK_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&sector[..CRC.start]), &sector[CRC.end..])
}

/// Checks that the data half and the node half belong together (`docs/format.md`, P1 to P3).
///
/// # Errors
/// [`Error::Strangers`] if they are of different volumes, and [`Error::Older`] if one of them has
/// missed openings.
pub(crate) fn check_pair(data: Identity, nodes: Identity) -> Result<(), Error> {
    if data.volume != nodes.volume {
        return Err(Error::Strangers {
            data: data.volume,
            nodes: nodes.volume,
        });
    }
    // While the node half is opening, the data half may still have the generation before.
    let least = (nodes.generation).saturating_sub(u64::from(nodes.is_opening));
    let (half, openings, shown) = if data.generation < least {
        let shown = "the files and sizes of today, with contents that may be old, missing or those \
                     of another file";
        ("data half", least - data.generation, shown)
    } else if data.generation > nodes.generation {
        let shown = "the files and sizes of that time, with contents that may since have been \
                     overwritten by those of another file";
        ("node half", data.generation - nodes.generation, shown)
    } else {
        return Ok(());
    };
    Err(Error::Older {
        half,
        openings,
        shown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: &[u8; 8] = b"a half's";

    fn identity(volume: u128, generation: u64, is_opening: bool) -> Identity {
        Identity {
            volume,
            generation,
            is_opening,
        }
    }

    #[test]
    fn a_superblock_is_read_as_written() {
        for is_opening in [false, true] {
            let written = Superblock {
                identity: identity(0x1234 << 100 | 5, 77, is_opening),
                numbers: [1, 2, 3, 4, 5, 6, 7, u64::MAX],
            };
            let read = Superblock::decode(&written.encode(MAGIC), MAGIC, "node half");
            assert_eq!(read.unwrap(), Some(written));
        }
    }

    #[test]
    fn zeros_are_no_superblock_and_other_bytes_are_refused() {
        let decode = |sector: &[u8; 512]| Superblock::decode(sector, MAGIC, "node half");
        assert_eq!(decode(&[0; 512]).unwrap(), None);
        let other = decode(&[7; 512]).unwrap_err().to_string();
        assert!(other.contains("node half"), "{other}");
        let good = Superblock {
            identity: identity(9, 1, false),
            numbers: [3; 8],
        };
        let good = good.encode(MAGIC);
        for byte in 0..512 {
            let mut bad = good;
            bad[byte] ^= 1;
            let error = decode(&bad).unwrap_err();
            let is_other = matches!(error, Error::NotAVolume { .. });
            assert_eq!(is_other, byte < 8, "{byte}");
            assert!(is_other || matches!(error, Error::Corrupt { .. }), "{byte}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut sector = Superblock {
            identity: identity(9, 1, false),
            numbers: [3; 8],
        }
        .encode(MAGIC);
        sector[8] = 2;
        let crc = checksum(&sector);
        sector[CRC].copy_from_slice(&crc.to_le_bytes());
        let error = Superblock::decode(&sector, MAGIC, "data half").unwrap_err();
        let is_version = matches!(
            error,
            Error::Version {
                found: 2,
                supported: 1,
                ..
            }
        );
        assert!(is_version, "{error}");
    }

    #[test]
    fn halves_fit_if_one_has_missed_no_opening() {
        let check = |data, nodes, is_opening| {
            check_pair(identity(1, data, false), identity(1, nodes, is_opening))
        };
        assert!(check(4, 4, false).is_ok());
        assert!(check(4, 4, true).is_ok());
        assert!(check(3, 4, true).is_ok());
        for (data, nodes, is_opening, half, openings) in [
            (3, 4, false, "data half", 1),
            (2, 4, false, "data half", 2),
            (2, 4, true, "data half", 1),
            (5, 4, false, "node half", 1),
            (7, 4, true, "node half", 3),
        ] {
            let error = check(data, nodes, is_opening).unwrap_err();
            let is_right = matches!(
                error,
                Error::Older { half: h, openings: o, .. } if h == half && o == openings
            );
            assert!(is_right, "{data} {nodes} {is_opening}: {error}");
        }
        let error = check_pair(identity(1, 1, false), identity(2, 1, false)).unwrap_err();
        let is_right = matches!(error, Error::Strangers { data: 1, nodes: 2 });
        assert!(is_right, "{error}");
    }
}
