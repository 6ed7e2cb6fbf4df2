//! The two checksum algorithms: CRC-32C with a seed, and the CRC-32 of JBD2's older format, which
//! processes the highest bit first.

use crc::{CRC_32_MPEG_2, Crc, Table};

static BIG_ENDIAN: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_MPEG_2);

/// The initial value of a checksum of the first kind.
pub(crate) const FIRST_SEED: u32 = !0;

/// Returns the CRC-32C of `data`, continued from `seed`. The value is inverted neither before nor
/// after.
pub(crate) fn crc32c(seed: u32, data: &[u8]) -> u32 {
    // The crate `crc32c` inverts the value before and after, so undo both inversions.
    !crc32c::crc32c_append(!seed, data)
}

/// Returns the CRC-32 of `data`, highest bit first, continued from `seed` (Linux's `crc32_be`).
pub(crate) fn crc32_be(seed: u32, data: &[u8]) -> u32 {
    let mut digest = BIG_ENDIAN.digest_with_initial(seed);
    digest.update(data);
    digest.finalize()
}

/// Returns the CRC-32C of a block as if its own checksum, the four bytes at `at`, were zero.
pub(crate) fn crc32c_without(seed: u32, block: &[u8], at: usize) -> u32 {
    let sum = crc32c(seed, &block[..at]);
    let sum = crc32c(sum, &[0; 4]);
    crc32c(sum, &block[at + 4..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values are those of the CRC catalogue, and both checksums can be continued.
    #[test]
    fn catalogue() {
        let (all, one, two) = (b"123456789", b"1234", b"56789");
        assert_eq!(!crc32c(!0, all), 0xE306_9283);
        assert_eq!(crc32_be(!0, all), 0x0376_E6E7);
        assert_eq!(crc32c(crc32c(7, one), two), crc32c(7, all));
        assert_eq!(crc32_be(crc32_be(7, one), two), crc32_be(7, all));
        assert_eq!(
            crc32c_without(3, b"12345678", 2),
            crc32c(3, b"12\0\0\0\x0078")
        );
    }
}
