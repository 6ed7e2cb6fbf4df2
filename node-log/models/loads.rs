//! A node in persistent memory that one thread loads while another one commits it.

use spanlock_node_log::raw::DataDevice;
use spanlock_node_log::{Change, Home, NvmHome, Stored};
use spanlock_pmem::simulated::Simulated;
use spanlock_verify::{Program, Suite, note};

use crate::media::{Disk, Failing, Front, InNvm, World};

pub(crate) fn suite() -> Suite {
    Suite::new("node-log-load")
        .program(
            Program::new(
                "load-commit",
                "a load returns a whole node, while commits replace it and use its place again",
            )
            .scene(Node::new)
            .thread(["commit", "commit"], |node| {
                node.commit(2);
                node.commit(3);
            })
            .thread(["load"], |node| {
                let bytes = node.home.load(NID).expect("the node is whole");
                note(bytes.expect("the node is there")[32].to_string());
            }),
        )
        .no_pair("load", "load", "neither changes anything")
        .no_pair(
            "commit",
            "commit",
            "of one file, only one thread commits; of two, the crash searches of whole volumes do",
        )
}

const NID: u32 = 1;

/// A node, at its first version.
struct Node {
    home: NvmHome<Front>,
    data: DataDevice<Disk>,
}

impl Node {
    fn new() -> Self {
        let (region, failing) = (Simulated::new(&vec![0; InNvm::bytes()]), Failing::default());
        let medium = InNvm::nodes(&region, &failing);
        let home = NvmHome::create(medium, 7, 8, 8).expect("there is room");
        let mut identity = home.identity();
        identity.generation = 1;
        home.stamp(identity).expect("the region can be written");
        let data = DataDevice::new(InNvm::data(&region, &failing));
        let node = Node { home, data };
        node.commit(1);
        region.watch();
        node
    }

    fn commit(&self, version: u8) {
        let mut bytes = vec![version; 40];
        bytes[4..8].copy_from_slice(&NID.to_le_bytes());
        bytes[14..16].copy_from_slice(&40_u16.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        let change = Change {
            inode: NID,
            stores: vec![Stored { nid: NID, bytes }],
            frees: Vec::new(),
        };
        let data = self.data.flush().expect("the disk does not fail");
        self.home.commit(&change, data).expect("there is room");
    }
}
