use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::cache::Unit;
use super::*;

/// Returns the images that a crash of `run` may leave, each as the first words of some lines.
fn images(lines: &[u64], run: impl FnOnce(&Arc<Simulated>)) -> BTreeSet<Vec<u64>> {
    let search = Search::new(&[0; 1024], Method::Global, || 0);
    let region = search.region();
    region.watch();
    run(&region);
    search.end(&region);
    contents(&search, lines)
}

fn contents(search: &Search, words: &[u64]) -> BTreeSet<Vec<u64>> {
    let found = lock(&search.found);
    let value = |content: &cache::Content, word: u64| {
        content.difference.get(&(word as u32)).copied().unwrap_or(0)
    };
    let of = |image: &record::Image| {
        words
            .iter()
            .map(|&word| value(&image.content, word))
            .collect()
    };
    found.images.values().map(of).collect()
}

fn store(region: &Simulated, word: u64, value: u64) -> Written {
    // SAFETY: each test's threads store to different words, or one after another.
    unsafe { region.write(word * 8, &value.to_le_bytes()) }
}

fn set<const N: usize, const M: usize>(images: [[u64; N]; M]) -> BTreeSet<Vec<u64>> {
    images.iter().map(|image| image.to_vec()).collect()
}

#[test]
fn a_line_persists_in_the_order_of_its_stores() {
    let found = images(&[0, 1], |region| {
        _ = store(region, 1, 1);
        _ = store(region, 0, 1);
    });
    assert_eq!(found, set([[0, 0], [0, 1], [1, 1]]));
}

#[test]
fn lines_persist_independently_until_a_fence() {
    let found = images(&[0, 8, 16], |region| {
        let both = region
            .flush(store(region, 0, 1))
            .and(region.flush(store(region, 8, 1)));
        _ = region.fence(both);
        _ = store(region, 16, 1);
    });
    let before = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]];
    let mut expected = set(before);
    expected.insert(vec![1, 1, 1]);
    assert_eq!(found, expected);
}

#[test]
fn a_fence_without_a_flush_makes_nothing_durable() {
    let found = images(&[0, 8], |region| {
        let unflushed = store(region, 0, 1);
        _ = region.persist(store(region, 8, 1));
        drop(unflushed);
        _ = store(region, 8, 2);
    });
    assert!(found.contains(&vec![0, 2]), "{found:?}");
    assert!(!found.contains(&vec![0, 3]));
}

#[test]
fn a_fence_of_another_thread_makes_nothing_durable() {
    let found = images(&[0, 8], |region| {
        _ = region.flush(store(region, 0, 1));
        thread::scope(|scope| {
            scope.spawn(|| _ = region.persist(store(region, 8, 1)));
        });
    });
    assert!(found.contains(&vec![0, 1]), "{found:?}");
}

#[test]
fn stores_past_the_cache_persist_each_by_itself() {
    let found = images(&[0, 1], |region| {
        let both = [1_u64, 2].map(u64::to_le_bytes).concat();
        // SAFETY: nobody else uses the region.
        _ = unsafe { region.write_streaming(0, &both) };
    });
    assert_eq!(found, set([[0, 0], [1, 0], [0, 2], [1, 2]]));
}

#[test]
fn a_page_that_may_be_torn_is_one_image() {
    let search = Search::new(&[0; 1024], Method::Global, || 0);
    let region = search.region();
    region.watch();
    // SAFETY: nobody else uses the region.
    let flushed = unsafe { region.write_streaming(0, &[1; 512]) };
    _ = region.fence(flushed);
    search.end(&region);
    let found = lock(&search.found);
    let torn = found.images.values().map(|it| it.content.torn.len());
    assert_eq!(torn.collect::<BTreeSet<_>>(), BTreeSet::from([0, 64]));
    assert!(found.images.len() <= 3, "{}", found.images.len());
}

#[test]
fn sectors_persist_as_a_whole_and_a_flush_makes_all_durable() {
    let found = images(&[0, 63, 64], |region| {
        region.write_sectors(0, &[1; 1024]);
        region.flush_sectors(0..region.len());
        region.write_sectors(0, &[2; 512]);
    });
    let [one, two] = [1, 2].map(|byte| u64::from_le_bytes([byte; 8]));
    let expected = [
        [0, 0, 0],
        [one, one, 0],
        [0, 0, one],
        [one, one, one],
        [two, two, one],
    ];
    assert_eq!(found, set(expected));
}

#[test]
fn a_flush_of_one_disk_leaves_other_media_alone() {
    let found = images(&[0, 64, 65], |region| {
        // A line, which is no disk's, and a sector of a disk.
        _ = store(region, 0, 1);
        region.write_sectors(512, &[1; 512]);
        region.flush_sectors(0..512);
        _ = store(region, 0, 2);
        region.flush_sectors(512..1024);
    });
    let one = u64::from_le_bytes([1; 8]);
    let unflushed = [[0, 0, 0], [1, 0, 0], [2, 0, 0]];
    let flushed = unflushed.map(|[line, ..]| [line, one, one]);
    assert_eq!(found, &set(unflushed) | &set(flushed));
}

#[test]
fn a_write_through_makes_only_its_sectors_durable() {
    let found = images(&[0, 64], |region| {
        region.write_sectors(0, &[1; 512]);
        region.write_sectors_through(512, &[2; 512]);
        region.write_sectors(512, &[3; 512]);
    });
    let [one, two, three] = [1, 2, 3].map(|byte| u64::from_le_bytes([byte; 8]));
    assert!(
        found.contains(&vec![0, three]) && found.contains(&vec![one, two]),
        "{found:?}"
    );
    assert!(!found.contains(&vec![one, 7]));
}

#[test]
fn the_same_value_again_adds_no_image() {
    let found = images(&[0], |region| {
        _ = store(region, 0, 1);
        _ = store(region, 0, 1);
    });
    assert_eq!(found, set([[0], [1]]));
    let search = Search::new(&[0; 512], Method::Global, || 0);
    let region = search.region();
    _ = store(&region, 0, 0);
    assert_eq!(lock(&region.state).moment.cache.stores(Unit::Line(0)), 0);
}

static STEP: AtomicU32 = AtomicU32::new(0);

fn next_step() -> u32 {
    STEP.fetch_add(1, Ordering::Relaxed)
}

/// Runs one thread after the other. Each makes its own line durable.
fn one_after_the_other(method: Method) -> Search {
    let search = Search::new(&[0; 1024], method, next_step);
    let region = search.region();
    region.watch();
    for word in [0, 8] {
        thread::scope(|scope| {
            scope.spawn(|| _ = region.persist(store(&region, word, 1)));
        });
    }
    search.end(&region);
    search
}

#[test]
fn prefixes_of_one_order_miss_images() {
    let prefixes = contents(&one_after_the_other(Method::Global), &[0, 8]);
    assert_eq!(prefixes, set([[0, 0], [1, 0], [1, 1]]));

    let search = one_after_the_other(Method::Cut);
    let (_, trace) = lock(&search.run).clone().expect("a run");
    let threads: Vec<(u32, usize)> = lock(&trace).iter().map(|it| (it.step, it.thread)).collect();
    let thread = |step| {
        threads
            .iter()
            .find(|(at, _)| *at == step)
            .map(|(_, thread)| *thread)
    };
    search.record_cuts(&|a, b| a <= b && thread(a) == thread(b), &|_| None);
    let cuts = contents(&search, &[0, 8]);
    assert_eq!(cuts, set([[0, 0], [1, 0], [0, 1], [1, 1]]));
}

/// Two words, of which the second says whether the first is valid.
struct Flagged {
    /// Whether recovery forgets to look at the second word.
    is_wrong: bool,
}

impl Subject for Flagged {
    type Store = Arc<Simulated>;
    type State = u64;
    fn recover(&self, region: &Arc<Simulated>) -> Result<Arc<Simulated>, String> {
        Ok(region.clone())
    }
    fn state(&self, region: &Arc<Simulated>) -> Result<u64, String> {
        match self.is_wrong || region.load(64) == 1 {
            true => Ok(100 + region.load(0)),
            false => Ok(0),
        }
    }
    fn go_on(&self, region: &Arc<Simulated>) -> Result<(), String> {
        match region.load(64) {
            2 => Err("the flag is 2".to_owned()),
            _ => Ok(()),
        }
    }
    fn apply(&self, state: &u64, operation: u32, _: Option<&str>) -> Option<u64> {
        Some(state + 100 + u64::from(operation))
    }
    fn name(&self, operation: u32) -> String {
        format!("set-{operation}")
    }
}

/// Judges a store of 5, made valid by a flag, with or without the first fence.
fn judge(is_wrong: bool, fences: bool, flag: u64) -> Result<Judged, Wrong> {
    let search = Search::new(&[0; 1024], Method::Global, || 0);
    let region = search.region();
    region.watch();
    region.perform(5, || {
        let mut flushed = region.flush(store(&region, 0, 5));
        if fences {
            _ = region.fence(flushed);
            flushed = Flushed::nothing();
        }
        let flag = region.publish(64, flag, Durable::at_rest());
        _ = region.fence(region.flush(flag).and(flushed));
        "done".to_owned()
    });
    search.end(&region);
    search.judge(&Arc::new(Flagged { is_wrong }), |run| run())
}

#[test]
fn an_image_that_no_order_explains_is_reported_with_its_stores() {
    let judged = judge(false, true, 1).expect("it is correct");
    assert_eq!(judged.images, 3);
    let Wrong { text, image } = judge(false, false, 1).expect_err("the flag may come first");
    for part in [
        "recovery finds 100, which no order of the operations explains",
        "set-5: had not returned",
        "stores 0x0000000000000005 at 0x0  lost  pmem/src/simulated/tests.rs:",
        "stores 0x0000000000000001 at 0x40  there",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert_eq!(image.expect("there is one")[64], 1);
    let Wrong { text, .. } = judge(true, true, 1).expect_err("recovery is wrong");
    assert!(text.contains("recovery finds 105"), "{text}");
}

#[test]
fn a_store_that_does_not_go_on_working_is_reported() {
    let Wrong { text, .. } = judge(false, true, 2).expect_err("the flag is wrong");
    assert!(
        text.starts_with("the flag is 2, after recovery found 0"),
        "{text}"
    );
}

#[test]
fn a_failed_flush_leaves_sectors_that_no_flush_writes() {
    let [one, two] = [1, 2].map(|byte| u64::from_le_bytes([byte; 8]));
    let found = images(&[0, 64], |region| {
        region.write_sectors(0, &[1; 512]);
        region.fail_flush(0..region.len());
        region.write_sectors(512, &[2; 512]);
        region.flush_sectors(0..region.len());
    });
    assert_eq!(found, set([[0, 0], [one, 0], [0, two], [one, two]]));
    let after = images(&[0], |region| {
        region.write_sectors(0, &[1; 512]);
        region.fail_flush(0..region.len());
        // The same bytes once more.
        region.write_sectors(0, &[1; 512]);
        region.flush_sectors(0..region.len());
        region.perform(0, || "begins after the flush".to_owned());
        assert_eq!(lock(&region.state).moment.cache.pending().len(), 0);
    });
    assert_eq!(after, set([[0], [one]]));
}

/// A store on a disk, of one sector. An operation writes it and flushes it.
struct Sector {
    /// Whether opening writes and flushes what it finds.
    rewrites: bool,
}

impl Subject for Sector {
    type Store = u64;
    type State = u64;

    fn recover(&self, region: &Arc<Simulated>) -> Result<u64, String> {
        let mut found = [0; 512];
        region.read_bytes(0, &mut found);
        if self.rewrites {
            region.write_sectors(0, &found);
        }
        region.flush_sectors(0..region.len());
        Ok(u64::from(found[0]))
    }

    fn state(&self, store: &u64) -> Result<u64, String> {
        Ok(*store)
    }

    fn go_on(&self, _: &u64) -> Result<(), String> {
        Ok(())
    }

    fn apply(&self, _: &u64, operation: u32, _: Option<&str>) -> Option<u64> {
        Some(operation.into())
    }

    fn name(&self, operation: u32) -> String {
        format!("write {operation}")
    }
}

#[test]
fn what_a_killed_process_left_in_the_page_cache_is_reported_if_recovery_only_flushes_it() {
    for rewrites in [true, false] {
        let search = Search::new(&[0; 1024], Method::Global, || 0).kills();
        let region = search.region();
        region.watch();
        region.perform(1, || {
            region.write_sectors(0, &[1; 512]);
            region.flush_sectors(0..region.len());
            "done".to_owned()
        });
        search.end(&region);
        let judged = search.judge(&Arc::new(Sector { rewrites }), |run| run());
        match judged {
            Ok(judged) => {
                assert!(rewrites);
                assert_eq!((judged.images, judged.kills), (2, Some(1)));
            }
            Err(Wrong { text, .. }) => {
                assert!(!rewrites, "{text}");
                assert!(text.contains("after the process was killed"), "{text}");
                assert!(text.contains("then power fails"), "{text}");
            }
        }
    }
}
