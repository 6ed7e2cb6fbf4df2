//! Steps that run even if the step before them panics: see [`spanlock_sync::unwind`].

pub(crate) use spanlock_sync::unwind::and_surely;
