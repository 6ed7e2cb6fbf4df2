//! Handles: their credits, their blocks, and how they end.

use super::*;

#[test]
fn handles_have_credits() {
    let devices = Devices::new(64, Flushes::Two);
    let journal = devices.open(options());
    let most = journal.most_credits();
    let asked = most + 1;
    let error = journal.begin(asked).unwrap_err();
    assert!(matches!(error, Error::TooManyCredits { .. }), "{error}");
    let handle = journal.begin(2).unwrap();
    for block in [4, 5, 4, 5, 4] {
        let mut block = handle.get_write(block).unwrap();
        block[0] += 1;
        block.dirty().unwrap();
    }
    let error = handle.get_write(6).unwrap_err();
    assert!(
        matches!(
            error,
            Error::NoCredits {
                credits: 2,
                block: 6
            }
        ),
        "{error}"
    );
    let error = handle.revoke(6).unwrap_err();
    assert!(matches!(error, Error::NoCredits { .. }), "{error}");
    let error = handle.get_write(256).unwrap_err();
    assert!(
        matches!(
            error,
            Error::OutOfDevice {
                block: 256,
                blocks: 256
            }
        ),
        "{error}"
    );
    handle.stop_durable().unwrap();
    let mut found = vec![0; BLOCK];
    journal.read(4, &mut found).unwrap();
    assert_eq!(found[0], 3);
    // Use all credits of the largest handle, several times.
    for round in 0..5 {
        let blocks: Vec<u64> = (0..u64::from(most)).collect();
        let tid = fill(&journal, &blocks, round);
        journal.wait(tid).unwrap();
    }
    let error = journal
        .wait(Tid(journal.begin(0).unwrap().tid().0 + 1))
        .unwrap_err();
    assert!(matches!(error, Error::NoSuchTransaction { .. }), "{error}");
    assert!(journal.read(256, &mut found).is_err());
}

#[test]
fn a_change_takes_effect_when_dirty() {
    let devices = Devices::new(64, Flushes::Two);
    let journal = devices.open(options());
    let handle = journal.begin(1).unwrap();
    handle.get_write(1).unwrap().fill(9);
    drop(handle); // It has changed nothing.
    let tid = fill(&journal, &[2], 1);
    journal.wait(tid).unwrap();
    assert_eq!(byte(&journal, 1), 0);
}

#[test]
fn a_dropped_handle_changes_nothing() {
    every_way(|flushes, options| {
        let devices = Devices::new(64, flushes);
        let journal = devices.open(options.clone());
        journal.wait(fill(&journal, &[1, 2], 1)).unwrap();
        let most = journal.most_credits();
        for end in [drop, Handle::abort] {
            // Its credits are free again, or the second handle could not begin.
            let handle = journal.begin(most).unwrap();
            let mut block = handle.get_write(1).unwrap();
            block.fill(9);
            block.dirty().unwrap();
            handle.revoke(2).unwrap();
            handle.get_write(3).unwrap().fill(9);
            end(handle);
        }
        journal.wait(fill(&journal, &[4], 4)).unwrap();
        assert_eq!(
            [1, 2, 3, 4].map(|block| byte(&journal, block)),
            [1, 1, 0, 4]
        );
        let journal = devices.crashed().open(options);
        assert_eq!(
            [1, 2, 3, 4].map(|block| byte(&journal, block)),
            [1, 1, 0, 4]
        );
    });
}

#[test]
fn a_handle_has_several_blocks_at_once() {
    let devices = Devices::new(64, Flushes::Two);
    let journal = devices.open(options());
    journal.wait(fill(&journal, &[1], 7)).unwrap();
    let handle = journal.begin(3).unwrap();
    let (mut left, mut right) = (handle.get_write(1).unwrap(), handle.get_write(2).unwrap());
    left.swap_with_slice(&mut right);
    let error = handle.get_write(2).unwrap_err();
    assert!(matches!(error, Error::AlreadyTaken { block: 2 }), "{error}");
    let error = handle.revoke(2).unwrap_err();
    assert!(matches!(error, Error::AlreadyTaken { block: 2 }), "{error}");
    left.dirty().unwrap();
    right.dirty().unwrap();
    // The handle sees its changes, and nobody else does.
    let seen = |block| {
        let mut bytes = vec![0; BLOCK];
        handle.read(block, &mut bytes).unwrap();
        bytes[0]
    };
    assert_eq!([1, 2].map(seen), [0, 7]);
    assert_eq!(handle.get_write(2).unwrap()[0], 7);
    assert_eq!([1, 2].map(|block| byte(&journal, block)), [7, 0]);
    handle.stop_durable().unwrap();
    assert_eq!([1, 2].map(|block| byte(&journal, block)), [0, 7]);
}

/// Two handles take two blocks in opposite orders, again and again. One gives way, and begins
/// again.
#[test]
fn a_deadlock_is_an_error() {
    let devices = Devices::new(64, Flushes::Two);
    let journal = devices.open(options());
    let both = std::sync::Barrier::new(2);
    let deadlocks = std::thread::scope(|scope| {
        let threads = [[1, 2], [2, 1]].map(|[first, second]| {
            let (journal, both) = (&journal, &both);
            scope.spawn(move || {
                let handle = journal.begin(2).unwrap();
                let mut one = handle.get_write(first).unwrap();
                one[first as usize] += 1;
                one.dirty().unwrap();
                both.wait();
                let took = handle.get_write(second).and_then(|mut other| {
                    other[first as usize] += 1;
                    other.dirty()
                });
                let is_deadlock = match took {
                    Ok(()) => {
                        handle.stop();
                        false
                    }
                    Err(Error::Deadlock { block }) => block == second,
                    Err(other) => panic!("{other}"),
                };
                u32::from(is_deadlock)
            })
        });
        threads
            .map(|thread| thread.join().unwrap())
            .iter()
            .sum::<u32>()
    });
    assert_eq!(deadlocks, 1);
    let mut bytes = [vec![0; BLOCK], vec![0; BLOCK]];
    journal.read(1, &mut bytes[0]).unwrap();
    journal.read(2, &mut bytes[1]).unwrap();
    assert_eq!(
        bytes[0], bytes[1],
        "each handle has changed both blocks or none"
    );
    assert_eq!(bytes[0][1] + bytes[0][2], 1);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "the changes of these blocks are lost, because `dirty` was not called: {1}"]
fn a_change_that_is_forgotten_is_found_in_debug_builds() {
    let devices = Devices::new(64, Flushes::Two);
    let journal = devices.open(options());
    let handle = journal.begin(1).unwrap();
    handle.get_write(1).unwrap().fill(9);
    handle.get_write(2).unwrap().fill(9);
    handle.get_write(2).unwrap().dirty().unwrap();
    handle.stop();
}

/// Neither a change for which no credit was left nor a forgotten `BlockMut` outlives its handle.
#[test]
fn a_block_is_free_once_its_handle_has_ended() {
    let devices = Devices::new(64, Flushes::Two);
    let journal = devices.open(options());
    let mut handle = journal.begin(1).unwrap();
    let (mut first, mut second) = (handle.get_write(1).unwrap(), handle.get_write(2).unwrap());
    (first[0], second[0]) = (1, 1);
    first.dirty().unwrap();
    let error = second.dirty().unwrap_err();
    assert!(
        matches!(error, Error::NoCredits { block: 2, .. }),
        "{error}"
    );
    std::mem::forget(handle.get_write(1).unwrap());
    handle.restart(3).unwrap();
    for block in [1, 2, 3] {
        std::mem::forget(handle.get_write(block).unwrap());
    }
    handle.abort();
    journal.wait(fill(&journal, &[1, 2, 3], 5)).unwrap();
    assert_eq!([1, 2, 3].map(|block| byte(&journal, block)), [5; 3]);
}

/// A forgotten handle blocks its transaction for ever, but not the drop of the journal.
#[test]
fn a_forgotten_handle_does_not_block_the_drop() {
    let devices = Devices::new(64, Flushes::Two);
    let journal = devices.open(options());
    journal.wait(fill(&journal, &[1], 5)).unwrap();
    let handle = journal.begin(1).unwrap();
    handle.get_write(1).unwrap().dirty().unwrap();
    let tid = handle.tid();
    std::mem::forget(handle);
    journal.commit(tid).unwrap();
    // Let the journal's thread begin to wait for the handle.
    std::thread::sleep(Duration::from_millis(20));
    drop(journal);
    assert_eq!(byte(&devices.crashed().open(options()), 1), 5);
}

#[test]
fn a_buffer_must_have_the_size_of_a_block() {
    let journal = Devices::new(64, Flushes::Two).open(options());
    for len in [0, BLOCK - 1, BLOCK + 1] {
        let error = journal.read(1, &mut vec![0; len]).unwrap_err();
        assert!(
            matches!(error, Error::BufferSize { found, expected: BLOCK } if found == len),
            "{error}"
        );
    }
}
