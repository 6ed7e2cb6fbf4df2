//! Uploads in several parts.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::{MultipartUpload, PutMode, PutPayload, PutResult, Result, UploadPart};
use spanlock_object_store::space::Medium;
use spanlock_range_lock::RawRangeLockBatch;
use spanlock_sync::Mutex;

use crate::error::Error;
use crate::names::Object;
use crate::objects::Objects;
use crate::store::{blocking, put_result};

/// An upload whose parts follow each other in the order of the calls: each is written at its place
/// in a nameless object. Completion gives the object its name.
pub(crate) struct Upload<M: Medium, L: RawRangeLockBatch> {
    objects: Arc<Objects<M, L>>,
    /// `None` once it has ended.
    object: Option<Arc<Object>>,
    /// Bytes of all parts.
    size: u64,
    /// Bytes of the parts that were written.
    written: Arc<Mutex<u64>>,
}

impl<M: Medium, L: RawRangeLockBatch> Upload<M, L> {
    pub(crate) fn new(objects: Arc<Objects<M, L>>, object: Arc<Object>) -> Self {
        Upload {
            objects,
            object: Some(object),
            size: 0,
            written: Arc::default(),
        }
    }
}

fn open(object: Option<Arc<Object>>) -> Result<Arc<Object>, Error> {
    object.ok_or(Error::Upload { why: "has ended" })
}

#[async_trait]
impl<M: Medium + 'static, L: RawRangeLockBatch + 'static> MultipartUpload for Upload<M, L> {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (objects, object) = (self.objects.clone(), open(self.object.clone()));
        let (offset, written) = (self.size, self.written.clone());
        let len = data.content_length() as u64;
        self.size = offset.saturating_add(len);
        Box::pin(blocking(move || {
            objects.write(&*object?, offset, &Bytes::from(data))?;
            *written.lock() += len;
            Ok(())
        }))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (objects, size) = (self.objects.clone(), self.size);
        if self.object.is_some() && *self.written.lock() != size {
            let why = "has parts that are not written yet, or failed";
            return Err(Error::Upload { why }.into());
        }
        // If this future is dropped, the upload has ended all the same.
        let object = open(self.object.take())?;
        let again = object.clone();
        let done = blocking(move || objects.name(&object, size, &PutMode::Overwrite)).await;
        if done.is_err() {
            self.object = Some(again);
        }
        done.map(put_result)
    }

    async fn abort(&mut self) -> Result<()> {
        let objects = self.objects.clone();
        // Parts that are still being written keep it a little longer.
        drop(open(self.object.take())?);
        blocking(move || {
            objects.sweep();
            Ok(())
        })
        .await
    }
}

impl<M: Medium, L: RawRangeLockBatch> fmt::Debug for Upload<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upload").field(&self.object).finish()
    }
}
