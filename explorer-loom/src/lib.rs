#![doc = include_str!("../README.md")]

mod execution;
mod quarantine;
mod report;
mod watch;

pub mod alloc;
pub mod cell;
#[cfg(feature = "futures")]
pub mod future;
pub mod hint;
pub mod lazy_static;
pub mod model;
pub mod sync;
pub mod thread;

#[doc(inline)]
pub use crate::model::model;

/// The most threads of a model, the main thread included.
pub const MAX_THREADS: usize = spanlock_explorer::MAX_THREADS;

/// Does nothing: everything is explored, also before this call.
pub fn explore() {}

/// Does nothing: loom would not branch from here on. The explorer visits all executions.
pub fn stop_exploring() {}

/// Does nothing: loom would not branch in the rest of this execution.
pub fn skip_branch() {}

/// Declares thread-locals, which each thread of each execution has for itself.
#[macro_export]
macro_rules! thread_local {
    () => {};
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $init:expr; $($rest:tt)*) => {
        $crate::thread_local!($(#[$attribute])* $visibility static $name: $type = $init);
        $crate::thread_local!($($rest)*);
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $init:expr) => {
        $(#[$attribute])* $visibility static $name: $crate::thread::LocalKey<$type> =
            $crate::thread::LocalKey {
                init: (|| { $init }) as fn() -> $type,
                _p: ::core::marker::PhantomData,
            };
    };
}

/// Declares lazy statics, which each execution has for itself.
#[macro_export]
macro_rules! lazy_static {
    ($(#[$attribute:meta])* $visibility:vis static ref $name:ident: $type:ty = $init:expr; $($rest:tt)*) => {
        #[allow(missing_copy_implementations, non_camel_case_types, dead_code)]
        $(#[$attribute])*
        $visibility struct $name {
            __private_field: (),
        }
        #[doc(hidden)]
        $visibility static $name: $name = $name { __private_field: () };
        impl ::core::ops::Deref for $name {
            type Target = $type;
            fn deref(&self) -> &$type {
                fn init() -> $type {
                    $init
                }
                static LAZY: $crate::lazy_static::Lazy<$type> = $crate::lazy_static::Lazy {
                    init,
                    _p: ::core::marker::PhantomData,
                };
                LAZY.get()
            }
        }
        $crate::lazy_static!($($rest)*);
    };
    () => {};
}
