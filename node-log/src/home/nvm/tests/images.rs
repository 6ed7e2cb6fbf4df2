//! Every image that a crash of one or two operations may leave, and every crash during the opening
//! of it: a commit is there as a whole or not at all, and no place is lost.

use spanlock_pmem::simulated::{Judged, Method, Search, Subject};

use super::*;

/// An operation on the file of inode 1. Each one knows from the file's nodes what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Creates or overwrites the inode.
    Inode,
    /// Adds a node.
    Grow,
    /// Overwrites as many nodes as fit a slot, the inode among them.
    Several,
    /// Overwrites all nodes, which must fit a slot.
    All,
    /// Overwrites a node and the inode, adds a node, and frees one.
    Mixed,
    /// Overwrites all nodes, which do not fit a slot. This stands for the first group, which has no
    /// inode; `ManyRest` stands for the second.
    Many,
    ManyRest,
    Remove,
    /// Creates another file, of two nodes.
    Create,
    Checkpoint,
}

const OPS: [Op; 10] = [
    Op::Inode,
    Op::Grow,
    Op::Several,
    Op::All,
    Op::Mixed,
    Op::Many,
    Op::ManyRest,
    Op::Remove,
    Op::Create,
    Op::Checkpoint,
];

/// The entries that fit a slot.
const PAIRS: usize = 3;

impl Op {
    /// Returns the nodes that the operation stores, with contents that tell its round, and the
    /// nodes that it frees.
    fn change(self, files: &Files, round: u8) -> Change {
        let mut ids = files.get(&1).map_or(Vec::new(), |inode| children(inode));
        let new = (2..8)
            .chain(10..NODES)
            .find(|it| !ids.contains(it))
            .expect("a free id");
        let mut frees = Vec::new();
        let stored = match self {
            Op::Inode => vec![],
            Op::Several => ids.iter().copied().take(PAIRS - 1).collect(),
            Op::All | Op::Many | Op::ManyRest => ids.clone(),
            Op::Grow => {
                ids.push(new);
                vec![new]
            }
            Op::Mixed => {
                frees.extend(ids.pop());
                let first = ids.first().copied();
                ids.push(new);
                first.into_iter().chain([new]).collect()
            }
            Op::Create | Op::Checkpoint => {
                let stores = vec![node(8, true, &[9], &[round; 8]), child(9, round)];
                return Change {
                    inode: 8,
                    stores,
                    frees,
                };
            }
            Op::Remove => unreachable!("it stores nothing"),
        };
        let mut stores = vec![node(1, true, &ids, &[round; 4])];
        stores.extend(stored.into_iter().map(|nid| child(nid, round)));
        Change {
            inode: 1,
            stores,
            frees,
        }
    }

    /// Returns the nodes after the operation, or `None` if it cannot come now.
    fn after(self, files: &Files, round: u8) -> Option<Files> {
        let mut after = files.clone();
        if self == Op::Remove {
            let inode = after.remove(&1).unwrap_or_else(|| vec![0; HEADER_BYTES]);
            children(&inode)
                .iter()
                .for_each(|it| drop(after.remove(it)));
            return Some(after);
        }
        let Change {
            mut stores, frees, ..
        } = self.change(files, round);
        if matches!(self, Op::Many | Op::ManyRest) {
            stores.rotate_left(1);
            let rest = stores.split_off(PAIRS.min(stores.len()));
            if self == Op::ManyRest {
                let is_there = |it: &Stored| files.get(&it.nid) == Some(&it.bytes);
                if !stores.iter().all(is_there) {
                    return None;
                }
                stores = rest;
            }
        }
        frees.iter().for_each(|it| drop(after.remove(it)));
        after.extend(stores.into_iter().map(|it| (it.nid, it.bytes)));
        Some(after)
    }

    fn perform(self, home: &Simple, files: &Files, round: u8) {
        match self {
            Op::Remove => {
                let nodes = files.get(&1).map_or(Vec::new(), |inode| children(inode));
                home.remove(1, &nodes).map(drop)
            }
            Op::Checkpoint => home.checkpoint(&[self.change(files, round)], data_durable()),
            _ => home.commit(&self.change(files, round), data_durable()),
        }
        .unwrap();
    }
}

fn child(nid: Nid, round: u8) -> Stored {
    node(nid, false, &[], &[round; 8])
}

struct Nodes;

/// An operation's number: which one it is, and its round.
fn number(op: Op, round: u8) -> u32 {
    let op = OPS.iter().position(|it| *it == op).expect("one of them");
    op as u32 | u32::from(round) << 8
}

fn of_number(number: u32) -> (Op, u8) {
    (OPS[number as usize & 0xff], (number >> 8) as u8)
}

impl Subject for Nodes {
    type Store = (Simple, Arc<Simulated>);
    type State = Files;

    /// Does what the opening of a volume does.
    fn recover(&self, region: &Arc<Simulated>) -> Result<Self::Store, String> {
        let home = NvmHome::open(medium(region)).map_err(|why| why.to_string())?;
        let before = reach(&home)?;
        let mut identity = home.identity();
        identity.generation += 1;
        home.stamp(identity).map_err(|why| why.to_string())?;
        let (files, others) = reach(&home)?;
        if (&files, &others) != (&before.0, &before.1) {
            return Err("the first stamp changes what is there".to_owned());
        }
        for nid in others {
            home.forget(nid).map_err(|why| why.to_string())?;
        }
        Ok((home, region.clone()))
    }

    fn state(&self, (home, _): &Self::Store) -> Result<Files, String> {
        check_places(home)?;
        match reach(home)? {
            (files, others) if others.is_empty() => Ok(files),
            (_, others) => Err(format!("no inode reaches {others:?}")),
        }
    }

    fn go_on(&self, (home, region): &Self::Store) -> Result<(), String> {
        let mut files = self.state(&(reopen(&region.bytes()).unwrap(), region.clone()))?;
        // Uses the lines again that became free last.
        for round in 100..102 {
            for op in [Op::Grow, Op::Several, Op::Mixed, Op::Many, Op::Remove] {
                op.perform(home, &files, round);
                files = op.after(&files, round).expect("possible");
                if op == Op::Many {
                    files = Op::ManyRest.after(&files, round).unwrap_or(files);
                }
            }
        }
        check_places(home)?;
        let next = reopen(&region.bytes()).map_err(|why| why.to_string())?;
        match reach(&next)? == (files, vec![]) {
            true => check_places(&next),
            false => Err("the next opening finds something else".to_owned()),
        }
    }

    fn apply(&self, files: &Files, operation: u32, _: Option<&str>) -> Option<Files> {
        let (op, round) = of_number(operation);
        op.after(files, round)
    }

    fn name(&self, operation: u32) -> String {
        format!("{:?}", of_number(operation))
    }
}

/// Judges all images of operations, one after the other.
fn judge(ops: &[Op]) -> Judged {
    // Larger slots have more than one line.
    let pairs = if ops.contains(&Op::All) { 8 } else { PAIRS };
    let (region, home) = create_with(1, pairs as u32);
    one_file(&home);
    let (mut files, _) = reach(&home).unwrap();
    let search = Search::new(&region.bytes(), Method::Global, || 0);
    let region = search.region();
    let home = NvmHome::open(medium(&region)).unwrap();
    stamp(&home);
    region.watch();
    for (round, &op) in (1..).zip(ops) {
        let perform = || {
            op.perform(&home, &files, round);
            String::new()
        };
        let mut after = op.after(&files, round).expect("possible");
        if op == Op::Many {
            // Two groups, which may be there one after the other before the commit returns.
            let first = || region.perform(number(op, round), perform);
            region.perform(number(Op::ManyRest, round), first);
            after = Op::ManyRest.after(&after, round).expect("possible");
        } else {
            region.perform(number(op, round), perform);
        }
        files = after;
    }
    search.end(&region);
    let judged = search.judge(&Arc::new(Nodes), |run| run());
    judged.unwrap_or_else(|wrong| panic!("{ops:?}: {}", wrong.text))
}

/// Each operation after one that adds a node, and some that use places or ids again; with
/// `SPANLOCK_ROUNDS`, all pairs.
#[test]
fn every_image_of_two_operations_is_all_or_nothing() {
    let is_op = |op: &Op| !matches!(op, Op::ManyRest | Op::All);
    let mut runs: Vec<Vec<Op>> = vec![
        vec![Op::Many],
        vec![Op::All],
        vec![Op::Inode, Op::Inode],
        vec![Op::Several, Op::Several],
        vec![Op::Several, Op::Inode],
        vec![Op::Remove, Op::Grow],
    ];
    // With one node more, the second group has two, and there are many images.
    let after_grow = |op: &Op| is_op(op) && *op != Op::Many;
    let after_grow = OPS.into_iter().filter(after_grow);
    runs.extend(after_grow.map(|op| vec![Op::Grow, op]));
    if std::env::var_os("SPANLOCK_ROUNDS").is_some() {
        let pairs = |first| OPS.into_iter().filter(is_op).map(move |op| vec![first, op]);
        runs.extend(OPS.into_iter().filter(is_op).flat_map(pairs));
    }
    let (mut images, mut during) = (0, 0);
    for ops in runs {
        let judged = judge(&ops);
        images += judged.images;
        during += judged.during_recovery;
    }
    println!("{images} {during}");
    assert!(images > 800 && during > 4000, "{images} {during}");
}

/// Creations of volume 7 in a region that another volume was created in, and never opened.
struct Creation;

impl Subject for Creation {
    type Store = Simple;
    type State = u128;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Simple, String> {
        match NvmHome::open(medium(region)) {
            Err(Error::NotAVolume { .. }) => NvmHome::create(medium(region), 7, NODES, 0),
            opened => opened,
        }
        .map_err(|why| why.to_string())
    }

    fn state(&self, home: &Simple) -> Result<u128, String> {
        check_places(home)?;
        match reach(home)? == Default::default() {
            true => Ok(home.identity().volume),
            false => Err("it has nodes".to_owned()),
        }
    }

    fn go_on(&self, home: &Simple) -> Result<(), String> {
        stamp(home);
        one_file(home);
        check_places(home)
    }

    fn apply(&self, _: &u128, _: u32, _: Option<&str>) -> Option<u128> {
        Some(7)
    }

    fn name(&self, _: u32) -> String {
        "create".to_owned()
    }
}

#[test]
fn a_creation_that_was_cut_off_can_be_repeated() {
    let region = Simulated::new(&vec![0; (HEAP + 4096) as usize]);
    NvmHome::create(medium(&region).slots(1, 9), 6, NODES, 0).unwrap();
    let search = Search::new(&region.bytes(), Method::Global, || 0);
    let region = search.region();
    region.watch();
    region.perform(0, || {
        NvmHome::create(medium(&region), 7, NODES, 0).unwrap();
        String::new()
    });
    search.end(&region);
    let judged = search.judge(&Arc::new(Creation), |run| run());
    let judged = judged.unwrap_or_else(|wrong| panic!("{}", wrong.text));
    println!("{judged:?}");
    assert!(judged.images > 50, "{judged:?}");
}
