//! Uploads in several parts.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, PutMode, PutPayload, PutResult, Result, UploadPart};
use spanlock_object_store::space::Medium;
use spanlock_range_lock::RawRangeLockBatch;
use spanlock_sync::Mutex;

use crate::error::Error;
use crate::objects::Nameless;
use crate::store::{blocking, put_result};

/// An upload whose parts follow each other in the order of the calls: each is written at its place
/// in a nameless object. Completion gives the object its name.
pub(crate) struct Upload<M: Medium, L: RawRangeLockBatch> {
    path: Path,
    /// `None` once it has ended.
    nameless: Option<Arc<Nameless<M, L>>>,
    /// Bytes of all parts.
    size: u64,
    /// Bytes of the parts that were written.
    written: Arc<Mutex<u64>>,
}

impl<M: Medium, L: RawRangeLockBatch> Upload<M, L> {
    pub(crate) fn new(path: Path, nameless: Nameless<M, L>) -> Self {
        Upload {
            path,
            nameless: Some(Arc::new(nameless)),
            size: 0,
            written: Arc::default(),
        }
    }

    fn error(&self, why: &'static str) -> Error {
        let path = self.path.to_string();
        Error::Upload { path, why }
    }

    fn nameless(&self) -> Result<Arc<Nameless<M, L>>, Error> {
        (self.nameless.clone()).ok_or_else(|| self.error("has ended"))
    }
}

#[async_trait]
impl<M: Medium + 'static, L: RawRangeLockBatch + 'static> MultipartUpload for Upload<M, L> {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let nameless = self.nameless();
        let (offset, written) = (self.size, self.written.clone());
        let len = data.content_length() as u64;
        self.size = offset.saturating_add(len);
        Box::pin(async move {
            let nameless = nameless?;
            blocking(move || {
                nameless.write(offset, &Bytes::from(data))?;
                *written.lock() += len;
                Ok(())
            })
            .await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (nameless, size) = (self.nameless()?, self.size);
        if *self.written.lock() != size {
            return Err(self
                .error("has parts that are not written yet, or failed")
                .into());
        }
        // If this future is dropped, the upload has ended all the same.
        self.nameless = None;
        let again = nameless.clone();
        let done = blocking(move || nameless.name(size, &PutMode::Overwrite)).await;
        match done {
            Ok(id) => Ok(put_result(id)),
            Err(error) => {
                self.nameless = Some(again);
                Err(error)
            }
        }
    }

    async fn abort(&mut self) -> Result<()> {
        let nameless = self.nameless()?;
        self.nameless = None;
        blocking(move || nameless.delete()).await
    }
}

impl<M: Medium, L: RawRangeLockBatch> fmt::Debug for Upload<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("path", &self.path)
            .field("size", &self.size)
            .finish()
    }
}
