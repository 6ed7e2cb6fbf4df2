//! The errors of named objects.

use thiserror::Error;

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
        /// The ETag that the request names, or `none`.
        wanted: String,
        /// The number in the current ETag, if there is an object.
        found: Option<u64>,
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
    /// What this store does not have.
    #[error("not supported: {what}")]
    Unsupported {
        /// What was requested.
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
    /// An object that is not a sound one, or has another's name, was found when the store was
    /// opened; or later, content that ends too soon.
    #[error(
        "object {id} {why}: the store is damaged, or is not one of named objects; nothing was \
         changed"
    )]
    Unsound {
        /// The object.
        id: u64,
        /// What is wrong.
        why: String,
    },
    /// An upload cannot be continued or completed.
    #[error("the upload {why}")]
    Upload {
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
            Error::Unsupported { .. } => Self::NotSupported { source },
            _ => {
                let store = "Spanlock";
                Self::Generic { store, source }
            }
        }
    }
}
