//! Commit times when the clock is set back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::jbd2::blocks::commit_seconds;
use crate::jbd2::format::{Kind, header};
use crate::jbd2::{Error, Flushes, FormatOptions, Journal, Options, Place, format, recover};
use crate::testing::Recorded;

const BLOCK: usize = 1024;

/// The seconds that the clock shows. Only one test uses it.
static SECONDS: AtomicU64 = AtomicU64::new(0);

fn clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(SECONDS.load(Relaxed))
}

/// Commits four transactions, during which the clock is set back. Damages a descriptor or revoke
/// block of the second. Recovery must not take the acknowledged transactions from there on for
/// leftovers of an earlier use of the log.
#[test]
fn a_clock_that_is_set_back_hides_no_damage() {
    for flushes in [Flushes::Two, Flushes::One] {
        let log = Arc::new(Recorded::new(64 * BLOCK));
        let format_options = FormatOptions::new(BLOCK as u32).flushes(flushes);
        format(log.clone(), &format_options).unwrap();
        let mut options = Options::new(BLOCK as u32);
        options.clock = clock;
        let journal = Journal::open(log.clone(), Recorded::new(8 * BLOCK), options).unwrap();
        for seconds in [2_000_000_000, 1_000_000_000, 0, 1_500_000_000] {
            SECONDS.store(seconds, Relaxed);
            let handle = journal.begin(2).unwrap();
            let mut block = handle.get_write(3).unwrap();
            block.fill(7);
            block.dirty().unwrap();
            handle.stop_durable().unwrap();
        }
        drop(journal);

        let mut image = log.medium();
        let blocks = || image.chunks(BLOCK).skip(1).map(header);
        let commits: Vec<_> = (1..)
            .zip(blocks())
            .filter(|(_, header)| matches!(header, Some((Kind::Commit, _))))
            .map(|(block, _)| block)
            .collect();
        let times = commits
            .iter()
            .map(|block| commit_seconds(&image[block * BLOCK..]));
        assert_eq!(times.collect::<Vec<_>>(), [2_000_000_000; 4]);

        // A block of the second transaction: its descriptor, or its data.
        let damaged = match flushes {
            Flushes::Two => commits[0] + 1,
            Flushes::One => commits[0] + 2,
        };
        image[damaged * BLOCK + 500] ^= 1;
        let damaged = Recorded::from_image(image);
        let home = Recorded::new(8 * BLOCK);
        let error = recover(damaged, home, BLOCK as u32, &Place::whole()).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
}
