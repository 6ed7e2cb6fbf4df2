//! Threads fill the pages of one buffer, each its own, at the same time: no page waits for another.
//!
//! ```text
//! cargo run -p spanlock-srl --example parallel_fill
//! ```

use std::error::Error;
use std::thread;

use spanlock::RangeLock;
use spanlock_srl::SrlArray;

const PAGE: usize = 4096;
const PAGES: usize = 4096;
const THREADS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let lock = SrlArray::with_segment_size((PAGES * PAGE) as u64, PAGE as u64)?;
    println!(
        "{} bytes behind {} words of 4 bytes",
        PAGES * PAGE,
        lock.segments().count()
    );
    let buffer = RangeLock::with_lock(vec![0; PAGES * PAGE], lock)?;

    thread::scope(|scope| {
        for worker in 0..THREADS {
            let buffer = &buffer;
            scope.spawn(move || {
                // Every fourth page, so that the workers are neighbours everywhere.
                for page in (worker..PAGES).step_by(THREADS) {
                    let start = page * PAGE;
                    let mut mine = buffer
                        .write(start..start + PAGE)
                        .expect("within the buffer");
                    mine.fill(1 + worker as u8);
                }
            });
        }
        // Meanwhile somebody looks at pairs of pages: each is untouched or full, never half of it.
        let buffer = &buffer;
        scope.spawn(move || {
            let mut full = 0;
            for page in 0..PAGES - 1 {
                let start = page * PAGE;
                let pair = buffer
                    .read(start..start + 2 * PAGE)
                    .expect("within the buffer");
                for page in pair.chunks_exact(PAGE) {
                    assert!(page.iter().all(|byte| *byte == page[0]), "half a page");
                    full += usize::from(page[0] != 0);
                }
            }
            println!("the reader met {full} full pages of {}", 2 * (PAGES - 1));
        });
    });

    let bytes = buffer.into_inner();
    for (page, content) in bytes.chunks_exact(PAGE).enumerate() {
        let expected = 1 + (page % THREADS) as u8;
        assert!(content.iter().all(|byte| *byte == expected));
    }
    println!("all {PAGES} pages hold what their thread wrote");
    Ok(())
}
