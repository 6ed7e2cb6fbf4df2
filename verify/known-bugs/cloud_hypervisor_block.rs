//! cloud-hypervisor: two unaligned writes to the same block lose one of them.
//!
//! With `O_DIRECT`, a write smaller than the host's alignment is a cycle: read the whole block,
//! replace a part, write the whole block. Each queue of a virtual disk runs such cycles in a thread
//! of its own, and nothing orders the cycles of two queues.
//!
//! | step | queue A | queue B |
//! |---|---|---|
//! | 1 | reads the block | |
//! | 2 | | reads the block, replaces sector 1, writes the block |
//! | 3 | replaces sector 0, writes the block: sector 1 is as before step 2 | |
//!
//! - Issue: <https://github.com/cloud-hypervisor/cloud-hypervisor/issues/8812>
//!
//! The fixed form holds a lock on the block from the read to the write.
//!
//! This is an interleaving bug.

use spanlock_sync::Mutex;
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "cloud-hypervisor-block",
        "https://github.com/cloud-hypervisor/cloud-hypervisor/issues/8812",
    )
    .program(|form| {
        Program::new("unaligned-writes", "no write to a block is lost")
            .scene(move || Disk::new(form))
            .thread(["write"], |disk| disk.write(0))
            .thread(["write"], |disk| disk.write(1))
            .at_end(|disk| assert_eq!(*disk.block.lock(), [1, 1], "a write is lost"))
    })
}

struct Disk {
    form: Form,
    /// The block's two sectors. Each lock of the mutex is one transfer.
    block: Mutex<[u8; 2]>,
    /// Stands for a range lock on the block.
    cycle: Mutex<()>,
}

impl Disk {
    fn new(form: Form) -> Self {
        Disk {
            form,
            block: Mutex::new([0; 2]),
            cycle: Mutex::new(()),
        }
    }

    fn write(&self, sector: usize) {
        let _held = (self.form == Form::Fixed).then(|| self.cycle.lock());
        let mut block = *self.block.lock();
        block[sector] = 1;
        *self.block.lock() = block;
    }
}
