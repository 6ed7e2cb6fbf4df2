//! The name block, with which the data of every object begins. `docs/format.md` shows its bytes.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use crc32c::{crc32c, crc32c_append};
use object_store::path::Path;
use object_store::{Attribute, Attributes};

use crate::error::Error;

const MAGIC: &[u8; 8] = b"SpanlkNO";
const VERSION: u32 = 1;
/// Bytes before the name, without its length.
const FIXED: usize = 48;
/// The most bytes that a name and attributes may take.
const MOST: usize = 1 << 20;
/// The kinds of attributes without a key. The position of each is its kind on the medium.
const KINDS: [Attribute; 6] = [
    Attribute::ContentDisposition,
    Attribute::ContentEncoding,
    Attribute::ContentLanguage,
    Attribute::ContentType,
    Attribute::CacheControl,
    Attribute::StorageClass,
];

/// What a name block says of a named object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) name: Path,
    /// Where the content begins.
    pub(crate) start: u64,
    /// Bytes of the content.
    pub(crate) size: u64,
    /// In whole microseconds.
    pub(crate) modified: DateTime<Utc>,
    pub(crate) attributes: Attributes,
}

/// What the data of an object begins with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Named(Head),
    Nameless,
    Unsound,
}

/// Returns the name block of an object without a name: one that is not complete yet, or that is no
/// longer current.
pub(crate) fn nameless() -> Vec<u8> {
    seal(vec![0; FIXED], 0)
}

/// Completes a name block.
fn seal(mut bytes: Vec<u8>, kind: u32) -> Vec<u8> {
    let len = bytes.len() as u32;
    bytes[..8].copy_from_slice(MAGIC);
    for (at, value) in [(8, VERSION), (16, len), (20, kind)] {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let sum = checksum(&bytes);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c_append(crc32c(&bytes[..12]), &[0; 4]), &bytes[16..])
}

/// Returns how many bytes a name block has that begins with these, or `None` if none does.
pub(crate) fn len(bytes: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?) as usize;
    (bytes.starts_with(MAGIC) && (FIXED..=MOST).contains(&len)).then_some(len)
}

impl Head {
    /// Returns the name block, and sets `start` to the first multiple of `block` after it, unless
    /// it is set.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub(crate) fn encode(&mut self, block: u64) -> Result<Vec<u8>, Error> {
        let mut attributes = Vec::new();
        for (attribute, value) in &self.attributes {
            let kind = KINDS.iter().position(|it| it == attribute);
            let (kind, key) = match (kind, attribute) {
                (Some(kind), _) => (kind, ""),
                (None, Attribute::Metadata(key)) => (KINDS.len(), &key[..]),
                (None, other) => {
                    let what = format!("the attribute {other:?}");
                    return Err(Error::Unsupported { what });
                }
            };
            attributes.push((kind as u32, key, &value[..]));
        }
        attributes.sort_unstable();
        let mut bytes = vec![0; FIXED];
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        text(&mut bytes, self.name.as_ref());
        bytes.extend((attributes.len() as u32).to_le_bytes());
        for (kind, key, value) in attributes {
            bytes.extend(kind.to_le_bytes());
            text(&mut bytes, key);
            text(&mut bytes, value);
        }
        if bytes.len() > MOST {
            let len = bytes.len();
            let what = format!("a name and attributes of {len} bytes: they may have {MOST}");
            return Err(Error::Unsupported { what });
        }
        if self.start == 0 {
            self.start = (bytes.len() as u64).next_multiple_of(block);
        }
        bytes[24..32].copy_from_slice(&self.start.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.size.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.modified.timestamp_micros().to_le_bytes());
        Ok(seal(bytes, 1))
    }
}

/// Decodes the first [`len`] bytes of an object's data.
pub(crate) fn decode(bytes: &[u8]) -> Found {
    if len(bytes) != Some(bytes.len()) {
        return Found::Unsound;
    }
    let mut rest = Rest(&bytes[8..]);
    let (version, sum) = (rest.u32(), rest.u32());
    if version != Some(VERSION) || sum != Some(checksum(bytes)) {
        return Found::Unsound;
    }
    let (_, kind) = (rest.u32(), rest.u32());
    match kind {
        Some(0) => Found::Nameless,
        Some(1) => named(rest).map_or(Found::Unsound, Found::Named),
        _ => Found::Unsound,
    }
}

fn named(mut rest: Rest<'_>) -> Option<Head> {
    let (start, size) = (rest.u64()?, rest.u64()?);
    let modified = DateTime::from_timestamp_micros(rest.u64()? as i64)?;
    let name = Path::parse(rest.text()?).ok()?;
    let mut attributes = Attributes::new();
    for _ in 0..rest.u32()? {
        let (kind, key, value) = (rest.u32()? as usize, rest.text()?, rest.text()?);
        let key = || Attribute::Metadata(Cow::Owned(key.to_owned()));
        let attribute = KINDS.get(kind).cloned().unwrap_or_else(key);
        attributes.insert(attribute, value.to_owned().into());
    }
    Some(Head {
        name,
        start,
        size,
        modified,
        attributes,
    })
}

/// The bytes that are still to be decoded.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.take(len)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let mut attributes = Attributes::new();
        for attribute in KINDS {
            attributes.insert(attribute, "a value".into());
        }
        for key in ["", "key", "ключ"] {
            attributes.insert(Attribute::Metadata(key.into()), "💾".into());
        }
        Head {
            name: Path::parse("a/ü/%2F b").unwrap(),
            start: 0,
            size: 12,
            modified: DateTime::from_timestamp_micros(-5).unwrap(),
            attributes,
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut all = head();
        let bytes = all.encode(512).unwrap();
        assert_eq!(all.start, 512);
        assert_eq!(decode(&bytes), Found::Named(all.clone()));
        assert_eq!(decode(&nameless()), Found::Nameless);
        all.name = Path::from("x".repeat(512));
        all.start = 0;
        assert_eq!(decode(&all.encode(512).unwrap()), Found::Named(all.clone()));
        assert_eq!(all.start, 1024);
        // A shorter name leaves the content where it is.
        all.name = Path::from("y");
        assert_eq!(decode(&all.encode(512).unwrap()), Found::Named(all.clone()));
        assert_eq!(all.start, 1024);
    }

    #[test]
    fn a_changed_or_shorter_name_block_is_unsound() {
        for bytes in [head().encode(512).unwrap(), nameless()] {
            for at in 0..bytes.len() {
                assert_eq!(decode(&bytes[..at]), Found::Unsound, "{at}");
                let mut changed = bytes.clone();
                changed[at] ^= 0x10;
                assert_eq!(decode(&changed), Found::Unsound, "{at}");
            }
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        let mut long = head();
        long.name = Path::from("x".repeat(MOST));
        let error = long.encode(512).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
}
