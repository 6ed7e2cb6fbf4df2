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
use crate::objects::Nameless;
use crate::store::{NamedObjects, put_result};

/// An upload: the object that gets the name, and each part in an object of its own. Completion
/// copies the parts.
pub(crate) struct Parts<M: Medium, L: RawRangeLockBatch> {
    path: Path,
    target: Nameless<M, L>,
    parts: Mutex<BTreeMap<usize, Part<M, L>>>,
}

/// A part, and its size.
type Part<M, L> = (Arc<Nameless<M, L>>, u64);

/// The uploads that have not ended, by their ids.
pub(crate) type Uploads<M, L> = Mutex<HashMap<MultipartId, Arc<Parts<M, L>>>>;

impl<M: Medium + 'static, L: RawRangeLockBatch + 'static> Parts<M, L> {
    fn error(&self, why: &'static str) -> Error {
        let path = self.path.to_string();
        Error::Upload { path, why }
    }

    fn complete(&self, ids: &[PartId]) -> Result<u64, Error> {
        let parts: Vec<Part<M, L>> = self.parts.lock().values().cloned().collect();
        let numbers = self.parts.lock().keys().copied().eq(0..ids.len());
        let is_same = |(part, id): (&Part<M, L>, &PartId)| part.0.id.to_string() == id.content_id;
        if !numbers || !parts.iter().zip(ids).all(is_same) {
            return Err(self.error("is completed with other parts than were written"));
        }
        let mut offset = 0;
        for (part, size) in &parts {
            self.target.fill(offset, *size, |range| part.read(range))?;
            offset += size;
        }
        self.target.name(offset, &PutMode::Overwrite)
    }
}

impl<M: Medium + 'static, L: RawRangeLockBatch + 'static> NamedObjects<M, L> {
    fn upload(&self, path: &Path, id: &MultipartId) -> Result<Arc<Parts<M, L>>, Error> {
        let found = self.uploads.lock().get(id).cloned();
        found
            .filter(|it| it.path == *path)
            .ok_or_else(|| Error::Upload {
                path: path.to_string(),
                why: "has ended, or never began",
            })
    }
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
            path: path.clone(),
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
        let upload = self.upload(path, id)?;
        let data = Bytes::from(data);
        let written = self.blocking(move |objects| {
            let part = objects.nameless(&upload.path, Attributes::new())?;
            part.write(0, &data)?;
            let content_id = part.id.to_string();
            let part = (Arc::new(part), data.len() as u64);
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
        let upload = self.upload(path, id)?;
        // Of two completions, one finds no upload.
        let mine = self.uploads.lock().remove(id);
        let again = mine.ok_or_else(|| upload.error("is being completed"))?;
        let done = self.blocking(move |_| upload.complete(&parts)).await;
        if done.is_err() {
            self.uploads.lock().insert(id.clone(), again);
        }
        done.map(put_result)
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.upload(path, id)?;
        let upload = self.uploads.lock().remove(id);
        self.blocking(move |objects| {
            drop(upload);
            objects.sweep()
        })
        .await
    }
}
