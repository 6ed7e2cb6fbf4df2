//! A map that outlives its process: each change goes into the log first, and a snapshot makes room when the log is full.
//!
//! ```text
//! cargo run -p spanlock-journal-commit --example key_value
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use spanlock_journal_commit::compact::{self, Log, Lsn, Options};
use spanlock_journal_commit::storage::{FileMode, FileStorage};

type Map = BTreeMap<String, String>;

struct Store {
    log: Log<FileStorage>,
    /// Locked while a change is appended, so that the log has the changes in the order in which the map has them; not while it is flushed.
    map: Mutex<Map>,
    folder: PathBuf,
}

impl Store {
    fn create(folder: &Path) -> Result<(), Box<dyn Error>> {
        let storage = FileStorage::create(folder.join("log"), 64 << 10, FileMode::Buffered)?;
        Log::create(storage, &Options::new())?.close()?;
        Ok(())
    }

    /// The snapshot, and the changes since. Those that the snapshot has already may come again: they set what is set.
    fn open(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let storage = FileStorage::open(folder.join("log"), FileMode::Buffered)?;
        let log = Log::open(storage, &Options::new())?;
        let mut map = Map::new();
        if let Ok(snapshot) = fs::read_to_string(folder.join("snapshot")) {
            map.extend(snapshot.lines().filter_map(change));
        }
        for record in log.records() {
            let record = String::from_utf8(record?.data)?;
            map.extend(change(&record));
        }
        let (map, folder) = (Mutex::new(map), folder.to_owned());
        Ok(Store { log, map, folder })
    }

    /// Durable when it returns. Of all threads that are here, one flushes for all.
    fn set(&self, key: &str, value: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
        let number = self.append(key, value)?;
        Ok(self.log.wait(number)?)
    }

    fn append(&self, key: &str, value: &str) -> Result<Lsn, Box<dyn Error + Send + Sync>> {
        let record = format!("{key}\t{value}");
        let mut map = self.map.lock().expect("nobody panics");
        let number = match self.log.append(record.as_bytes()) {
            Err(compact::Error::Full { .. }) => {
                self.snapshot(&map)?;
                self.log.append(record.as_bytes())?
            }
            other => other?,
        };
        map.insert(key.to_owned(), value.to_owned());
        Ok(number)
    }

    /// Writes the map beside the log, and then gives up the records that made it.
    fn snapshot(&self, map: &Map) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.log.commit()?;
        let new = self.folder.join("snapshot.new");
        let mut file = File::create(&new)?;
        for (key, value) in map {
            writeln!(file, "{key}\t{value}")?;
        }
        file.sync_all()?;
        fs::rename(new, self.folder.join("snapshot"))?;
        File::open(&self.folder)?.sync_all()?;
        Ok(self.log.truncate(self.log.durable().next())?)
    }
}

fn change(record: &str) -> Option<(String, String)> {
    let (key, value) = record.split_once('\t')?;
    Some((key.to_owned(), value.to_owned()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("key_value-{}", std::process::id()));
    fs::create_dir(&folder)?;
    Store::create(&folder)?;
    let store = Store::open(&folder)?;
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for nth in 0..100 {
                    let key = format!("{thread}/{}", nth % 10);
                    store.set(&key, &nth.to_string()).expect("the disk is well");
                }
            });
        }
    });
    let stats = store.log.stats();
    println!("{} changes, {} flushes", stats.records, stats.flushes);
    let before = store.map.lock().expect("nobody panics").clone();
    drop(store); // as if the process had died

    let store = Store::open(&folder)?;
    assert_eq!(*store.map.lock().expect("nobody panics"), before);
    assert_eq!(before.len(), 80);
    assert_eq!(before["7/9"], "99");
    println!("{} keys are there again", before.len());
    drop(store);
    fs::remove_dir_all(folder)?;
    Ok(())
}
