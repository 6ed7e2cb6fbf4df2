//! file-core
