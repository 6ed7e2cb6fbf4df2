//! okaywal: reused segments, and one sync of a segment for all waiting threads.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use okaywal::{Configuration, Entry, EntryId, LogManager, SegmentReader, WriteAheadLog};
use parking_lot::Mutex;

use super::peer::{Peer, PeerKind};

pub(super) const KIND: PeerKind = PeerKind {
    name: "okaywal",
    version: "0.3.1",
    about: "an entry of one chunk; segments of 16 MiB with a checkpoint after 12 MiB, so that it seldom changes them",
    open: |folder| Ok(Box::new(Log(opened(folder, Records::default())?))),
    records,
};

struct Log(WriteAheadLog);

impl Peer for Log {
    fn append_durable(&self, record: &[u8]) -> Result<()> {
        let mut entry = self.0.begin_entry()?;
        entry.write_chunk(record)?;
        entry.commit()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.shutdown()?)
    }
}

fn opened(folder: &Path, records: Records) -> io::Result<WriteAheadLog> {
    Configuration::default_for(folder)
        .preallocate_bytes(16 << 20)
        .checkpoint_after_bytes(12 << 20)
        .open(records)
}

fn records(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let records = Records::default();
    opened(folder, records.clone())?.shutdown()?;
    Ok(std::mem::take(&mut records.0.lock()))
}

/// The recovered records. Checkpoints have nothing to do.
#[derive(Clone, Debug, Default)]
struct Records(Arc<Mutex<Vec<Vec<u8>>>>);

impl LogManager for Records {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        // `None` if the entry was not finished.
        if let Some(chunks) = entry.read_all_chunks()? {
            self.0.lock().push(chunks.concat());
        }
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}
