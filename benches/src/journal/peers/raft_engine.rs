//! raft-engine: batches of key-value pairs and entries of many regions in one log, written and
//! synced by the leader of a group.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use raft_engine::{Config, Engine, LogBatch, ReadableSize};

use super::peer::{Peer, PeerKind};

pub(super) const KIND: PeerKind = PeerKind {
    name: "raft-engine",
    version: "0.4.2",
    about: "a batch of one key and value; 65,536 keys in 16 regions are used in turn; no compression, the default for so little data",
    open: |folder| Ok(Box::new(Log::open(folder)?)),
    records,
};

const REGIONS: u64 = 16;
/// Keys are reused, because the engine also keeps the newest value of each key in memory.
const KEYS: u64 = 1 << 16;

struct Log {
    engine: Engine,
    appended: AtomicU64,
}

impl Log {
    fn open(folder: &Path) -> Result<Self> {
        let dir = folder
            .to_str()
            .ok_or_else(|| anyhow!("{}: not UTF-8, which raft-engine needs", folder.display()))?;
        let config = Config {
            dir: dir.to_owned(),
            purge_threshold: ReadableSize::mb(512),
            ..Config::default()
        };
        Ok(Log {
            engine: Engine::open(config)?,
            appended: AtomicU64::new(0),
        })
    }
}

impl Peer for Log {
    fn append_durable(&self, record: &[u8]) -> Result<()> {
        // Relaxed: only hands out unique numbers.
        let key = self.appended.fetch_add(1, Ordering::Relaxed) % KEYS;
        let mut batch = LogBatch::with_capacity(1);
        batch.put(
            key % REGIONS + 1,
            key.to_be_bytes().to_vec(),
            record.to_vec(),
        )?;
        self.engine.write(&mut batch, true)?;
        Ok(())
    }

    fn tidy(&self) -> Result<()> {
        // The result lists regions with old entries. This log has only keys and values, so there
        // are none.
        self.engine.purge_expired_files()?;
        Ok(())
    }
}

fn records(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let log = Log::open(folder)?;
    let mut records = Vec::new();
    for region in 1..=REGIONS {
        log.engine
            .scan_raw_messages(region, None, None, false, |_, value| {
                records.push(value.to_vec());
                true
            })?;
    }
    Ok(records)
}
