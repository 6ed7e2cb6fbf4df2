//! Every image that a crash may leave, every crash during the recovery from it, and every moment at
//! which the process may be killed.

use std::collections::BTreeMap;
use std::sync::Arc;

use spanlock_pmem::simulated::{Judged, Method, Search, Simulated, Subject};

use super::{BlockHome, Home, Nid, Sectors, change, commit, content, create, durable, reopen};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Stores nodes.
    Commit(&'static [Nid], u32),
    /// Stores nodes, if there are any, at a checkpoint.
    Checkpoint(&'static [Nid], u32),
    /// Removes a file, which is durable at some time.
    Remove(&'static [Nid]),
    /// Removes a file, and makes a checkpoint.
    RemoveDurably(&'static [Nid]),
}

use Op::{Checkpoint, Commit, Remove, RemoveDurably};

impl Op {
    fn perform(self, home: &BlockHome<Sectors>) {
        match self {
            Commit(nids, value) => commit(home, nids, value).unwrap(),
            Checkpoint([], _) => home.checkpoint(&[], durable()).unwrap(),
            Checkpoint(nids, value) => {
                let changes = [change(nids, value, &[])];
                home.checkpoint(&changes, durable()).unwrap();
            }
            Remove(nids) => drop(home.remove(nids[0], &nids[1..]).unwrap()),
            RemoveDurably(nids) => {
                home.remove(nids[0], &nids[1..]).unwrap();
                home.checkpoint(&[], durable()).unwrap();
            }
        }
    }
}

/// Operations, one after the other.
struct Run(Vec<Op>);

impl Subject for Run {
    type Store = (BlockHome<Sectors>, Sectors);
    type State = BTreeMap<Nid, u32>;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Self::Store, String> {
        let disk = Sectors::of(region.clone());
        let home = reopen(&disk).map_err(|why| why.to_string())?;
        Ok((home, disk))
    }

    fn state(&self, (home, _): &Self::Store) -> Result<Self::State, String> {
        content(home).map_err(|why| why.to_string())
    }

    fn go_on(&self, (home, disk): &Self::Store) -> Result<(), String> {
        let mut expected = content(home).map_err(|why| why.to_string())?;
        // More nodes than the log has blocks.
        for value in 100..140 {
            commit(home, &[5, 6], value).map_err(|why| why.to_string())?;
        }
        expected.extend([(5, 139), (6, 139)]);
        let again = reopen(&disk.copied()).map_err(|why| why.to_string())?;
        let found = content(&again).map_err(|why| why.to_string())?;
        match found == expected {
            true => Ok(()),
            false => Err(format!(
                "the next opening finds {found:?}, not {expected:?}"
            )),
        }
    }

    fn apply(&self, state: &Self::State, operation: u32, _: Option<&str>) -> Option<Self::State> {
        let mut after = state.clone();
        match self.0[operation as usize] {
            Commit(nids, value) | Checkpoint(nids, value) => {
                after.extend(nids.iter().map(|&nid| (nid, value)));
            }
            Remove(nids) | RemoveDurably(nids) => after.retain(|nid, _| !nids.contains(nid)),
        }
        Some(after)
    }

    fn is_unknown(&self, result: &str) -> bool {
        result == "unknown"
    }

    fn name(&self, operation: u32) -> String {
        format!("{:?}", self.0[operation as usize])
    }
}

/// Judges all images of the operations. Before, `prepare` may write nodes again that are there.
fn judge(disk: &Sectors, prepare: impl FnOnce(&BlockHome<Sectors>), ops: &[Op]) -> Judged {
    let search = Search::new(&disk.region.bytes(), Method::Global, || 0).kills();
    let region = search.region();
    let home = reopen(&Sectors::of(region.clone())).unwrap();
    prepare(&home);
    region.watch();
    for (number, &op) in (0..).zip(ops) {
        region.perform(number, || {
            op.perform(&home);
            let is_unknown = matches!(op, Remove(_));
            if is_unknown { "unknown" } else { "" }.to_owned()
        });
    }
    search.end(&region);
    let judged = search.judge(&Arc::new(Run(ops.to_vec())), |run| run());
    let judged = judged.unwrap_or_else(|wrong| panic!("{ops:?}: {}", wrong.text));
    println!("{ops:?}: {judged:?}");
    judged
}

/// Returns a disk with a file of two nodes in the NAT, and one of two nodes in the chain.
fn two_files(nodes: u32) -> Sectors {
    let disk = Sectors::new(nodes, 8);
    let home = create(&disk, nodes);
    Checkpoint(&[1, 2], 1).perform(&home);
    Commit(&[3, 4], 1).perform(&home);
    disk
}

#[test]
fn every_image_has_whole_commits_and_all_that_returned() {
    let runs: [&[Op]; 9] = [
        &[Commit(&[7], 2)],
        &[Commit(&[7, 8], 2), Commit(&[9], 3)],
        &[Commit(&[1, 2], 2), Commit(&[3, 1], 4)],
        &[Checkpoint(&[], 0)],
        &[Checkpoint(&[1, 7], 2), Commit(&[1, 8], 3)],
        &[Remove(&[1, 2]), Commit(&[3], 2), Checkpoint(&[], 0)],
        &[Remove(&[3, 4]), Commit(&[7], 2)],
        &[RemoveDurably(&[1, 2]), Commit(&[2], 2)],
        &[Commit(&[3], 2), RemoveDurably(&[3, 4]), Checkpoint(&[4], 3)],
    ];
    let (mut images, mut during, mut kills) = (0, 0, 0);
    for ops in runs {
        let judged = judge(&two_files(20), |_| (), ops);
        images += judged.images;
        during += judged.during_recovery;
        kills += judged.kills.unwrap();
    }
    println!("{images} {during} {kills}");
    assert!(
        images > 100 && during > 100 && kills > 20,
        "{images} {during} {kills}"
    );
}

#[test]
fn every_image_of_several_nat_blocks_is_right() {
    let ops = [Commit(&[3, 2000], 2), Checkpoint(&[1, 1500, 3000], 3)];
    let judged = judge(&two_files(3100), |_| (), &ops);
    assert!(judged.images > 20, "{judged:?}");
}

/// In each segment some nodes are in use, so a commit has to move nodes.
#[test]
fn every_image_of_a_cleaning_is_right() {
    let disk = Sectors::new(40, 8);
    let home = create(&disk, 40);
    for nid in 1..=24 {
        commit(&home, &[nid], nid % 2 + 1).unwrap();
    }
    drop(home);
    let prepare = |home: &BlockHome<Sectors>| {
        // A node in the first half of a segment stays, and the others are written again.
        for nid in (1..=24).cycle() {
            if home.log.room() == 0 {
                break;
            }
            if nid % 3 != 0 || home.log.room() > 20 {
                commit(home, &[nid], nid % 2 + 1).unwrap();
            }
        }
    };
    let mut moved = 0;
    let judged = judge(
        &disk,
        |home| {
            prepare(home);
            moved = home.persisted().nodes;
        },
        &[Commit(&[25, 1], 3), Commit(&[2], 3)],
    );
    assert!(judged.images > 20, "{judged:?}");
}
