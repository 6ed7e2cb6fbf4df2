//! An [`ObjectStore`] of version 0.14 as one of version 0.13, which DataFusion uses. It has what
//! DataFusion calls, and no more: without attributes, tags and extensions.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{BoxStream, StreamExt};
use object_store as new;
use object_store::{ObjectStore, ObjectStoreExt};
use object_store_13 as old;

/// An object store of version 0.14.
#[derive(Clone, Debug)]
pub struct Adapter(pub Arc<dyn ObjectStore>);

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, as of 0.13", self.0)
    }
}

fn path(path: &old::path::Path) -> new::path::Path {
    new::path::Path::parse(path.as_ref()).expect("the rules for paths are the same")
}

fn old_path(path: &new::path::Path) -> old::path::Path {
    old::path::Path::parse(path.as_ref()).expect("the rules for paths are the same")
}

fn payload(payload: old::PutPayload) -> new::PutPayload {
    payload.into_iter().collect()
}

fn meta(meta: new::ObjectMeta) -> old::ObjectMeta {
    old::ObjectMeta {
        location: old_path(&meta.location),
        last_modified: meta.last_modified,
        size: meta.size,
        e_tag: meta.e_tag,
        version: meta.version,
    }
}

fn range(range: old::GetRange) -> new::GetRange {
    match range {
        old::GetRange::Bounded(range) => new::GetRange::Bounded(range),
        old::GetRange::Offset(offset) => new::GetRange::Offset(offset),
        old::GetRange::Suffix(len) => new::GetRange::Suffix(len),
    }
}

fn result(result: new::PutResult) -> old::PutResult {
    old::PutResult {
        e_tag: result.e_tag,
        version: result.version,
    }
}

fn error(error: new::Error) -> old::Error {
    match error {
        new::Error::NotFound { path, source } => old::Error::NotFound { path, source },
        new::Error::AlreadyExists { path, source } => old::Error::AlreadyExists { path, source },
        new::Error::Precondition { path, source } => old::Error::Precondition { path, source },
        new::Error::NotModified { path, source } => old::Error::NotModified { path, source },
        other => old::Error::Generic {
            store: "Spanlock",
            source: other.into(),
        },
    }
}

#[async_trait]
impl old::ObjectStore for Adapter {
    async fn put_opts(
        &self,
        location: &old::path::Path,
        content: old::PutPayload,
        options: old::PutOptions,
    ) -> old::Result<old::PutResult> {
        let mode = match options.mode {
            old::PutMode::Overwrite => new::PutMode::Overwrite,
            old::PutMode::Create => new::PutMode::Create,
            old::PutMode::Update(from) => new::PutMode::Update(new::UpdateVersion {
                e_tag: from.e_tag,
                version: from.version,
            }),
        };
        let location = path(location);
        let put = self.0.put_opts(&location, payload(content), mode.into());
        put.await.map(result).map_err(error)
    }

    async fn put_multipart_opts(
        &self,
        location: &old::path::Path,
        _: old::PutMultipartOptions,
    ) -> old::Result<Box<dyn old::MultipartUpload>> {
        let upload = self.0.put_multipart(&path(location)).await;
        Ok(Box::new(Upload(upload.map_err(error)?)))
    }

    async fn get_opts(
        &self,
        location: &old::path::Path,
        options: old::GetOptions,
    ) -> old::Result<old::GetResult> {
        let options = new::GetOptions {
            if_match: options.if_match,
            if_none_match: options.if_none_match,
            if_modified_since: options.if_modified_since,
            if_unmodified_since: options.if_unmodified_since,
            range: options.range.map(range),
            version: options.version,
            head: options.head,
            ..Default::default()
        };
        let found = self.0.get_opts(&path(location), options).await;
        let found = found.map_err(error)?;
        let (found_meta, range) = (found.meta.clone(), found.range.clone());
        let stream = found.into_stream().map(|chunk| chunk.map_err(error));
        Ok(old::GetResult {
            payload: old::GetResultPayload::Stream(stream.boxed()),
            meta: meta(found_meta),
            range,
            attributes: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, old::Result<old::path::Path>>,
    ) -> BoxStream<'static, old::Result<old::path::Path>> {
        let store = self.0.clone();
        let delete = move |location: old::Result<old::path::Path>| {
            let store = store.clone();
            async move {
                let location = location?;
                let deleted = store.delete(&path(&location)).await;
                deleted.map(|()| location).map_err(error)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(
        &self,
        prefix: Option<&old::path::Path>,
    ) -> BoxStream<'static, old::Result<old::ObjectMeta>> {
        let listed = self.0.list(prefix.map(path).as_ref());
        listed.map(|it| it.map(meta).map_err(error)).boxed()
    }

    async fn list_with_delimiter(
        &self,
        prefix: Option<&old::path::Path>,
    ) -> old::Result<old::ListResult> {
        let listed = self.0.list_with_delimiter(prefix.map(path).as_ref()).await;
        let listed = listed.map_err(error)?;
        Ok(old::ListResult {
            common_prefixes: listed.common_prefixes.iter().map(old_path).collect(),
            objects: listed.objects.into_iter().map(meta).collect(),
        })
    }

    async fn copy_opts(
        &self,
        from: &old::path::Path,
        to: &old::path::Path,
        options: old::CopyOptions,
    ) -> old::Result<()> {
        let (from, to) = (path(from), path(to));
        let copied = match options.mode {
            old::CopyMode::Overwrite => self.0.copy(&from, &to).await,
            old::CopyMode::Create => self.0.copy_if_not_exists(&from, &to).await,
        };
        copied.map_err(error)
    }
}

#[derive(Debug)]
struct Upload(Box<dyn new::MultipartUpload>);

#[async_trait]
impl old::MultipartUpload for Upload {
    fn put_part(&mut self, data: old::PutPayload) -> old::UploadPart {
        let part = self.0.put_part(payload(data));
        Box::pin(async move { part.await.map_err(error) })
    }

    async fn complete(&mut self) -> old::Result<old::PutResult> {
        self.0.complete().await.map(result).map_err(error)
    }

    async fn abort(&mut self) -> old::Result<()> {
        self.0.abort().await.map_err(error)
    }
}
