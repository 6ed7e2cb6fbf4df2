//! Tests of named objects through `object_store`'s traits.

mod common;
mod conditional;
mod crashes;
mod errors;
mod readers;
mod suite;
mod uploads;
