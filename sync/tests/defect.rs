//! As shipped no defect is made, and each has a name of its own.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use spanlock_sync::{Defect, defect};

/// At compile time, so that nothing is left of it.
const NEVER: bool = defect(Defect::NoRecheck);

#[test]
fn no_defect_is_made() {
    const { assert!(!NEVER) };
    assert!(Defect::ALL.iter().all(|&it| !defect(it)));
}

#[test]
fn defects_have_names() {
    for (i, defect) in Defect::ALL.iter().enumerate() {
        assert_eq!(defect.name().parse(), Ok(*defect));
        assert!(!defect.what().is_empty());
        let others = &Defect::ALL[i + 1..];
        assert!(others.iter().all(|other| other.name() != defect.name()));
    }
    let error = "no-such".parse::<Defect>().unwrap_err();
    for words in ["`no-such`", "release-by-store", "waiter-stays"] {
        assert!(error.contains(words), "{error}");
    }
}
