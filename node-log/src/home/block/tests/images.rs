//! Every image that a crash may leave, every crash during the recovery from it, and every moment at
//! which the process may be killed.

use std::collections::BTreeMap;
use std::sync::Arc;

use spanlock_pmem::simulated::{Judged, Method, Search, Simulated, Subject};

use super::{BlockHome, Home, Nid, Sectors, change, commit, content, create_with, durable, reopen};

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

/// What is committed after recovery.
const OTHERS: [Nid; 6] = [5, 6, 10, 11, 12, 13];

/// Small segments.
const SEGMENT: u32 = 4;

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
        for value in [3, 6, 9, 12, 15, 18, 21] {
            commit(home, &OTHERS, value).map_err(|why| why.to_string())?;
            expected.extend(OTHERS.map(|nid| (nid, value)));
        }
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

/// Judges all images of the operations. Also returns how many nodes they stored.
fn judge(disk: &Sectors, ops: &[Op]) -> (Judged, u64) {
    let search = Search::new(&disk.region.bytes(), Method::Global, || 0).kills();
    let region = search.region();
    let home = reopen(&Sectors::of(region.clone())).unwrap();
    let before = home.persisted().nodes;
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
    (judged, home.persisted().nodes - before)
}

/// Returns a disk with a file of two nodes in the NAT, and one of two nodes in the chain.
fn two_files(nodes: u32) -> Sectors {
    let disk = Sectors::with_blocks(nodes, 10 * SEGMENT);
    let home = create_with(&disk, nodes, SEGMENT);
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
        &[Commit(&[7], 2), Checkpoint(&[], 0)],
        &[Checkpoint(&[1, 7], 2), Commit(&[1, 8], 3)],
        &[Remove(&[1, 2]), Commit(&[3], 2), Checkpoint(&[], 0)],
        &[Remove(&[3, 4]), Commit(&[7], 2)],
        &[RemoveDurably(&[1, 2]), Commit(&[2], 2)],
        &[Commit(&[3], 2), RemoveDurably(&[3, 4]), Checkpoint(&[4], 3)],
    ];
    let (mut images, mut during, mut kills) = (0, 0, 0);
    for ops in runs {
        let (judged, _) = judge(&two_files(20), ops);
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
    let ops = [Commit(&[3, 2000], 2), Checkpoint(&[1, 1500], 3)];
    let (judged, _) = judge(&two_files(3100), &ops);
    assert!(judged.images > 20, "{judged:?}");
}

/// In each segment some nodes are in use, so a commit has to move nodes.
#[test]
fn every_image_of_a_cleaning_is_right() {
    let disk = Sectors::with_blocks(20, 10 * SEGMENT);
    let home = create_with(&disk, 20, SEGMENT);
    let mut nids = (1..=11).flat_map(|nid| [nid, 12, 12, 12]);
    while home.log.room() > 0 {
        commit(&home, &[nids.next().unwrap()], 3).unwrap();
    }
    drop(home);
    let (judged, stored) = judge(&disk, &[Commit(&[13, 1], 1), Commit(&[2], 3)]);
    assert!(stored > 3, "no node was moved");
    assert!(judged.images > 20, "{judged:?}");
}
