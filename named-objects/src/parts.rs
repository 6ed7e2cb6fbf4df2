//! Uploads by the number of the part, of which no part knows where its predecessors end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attributes, MultipartId, PutMode, PutMultipartOptions, PutPayload, PutResult, Result,
};
use spanlock_object_store::space::Medium;
use spanlock_range_lock::RawRangeLockBatch;
use spanlock_sync::Mutex;

use crate::error::Error;
use crate::names::Object;
use crate::objects::Objects;
use crate::store::{NamedObjects, put_result};

/// An upload: the object that gets the name, and each part, in an object of its own, with its size.
/// Completion copies the parts.
#[derive(Debug)]
pub(crate) struct Parts {
    target: Arc<Object>,
    parts: Mutex<BTreeMap<usize, (Arc<Object>, u64)>>,
}

/// The uploads that have not ended, by their ids.
pub(crate) type Uploads = Mutex<ById>;
type ById = HashMap<MultipartId, Arc<Parts>>;

impl Parts {
    fn complete<M: Medium, L: RawRangeLockBatch>(
        &self,
        objects: &Objects<M, L>,
        ids: &[PartId],
    ) -> Result<u64, Error> {
        let parts = self.parts.lock().clone();
        let given = ids.iter().map(|it| &it.content_id);
        let written = parts.values().map(|(part, _)| part.id.to_string());
        if !parts.keys().copied().eq(0..ids.len()) || !written.eq(given.cloned()) {
            let why = "is to be completed with other parts than were written";
            return Err(Error::Upload { why });
        }
        let mut offset = 0;
        for (part, size) in parts.values() {
            objects.fill(&self.target, offset, part, *size)?;
            offset += size;
        }
        objects.name(&self.target, offset, &PutMode::Overwrite)
    }
}

/// Returns an upload to `path`.
fn find(uploads: &ById, path: &Path, id: &MultipartId) -> Result<Arc<Parts>, Error> {
    let found = uploads.get(id);
    let why = "has ended, never began, or is to another path";
    (found.filter(|it| it.target.head.name == *path).cloned()).ok_or(Error::Upload { why })
}

/// Removes an upload to `path`.
fn take(uploads: &Uploads, path: &Path, id: &MultipartId) -> Result<Arc<Parts>, Error> {
    let mut uploads = uploads.lock();
    let found = find(&uploads, path, id)?;
    uploads.remove(id);
    Ok(found)
}

#[async_trait]
impl<M: Medium + 'static, L: RawRangeLockBatch + 'static> MultipartStore for NamedObjects<M, L> {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        (self.create_multipart_opts(path, Default::default())).await
    }

    async fn create_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<MultipartId> {
        let name = path.clone();
        let target = self.blocking(move |it| it.nameless(&name, options.attributes));
        let target = target.await?;
        let id = target.id.to_string();
        let parts = Parts {
            target,
            parts: Mutex::default(),
        };
        self.uploads.lock().insert(id.clone(), Arc::new(parts));
        Ok(id)
    }

    async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        part_idx: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        let upload = find(&self.uploads.lock(), path, id)?;
        let (path, data) = (path.clone(), Bytes::from(data));
        let written = self.blocking(move |objects| {
            let part = objects.nameless(&path, Attributes::new())?;
            objects.write(&part, 0, &data)?;
            let content_id = part.id.to_string();
            let part = (part, data.len() as u64);
            upload.parts.lock().insert(part_idx, part);
            Ok(PartId { content_id })
        });
        written.await
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        let (uploads, path, id) = (self.uploads.clone(), path.clone(), id.clone());
        let done = self.blocking(move |objects| {
            let upload = take(&uploads, &path, &id)?;
            let done = upload.complete(objects, &parts);
            if done.is_err() {
                // Here, because the future may have been dropped.
                uploads.lock().insert(id, upload);
            }
            done
        });
        done.await.map(put_result)
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        drop(take(&self.uploads, path, id)?);
        self.blocking(|objects| {
            objects.sweep();
            Ok(())
        })
        .await
    }
}
