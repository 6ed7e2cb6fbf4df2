//! The errors of named objects.

use thiserror::Error;

use crate::head::MOST;

/// Why an operation on named objects failed. It is the source of the `object_store::Error` that the
/// trait's methods return.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The flat store failed, or refused the request.
    #[error(transparent)]
    Store(#[from] spanlock_object_store::Error),
    /// No object has this name.
    #[error("no object is named {path}")]
    NotFound {
        /// The name.
        path: String,
    },
    /// An object has this name, and the request was to create one.
    #[error("{path} exists, with the ETag \"{id}\"")]
    Exists {
        /// The name.
        path: String,
        /// The number in the object's ETag.
        id: u64,
    },
    /// The object is not the one that a conditional update expects.
    #[error("{path} is to be updated from the ETag {wanted}, but {}", match found {
        Some(id) => format!("it has \"{id}\" now: read it again"),
        None => "does not exist".to_owned(),
    })]
    Stale {
        /// The name.
        path: String,
        /// The ETag that the request names.
        wanted: String,
        /// The number in the current ETag, if there is an object.
        found: Option<u64>,
    },
    /// A conditional update names no ETag.
    #[error("the update of {path} names no ETag: take it from the result of a get or put")]
    NoTag {
        /// The name.
        path: String,
    },
    /// The object does not fit into a region.
    #[error(
        "{path} cannot have {size} bytes: with its name, it may take {capacity} bytes; create the \
         store with larger regions (`Options::region`)"
    )]
    TooLarge {
        /// The name.
        path: String,
        /// Bytes of the content.
        size: u64,
        /// The most bytes that a region holds.
        capacity: u64,
    },
    /// The name and the attributes are too long.
    #[error("the name and the attributes of {path:.40} take {len} bytes, but may take {MOST}")]
    LongName {
        /// The name.
        path: String,
        /// The bytes that they would take.
        len: usize,
    },
    /// An attribute that this version cannot store.
    #[error("the attribute {what} cannot be stored: this version does not know it")]
    UnknownAttribute {
        /// The attribute.
        what: String,
    },
    /// A range of bytes that the object does not have.
    #[error("{path} has {size} bytes: {why}")]
    BadRange {
        /// The name.
        path: String,
        /// Bytes of the content.
        size: u64,
        /// What is wrong with the range.
        why: String,
    },
    /// A version was requested; only the current content of a name is kept.
    #[error("{path} has no versions: leave out the version {version}")]
    NoVersions {
        /// The name.
        path: String,
        /// The version.
        version: String,
    },
    /// An object without a sound name block was found when the store was opened.
    #[error(
        "object {id} has no sound name block: it is damaged, or this store is not one of named \
         objects; nothing was changed"
    )]
    Unsound {
        /// The object.
        id: u64,
    },
    /// Two objects with one name were found when the store was opened.
    #[error("the objects {ids:?} are both named {path}: the store is damaged; nothing was changed")]
    TwoWithOneName {
        /// The name.
        path: String,
        /// The objects.
        ids: [u64; 2],
    },
    /// An upload cannot be continued or completed.
    #[error("the upload of {path} {why}")]
    Upload {
        /// The name.
        path: String,
        /// What is wrong.
        why: &'static str,
    },
}

impl From<Error> for object_store::Error {
    fn from(error: Error) -> Self {
        let source = Box::new(error.clone());
        match error {
            Error::NotFound { path } => Self::NotFound { path, source },
            Error::Exists { path, .. } => Self::AlreadyExists { path, source },
            Error::Stale { path, .. } => Self::Precondition { path, source },
            Error::UnknownAttribute { .. } | Error::NoVersions { .. } => {
                Self::NotSupported { source }
            }
            _ => {
                let store = "Spanlock";
                Self::Generic { store, source }
            }
        }
    }
}
