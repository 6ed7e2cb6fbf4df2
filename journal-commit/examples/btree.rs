//! A B-tree in a file whose insertions are atomic and durable, although each may change several
//! pages. A child process inserts keys with several threads until it is killed. Then every key that
//! it has acknowledged must be there, and the tree must be sound.
//!
//! ```text
//! cargo run -p spanlock-journal-commit --example btree
//! ```

use std::collections::BTreeMap;
use std::error::Error as AnyError;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use spanlock_journal_commit::jbd2::{Error, Flushes, Handle, Journal, Options};
use spanlock_journal_commit::storage::{FileMode, FileStorage};

type Result<T, E = Box<dyn AnyError + Send + Sync>> = std::result::Result<T, E>;

const PAGE: usize = 4096;
const PAGES: u64 = 4096;
/// Page 0 has the number of the root, and then that of the first page that is free.
const META: u64 = 0;
/// The most entries of a node: a number each for how many there are and for its height above the
/// leaves, and two for each entry.
const MOST: usize = PAGE / 16 - 1;

/// Entries in the order of their keys. In a leaf, they are keys and values; in other nodes, the
/// least keys of children, and the numbers of their pages.
struct Node {
    height: u64,
    entries: Vec<[u64; 2]>,
}

impl Node {
    fn decode(page: &[u8]) -> Node {
        let mut words = page
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let mut next = || words.next().expect("a node fits into its page");
        let [len, height] = [next(), next()];
        let entries = (0..len).map(|_| [next(), next()]).collect();
        Node { height, entries }
    }

    fn encode(&self, page: &mut [u8]) {
        let head = [self.entries.len() as u64, self.height];
        let words = head.iter().chain(self.entries.as_flattened());
        for (to, word) in page.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Returns the child or the entry to which a key belongs.
    fn find(&self, key: u64) -> usize {
        self.entries
            .partition_point(|entry| entry[0] <= key)
            .saturating_sub(1)
    }

    fn insert(&mut self, entry: [u64; 2]) {
        match self
            .entries
            .binary_search_by_key(&entry[0], |entry| entry[0])
        {
            Ok(at) => self.entries[at] = entry,
            Err(at) => self.entries.insert(at, entry),
        }
    }
}

struct Tree {
    journal: Journal,
    /// One thread changes the tree at a time, but threads wait for durability together.
    changes: Mutex<()>,
}

impl Tree {
    /// Opens the tree in a folder. Creates it if there is none, or if its creation was cut off.
    fn open(folder: &Path) -> Result<Tree> {
        let [log, home] = [("log", 1024), ("tree", PAGES)].map(|(name, pages)| {
            let path = folder.join(name);
            match path.exists() {
                true => FileStorage::open(path, FileMode::Buffered),
                false => FileStorage::create(path, pages * PAGE as u64, FileMode::Buffered),
            }
        });
        let options = Options::new(PAGE as u32);
        let journal = Journal::open_or_create(log?, home?, options, Flushes::Two)?;
        let tree = Tree {
            journal,
            changes: Mutex::new(()),
        };
        tree.begin()?;
        Ok(tree)
    }

    /// Makes an empty tree of a file of zeros: page 1 is an empty leaf, and page 2 is free.
    fn begin(&self) -> Result<(), Error> {
        let handle = self.journal.begin(1)?;
        let mut meta = handle.get_write(META)?;
        if meta[8] == 0 {
            (meta[0], meta[8]) = (1, 2);
            meta.dirty()?;
            handle.stop_durable()?;
        }
        Ok(())
    }

    /// Inserts or replaces an entry, durably.
    fn insert(&self, key: u64, value: u64) -> Result<(), Error> {
        let tid = {
            let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            // Each level may split, and a new root may come; then the page 0 changes, too.
            let handle = self.journal.begin(16)?;
            // An error drops the handle: then the tree is as it was.
            insert(&handle, key, value)?;
            handle.stop()
        };
        self.journal.wait(tid)
    }

    /// Adds all entries below a page to `found`, and checks that the tree is sound.
    fn check(&self, page: u64, least: u64, found: &mut BTreeMap<u64, u64>) -> Result<u64> {
        let mut bytes = vec![0; PAGE];
        self.journal.read(page, &mut bytes)?;
        let node = Node::decode(&bytes);
        assert!(
            node.entries.is_sorted_by(|a, b| a[0] < b[0]),
            "page {page} is not sorted"
        );
        for (at, &[key, value]) in node.entries.iter().enumerate() {
            assert!(
                key >= least || at == 0,
                "key {key} is below its parent's {least}"
            );
            match node.height {
                0 => assert_eq!(found.insert(key, value), None, "key {key} twice"),
                height => assert_eq!(self.check(value, key, found)?, height - 1),
            }
        }
        Ok(node.height)
    }

    fn entries(&self) -> Result<BTreeMap<u64, u64>> {
        let mut meta = vec![0; PAGE];
        self.journal.read(META, &mut meta)?;
        let mut found = BTreeMap::new();
        self.check(number(&meta[..8]), 0, &mut found)?;
        Ok(found)
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn insert(handle: &Handle<'_>, key: u64, value: u64) -> Result<(), Error> {
    let mut meta = handle.get_write(META)?;
    let mut free = number(&meta[8..16]);
    // The pages from the root down to a leaf. All of them are changed together.
    let mut path = vec![handle.get_write(number(&meta[..8]))?];
    let mut nodes = vec![Node::decode(&path[0])];
    while let Some(node) = nodes.last().filter(|node| node.height > 0) {
        path.push(handle.get_write(node.entries[node.find(key)][1])?);
        nodes.push(Node::decode(&path[path.len() - 1]));
    }
    let mut entry = Some([key, value]);
    let mut below = 0;
    while let (Some(mut page), Some(mut node)) = (path.pop(), nodes.pop()) {
        below = node.height;
        if let Some(entry) = entry.take() {
            node.insert(entry);
        }
        if node.entries.len() > MOST {
            let right = Node {
                height: node.height,
                entries: node.entries.split_off(MOST / 2),
            };
            entry = Some([right.entries[0][0], free]);
            let mut new = handle.get_write(free)?;
            right.encode(&mut new);
            new.dirty()?;
            free += 1;
        }
        node.encode(&mut page);
        page.dirty()?;
        if entry.is_none() {
            break;
        }
    }
    if let Some(entry) = entry {
        let root = Node {
            height: below + 1,
            entries: vec![[0, number(&meta[..8])], entry],
        };
        let mut new = handle.get_write(free)?;
        root.encode(&mut new);
        new.dirty()?;
        meta[..8].copy_from_slice(&free.to_le_bytes());
        free += 1;
    }
    meta[8..16].copy_from_slice(&free.to_le_bytes());
    meta.dirty()
}

/// Inserts keys of four threads, and prints each key once it is durable. Never ends.
fn child(folder: &Path, round: u64) -> Result<()> {
    let tree = Tree::open(folder)?;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tree = &tree;
            scope.spawn(move || {
                for nth in 0.. {
                    // Spread over the tree.
                    let key = (round << 32 | nth << 2 | thread).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    tree.insert(key, !key).expect("the disk works and has room");
                    writeln!(std::io::stdout(), "{key}").expect("the parent reads");
                }
            });
        }
    });
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, folder, round] = &args[..] {
        return child(Path::new(folder), round.parse()?);
    }
    let folder = std::env::temp_dir().join(format!("btree-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let mut keys = Vec::new();
    for round in 0..6_u64 {
        let mut child = Command::new(std::env::current_exe()?)
            .args([folder.as_os_str(), round.to_string().as_ref()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while output.read_line(&mut line)? > 0 {
            // The kill may cut off a line.
            if let Some(key) = line.strip_suffix('\n') {
                keys.push(key.parse::<u64>()?);
            }
            if keys.len() == (round as usize + 1) * 300 {
                child.kill()?;
            }
            line.clear();
        }
        child.wait()?;
        let tree = Tree::open(&folder)?;
        let found = tree.entries()?;
        for key in &keys {
            assert_eq!(found.get(key), Some(&!key), "acknowledged, and lost");
        }
        println!(
            "kill {}: {} acknowledged keys, {} found",
            round + 1,
            keys.len(),
            found.len()
        );
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
