//! Replays journals that debugfs wrote, with this crate and with e2fsck. The results must be the
//! same, byte for byte.

use std::fmt::Write;
use std::sync::Arc;

use spanlock_journal_commit::jbd2::{Recovery, recover};
use spanlock_journal_commit::testing::Recorded;

use crate::images::{self, Image};

/// Transactions for `debugfs`. Each has a list of blocks to write, from a file of its own, and a
/// list of blocks to revoke.
struct Script {
    commands: String,
    revokes: bool,
}

impl Script {
    /// Returns random transactions on the blocks of the image's file. Some blocks begin with the
    /// journal's magic.
    fn new(image: &Image, open: &str, transactions: usize, revokes: bool) -> Script {
        let mut commands = format!("{open}\n");
        for number in 0..transactions {
            let list = |blocks: &[u64]| {
                let texts: Vec<String> = blocks.iter().map(u64::to_string).collect();
                texts.join(",")
            };
            let count = fastrand::usize(1..12.min(image.file.len()));
            let written = fastrand::choose_multiple(&image.file, count);
            let written: Vec<u64> = written.into_iter().copied().collect();
            let mut data = Vec::new();
            for _ in &written {
                let mut block = vec![fastrand::u8(..); image.block_bytes as usize];
                if fastrand::u8(..4) == 0 {
                    block[..4].copy_from_slice(&0xC03B_3998_u32.to_be_bytes());
                }
                data.extend(block);
            }
            let file = image.folder().join(format!("blocks-{number}"));
            std::fs::write(&file, data).unwrap();
            writeln!(commands, "jw -b {} {}", list(&written), file.display()).unwrap();
            if revokes && fastrand::bool() {
                let gone = fastrand::choose_multiple(&image.file, 3);
                let gone: Vec<u64> = gone.into_iter().copied().collect();
                writeln!(commands, "jw -r {}", list(&gone)).unwrap();
            }
        }
        commands.push_str("jc\n");
        Script { commands, revokes }
    }
}

/// Replays the image's journal with this crate and with e2fsck.
fn compare(image: &Image) -> Recovery {
    let before = image.bytes();
    let device = Arc::new(Recorded::from_image(before.clone()));
    let done = recover(
        device.clone(),
        device.clone(),
        image.block_bytes,
        &image.place(),
    )
    .unwrap();
    let ours = device.visible();
    assert_eq!(device.medium(), ours, "everything is flushed");
    let (theirs, text) = image.fsck(&before);
    assert!(text.contains("recovering journal"), "{text}");
    assert!(!text.contains("orrupt"), "{text}");
    assert!(
        image.file_of(&before) != image.file_of(&ours),
        "nothing was replayed"
    );
    assert!(image.file_of(&theirs) == image.file_of(&ours), "{done:?}");

    // Check that a second recovery has nothing to do.
    let again = recover(
        device.clone(),
        device.clone(),
        image.block_bytes,
        &image.place(),
    );
    assert_eq!(again.unwrap().transactions, 0);
    let (after, text) = image.fsck(&device.visible());
    assert!(image.file_of(&after) == image.file_of(&ours), "{text}");
    done
}

#[test]
fn replay_matches_e2fsck() {
    if !images::have_e2fsprogs() {
        return;
    }
    fastrand::seed(5);
    let (mut blocks, mut revoked) = (0, 0);
    for block_bytes in [1024, 4096] {
        for (features, open, revokes) in [
            // Checksums of the third kind.
            ("metadata_csum,64bit", "jo -c", true),
            ("metadata_csum,^64bit", "jo -c -v 3", true),
            // Checksums of the first kind, without revokes: the checksums of debugfs also cover
            // revoke blocks, so e2fsck would call the journal corrupt.
            ("^metadata_csum,64bit", "jo -c", false),
            ("^metadata_csum,^64bit", "jo -c", false),
            // No checksums.
            ("^metadata_csum,64bit", "jo", true),
            ("^metadata_csum,^64bit", "jo", true),
        ] {
            let image = Image::new(block_bytes, features, 40);
            let script = Script::new(&image, open, 12, revokes);
            image.script(&script.commands);
            let done = compare(&image);
            assert!(
                done.transactions >= 12 && done.dropped.is_none(),
                "{done:?}"
            );
            println!("{block_bytes} {features} {open}: {done:?}");
            blocks += done.blocks;
            revoked += if script.revokes { done.revoked } else { 0 };
        }
    }
    assert!(
        blocks > 200 && revoked > 20,
        "{blocks} blocks, {revoked} revoked"
    );
}
