//! A table whose manifest lists its files, as table formats keep it. Several tasks append files.
//! Each replaces the manifest by a conditional update, and tries again if another was faster. So
//! the table has every file, and no lock server is needed.

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, Result, UpdateVersion};
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::FileMode;
use spanlock_named_objects::NamedObjects;
use spanlock_object_store::space::{self, Disk, Space};
use spanlock_object_store::{Options, Store};

const WRITERS: u32 = 4;
const FILES: u32 = 10;

/// Adds a line to the manifest. Returns how often another task was faster.
async fn append(table: &dyn ObjectStore, file: &Path) -> Result<u32> {
    let manifest = Path::from("table/manifest");
    let mut retries = 0;
    loop {
        let (old, mode) = match table.get(&manifest).await {
            Ok(found) => {
                let e_tag = found.meta.e_tag.clone();
                let version = None;
                let mode = PutMode::Update(UpdateVersion { e_tag, version });
                (found.bytes().await?, mode)
            }
            Err(Error::NotFound { .. }) => Default::default(),
            Err(error) => return Err(error),
        };
        let mode = if old.is_empty() {
            PutMode::Create
        } else {
            mode
        };
        let new = format!("{}{file}\n", String::from_utf8_lossy(&old));
        match table.put_opts(&manifest, new.into(), mode.into()).await {
            Ok(_) => return Ok(retries),
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => retries += 1,
            Err(error) => return Err(error),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("objects");
    let file = Disk::create_file(&path, Some(64 << 20), FileMode::Buffered)?;
    let space = Space::create(file, &space::Options::new(), IntervalLock::new())?;
    let store = Store::create(space, &Options::new().region(16 << 20))?;
    let table = NamedObjects::open(store)?;

    let writers = (0..WRITERS).map(|writer| {
        let table = table.clone();
        tokio::spawn(async move {
            let mut retries = 0;
            for nth in 0..FILES {
                // The file first: the manifest never names one that is not there.
                let file = Path::from(format!("table/data/{writer}-{nth}"));
                table.put(&file, vec![0; 1000].into()).await?;
                retries += append(&table, &file).await?;
            }
            Ok::<u32, Error>(retries)
        })
    });
    let mut retries = 0;
    for writer in futures_util::future::join_all(writers).await {
        retries += writer??;
    }
    drop(table);

    // What a later process finds.
    let space = Space::open(
        Disk::open_file(&path, FileMode::Buffered)?,
        IntervalLock::new(),
    )?;
    let table = NamedObjects::open(Store::open(space, &Options::new())?)?;
    let manifest = table.get(&"table/manifest".into()).await?.bytes().await?;
    let mut named: Vec<String> = std::str::from_utf8(&manifest)?
        .lines()
        .map(String::from)
        .collect();
    named.sort_unstable();
    let files = table.list(Some(&"table/data".into()));
    let files: Vec<String> = files
        .map_ok(|it| it.location.to_string())
        .try_collect()
        .await?;
    assert_eq!(named, files);
    assert_eq!(files.len(), (WRITERS * FILES) as usize);
    println!("{} files, {retries} retries", files.len());
    Ok(())
}
