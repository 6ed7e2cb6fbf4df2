//! The top layer: what callers hold. It owns nothing; the crate re-exports it.
//!
//! A handle is a reference to the volume's shared state, and perhaps to one file or directory. Its
//! methods check their arguments, lock ranges of the file, and call the layers below.
//!
//! | file | holds |
//! |---|---|
//! | `volume.rs` | [`Volume`](crate::Volume): formatting, opening, operations by path |
//! | `dir.rs` | [`Dir`](crate::Dir): operations on the names of one directory |
//! | `file.rs` | [`File`](crate::File): opening and reading |
//! | `file/change.rs` | the steps that every change of a file takes |
//! | `file/pages.rs`, `file/replaced_pages.rs` | the pages that a change adds and replaces |
//! | `file/write.rs`, `file/holes.rs` | writes and appends; truncations, holes and times |
//! | `file/cursor.rs` | a position in a file, for `std::io` |
//! | `clean_on_request.rs`, `check.rs` | cleaning and checking a volume in use |

pub(crate) mod check;
pub(crate) mod clean_on_request;
pub(crate) mod dir;
pub(crate) mod file;
pub(crate) mod volume;
