//! Locking and unlocking without waiting, against a plain list of bytes, and the errors.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::ops::Bound;

use proptest::prelude::*;
use spanlock_record_lock::{Error, Hold, Mode, RecordLock, nfs, posix, smb};

const MAX: u64 = u64::MAX;

fn hold(owner: u64, first: u64, last: u64, mode: Mode) -> Hold {
    Hold {
        owner,
        first,
        last,
        mode,
    }
}

#[test]
fn equal_neighbours_are_joined_and_ranges_are_cut() -> Result<(), Error> {
    let table = RecordLock::new();
    let one = table.owner(1)?;
    one.try_lock(0..10, Mode::Read)?;
    one.try_lock(20..30, Mode::Read)?;
    one.try_lock(10..20, Mode::Read)?;
    assert_eq!(table.holds(..)?, [hold(1, 0, 29, Mode::Read)]);
    one.try_lock(5..15, Mode::Write)?;
    let parts = [
        hold(1, 0, 4, Mode::Read),
        hold(1, 5, 14, Mode::Write),
        hold(1, 15, 29, Mode::Read),
    ];
    assert_eq!(table.holds(..)?, parts);
    one.unlock(8..=9)?;
    assert_eq!(table.holds(..)?.len(), 4);
    one.try_lock(.., Mode::Read)?;
    assert_eq!(table.holds(..)?, [hold(1, 0, MAX, Mode::Read)]);
    Ok(())
}

#[test]
fn the_last_two_bytes_are_two_bytes() -> Result<(), Error> {
    let table = RecordLock::new();
    let [one, two] = [table.owner(1)?, table.owner(2)?];
    one.try_lock(smb(MAX, 1)?, Mode::Write)?;
    two.try_lock(MAX - 1..MAX, Mode::Write)?;
    let last = hold(1, MAX, MAX, Mode::Write);
    assert_eq!(two.test(MAX.., Mode::Read)?, Some(last));
    assert_eq!(
        two.try_lock(MAX..=MAX, Mode::Read),
        Err(Error::Conflict(last))
    );
    let before = hold(2, MAX - 1, MAX - 1, Mode::Write);
    assert_eq!(table.holds(..)?, [before, last]);
    one.unlock(MAX..)?;
    two.try_lock(0.., Mode::Write)?;
    two.unlock(..MAX)?;
    assert_eq!(table.holds(..)?, [hold(2, MAX, MAX, Mode::Write)]);
    Ok(())
}

#[test]
fn an_upgrade_that_fails_keeps_what_was_held() -> Result<(), Error> {
    let table = RecordLock::new();
    let [one, two] = [table.owner(1)?, table.owner(2)?];
    one.try_lock(0..10, Mode::Read)?;
    two.try_lock(9..20, Mode::Read)?;
    let before = table.holds(..)?;
    let conflict = Error::Conflict(hold(2, 9, 19, Mode::Read));
    assert_eq!(one.try_lock(0..10, Mode::Write), Err(conflict));
    assert_eq!(
        one.lock((Bound::Included(5), Bound::Excluded(1)), Mode::Read)
            .wait(),
        Err(Error::Reversed { start: 5, end: 1 })
    );
    let reversed = one
        .unlock((Bound::Included(10), Bound::Included(5)))
        .expect_err("is reversed")
        .to_string();
    let told = "the range is reversed: it starts at byte 10, and ends before byte 6";
    assert_eq!(reversed, told);
    assert_eq!(table.holds(..)?, before);
    one.try_lock(0..9, Mode::Write)?;
    one.try_lock(0..9, Mode::Read)?;
    assert_eq!(table.holds(..)?, before);
    Ok(())
}

#[test]
fn an_owner_exists_once_at_a_time() -> Result<(), Error> {
    let table = RecordLock::new();
    let one = table.owner(1)?;
    let again = table.owner(1).expect_err("exists");
    assert_eq!(
        again.to_string(),
        "the table has an owner 1 already: release it first"
    );
    one.try_lock(3..4, Mode::Write)?;
    let late = one.lock(7..8, Mode::Write);
    one.release();
    assert_eq!(table.holds(..)?, []);
    let one = table.owner(1)?;
    // A request of the first owner of this id is none of the second.
    assert_eq!(late.wait(), Err(Error::Released));
    assert_eq!(one.id(), 1);
    Ok(())
}

#[test]
fn protocols_have_ranges_of_their_own() -> Result<(), Error> {
    let table = RecordLock::new();
    let one = table.owner(1)?;
    let bytes = |range| -> Result<_, Error> {
        one.unlock(..)?;
        one.try_lock(range, Mode::Write)?;
        Ok(table.holds(..)?.first().map(|hold| (hold.first, hold.last)))
    };
    assert_eq!(bytes(posix(10, 5)?)?, Some((10, 14)));
    assert_eq!(bytes(posix(10, -5)?)?, Some((5, 9)));
    assert_eq!(bytes(posix(10, 0)?)?, Some((10, MAX / 2)));
    assert_eq!(bytes(posix(i64::MAX, 1)?)?, Some((MAX / 2, MAX / 2)));
    assert_eq!(bytes(nfs(10, MAX)?)?, Some((10, MAX)));
    assert_eq!(bytes(nfs(MAX, MAX)?)?, Some((MAX, MAX)));
    assert_eq!(bytes(nfs(1, MAX - 1)?)?, Some((1, MAX - 1)));
    assert_eq!(bytes(smb(1, MAX)?)?, Some((1, MAX)));
    assert_eq!(bytes(smb(5, 0)?)?, None);
    let (start, length) = (-1, 5);
    assert_eq!(
        posix(start, length),
        Err(Error::BeforeFirst { start, length })
    );
    let error = posix(5, -10).expect_err("is before byte 0");
    let told = "start 5, length -10: the range begins before byte 0";
    assert_eq!(error.to_string(), told);
    assert!(matches!(
        posix(i64::MIN, i64::MIN),
        Err(Error::BeforeFirst { .. })
    ));
    let last = MAX / 2;
    let (offset, length) = (MAX / 2, 2);
    assert_eq!(
        posix(i64::MAX, 2),
        Err(Error::PastLast {
            offset,
            length,
            last
        })
    );
    assert_eq!(nfs(7, 0), Err(Error::NoBytes { offset: 7 }));
    assert!(matches!(nfs(2, MAX - 1), Err(Error::PastLast { .. })));
    assert!(matches!(nfs(MAX, 1), Err(Error::PastLast { .. })));
    assert!(matches!(smb(2, MAX), Err(Error::PastLast { .. })));
    Ok(())
}

/// The parts into which random calls divide all bytes: most are one byte, at the start or at the
/// end, and one is everything between.
const PARTS: u64 = 12;
const MIDDLE: u64 = 5;

fn first(part: u64) -> u64 {
    if part <= MIDDLE {
        part
    } else {
        MAX - (PARTS - 1 - part)
    }
}

fn last(part: u64) -> u64 {
    if part == MIDDLE {
        first(part + 1) - 1
    } else {
        first(part)
    }
}

#[derive(Clone, Debug)]
struct Call {
    owner: usize,
    from: u64,
    to: u64,
    /// None: unlock.
    mode: Option<Mode>,
    release: bool,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let mode = prop_oneof![Just(None), Just(Some(Mode::Read)), Just(Some(Mode::Write))];
    let call = (0..3_usize, 0..PARTS, 0..PARTS, mode, 0..20);
    let call = call.prop_map(|(owner, one, other, mode, release)| {
        let (from, to, release) = (one.min(other), one.max(other), release == 0);
        Call {
            owner,
            from,
            to,
            mode,
            release,
        }
    });
    prop::collection::vec(call, 1..200)
}

/// What each owner holds of each byte.
type Plain = [[Option<Mode>; 3]; PARTS as usize];

/// Returns the holds of the plain list, in the order of their first bytes and owners.
fn joined(plain: &Plain) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    for owner in 0..3_u64 {
        let mut before: Option<Hold> = None;
        for at in 0..PARTS {
            let mode = plain[at as usize][owner as usize];
            let joins = before.filter(|it| Some(it.mode) == mode);
            match (joins, mode) {
                (Some(_), _) => holds.last_mut().expect("joins").last = last(at),
                (None, Some(mode)) => holds.push(hold(owner, first(at), last(at), mode)),
                (None, None) => {}
            }
            before = mode.and(holds.last().copied());
        }
    }
    holds.sort_by_key(|hold| (hold.first, hold.owner));
    holds
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_calls_agree_with_a_plain_list(calls in calls()) {
        let table = RecordLock::new();
        let mut owners: Vec<_> = (0..3).map(|id| table.owner(id).ok()).collect();
        let mut plain: Plain = Default::default();
        for Call { owner, from, to, mode, release } in calls {
            let range = first(from)..=last(to);
            if release {
                owners[owner] = None;
                owners[owner] = Some(table.owner(owner as u64).expect("was released"));
                plain.iter_mut().for_each(|byte| byte[owner] = None);
            } else if let Some(mode) = mode {
                let it = owners[owner].as_ref().expect("exists");
                let others = joined(&plain).into_iter().filter(|it| it.owner != owner as u64);
                let mut stops = others.filter(|it| {
                    (mode == Mode::Write || it.mode == Mode::Write)
                        && it.first <= *range.end() && *range.start() <= it.last
                });
                let tested = it.test(range.clone(), mode).expect("in order");
                let first_stop = stops.next().map(|stop| stop.first);
                prop_assert_eq!(tested.map(|hold| hold.first), first_stop);
                match it.try_lock(range, mode) {
                    Ok(()) => {
                        prop_assert_eq!(tested, None);
                        (from..=to).for_each(|at| plain[at as usize][owner] = Some(mode));
                    }
                    Err(error) => prop_assert_eq!(Some(error), tested.map(Error::Conflict)),
                }
            } else {
                owners[owner].as_ref().expect("exists").unlock(range).expect("memory");
                (from..=to).for_each(|at| plain[at as usize][owner] = None);
            }
            let mut holds = table.holds(..).expect("memory");
            holds.sort_by_key(|hold| (hold.first, hold.owner));
            prop_assert_eq!(holds, joined(&plain));
        }
    }
}
