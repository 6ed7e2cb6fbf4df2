//! A map that outlives its process. Each change is written to the log. When the log is full, the
//! map is written to a snapshot, and the log is truncated.
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
    /// A thread locks the map while it appends a change, so that the log and the map have all
    /// changes in the same order. A thread that waits for the flush of its change does not hold the
    /// lock.
    map: Mutex<Map>,
    folder: PathBuf,
}

impl Store {
    fn create(folder: &Path) -> Result<(), Box<dyn Error>> {
        let storage = FileStorage::create(folder.join("log"), 64 << 10, FileMode::Buffered)?;
        Log::create(storage, &Options::new())?.close()?;
        Ok(())
    }

    /// Restores the snapshot, and applies the changes in the log. Some of these changes may be in
    /// the snapshot already; to apply them again has no effect.
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

    /// Sets a value, durably. One of the waiting threads flushes for all.
    fn set(&self, key: &str, value: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
        let number = self.append(key, value)?;
        Ok(self.log.wait(number)?)
    }

    fn append(&self, key: &str, value: &str) -> Result<Lsn, Box<dyn Error + Send + Sync>> {
        let record = format!("{key}\t{value}");
        let mut map = self.map.lock().expect("no thread panics with the lock");
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

    /// Writes the map to a file beside the log, and then truncates the records whose changes it
    /// contains.
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
                    store.set(&key, &nth.to_string()).expect("the disk works");
                }
            });
        }
    });
    let stats = store.log.stats();
    println!("{} changes, {} flushes", stats.records, stats.flushes);
    let before = store
        .map
        .lock()
        .expect("no thread panics with the lock")
        .clone();
    drop(store); // This has the same effect as the death of the process.

    let store = Store::open(&folder)?;
    assert_eq!(
        *store.map.lock().expect("no thread panics with the lock"),
        before
    );
    assert_eq!(before.len(), 80);
    assert_eq!(before["7/9"], "99");
    println!("recovered {} keys", before.len());
    drop(store);
    fs::remove_dir_all(folder)?;
    Ok(())
}
