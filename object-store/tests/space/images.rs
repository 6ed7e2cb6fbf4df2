//! Every image that a crash of one batch may leave, and every crash during the recovery from it: of
//! persistent memory, by the x86 model, and of a disk with a volatile cache. The disk's process may
//! also be killed at any step, after every write-back before that has failed.

use std::io;
use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_object_store::space::{Disk, Medium, Persistent, Vector};
use spanlock_pmem::Pmem;
use spanlock_pmem::simulated::{Judged, Method, Search, Simulated, Subject};

use crate::common::{BLOCK, Content, Locked, Step, WINDOWS, create, open, options, perform};

/// Makes a medium of a region.
struct On<M>(fn(&Arc<Simulated>) -> M);

const PMEM: On<Persistent<Arc<Simulated>>> = On(|region| Persistent::new(region.clone()));
const DISK: On<Disk<Sectors>> = On(|region| Disk::new(Sectors(region.clone())));

/// A region as a disk.
struct Sectors(Arc<Simulated>);

impl Storage for Sectors {
    fn len(&self) -> u64 {
        Pmem::len(&self.0)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_bytes(offset, buf);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_sectors(offset, data);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush_sectors(0..self.len());
        Ok(())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_sectors_through(offset, data);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Write,
    Overwrite,
    /// Two writes and a trim.
    Batch,
    Trim,
    /// Moves a block that it overwrites, and one that it does not.
    Relocate,
    Checkpoint,
}

const OPS: [Op; 6] = [
    Op::Write,
    Op::Overwrite,
    Op::Batch,
    Op::Trim,
    Op::Relocate,
    Op::Checkpoint,
];

impl Op {
    fn steps(self) -> Vec<Step> {
        let write = |at, byte, len| Step::Write { at, byte, len };
        match self {
            Op::Write => vec![write(3 * BLOCK, 1, 100)],
            Op::Overwrite => vec![write(5, 2, 600)],
            Op::Batch => vec![
                write(BLOCK, 3, BLOCK),
                write(WINDOWS[1], 4, 8),
                Step::Trim(0..BLOCK),
            ],
            Op::Trim => vec![Step::Trim(0..2 * BLOCK)],
            Op::Relocate => vec![
                Step::Relocate {
                    from: 0..2 * BLOCK,
                    to: WINDOWS[1],
                },
                write(0, 5, 9),
            ],
            Op::Checkpoint => Vec::new(),
        }
    }
}

impl<M: Medium + 'static> Subject for On<M> {
    type Store = (Locked<M>, Arc<Simulated>);
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Self::Store, String> {
        let space = open((self.0)(region)).map_err(|why| why.to_string())?;
        Ok((space, region.clone()))
    }

    fn state(&self, (space, _): &Self::Store) -> Result<Content, String> {
        Content::of(space).map_err(|why| why.to_string())
    }

    fn go_on(&self, (space, region): &Self::Store) -> Result<(), String> {
        let mut content = Content::of(space).map_err(|why| why.to_string())?;
        // More blocks than there are free places.
        for round in 0..8 {
            let (at, byte, len) = (round % 2 * BLOCK, round as u8, 2 * BLOCK);
            let steps = [Step::Write { at, byte, len }];
            perform(space, &steps).map_err(|why| why.to_string())?;
            content.apply(&steps);
        }
        let again = self.recover(&Simulated::new(&region.bytes()))?;
        let is_same = self.state(&again)? == content;
        match is_same && again.0.stats().free == space.stats().free {
            true => Ok(()),
            false => Err("the next opening finds something else".to_owned()),
        }
    }

    fn apply(&self, state: &Content, operation: u32, _: Option<&str>) -> Option<Content> {
        let mut after = state.clone();
        after.apply(&OPS[operation as usize].steps());
        Some(after)
    }

    fn name(&self, operation: u32) -> String {
        format!("{:?}", OPS[operation as usize])
    }
}

impl<M: Medium + 'static> On<M> {
    /// Returns the bytes of a region whose space has two blocks, in the table or in a record.
    fn start(&self, has_checkpoint: bool) -> Vec<u8> {
        let region = Simulated::new(&vec![0; 8192 + 16_384 + 4096 + 16 * 512]);
        let space = create((self.0)(&region), &options());
        let data = [9; 2 * BLOCK as usize];
        space.write_batch(&[Vector::write(0, &data)]).unwrap();
        if has_checkpoint {
            space.checkpoint().unwrap();
        }
        region.bytes()
    }

    /// Judges all images of operations, one after the other.
    fn judge(self, search: &Search, ops: &[Op]) -> Judged {
        let region = search.region();
        let space = open((self.0)(&region)).unwrap();
        region.watch();
        for &op in ops {
            region.perform(op as u32, || {
                match op {
                    Op::Checkpoint => space.checkpoint().unwrap(),
                    _ => perform(&space, &op.steps()).unwrap(),
                }
                String::new()
            });
        }
        search.end(&region);
        let judged = search.judge(&Arc::new(self), |run| run());
        judged.unwrap_or_else(|wrong| panic!("{ops:?}: {}", wrong.text))
    }
}

/// The short searches; with `SPANLOCK_ROUNDS`, all of them.
#[test]
fn every_image_of_persistent_memory_is_all_or_nothing() {
    let mut runs = vec![
        (true, Op::Overwrite),
        (true, Op::Trim),
        (false, Op::Checkpoint),
    ];
    if std::env::var_os("SPANLOCK_ROUNDS").is_some() {
        let all = |it| OPS.map(|op| (it, op));
        runs = [true, false].into_iter().flat_map(all).collect();
    }
    let (mut images, mut during) = (0, 0);
    for (has_checkpoint, op) in runs {
        let search = Search::new(&PMEM.start(has_checkpoint), Method::Global, || 0);
        let judged = PMEM.judge(&search, &[op]);
        images += judged.images;
        during += judged.during_recovery;
    }
    println!("{images} {during}");
    assert!(images > 80 && during > 1000, "{images} {during}");
}

/// Pairs of operations: all, but of relocations only those with each other and with overwrites.
#[test]
fn every_image_of_a_disk_is_all_or_nothing_after_a_kill_too() {
    let (mut images, mut during, mut kills) = (0, 0, 0);
    let is_searched = |ops: &[Op; 2]| {
        let is_move = |op: &Op| matches!(op, Op::Relocate);
        !ops.iter().any(is_move)
            || ops
                .iter()
                .all(|op| is_move(op) || matches!(op, Op::Overwrite))
    };
    let pairs = OPS.iter().flat_map(|one| OPS.map(|other| [*one, other]));
    for ops in pairs.filter(is_searched) {
        for has_checkpoint in [true, false] {
            let search = Search::new(&DISK.start(has_checkpoint), Method::Global, || 0).kills();
            let judged = DISK.judge(&search, &ops);
            images += judged.images;
            during += judged.during_recovery;
            kills += judged.kills.unwrap();
        }
    }
    println!("{images} {during} {kills}");
    assert!(
        images > 300 && during > 30 && kills > 150,
        "{images} {during} {kills}"
    );
}
