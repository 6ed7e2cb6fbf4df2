//! The log's segments: no block is given out twice, and none is lost.

use spanlock_node_log::raw::{Heat, Log, Owner};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite, finished, note};

/// Blocks in a segment.
const SIZE: u32 = 2;

pub(crate) fn suite() -> Suite {
    let unchanged = "neither changes anything";
    Suite::new("node-log-segments")
        .no_pair("victim", "victim", unchanged)
        .no_pair(
            "cold",
            "free",
            "a free concerns the cold head as it does the hot one",
        )
        .no_pair(
            "cold",
            "victim",
            "the choice of a victim concerns the cold head as it does the hot one",
        )
        .no_pair(
            "cold",
            "cold",
            "the program allocate-cold opens segments in both",
        )
        .program(
            Program::new(
                "allocate-allocate",
                "two threads that both open a segment get different blocks, and lose none",
            )
            .scene(|| Shared::new(4))
            .thread(["allocate"], |shared| shared.allocate(1, 1))
            .thread(["allocate"], |shared| shared.allocate(2, 1))
            .at_end(|shared| shared.assert_whole(&[(1, 1), (2, 1)])),
        )
        .program(
            Program::new(
                "allocate-more",
                "allocations that end with a segment go on in another",
            )
            .scene(|| Shared::new(4))
            .thread(["allocate"], |shared| shared.allocate(1, 2))
            .thread(["allocate"], |shared| shared.allocate(2, 1))
            .at_end(|shared| shared.assert_whole(&[(1, 2), (2, 1)])),
        )
        .program(
            Program::new(
                "allocate-free",
                "a block that is freed at once counts for the segment that another thread opens",
            )
            .scene(|| Shared::new(4))
            .thread(["allocate"], |shared| shared.allocate(1, 1))
            .thread(["allocate", "free"], |shared| {
                let mut room = shared.log.reserve(1, Heat::Hot).expect("there is room");
                let (block, _) = room.allocate(1);
                shared.fill(block, 2);
                shared.free(&[block]);
            })
            .at_end(|shared| {
                assert_eq!((shared.owned(1), shared.owned(2)), (1, 0));
                assert_eq!(shared.log.used(), 1);
            }),
        )
        .program(
            Program::new(
                "reserve-reserve",
                "no block is reserved twice, and each is given back",
            )
            .scene(|| Shared::new(3))
            .thread(["allocate"], |shared| shared.reserve(2))
            .thread(["allocate"], |shared| shared.reserve(1))
            .at_end(|shared| {
                assert_eq!(shared.log.room(), 2);
                shared.assert_whole(&[]);
            }),
        )
        .program(
            Program::new(
                "allocate-cold",
                "a reservation for cleaning takes no segment for which blocks are reserved",
            )
            .scene(|| Shared::new(4))
            .thread(["allocate"], |shared| shared.allocate(1, 1))
            .thread(["cold"], |shared| {
                let room = shared.log.reserve(5, Heat::Cold);
                note(if room.is_some() { "more" } else { "none" });
            })
            .at_end(|shared| shared.assert_whole(&[(1, 1)])),
        )
        .program(
            Program::new(
                "free-allocate",
                "the blocks of a segment that becomes free are given out whole",
            )
            .scene(Shared::full)
            .thread(["free", "allocate"], |shared| {
                shared.free(&shared.blocks);
                shared.allocate(1, 1);
            })
            .thread(["allocate"], |shared| shared.allocate_if_possible(2))
            .at_end(Shared::assert_owners),
        )
        .program(
            Program::new(
                "free-free",
                "the thread that frees a segment's last block makes the segment free, and gives \
                 out its blocks after all others were freed",
            )
            .scene(Shared::full)
            .thread(["free"], |shared| shared.free(&shared.blocks[..1]))
            .thread(["free", "allocate"], |shared| {
                shared.free(&shared.blocks[1..]);
                shared.allocate_if_possible(2);
                shared.allocate_if_possible(2);
            })
            .at_end(Shared::assert_owners),
        )
        .program(
            Program::new(
                "free-victim",
                "a victim has only blocks of a segment that is full and not free",
            )
            .scene(Shared::full)
            .thread(["free"], |shared| shared.free(&shared.blocks[..1]))
            .thread(["victim"], Shared::victim)
            .at_end(|shared| {
                let left = shared.blocks[1];
                assert_eq!(shared.log.victim(), Some(vec![(left, FULL)]));
            }),
        )
        .program(
            Program::new("allocate-victim", "no victim is a head's segment")
                .scene(|| Shared::new(4))
                .thread(["allocate", "free"], |shared| {
                    let mut room = shared.log.reserve(1, Heat::Hot).expect("there is room");
                    let (block, _) = room.allocate(1);
                    shared.fill(block, FULL.nid);
                    shared.free(&[block]);
                })
                .thread(["victim"], |shared| assert_eq!(shared.log.victim(), None))
                .at_end(|shared| assert_eq!(shared.log.victim(), None)),
        )
}

/// The owner of the blocks that were there before the threads began.
const FULL: Owner = Owner { nid: 9, slot: 0 };

struct Shared {
    log: Log,
    /// What the blocks have.
    data: Vec<UnsafeCell<u32>>,
    segments: u32,
    /// Allocated before the threads began.
    blocks: Vec<u32>,
}

// SAFETY: the log orders the accesses to a block, and the checkers check that it does.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(segments: u32) -> Self {
        Shared {
            log: Log::new(0, segments, SIZE),
            data: (0..segments * SIZE).map(|_| UnsafeCell::new(0)).collect(),
            segments,
            blocks: Vec::new(),
        }
    }

    /// Has a segment whose blocks are all in use, and no other one for the hot head.
    fn full() -> Self {
        let mut shared = Shared::new(3);
        let mut room = shared.log.reserve(SIZE, Heat::Hot).expect("there is room");
        let (first, count) = room.allocate(SIZE);
        assert_eq!(count, SIZE);
        drop(room);
        shared.blocks = (first..first + count).collect();
        for &block in &shared.blocks {
            shared.log.set_owner(block, FULL);
        }
        shared
    }

    /// Uses a block that was allocated.
    fn fill(&self, block: u32, nid: u32) {
        // SAFETY: as above.
        self.data[block as usize].with_mut(|data| unsafe { *data = nid });
        self.log.set_owner(block, Owner { nid, slot: 0 });
    }

    /// Frees blocks that nobody else uses any more.
    fn free(&self, blocks: &[u32]) {
        for &block in blocks {
            // SAFETY: as above.
            self.data[block as usize].with(|data| unsafe { *data });
        }
        self.log.free(blocks);
        finished();
    }

    /// Allocates blocks for a node.
    fn allocate(&self, nid: u32, mut blocks: u32) {
        let mut room = self.log.reserve(blocks, Heat::Hot).expect("there is room");
        while blocks > 0 {
            let (first, count) = room.allocate(blocks);
            for block in first..first + count {
                self.fill(block, nid);
            }
            blocks -= count;
        }
        finished();
    }

    fn allocate_if_possible(&self, nid: u32) {
        let Some(mut room) = self.log.reserve(1, Heat::Hot) else {
            note("full");
            return;
        };
        let (block, _) = room.allocate(1);
        self.fill(block, nid);
        note(block.to_string());
        finished();
    }

    fn reserve(&self, blocks: u32) {
        let room = self.log.reserve(blocks, Heat::Hot);
        note(if room.is_some() { "room" } else { "full" });
        drop(room);
        finished();
    }

    fn victim(&self) {
        if let Some(blocks) = self.log.victim() {
            assert!(blocks.iter().all(|it| it.1 == FULL));
            note(blocks.len().to_string());
        }
        finished();
    }

    fn owned(&self, nid: u32) -> usize {
        let blocks = 0..self.segments * SIZE;
        let owner = |block| self.log.owner(block);
        blocks.filter_map(owner).filter(|it| it.nid == nid).count()
    }

    /// Checks that these nodes have so many blocks, and that all others can be allocated.
    fn assert_whole(&self, nodes: &[(u32, usize)]) {
        for &(nid, blocks) in nodes {
            assert_eq!(self.owned(nid), blocks);
        }
        let used: usize = nodes.iter().map(|it| it.1).sum();
        assert_eq!(self.log.used(), used as u64);
        let mut rest = (self.segments * SIZE) as usize - used;
        for heat in [Heat::Hot, Heat::Cold] {
            while let Some(mut room) = self.log.reserve(1, heat) {
                let (block, _) = room.allocate(1);
                assert_eq!(self.log.owner(block), None);
                rest -= 1;
            }
        }
        assert_eq!(rest, 0);
    }

    /// Checks that the blocks that were allocated have owners.
    fn assert_owners(&self) {
        let owned = self.owned(1) + self.owned(2);
        assert_eq!(self.log.used(), owned as u64);
    }
}
